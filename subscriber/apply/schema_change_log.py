"""What is kept of schema changes, in the target and beside the data: the shape that each relation was last applied with, and each ALTER TABLE.

::

    relation message ──▶ the same as last time? ──▶ nothing to do
                    └──▶ another: read subscriber_relation_shape, decide, write it, in the transaction of the changes
                                  └▶ ALTER TABLE ──▶ a row in subscriber_schema_change

Where the target takes DDL back with its transaction, the row, the ALTER TABLE and what older rows get are one transaction. Where DDL
commits (MariaDB), the row is committed by the ALTER TABLE itself, with ``finished`` false; what older rows get, ``finished`` and the new
shape are committed together after it. A process that is killed between finds the column there and the row unfinished, and does the rest.

A shape that was read is remembered by whoever reads it, as long as it is the message's own: nobody else writes the shapes of a
subscription's tables while they are applied. What was written is not remembered, since it may be rolled back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from subscriber.apply.added_columns import Baseline, KeptColumn, KeptShape, columns_of
from subscriber.apply.conflict_log import next_id
from subscriber.apply.progress import NAME, STATE, TEXT
from subscriber.lsn import LSN, format_lsn
from subscriber.protocol.messages import Relation

logger = logging.getLogger(__name__)

RELATION_SHAPE: Final = sa.Table(
    "subscriber_relation_shape",
    STATE,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("nspname", NAME, primary_key=True),
    sa.Column("relname", NAME, primary_key=True),
    sa.Column("shape", TEXT, nullable=False),
    sa.Column("baseline", TEXT),
)
"""The last relation message of each of a subscription's relations (by the publisher's names) that was applied: ``shape`` is a JSON list of
its columns, each with name, type's OID and modifier. ``baseline`` is what is known of the publisher's table (JSON), NULL where nothing is."""

SCHEMA_CHANGE: Final = sa.Table(
    "subscriber_schema_change",
    STATE,
    sa.Column("changeid", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("changed_at", sa.String(40), nullable=False),
    sa.Column("subid", sa.Integer, nullable=False),
    sa.Column("subname", sa.String(128), nullable=False),
    sa.Column("nspname", NAME, nullable=False),
    sa.Column("relname", NAME, nullable=False),
    sa.Column("relation", sa.String(260), nullable=False),
    sa.Column("remote_lsn", sa.String(32)),
    sa.Column("columnname", NAME),
    sa.Column("statement", TEXT),
    sa.Column("reason", TEXT, nullable=False),
    sa.Column("difference", TEXT),
    sa.Column("resolved_at", sa.String(40)),
    sa.Column("finished", sa.Boolean, nullable=False),
)
"""What was altered in the target, and why. ``relation`` is the target's table, ``nspname`` and ``relname`` the publisher's; ``remote_lsn``
is the commit LSN of the transaction that brought the new shape, NULL for the initial copy. ``statement`` is the DDL, NULL where none was run.
``difference`` says why rows may differ from the publisher's, until the table is copied again (``resolved_at``)."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """What is to be written down of a change.

    Attributes:
        relation: the target's table, for messages.
        reason: what it was for.
        column: that was added.
        statement: that was run.
        difference: why rows may differ from the publisher's.
        lsn: of the transaction that brought it.
    """

    relation: str
    reason: str
    column: str | None = None
    statement: str | None = None
    difference: str | None = None
    lsn: LSN | None = None


class SchemaChanges:
    """Reads and writes what is kept for one subscription.

    Args:
        subid: its number.
        subscription: its name.
    """

    def __init__(self, subid: int, subscription: str) -> None:
        self._subid = subid
        self._subscription = subscription
        self._same: dict[tuple[str, str], tuple[KeptColumn, ...]] = {}

    def is_same(self, remote: Relation) -> bool:
        """Whether the message is known to be the one that the catalog keeps."""
        return self._same.get((remote.namespace, remote.name)) == columns_of(remote)

    def before(self, connection: sa.Connection, remote: Relation) -> KeptShape | None:
        """What is kept of a relation; None where nothing is."""
        table = RELATION_SHAPE
        row = connection.execute(sa.select(table.c.shape, table.c.baseline).where(self._key(remote))).one_or_none()
        if row is None:
            return None
        kept = KeptShape(
            tuple(KeptColumn(*column) for column in json.loads(row[0])),
            None if row[1] is None else Baseline.from_json(row[1]),
        )
        if kept.columns == columns_of(remote):
            self._same[remote.namespace, remote.name] = kept.columns
        return kept

    def keep(self, connection: sa.Connection, remote: Relation, baseline: Baseline | None) -> None:
        """Keep the message as the last one that was applied, in the transaction of its changes."""
        keep_shape(connection, self._subid, (remote.namespace, remote.name), columns_of(remote), baseline)

    def unfinished(self, connection: sa.Connection, remote: Relation) -> frozenset[str]:
        """The columns that were added, and whose older rows have not got their value."""
        table = SCHEMA_CHANGE
        query = sa.select(table.c.columnname).where(self._mine(remote), table.c.finished.is_(sa.false()))
        return frozenset(connection.execute(query).scalars())

    def begin(self, connection: sa.Connection, remote: Relation, alterations: Iterable[Alteration]) -> None:
        """Write down what is about to be done, in place of what was begun before and not finished."""
        table = SCHEMA_CHANGE
        connection.execute(sa.delete(table).where(self._mine(remote), table.c.finished.is_(sa.false())))
        self._insert(connection, remote, alterations, finished=False)

    def finish(self, connection: sa.Connection, remote: Relation) -> None:
        """What was begun is done."""
        unfinished = self._mine(remote) & SCHEMA_CHANGE.c.finished.is_(sa.false())
        connection.execute(sa.update(SCHEMA_CHANGE).where(unfinished).values(finished=True))

    def note(self, connection: sa.Connection, remote: Relation, alteration: Alteration) -> None:
        """Write down what needs nothing to be done."""
        self._insert(connection, remote, [alteration], finished=True)

    def copied(self, connection: sa.Connection, remote: Relation, baseline: Baseline | None) -> None:
        """The table has been copied, in this transaction, as ``remote`` says: its rows are the publisher's."""
        self.keep(connection, remote, baseline)
        table = SCHEMA_CHANGE
        differing = self._mine(remote) & table.c.difference.is_not(None) & table.c.resolved_at.is_(None)
        connection.execute(sa.update(table).where(differing).values(resolved_at=_now()))

    def log(self, alterations: Iterable[Alteration]) -> None:
        """Say what was done, once it is committed."""
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
                    one.difference,
                    COPY_AGAIN,
                )

    def _insert(
        self, connection: sa.Connection, remote: Relation, alterations: Iterable[Alteration], *, finished: bool
    ) -> None:
        for one in alterations:
            row = {
                "changeid": next_id(),
                "changed_at": _now(),
                "subid": self._subid,
                "subname": self._subscription,
                "nspname": remote.namespace,
                "relname": remote.name,
                "relation": one.relation,
                "remote_lsn": None if one.lsn is None else format_lsn(one.lsn),
                "columnname": one.column,
                "statement": one.statement,
                "reason": one.reason,
                "difference": one.difference,
                "finished": finished,
            }
            connection.execute(sa.insert(SCHEMA_CHANGE).values(row))

    def _key(self, remote: Relation) -> sa.ColumnElement[bool]:
        return _shape_of(self._subid, (remote.namespace, remote.name))

    def _mine(self, remote: Relation) -> sa.ColumnElement[bool]:
        table = SCHEMA_CHANGE.c
        return (table.subid == self._subid) & (table.nspname == remote.namespace) & (table.relname == remote.name)


