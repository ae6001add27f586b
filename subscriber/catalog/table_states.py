"""Table states (D1-D6): the equivalent of ``pg_subscription_rel``.

::

    i ──▶ d ──▶ f ──▶ s ──▶ r
    │     │     │     └ srsublsn: transactions that finish there or later are applied with the stream
    │     │     └ srsublsn: everything up to there is in the table; a catch-up moves it on, in the transaction of its data
    │     └ being copied, or the copy has failed (srerror says why)
    └ to be copied; with srreplaces (kept in d): the copy replaces the rows that the table has;
      with srsublsn: to be copied again, since the journal lacks changes from there on, and only
      when the table is empty

Each step names the state that it leaves, so that it does not overwrite a change that a command has
made meanwhile. Each write gives the subscription a new version
(:mod:`subscriber.catalog.catalog_version`). By the version, readers find out whether the states
that they have cached are still valid.
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
from subscriber.catalog.schema_changes import resolve_differences
from subscriber.catalog.subscriptions import Subscription
from subscriber.errors import ProgressConflict
from subscriber.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn


class RelationState(StrEnum):
    """The table states that the catalog stores (D1); w and c exist in a worker's memory only."""

    INIT = "i"
    DATASYNC = "d"
    FINISHEDCOPY = "f"
    SYNCDONE = "s"
    READY = "r"


@dataclass(frozen=True, slots=True)
class SubscriptionRelation:
    """A row of ``subscriber_subscription_rel``.

    Attributes:
        schema: the table's schema at the publisher.
        name: the table's name at the publisher.
        state: the table state, see the module.
        lsn: the LSN that belongs to the state.
        error: why the last attempt to copy the table failed, as :meth:`SubscriberError.report`
            writes it.
        error_at: when that attempt failed (UTC, ISO 8601).
        replaces: whether the copy replaces the rows of the target's table; only in states i and d.
    """

    schema: str
    name: str
    state: RelationState
    lsn: LSN | None
    error: str | None = None
    error_at: str | None = None
    replaces: bool = False

    @property
    def qualified_name(self) -> str:
        """``schema.table``, for messages."""
        return f"{self.schema}.{self.name}"

    @property
    def applies_from(self) -> LSN | None:
        """The LSN from which on the stream's transactions are applied to the table (D5); None if
        they are not applied yet.
        """
        if self.state is RelationState.READY:
            return INVALID_LSN
        return self.lsn if self.state is RelationState.SYNCDONE else None


def relations_of(connection: sa.Connection, subid: int) -> list[SubscriptionRelation]:
    """The tables of a subscription with their states, ordered by schema and name."""
    table = SUBSCRIPTION_REL
    query = sa.select(table).where(table.c.srsubid == subid).order_by(table.c.srschema, table.c.srrelname)
    return [_relation(row) for row in connection.execute(query)]


class TableStates(tuple[SubscriptionRelation, ...]):  # noqa: SLOT001 - cached properties need a __dict__
    """The tables of a subscription, for caching, together with values that are computed from them
    once.

    They are those of :func:`relations_of`, without the values that change more often than states
    do: errors, and how far a catch-up is (the LSN of state f).
    """

    @cached_property
    def unfinished(self) -> Sequence[SubscriptionRelation]:
        """The tables that are not ready: usually few or none of them."""
        return tuple(one for one in self if one.state is not RelationState.READY)

    @cached_property
    def begins(self) -> Mapping[tuple[str, str], LSN | None]:
        """:attr:`SubscriptionRelation.applies_from` of each table, by schema and name."""
        return {(one.schema, one.name): one.applies_from for one in self}


