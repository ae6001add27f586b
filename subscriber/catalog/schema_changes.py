"""The schema of the tables in the target: the shape with which each relation was last applied
(``subscriber_relation_shape``), a row for each ALTER TABLE (``subscriber_schema_change``), and what
tables lack that ``create_tables`` has created (``subscriber_schema_difference``).

::

    relation message ──▶ the same as last time? ──▶ nothing to do
                    └──▶ another: read subscriber_relation_shape, decide, write it, in the transaction of the changes
                                  └▶ ALTER TABLE ──▶ a row in subscriber_schema_change

If DDL is transactional in the target, the row, the ALTER TABLE and the values of older rows belong
to one transaction. If DDL commits (MariaDB), the ALTER TABLE itself commits the row with
``finished`` false; the values of older rows, ``finished`` and the new shape are committed together
after it. If the process is killed in between, the next one finds the column and the unfinished row,
and does the rest.

A shape that was read is cached as long as it equals the message's: no other session writes the
shapes while a subscription's tables are applied. A shape that was written is not cached, because
the transaction may be rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import sqlalchemy as sa

from subscriber.base import clock
from subscriber.base.lsn import LSN, MAX_LSN, format_lsn, parse_lsn
from subscriber.catalog.own_tables import RELATION_SHAPE, SCHEMA_CHANGE, SCHEMA_DIFFERENCE
from subscriber.catalog.rows import ROW_NUMBERS, RowMapper, RowNumbers, change_rows, delete_rows, matching
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.publisher_tables import TableAttributes
from subscriber.postgres.schema.shape import RelatedDifference
from subscriber.postgres.schema.stored_shape import Baseline, StoredColumn, StoredShape, columns_of, first_baseline
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.targets.statements import upsert

logger = logging.getLogger(__name__)


# Shapes -------------------------------------------------------------------------------------------


class PublishedRelation(Protocol):
    """A table of the publisher with its published columns; None means all columns."""

    @property
    def schema(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def columns(self) -> Collection[str] | None: ...


def read_shape(connection: sa.Connection, subid: int, relation: tuple[str, str]) -> StoredShape | None:
    query = sa.select(RELATION_SHAPE).where(matching(RELATION_SHAPE, **_key(subid, relation)))
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    baseline = None if row.baseline is None else Baseline.from_json(row.baseline)
    return StoredShape(tuple(StoredColumn(*column) for column in row.shape), baseline, row.relid)


def store_shape(connection: sa.Connection, subid: int, relation: tuple[str, str], shape: StoredShape) -> None:
    values = {
        "shape": [[one.name, one.type_oid, one.type_modifier] for one in shape.columns],
        "baseline": None if shape.baseline is None else shape.baseline.to_json(),
        "relid": shape.oid,
    }
    upsert(connection, RELATION_SHAPE, _key(subid, relation), values)


def forget_shapes(connection: sa.Connection, subid: int, relations: Iterable[tuple[str, str]]) -> None:
    """Delete the shapes of relations that a subscription no longer has."""
    for relation in relations:
        delete_rows(connection, RELATION_SHAPE, **_key(subid, relation))


def forget_oids(connection: sa.Connection, subid: int) -> None:
    """Forget the tables' OIDs: the publisher is another cluster, and will send its own."""
    change_rows(connection, matching(RELATION_SHAPE, subid=subid), RELATION_SHAPE, relid=None)


def store_published_shapes(
    connection: sa.Connection, subid: int, tables: Iterable[tuple[PublishedRelation, TableAttributes]]
) -> None:
    """The shapes of tables that are not copied, whose rows are taken to be the publisher's."""
    for table, attributes in tables:
        published = tuple(
            StoredColumn(one.name, one.type_oid, one.type_modifier)
            for one in attributes.columns
            if (not one.generated if table.columns is None else one.name in table.columns)
        )
        shape = StoredShape(published, first_baseline(attributes), attributes.oid)
        store_shape(connection, subid, (table.schema, table.name), shape)


def _key(subid: int, relation: tuple[str, str]) -> dict[str, Any]:
    return {"subid": subid, "nspname": relation[0], "relname": relation[1]}


# Changes ------------------------------------------------------------------------------------------


def skipped_publication(name: str) -> str:
    """The reason why rows are missing while a publication of the subscription does not exist."""
    return f'Publication "{name}" did not exist at the publisher.'


