"""Table states (D1-D6): what ``pg_subscription_rel`` knows.

::

    i ──▶ d ──▶ f ──▶ s ──▶ r
    │     │     │     └ srsublsn: changes of transactions that finish there or later are applied with everybody's
    │     │     └ srsublsn: everything up to there is in the table; a catch-up moves it on, in the transaction of its data
    │     └ being copied, or the copy has failed (srerror says why)
    └ to be copied

Each step names the state that it leaves: what a command has changed meanwhile is not overwritten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

import sqlalchemy as sa

from subscriber.errors import ProgressConflict
from subscriber.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn
from subscriber.subscription.catalog.tables import SUBSCRIPTION_REL


class RelationState(StrEnum):
    """The states of a table that the catalog knows (D1); w and c exist in a worker's memory only."""

    INIT = "i"
    DATASYNC = "d"
    FINISHEDCOPY = "f"
    SYNCDONE = "s"
    READY = "r"


@dataclass(frozen=True, slots=True)
class SubscriptionRelation:
    """One row of ``subscriber_subscription_rel``, read.

    Attributes:
        schema: the table's, at the publisher.
        name: the table's.
        state: see the module.
        lsn: the position that belongs to the state.
        error: why the last attempt to copy it failed, as :meth:`SubscriberError.report` tells it.
        error_at: when (UTC, ISO 8601).
    """

    schema: str
    name: str
    state: RelationState
    lsn: LSN | None
    error: str | None = None
    error_at: str | None = None

    @property
    def qualified_name(self) -> str:
        """``schema.table``, for messages."""
        return f"{self.schema}.{self.name}"

    @property
    def applies_from(self) -> LSN | None:
        """The LSN from which on a transaction's changes of it are applied with everybody's (D5); None where none are yet."""
        if self.state is RelationState.READY:
            return INVALID_LSN
        return self.lsn if self.state is RelationState.SYNCDONE else None


def relations_of(connection: sa.Connection, subid: int) -> list[SubscriptionRelation]:
    """The tables of a subscription with their states, by schema and name."""
    table = SUBSCRIPTION_REL
    query = sa.select(table).where(table.c.srsubid == subid).order_by(table.c.srschema, table.c.srrelname)
    return [_relation(row) for row in connection.execute(query)]


def set_relation_state(
    connection: sa.Connection,
    subid: int,
    schema: str,
    name: str,
    state: RelationState,
    lsn: LSN | None = None,
) -> None:
    """Store a table's state and the LSN that belongs to it (D1), whether the table is known or new."""
    values = {"srsubstate": state.value, "srsublsn": _text(lsn)}
    if connection.execute(sa.update(SUBSCRIPTION_REL).where(_key(subid, schema, name)).values(**values)).rowcount == 0:
        new = sa.insert(SUBSCRIPTION_REL).values(srsubid=subid, srschema=schema, srrelname=name, **values)
        connection.execute(new)


def advance_relation(
    connection: sa.Connection, subid: int, relation: SubscriptionRelation, state: RelationState, lsn: LSN | None = None
) -> SubscriptionRelation:
    """Take a table from the state that ``relation`` was read in to the next, and forget its error; gives it as it is then.

    Raises:
        ProgressConflict: it is not in that state any more: a command has removed or renewed it meanwhile.
    """
    table = SUBSCRIPTION_REL
    unchanged = _key(subid, relation.schema, relation.name) & (table.c.srsubstate == relation.state.value)
    values = {"srsubstate": state.value, "srsublsn": _text(lsn), "srerror": None, "srerrorat": None}
    if connection.execute(sa.update(table).where(unchanged).values(**values)).rowcount != 1:
        raise ProgressConflict(
            f'table "{relation.qualified_name}" is not in state {relation.state.value} any more',
            hint="A command has changed the subscription meanwhile; its tables are looked at again.",
        )
    return replace(relation, state=state, lsn=lsn, error=None, error_at=None)


def delete_relation(connection: sa.Connection, subid: int, schema: str, name: str) -> None:
    """Forget a table that is no longer published (D11); forgetting an unknown one is no error."""
    connection.execute(sa.delete(SUBSCRIPTION_REL).where(_key(subid, schema, name)))


def record_relation_error(connection: sa.Connection, subid: int, schema: str, name: str, report: str) -> None:
    """Keep with a table why its copy failed, and when."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    update = sa.update(SUBSCRIPTION_REL).where(_key(subid, schema, name))
    connection.execute(update.values(srerror=report, srerrorat=moment))


class CatchUpProgress:
    """How far a table that has been copied (state f) has caught up: its ``srsublsn``, moved with the data.

    What :class:`subscriber.apply.progress.OriginProgress` is for a subscription, this is for one table; PostgreSQL's table
    synchronization worker has a replication origin of its own for it (D2).
    """

    def __init__(self, subid: int, relation: SubscriptionRelation) -> None:
        self.name = f"pg_{subid}_{relation.qualified_name}"
        self._catching_up = _key(subid, relation.schema, relation.name) & (
            SUBSCRIPTION_REL.c.srsubstate == RelationState.FINISHEDCOPY.value
        )

    def read(self, connection: sa.Connection) -> LSN:
        """Everything that finished at or below it is in the table.

        Raises:
            ProgressConflict: the table is not catching up (any more).
        """
        text = connection.execute(sa.select(SUBSCRIPTION_REL.c.srsublsn).where(self._catching_up)).scalar_one_or_none()
        if text is None:
            raise self._conflict()
        return parse_lsn(text)

    def lock(self, connection: sa.Connection, expected: LSN) -> None:
        """See :class:`subscriber.apply.progress.Progress`."""
        self.advance(connection, expected, expected)

    def advance(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """See :class:`subscriber.apply.progress.Progress`."""
        there = self._catching_up & (SUBSCRIPTION_REL.c.srsublsn == format_lsn(from_lsn))
        move = sa.update(SUBSCRIPTION_REL).where(there).values(srsublsn=format_lsn(to_lsn))
        if connection.execute(move).rowcount != 1:
            raise self._conflict()

    def _conflict(self) -> ProgressConflict:
        return ProgressConflict(
            f'the table of replication origin "{self.name}" is not catching up any more',
            hint="A command has changed the subscription meanwhile, or another `subscriber run` works for it.",
        )


def _key(subid: int, schema: str, name: str) -> sa.ColumnElement[bool]:
    table = SUBSCRIPTION_REL
    return (table.c.srsubid == subid) & (table.c.srschema == schema) & (table.c.srrelname == name)


def _relation(row: sa.Row[tuple[object, ...]]) -> SubscriptionRelation:
    return SubscriptionRelation(
        row.srschema,
        row.srrelname,
        RelationState(row.srsubstate),
        None if row.srsublsn is None else parse_lsn(row.srsublsn),
        row.srerror,
        row.srerrorat,
    )


def _text(lsn: LSN | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)