COPY_AGAIN: Final = (
    "To copy the table again: ALTER PUBLICATION ... DROP TABLE at the publisher; ALTER SUBSCRIPTION ... REFRESH PUBLICATION here; empty the"
    " table in the target; ALTER PUBLICATION ... ADD TABLE at the publisher; ALTER SUBSCRIPTION ... REFRESH PUBLICATION here."
    " Where the publication is FOR ALL TABLES or has the table's schema: drop the subscription, empty its tables, and create it again."
)


def keep_shape(
    connection: sa.Connection,
    subid: int,
    relation: tuple[str, str],
    columns: Collection[KeptColumn],
    baseline: Baseline | None,
) -> None:
    """Keep a relation's columns, given by the publisher's schema and name, as the last that were applied."""
    values = {
        "shape": json.dumps([[one.name, one.type_oid, one.type_modifier] for one in columns], ensure_ascii=False),
        "baseline": None if baseline is None else baseline.to_json(),
    }
    mine = _shape_of(subid, relation)
    # Not by the number of rows that an UPDATE has changed: MariaDB does not count one that has the values already.
    there = connection.execute(sa.select(RELATION_SHAPE.c.subid).where(mine)).first() is not None
    if there:
        connection.execute(sa.update(RELATION_SHAPE).where(mine).values(values))
    else:
        key = {"subid": subid, "nspname": relation[0], "relname": relation[1]}
        connection.execute(sa.insert(RELATION_SHAPE).values({**key, **values}))


def forget_shapes(connection: sa.Connection, subid: int, relations: Iterable[tuple[str, str]]) -> None:
    """Delete what is kept of relations that a subscription has no more; forgetting an unknown one is no error."""
    for relation in relations:
        connection.execute(sa.delete(RELATION_SHAPE).where(_shape_of(subid, relation)))


def forget_schema_changes(connection: sa.Connection, subid: int) -> None:
    """Delete everything of a subscription: its number is given again."""
    connection.execute(sa.delete(RELATION_SHAPE).where(RELATION_SHAPE.c.subid == subid))
    connection.execute(sa.delete(SCHEMA_CHANGE).where(SCHEMA_CHANGE.c.subid == subid))


def _shape_of(subid: int, relation: tuple[str, str]) -> sa.ColumnElement[bool]:
    table = RELATION_SHAPE.c
    return (table.subid == subid) & (table.nspname == relation[0]) & (table.relname == relation[1])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
