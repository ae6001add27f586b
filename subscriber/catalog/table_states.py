"""Table states (D1-D6): what ``pg_subscription_rel`` knows.

::

    i ──▶ d ──▶ f ──▶ s ──▶ r
    │     │     │     └ srsublsn: changes of transactions that finish there or later are applied with everybody's
    │     │     └ srsublsn: everything up to there is in the table; a catch-up moves it on, in the transaction of its data
    │     └ being copied, or the copy has failed (srerror says why)
    └ to be copied; srsublsn: once more, since the journal does not hold what it needs from there on, and only when it is empty

Each step names the state that it leaves: what a command has changed meanwhile is not overwritten.
Each write gives the subscription a new version (:mod:`subscriber.catalog.catalog_version`), by
which readers know whether the states that they keep still hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Final

import sqlalchemy as sa

from subscriber.catalog.catalog_version import note_change
from subscriber.catalog.own_tables import SUBSCRIPTION_REL
from subscriber.catalog.relation_shapes import forget_shapes
from subscriber.catalog.subscriptions import Subscription
from subscriber.errors import ProgressConflict
from subscriber.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn


class RelationState(StrEnum):
    """The states of a table that the catalog knows (D1); w and c exist in a worker's memory
    only.
    """

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
        """The LSN from which on a transaction's changes of it are applied with everybody's (D5);
        None where none are yet.
        """
        if self.state is RelationState.READY:
            return INVALID_LSN
        return self.lsn if self.state is RelationState.SYNCDONE else None


def relations_of(connection: sa.Connection, subid: int) -> list[SubscriptionRelation]:
    """The tables of a subscription with their states, by schema and name."""
    table = SUBSCRIPTION_REL
    query = sa.select(table).where(table.c.srsubid == subid).order_by(table.c.srschema, table.c.srrelname)
    return [_relation(row) for row in connection.execute(query)]


class TableStates(tuple[SubscriptionRelation, ...]):  # noqa: SLOT001 - cached properties need a place
    """The tables of a subscription, to be kept: with what is worked out of them once.

    They are as :func:`relations_of` gives them, without what changes more often than states do:
    errors, and how far a catch-up is (the LSN of state f).
    """

    @cached_property
    def unfinished(self) -> Sequence[SubscriptionRelation]:
        """Those that are not ready: few, or none, of many."""
        return tuple(one for one in self if one.state is not RelationState.READY)

    @cached_property
    def begins(self) -> Mapping[tuple[str, str], LSN | None]:
        """:attr:`SubscriptionRelation.applies_from` of each, by schema and name."""
        return {(one.schema, one.name): one.applies_from for one in self}


def read_states(connection: sa.Connection, subid: int) -> TableStates:
    """The tables of a subscription, read now."""
    columns = SUBSCRIPTION_REL.c
    query = (
        sa.select(columns.srschema, columns.srrelname, columns.srsubstate, columns.srsublsn)
        .where(columns.srsubid == subid)
        .order_by(columns.srschema, columns.srrelname)
    )
    return TableStates(
        SubscriptionRelation(schema, name, RelationState(state), parse_lsn(lsn) if lsn and state in "sr" else None)
        for schema, name, state, lsn in connection.execute(query)
    )


class KeptStates:
    """Reads the tables of subscriptions, and only where they are not as they were
    (:mod:`subscriber.catalog.catalog_version`).

    One thread uses it, each time in a transaction that began after the last one.
    """

    def __init__(self) -> None:
        # A number is given again, so there are never more than there were subscriptions at a time.
        self._kept: dict[int, tuple[int, TableStates]] = {}

    def read(self, connection: sa.Connection, subscription: Subscription) -> TableStates:
        """The tables of a subscription.

        Args:
            connection: to the target.
            subscription: as it was read in the transaction of ``connection``.
        """
        version, states = self._kept.get(subscription.subid, (None, TableStates()))
        if version != subscription.version:
            states = read_states(connection, subscription.subid)
            self._kept[subscription.subid] = subscription.version, states
        return states


def set_relation_states(
    connection: sa.Connection,
    subid: int,
    tables: Iterable[tuple[str, str]],
    state: RelationState,
    lsn: LSN | None = None,
) -> None:
    """Store a state of tables, given by schema and name, and the LSN that belongs to it (D1),
    whether a table is known or new.
    """
    note_change(connection, subid)
    values = {"srsubstate": state.value, "srsublsn": _text(lsn)}
    for schema, name in tables:
        known = sa.update(SUBSCRIPTION_REL).where(_key(subid, schema, name)).values(**values)
        if connection.execute(known).rowcount == 0:
            new = sa.insert(SUBSCRIPTION_REL).values(srsubid=subid, srschema=schema, srrelname=name, **values)
            connection.execute(new)


def set_relation_state(
    connection: sa.Connection,
    subid: int,
    schema: str,
    name: str,
    state: RelationState,
    lsn: LSN | None = None,
) -> None:
    """:func:`set_relation_states` of one table."""
    set_relation_states(connection, subid, [(schema, name)], state, lsn)


def advance_relation(
    connection: sa.Connection, subid: int, relation: SubscriptionRelation, state: RelationState, lsn: LSN | None = None
) -> SubscriptionRelation:
    """Take a table from the state that ``relation`` was read in to the next, and forget its error;
    gives it as it is then.

    In a transaction that takes long it comes last: until that ends, nobody else can change the
    subscription.

    Raises:
        ProgressConflict: it is not in that state any more: a command has removed or renewed it
            meanwhile.
    """
    note_change(connection, subid)
    return _advance(connection, subid, relation, state, lsn)


def make_ready(connection: sa.Connection, subid: int, relations: Sequence[SubscriptionRelation]) -> None:
    """Call tables ready that were handed over (state s), as :func:`advance_relation` does.

    Raises:
        ProgressConflict: see there.
    """
    note_change(connection, subid)
    for relation in relations:
        _advance(connection, subid, relation, RelationState.READY, relation.lsn)


def _advance(
    connection: sa.Connection, subid: int, relation: SubscriptionRelation, state: RelationState, lsn: LSN | None
) -> SubscriptionRelation:
    table = SUBSCRIPTION_REL
    unchanged = _key(subid, relation.schema, relation.name) & (table.c.srsubstate == relation.state.value)
    values = {"srsubstate": state.value, "srsublsn": _text(lsn), "srerror": None, "srerrorat": None}
    if connection.execute(sa.update(table).where(unchanged).values(**values)).rowcount != 1:
        raise ProgressConflict(
            f'table "{relation.qualified_name}" is not in state {relation.state.value} any more',
            hint="A command has changed the subscription at the same time; its tables are read again.",
        )
    return replace(relation, state=state, lsn=lsn, error=None, error_at=None)


def delete_relations(connection: sa.Connection, subid: int, tables: Iterable[tuple[str, str]]) -> None:
    """Forget tables, given by schema and name, that are no longer published (D11); forgetting an
    unknown one is no error.
    """
    note_change(connection, subid)
    for schema, name in tables:
        connection.execute(sa.delete(SUBSCRIPTION_REL).where(_key(subid, schema, name)))
        forget_shapes(connection, subid, [(schema, name)])


def record_relation_error(connection: sa.Connection, subid: int, schema: str, name: str, report: str) -> None:
    """Keep with a table why its copy failed, and when."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    update = sa.update(SUBSCRIPTION_REL).where(_key(subid, schema, name))
    connection.execute(update.values(srerror=report, srerrorat=moment))


