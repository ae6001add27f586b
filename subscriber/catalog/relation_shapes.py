"""The shape with which each relation was last applied: ``subscriber_relation_shape``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Protocol

import sqlalchemy as sa

from subscriber.catalog.own_tables import RELATION_SHAPE
from subscriber.schema.attributes import TableAttributes
from subscriber.schema.kept_shape import Baseline, KeptColumn, KeptShape, first_baseline


class PublishedRelation(Protocol):
    """A table of the publisher with its published columns; None means all columns."""

    @property
    def schema(self) -> str:
        """The table's schema."""

    @property
    def name(self) -> str:
        """The table's name."""

    @property
    def columns(self) -> Collection[str] | None:
        """The column list, or None."""


def read_shape(connection: sa.Connection, subid: int, relation: tuple[str, str]) -> KeptShape | None:
    """The stored shape of a relation, given by the publisher's schema and name; None if none is
    stored.
    """
    table = RELATION_SHAPE.c
    kept = sa.select(table.shape, table.baseline, table.relid).where(_shape_of(subid, relation))
    row = connection.execute(kept).one_or_none()
    if row is None:
        return None
    return KeptShape(
        tuple(KeptColumn(*column) for column in json.loads(row[0])),
        None if row[1] is None else Baseline.from_json(row[1]),
        row[2],
    )


def keep_shape(connection: sa.Connection, subid: int, relation: tuple[str, str], shape: KeptShape) -> None:
    """Store the shape of a relation, given by the publisher's schema and name, as the one that was
    last applied.
    """
    values = {
        "shape": json.dumps([[one.name, one.type_oid, one.type_modifier] for one in shape.columns], ensure_ascii=False),
        "baseline": None if shape.baseline is None else shape.baseline.to_json(),
        "relid": shape.oid,
    }
    mine = _shape_of(subid, relation)
    # The row count of an UPDATE cannot be used here: MariaDB does not count a row that has the
    # values already.
    there = connection.execute(sa.select(RELATION_SHAPE.c.subid).where(mine)).first() is not None
    if there:
        connection.execute(sa.update(RELATION_SHAPE).where(mine).values(values))
    else:
        key = {"subid": subid, "nspname": relation[0], "relname": relation[1]}
        connection.execute(sa.insert(RELATION_SHAPE).values({**key, **values}))


def forget_shapes(connection: sa.Connection, subid: int, relations: Iterable[tuple[str, str]]) -> None:
    """Delete the shapes of relations that a subscription no longer has; it is no error if there is
    none.
    """
    for relation in relations:
        connection.execute(sa.delete(RELATION_SHAPE).where(_shape_of(subid, relation)))


def forget_oids(connection: sa.Connection, subid: int) -> None:
    """Forget the OIDs of a subscription's tables, because another cluster is the publisher now: its
    tables may have other OIDs. The next relation messages bring them.
    """
    connection.execute(sa.update(RELATION_SHAPE).where(RELATION_SHAPE.c.subid == subid).values(relid=None))


def forget_all_shapes(connection: sa.Connection, subid: int) -> None:
    """Delete all shapes of a subscription, because its number may be used again."""
    connection.execute(sa.delete(RELATION_SHAPE).where(RELATION_SHAPE.c.subid == subid))


def keep_published_shapes(
    connection: sa.Connection, subid: int, tables: Iterable[tuple[PublishedRelation, TableAttributes]]
) -> None:
    """Store the current shapes of tables that are not copied: their rows are taken to be the
    publisher's current rows.
    """
    for table, attributes in tables:
        published = tuple(
            KeptColumn(one.name, one.type_oid, one.type_modifier)
            for one in attributes.columns
            if (not one.generated if table.columns is None else one.name in table.columns)
        )
        shape = KeptShape(published, first_baseline(attributes), attributes.oid)
        keep_shape(connection, subid, (table.schema, table.name), shape)


def _shape_of(subid: int, relation: tuple[str, str]) -> sa.ColumnElement[bool]:
    table = RELATION_SHAPE.c
    return (table.subid == subid) & (table.nspname == relation[0]) & (table.relname == relation[1])
