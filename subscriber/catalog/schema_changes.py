"""Schema changes, stored in the target beside the data: ``subscriber_schema_change``, with a row
for each ALTER TABLE.

::

    relation message ──▶ the same as last time? ──▶ nothing to do
                    └──▶ another: read subscriber_relation_shape, decide, write it, in the transaction of the changes
                                  └▶ ALTER TABLE ──▶ a row in subscriber_schema_change

If DDL is transactional in the target, the row, the ALTER TABLE and the values of older rows belong
to the same transaction. If DDL commits the transaction (MariaDB), the ALTER TABLE itself commits
the row, with ``finished`` false. The values of older rows, ``finished`` and the new shape are
committed together after it. If the process is killed in between, the next process finds the column
and the unfinished row, and does the rest.

A shape that was read is cached as long as it equals the shape of the message: no other session
writes the shapes of a subscription's tables while they are applied. A shape that was written is not
cached, because the transaction may be rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from subscriber.catalog.own_tables import SCHEMA_CHANGE
from subscriber.catalog.relation_shapes import keep_shape, read_shape
from subscriber.catalog.row_numbers import ROW_NUMBERS, RowNumbers
from subscriber.lsn import LSN, MAX_LSN, format_lsn, parse_lsn
from subscriber.protocol.messages import Relation
from subscriber.schema.kept_shape import Baseline, KeptShape, columns_of
from subscriber.sql.keywords import quote_identifier

logger = logging.getLogger(__name__)


def skipped_publication(name: str) -> str:
    """The reason why rows are missing while a publication of the subscription does not exist."""
    return f'Publication "{name}" did not exist at the publisher.'


def copy_again(tables: Iterable[tuple[str, str]], subscription: str | None = None) -> str:
    """The hint that says how to copy tables again, given by the publisher's schema and name;
    without the subscription's name where that is not known.
    """
    names = [f"{quote_identifier(schema)}.{quote_identifier(name)}" for schema, name in tables]
    alter = f"ALTER SUBSCRIPTION {'...' if subscription is None else quote_identifier(subscription)}"
    what = "table" if len(names) == 1 else "tables"
    return f"To copy the {what} again: {alter} REFRESH TABLE {', '.join(names)};"


@dataclass(frozen=True, slots=True)
class Alteration:
    """A schema change that is to be stored.

    Attributes:
        relation: the target's table, for messages.
        table: the schema and the name of the publisher's table.
        reason: why the table was altered, or may differ.
        column: the column that was added.
        statement: the statement that was executed.
        difference: why rows may differ from the publisher's.
        lsn: the LSN of the transaction that sent the new shape.
    """

    relation: str
    table: tuple[str, str]
    reason: str
    column: str | None = None
    statement: str | None = None
    difference: str | None = None
    lsn: LSN | None = None


class SchemaChanges:
    """Reads and writes the shapes and the schema changes of one subscription.

    Args:
        subid: the subscription's number.
        subscription: the subscription's name.
        numbers: gives new rows their numbers.
    """

    def __init__(self, subid: int, subscription: str, numbers: RowNumbers = ROW_NUMBERS) -> None:
        self._numbers = numbers
        self.subid = subid
        self._subscription = subscription
        self._same: dict[tuple[str, str], KeptShape] = {}

    def is_same(self, remote: Relation) -> bool:
        """Whether the message is known to have the shape that is stored in the catalog."""
        kept = self._same.get(_name(remote))
        return kept is not None and kept.is_of(remote)

    def before(self, connection: sa.Connection, remote: Relation) -> KeptShape | None:
        """The stored shape of a relation; None if none is stored."""
        kept = read_shape(connection, self.subid, _name(remote))
        if kept is not None and kept.is_of(remote):
            self._same[_name(remote)] = kept
        return kept

    def keep(self, connection: sa.Connection, remote: Relation, baseline: Baseline | None) -> None:
        """Store the message's shape as the one that was last applied, in the transaction of its
        changes.
        """
        shape = KeptShape(columns_of(remote), baseline, remote.relation_id)
        keep_shape(connection, self.subid, _name(remote), shape)

    def unfinished(self, connection: sa.Connection, remote: Relation) -> frozenset[str]:
        """The columns that were added, but whose older rows did not get their values yet."""
        table = SCHEMA_CHANGE
        query = sa.select(table.c.columnname).where(self._mine(remote), table.c.finished.is_(sa.false()))
        return frozenset(connection.execute(query).scalars())

    def begin(self, connection: sa.Connection, remote: Relation, alterations: Iterable[Alteration]) -> None:
        """Store alterations that are about to be made. They replace alterations that were begun
        before and not finished.
        """
        table = SCHEMA_CHANGE
        connection.execute(sa.delete(table).where(self._mine(remote), table.c.finished.is_(sa.false())))
        self._insert(connection, alterations, finished=False)

    def finish(self, connection: sa.Connection, remote: Relation) -> None:
        """Mark the alterations that were begun as finished."""
        unfinished = self._mine(remote) & SCHEMA_CHANGE.c.finished.is_(sa.false())
        connection.execute(sa.update(SCHEMA_CHANGE).where(unfinished).values(finished=True))

    def note(self, connection: sa.Connection, alteration: Alteration) -> None:
        """Store a change that needs no further step."""
        self._insert(connection, [alteration], finished=True)

    def note_new(
        self, connection: sa.Connection, notes: Iterable[Alteration], copying: Collection[tuple[str, str]]
    ) -> list[Alteration]:
        """Store why rows of tables may differ, except for tables that may differ for the same
        reason already; returns what was stored.

        Args:
            connection: the connection.
            notes: the differences.
            copying: the tables that are being copied. They get another row, because the copy
                resolves those that are from before its snapshot.
        """
        table = SCHEMA_CHANGE.c
        query = sa.select(table.nspname, table.relname, table.reason, table.remote_lsn).where(
            table.subid == self.subid, _DIFFERS
        )
        rows = connection.execute(query).all()
        there = {((row[0], row[1]), row[2], lsn) for row in rows for lsn in (None, row[3])}
        new = [
            one
            for one in notes
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
        """Record that the table was copied in this transaction, with the shape of ``remote``: its
        rows equal the publisher's.

        Args:
            connection: the connection of the transaction.
            remote: the shape of the table.
            baseline: what is known of the publisher's table.
            lsn: the LSN of the snapshot.
            skipped: the publications that did not exist at the snapshot.
        """
        self.keep(connection, remote, baseline)
        resolve_differences(connection, self.subid, _name(remote), lsn=lsn, skipped=skipped)

    def log(self, alterations: Iterable[Alteration]) -> None:
        """Log the alterations, after they are committed."""
        for one in alterations:
            if one.statement is not None:
                logger.warning(
                    'subscription "%s" has altered table "%s": %s\nDETAIL:  %s',
                    self._subscription,
                    one.relation,
                    one.statement,
                    one.reason,
                )
            if one.difference is not None:
                logger.warning(
                    'subscription "%s": rows of table "%s" may differ from the publisher\'s\nDETAIL:  %s\nHINT:  %s',
                    self._subscription,
                    one.relation,
                    one.difference if one.statement is not None else f"{one.reason} {one.difference}",
                    copy_again([one.table], self._subscription),
                )

    def _insert(self, connection: sa.Connection, alterations: Iterable[Alteration], *, finished: bool) -> None:
        for one in alterations:
            schema, name = one.table
            row = {
                "changeid": self._numbers.next(),
                "changed_at": _now(),
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

    def _mine(self, remote: Relation) -> sa.ColumnElement[bool]:
        table = SCHEMA_CHANGE.c
        return (table.subid == self.subid) & (table.nspname == remote.namespace) & (table.relname == remote.name)


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A row of ``subscriber_schema_change``.

    Attributes:
        changed_at: when the table was altered (UTC, ISO 8601).
        relation: the target's table.
        remote_lsn: the commit LSN of the transaction that sent the new shape; None for the initial
            copy.
        statement: the DDL that was executed; None where none was.
        reason: why the table was altered.
        difference: why rows may differ from the publisher's.
        resolved_at: when the table was copied again, so that its rows no longer differ.
        schema: the schema of the publisher's table.
        name: the name of the publisher's table.
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
        """Whether rows may still differ."""
        return self.difference is not None and self.resolved_at is None


def schema_changes_of(connection: sa.Connection, subid: int) -> list[SchemaChange]:
    """The finished schema changes of a subscription, in the order in which they were made."""
    table = SCHEMA_CHANGE.c
    query = (
        sa.select(
            table.changed_at,
            table.relation,
            table.remote_lsn,
            table.statement,
            table.reason,
            table.difference,
            table.resolved_at,
            table.nspname,
            table.relname,
        )
        .where(table.subid == subid, table.finished.is_(sa.true()))
        .order_by(table.changeid)
    )
    return [SchemaChange(*row) for row in connection.execute(query)]


def resolve_differences(
    connection: sa.Connection, subid: int, table: tuple[str, str], *, lsn: LSN = MAX_LSN, skipped: Iterable[str] = ()
) -> None:
    """Record that the rows of a table no longer differ: it was copied again, or compared, or no
    longer belongs to the subscription.

    Args:
        connection: the connection.
        subid: the subscription's number.
        table: the publisher's schema and name.
        lsn: the LSN as of which the rows are the publisher's; what is known of later changes is not
            resolved.
        skipped: the publications that did not exist at that LSN: rows that were written since then
            are missing, too.
    """
    change = SCHEMA_CHANGE.c
    mine = (change.subid == subid) & (change.nspname == table[0]) & (change.relname == table[1])
    lasting = [skipped_publication(name) for name in skipped]
    differing = sa.select(change.changeid, change.remote_lsn).where(mine, _DIFFERS, change.reason.not_in(lasting))
    for number, text in connection.execute(differing).all():
        if text is None or parse_lsn(text) <= lsn:
            resolved = sa.update(SCHEMA_CHANGE).where(change.changeid == number).values(resolved_at=_now())
            connection.execute(resolved)


def forget_schema_changes(connection: sa.Connection, subid: int) -> None:
    """Delete the schema changes of a subscription, because its number may be used again."""
    connection.execute(sa.delete(SCHEMA_CHANGE).where(SCHEMA_CHANGE.c.subid == subid))


_DIFFERS: Final = SCHEMA_CHANGE.c.difference.is_not(None) & SCHEMA_CHANGE.c.resolved_at.is_(None)


def _lsn_text(lsn: LSN | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)


def _name(remote: Relation) -> tuple[str, str]:
    return remote.namespace, remote.name


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