class CatchUpProgress:
    """How far a table that has been copied (state f) has caught up: its ``srsublsn``, moved with
    the data.

    What :class:`~subscriber.catalog.progress.OriginProgress` is for a subscription, this is for one
    table; PostgreSQL's table synchronization worker has a replication origin of its own for it
    (D2).
    """

    of_subscription: Final = False

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
        """See :meth:`Progress.lock <subscriber.catalog.progress.Progress.lock>`.

        Raises:
            ProgressConflict: the table is not catching up from ``expected`` (any more).
        """
        self.advance(connection, expected, expected)

    def advance(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """See :meth:`Progress.advance <subscriber.catalog.progress.Progress.advance>`.

        Raises:
            ProgressConflict: the table is not catching up from ``from_lsn`` (any more).
        """
        there = self._catching_up & (SUBSCRIPTION_REL.c.srsublsn == format_lsn(from_lsn))
        move = sa.update(SUBSCRIPTION_REL).where(there).values(srsublsn=format_lsn(to_lsn))
        if connection.execute(move).rowcount != 1:
            raise self._conflict()

    def _conflict(self) -> ProgressConflict:
        return ProgressConflict(
            f'the table of replication origin "{self.name}" is not catching up any more',
            hint="A command has changed the subscription at the same time, or another `subscriber run` applies its changes.",
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