def read_states(connection: sa.Connection, subid: int) -> TableStates:
    """The tables of a subscription, read from the catalog now."""
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
    """Caches the tables of subscriptions, and reads them only if they have changed
    (:mod:`subscriber.catalog.catalog_version`).

    Only one thread may use an object of this class, each time in a transaction that began after the
    previous one.
    """

    def __init__(self) -> None:
        # Subscription numbers are used again, so there are never more entries than there were
        # subscriptions at a time.
        self._kept: dict[int, tuple[int, TableStates]] = {}

    def read(self, connection: sa.Connection, subscription: Subscription) -> TableStates:
        """The tables of a subscription.

        Args:
            connection: to the target.
            subscription: the subscription, as it was read in the transaction of ``connection``.
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
    """Store a state of tables, given by schema and name, and the LSN that belongs to it (D1). A
    table may already have a row, or get a new one.
    """
    note_change(connection, subid)
    values = {"srsubstate": state.value, "srsublsn": _text(lsn), "srreplaces": False}
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
    """Call :func:`set_relation_states` for one table."""
    set_relation_states(connection, subid, [(schema, name)], state, lsn)


def replace_relations(connection: sa.Connection, subid: int, tables: Iterable[tuple[str, str]] | None) -> None:
    """Have tables of the subscription, given by schema and name, copied again, whatever their
    states are; None means all tables. Each copy replaces the rows of the target's table, in its
    transaction.
    """
    note_change(connection, subid)
    values = {
        "srsubstate": RelationState.INIT.value,
        "srsublsn": None,
        "srreplaces": True,
        "srerror": None,
        "srerrorat": None,
    }
    if tables is None:
        connection.execute(sa.update(SUBSCRIPTION_REL).where(SUBSCRIPTION_REL.c.srsubid == subid).values(**values))
        return
    for schema, name in tables:
        connection.execute(sa.update(SUBSCRIPTION_REL).where(_key(subid, schema, name)).values(**values))


def advance_relation(
    connection: sa.Connection, subid: int, relation: SubscriptionRelation, state: RelationState, lsn: LSN | None = None
) -> SubscriptionRelation:
    """Move a table from the state in which ``relation`` was read to the next state, and delete its
    error.

    In a long transaction this must be the last statement: until the transaction ends, no other
    session can change the subscription.

    Returns:
        The table with its new state.

    Raises:
        ProgressConflict: the table is no longer in that state, because a command has removed it or
            reset its state meanwhile.
    """
    note_change(connection, subid)
    return _advance(connection, subid, relation, state, lsn)


def lock_ready(connection: sa.Connection, subid: int, schema: str, name: str) -> None:
    """Keep a table in state ready until the transaction ends.

    Raises:
        ProgressConflict: the table is not ready.
    """
    ready = {"srsubstate": RelationState.READY.value}
    is_ready = _key(subid, schema, name) & (SUBSCRIPTION_REL.c.srsubstate == RelationState.READY.value)
    if connection.execute(sa.update(SUBSCRIPTION_REL).where(is_ready).values(**ready)).rowcount != 1:
        raise ProgressConflict(
            f'table "{schema}.{name}" is not ready any more', hint="A command has refreshed or removed it meanwhile."
        )


def make_ready(connection: sa.Connection, subid: int, relations: Sequence[SubscriptionRelation]) -> None:
    """Set the state of tables that were handed over (state s) to ready, as :func:`advance_relation`
    does.

    Raises:
        ProgressConflict: as :func:`advance_relation`.
    """
    note_change(connection, subid)
    for relation in relations:
        _advance(connection, subid, relation, RelationState.READY, relation.lsn)


def _advance(
    connection: sa.Connection, subid: int, relation: SubscriptionRelation, state: RelationState, lsn: LSN | None
) -> SubscriptionRelation:
    table = SUBSCRIPTION_REL
    unchanged = (
        _key(subid, relation.schema, relation.name)
        & (table.c.srsubstate == relation.state.value)
        # A command may have asked for replaced rows since the state was read; the state may be the
        # same.
        & (table.c.srreplaces == relation.replaces)
    )
    replaces = relation.replaces and state in (RelationState.INIT, RelationState.DATASYNC)
    values = {
        "srsubstate": state.value,
        "srsublsn": _text(lsn),
        "srerror": None,
        "srerrorat": None,
        "srreplaces": replaces,
    }
    if connection.execute(sa.update(table).where(unchanged).values(**values)).rowcount != 1:
        raise ProgressConflict(
            f'table "{relation.qualified_name}" is not in state {relation.state.value} any more',
            hint="A command has changed the subscription at the same time; its tables are read again.",
        )
    return replace(relation, state=state, lsn=lsn, error=None, error_at=None, replaces=replaces)


def delete_relations(connection: sa.Connection, subid: int, tables: Iterable[tuple[str, str]]) -> None:
    """Delete tables, given by schema and name, that are no longer published (D11); it is no error
    if one is unknown.
    """
    note_change(connection, subid)
    for schema, name in tables:
        connection.execute(sa.delete(SUBSCRIPTION_REL).where(_key(subid, schema, name)))
        forget_shapes(connection, subid, [(schema, name)])
        resolve_differences(connection, subid, (schema, name))


def record_relation_error(connection: sa.Connection, subid: int, schema: str, name: str, report: str) -> None:
    """Store why the copy of a table failed, and when."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    update = sa.update(SUBSCRIPTION_REL).where(_key(subid, schema, name))
    connection.execute(update.values(srerror=report, srerrorat=moment))


class CatchUpProgress:
    """The progress of a copied table (state f) during catch-up: its ``srsublsn``, moved with the
    data.

    It has the same purpose for a table as :class:`~subscriber.catalog.progress.OriginProgress` has
    for a subscription. PostgreSQL's table synchronization worker uses a separate replication origin
    for it (D2).
    """

    of_subscription: Final = False

    def __init__(self, subid: int, relation: SubscriptionRelation) -> None:
        self.name = f"pg_{subid}_{relation.qualified_name}"
        self._catching_up = _key(subid, relation.schema, relation.name) & (
            SUBSCRIPTION_REL.c.srsubstate == RelationState.FINISHEDCOPY.value
        )

    def read(self, connection: sa.Connection) -> LSN:
        """The applied LSN: everything that finished at or before it is in the table.

        Raises:
            ProgressConflict: the table is not catching up, or no longer is.
        """
        text = connection.execute(sa.select(SUBSCRIPTION_REL.c.srsublsn).where(self._catching_up)).scalar_one_or_none()
        if text is None:
            raise self._conflict()
        return parse_lsn(text)

    def lock(self, connection: sa.Connection, expected: LSN) -> None:
        """See :meth:`Progress.lock <subscriber.catalog.progress.Progress.lock>`.

        Raises:
            ProgressConflict: the table is not catching up from ``expected``, or no longer is.
        """
        self.advance(connection, expected, expected)

    def advance(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """See :meth:`Progress.advance <subscriber.catalog.progress.Progress.advance>`.

        Raises:
            ProgressConflict: the table is not catching up from ``from_lsn``, or no longer is.
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
        bool(row.srreplaces),
    )


def _text(lsn: LSN | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)