def copy_again(tables: Iterable[tuple[str, str]], subscription: str | None = None) -> str:
    names = [f"{quote_identifier(schema)}.{quote_identifier(name)}" for schema, name in tables]
    alter = f"ALTER SUBSCRIPTION {'...' if subscription is None else quote_identifier(subscription)}"
    what = "table" if len(names) == 1 else "tables"
    return f"To copy the {what} again: {alter} REFRESH TABLE {', '.join(names)};"


@dataclass(frozen=True, slots=True)
class Alteration:
    """A schema change that is to be stored: why the table was altered, and why rows may differ from
    the publisher's (``difference``). ``relation`` is the target's table, ``table`` the publisher's;
    ``lsn`` is that of the transaction that sent the new shape.
    """

    relation: str
    table: tuple[str, str]
    reason: str
    column: str | None = None
    statement: str | None = None
    difference: str | None = None
    lsn: LSN | None = None


class SchemaChanges:
    def __init__(self, subid: int, subscription: str, numbers: RowNumbers = ROW_NUMBERS) -> None:
        self._numbers = numbers
        self.subid = subid
        self._subscription = subscription
        self._same: dict[tuple[str, str], StoredShape] = {}

    def is_same(self, remote: Relation) -> bool:
        """Whether the message is known to have the shape that is stored in the catalog."""
        stored = self._same.get(_name(remote))
        return stored is not None and stored.is_of(remote)

    def before(self, connection: sa.Connection, remote: Relation) -> StoredShape | None:
        stored = read_shape(connection, self.subid, _name(remote))
        if stored is not None and stored.is_of(remote):
            self._same[_name(remote)] = stored
        return stored

    def store(self, connection: sa.Connection, remote: Relation, baseline: Baseline | None) -> None:
        """Store the message's shape as the last applied one, in the transaction of its changes."""
        shape = StoredShape(columns_of(remote), baseline, remote.relation_id)
        store_shape(connection, self.subid, _name(remote), shape)

    def unfinished(self, connection: sa.Connection, remote: Relation) -> frozenset[str]:
        """The columns that were added, but whose older rows have no values yet."""
        query = sa.select(SCHEMA_CHANGE.c.columnname).where(self._unfinished(remote))
        return frozenset(connection.execute(query).scalars())

    def begin(self, connection: sa.Connection, remote: Relation, alterations: Iterable[Alteration]) -> None:
        """Store alterations that are about to be made, in the place of unfinished ones."""
        connection.execute(sa.delete(SCHEMA_CHANGE).where(self._unfinished(remote)))
        self._insert(connection, alterations, finished=False)

    def finish(self, connection: sa.Connection, remote: Relation) -> None:
        change_rows(connection, self._unfinished(remote), SCHEMA_CHANGE, finished=True)

    def record(self, connection: sa.Connection, alteration: Alteration) -> None:
        """Store a change that needs no further step."""
        self._insert(connection, [alteration], finished=True)

    def record_new(
        self, connection: sa.Connection, found: Iterable[Alteration], copying: Collection[tuple[str, str]]
    ) -> list[Alteration]:
        """Store and return why rows may differ, unless that is known. Tables in ``copying`` get a
        row anyway: their copy resolves only those from before its snapshot.
        """
        table = SCHEMA_CHANGE.c
        query = sa.select(table.nspname, table.relname, table.reason, table.remote_lsn).where(
            table.subid == self.subid, _DIFFERS
        )
        rows = connection.execute(query).all()
        there = {((row[0], row[1]), row[2], lsn) for row in rows for lsn in (None, row[3])}
        new = [
            one
            for one in found
            if (one.table, one.reason, _lsn_text(one.lsn) if one.table in copying else None) not in there
        ]
        self._insert(connection, new, finished=True)
        return new

    def copied(
        self,
        connection: sa.Connection,
        remote: Relation,
        baseline: Baseline | None,
        *,
        lsn: LSN = MAX_LSN,
        skipped: Iterable[str] = (),
    ) -> None:
        """Record that the table was copied in this transaction, as of ``lsn``, when the
        publications in ``skipped`` did not exist.
        """
        self.store(connection, remote, baseline)
        resolve_differences(connection, self.subid, _name(remote), lsn=lsn, skipped=skipped)

    def log(self, alterations: Iterable[Alteration]) -> None:
        for one in alterations:
            if one.statement is not None:
                logger.warning(
                    'subscription "%(subscription)s" has altered table "%(relation)s": %(error)s\nDETAIL:  %(reason)s',
                    {
                        "subscription": self._subscription,
                        "relation": one.relation,
                        "error": one.statement,
                        "reason": one.reason,
                    },
                )
            if one.difference is not None:
                logger.warning(
                    'subscription "%(subscription)s": rows of table "%(relation)s" may differ from the publisher\'s'
                    "\nDETAIL:  %(error)s\nHINT:  %(hint)s",
                    {
                        "subscription": self._subscription,
                        "relation": one.relation,
                        "error": one.difference if one.statement is not None else f"{one.reason} {one.difference}",
                        "hint": copy_again([one.table], self._subscription),
                    },
                )

    def _insert(self, connection: sa.Connection, alterations: Iterable[Alteration], *, finished: bool) -> None:
        for one in alterations:
            schema, name = one.table
            row = {
                "changeid": self._numbers.next(),
                "changed_at": clock.now(),
                "subid": self.subid,
                "subname": self._subscription,
                "nspname": schema,
                "relname": name,
                "relation": one.relation,
                "remote_lsn": _lsn_text(one.lsn),
                "columnname": one.column,
                "statement": one.statement,
                "reason": one.reason,
                "difference": one.difference,
                "finished": finished,
            }
            connection.execute(sa.insert(SCHEMA_CHANGE).values(row))

    def _unfinished(self, remote: Relation) -> sa.ColumnElement[bool]:
        return matching(SCHEMA_CHANGE, **_key(self.subid, _name(remote))) & SCHEMA_CHANGE.c.finished.is_(sa.false())


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A row of ``subscriber_schema_change``: the DDL that was executed, if any, and why rows may
    differ from the publisher's.

    ``remote_lsn`` is the commit LSN of the transaction that sent the new shape; None for a copy. A
    difference is resolved when the table was copied again. ``schema`` and ``name`` are the
    publisher's.
    """

    changed_at: str
    relation: str
    remote_lsn: str | None
    statement: str | None
    reason: str
    difference: str | None
    resolved_at: str | None
    schema: str
    name: str

    @property
    def differs(self) -> bool:
        return self.difference is not None and self.resolved_at is None


_CHANGES = RowMapper(SCHEMA_CHANGE, SchemaChange, schema="nspname", name="relname")


def schema_changes_of(connection: sa.Connection, subid: int) -> list[SchemaChange]:
    """The finished schema changes of a subscription, in order."""
    return _CHANGES.select(connection, SCHEMA_CHANGE.c.changeid, subid=subid, finished=True)


def resolve_differences(
    connection: sa.Connection, subid: int, table: tuple[str, str], *, lsn: LSN = MAX_LSN, skipped: Iterable[str] = ()
) -> None:
    """Record that the rows of a table no longer differ: it was copied again, or compared, or has
    left the subscription.

    What is known of changes after ``lsn`` is not resolved. Publications in ``skipped`` did not
    exist at that LSN: rows that were written since then are missing, too.
    """
    change = SCHEMA_CHANGE.c
    mine = matching(SCHEMA_CHANGE, **_key(subid, table))
    lasting = [skipped_publication(name) for name in skipped]
    differing = sa.select(change.changeid, change.remote_lsn).where(mine, _DIFFERS, change.reason.not_in(lasting))
    for number, text in connection.execute(differing).all():
        if text is None or parse_lsn(text) <= lsn:
            change_rows(connection, change.changeid == number, SCHEMA_CHANGE, resolved_at=clock.now())


_DIFFERS: Final = SCHEMA_CHANGE.c.difference.is_not(None) & SCHEMA_CHANGE.c.resolved_at.is_(None)


def _lsn_text(lsn: LSN | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)


def _name(remote: Relation) -> tuple[str, str]:
    return remote.namespace, remote.name


# What created tables lack -------------------------------------------------------------------------


def differing_relations(connection: sa.Connection, subid: int) -> frozenset[str]:
    """The relations of a subscription that have differences, as ``schema.table``."""
    query = sa.select(SCHEMA_DIFFERENCE.c.relation).where(SCHEMA_DIFFERENCE.c.subid == subid).distinct()
    return frozenset(connection.execute(query).scalars())


def set_schema_differences(connection: sa.Connection, subid: int, differences: Iterable[RelatedDifference]) -> None:
    """Replace the differences of all tables of a subscription."""
    delete_rows(connection, SCHEMA_DIFFERENCE, subid=subid)
    rows = [
        {
            "subid": subid,
            "number": number,
            "relation": one.relation,
            "object": one.difference.object,
            "kind": one.difference.kind,
            "ddl": one.difference.ddl,
            "reason": one.difference.reason,
        }
        for number, one in enumerate(differences, 1)
    ]
    if rows:
        connection.execute(sa.insert(SCHEMA_DIFFERENCE), rows)
