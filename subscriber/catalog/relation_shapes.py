"""The shape that each relation was last applied with: ``subscriber_relation_shape``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Protocol

import sqlalchemy as sa

from subscriber.catalog.own_tables import RELATION_SHAPE
from subscriber.schema.attributes import TableAttributes
from subscriber.schema.kept_shape import Baseline, KeptColumn, KeptShape, first_baseline


class PublishedRelation(Protocol):
    """A table of the publisher with the columns that it publishes of it; None is all."""

    @property
    def schema(self) -> str:
        """Its schema."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def columns(self) -> Collection[str] | None:
        """The column list."""


def read_shape(connection: sa.Connection, subid: int, relation: tuple[str, str]) -> KeptShape | None:
    """What is kept of a relation, given by the publisher's schema and name; None where
    nothing is.
    """
    kept = sa.select(RELATION_SHAPE.c.shape, RELATION_SHAPE.c.baseline).where(_shape_of(subid, relation))
    row = connection.execute(kept).one_or_none()
    if row is None:
        return None
    return KeptShape(
        tuple(KeptColumn(*column) for column in json.loads(row[0])),
        None if row[1] is None else Baseline.from_json(row[1]),
    )


def keep_shape(
    connection: sa.Connection,
    subid: int,
    relation: tuple[str, str],
    columns: Collection[KeptColumn],
    baseline: Baseline | None,
) -> None:
    """Keep a relation's columns, given by the publisher's schema and name, as the last that were
    applied.
    """
    values = {
        "shape": json.dumps([[one.name, one.type_oid, one.type_modifier] for one in columns], ensure_ascii=False),
        "baseline": None if baseline is None else baseline.to_json(),
    }
    mine = _shape_of(subid, relation)
    # Not by the number of rows that an UPDATE has changed: MariaDB does not count one that has the
    # values already.
    there = connection.execute(sa.select(RELATION_SHAPE.c.subid).where(mine)).first() is not None
    if there:
        connection.execute(sa.update(RELATION_SHAPE).where(mine).values(values))
    else:
        key = {"subid": subid, "nspname": relation[0], "relname": relation[1]}
        connection.execute(sa.insert(RELATION_SHAPE).values({**key, **values}))


def forget_shapes(connection: sa.Connection, subid: int, relations: Iterable[tuple[str, str]]) -> None:
    """Delete what is kept of relations that a subscription has no more; forgetting an unknown one
    is no error.
    """
    for relation in relations:
        connection.execute(sa.delete(RELATION_SHAPE).where(_shape_of(subid, relation)))


def forget_all_shapes(connection: sa.Connection, subid: int) -> None:
    """Delete what is kept of all of a subscription's relations: its number is given again."""
    connection.execute(sa.delete(RELATION_SHAPE).where(RELATION_SHAPE.c.subid == subid))


def keep_published_shapes(
    connection: sa.Connection, subid: int, tables: Iterable[tuple[PublishedRelation, TableAttributes]]
) -> None:
    """Keep what tables are like that are not copied: their rows are the publisher's as of now."""
    for table, attributes in tables:
        published = [
            KeptColumn(one.name, one.type_oid, one.type_modifier)
            for one in attributes.columns
            if (not one.generated if table.columns is None else one.name in table.columns)
        ]
        keep_shape(connection, subid, (table.schema, table.name), published, first_baseline(attributes))


def _shape_of(subid: int, relation: tuple[str, str]) -> sa.ColumnElement[bool]:
    table = RELATION_SHAPE.c
    return (table.subid == subid) & (table.nspname == relation[0]) & (table.relname == relation[1])
