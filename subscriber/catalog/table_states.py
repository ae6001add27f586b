"""Table states (D1-D6): the equivalent of ``pg_subscription_rel``.

::

    i ──▶ d ──▶ f ──▶ s ──▶ r
    │     │     │     └ srsublsn: transactions that finish there or later are applied with the stream
    │     │     └ srsublsn: everything up to there is in the table; a catch-up moves it on, in the transaction of its data
    │     └ being copied, or the copy has failed (srerror says why)
    └ to be copied; with srreplaces (kept in d): the copy replaces the rows that the table has;
      with srsublsn: to be copied again, since the journal lacks changes from there on, and only
      when the table is empty

Sequences have rows, too, in state i or r: r with the LSN that their value is from
(:mod:`subscriber.commands.sequence_rows`).

Each step names the state that it leaves, so that it does not overwrite what a command has changed
meanwhile. Each write gives the subscription a new version
(:mod:`subscriber.catalog.catalog_version`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

import sqlalchemy as sa

from subscriber.base import clock
from subscriber.base.errors import ProgressConflict
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog.catalog_version import change_version
from subscriber.catalog.own_tables import SUBSCRIPTION_REL
from subscriber.catalog.rows import RowMapper, change_rows, delete_rows, matching
from subscriber.catalog.schema_changes import forget_shapes, resolve_differences
from subscriber.catalog.subscriptions import Subscription
from subscriber.targets.statements import upsert

_PIECE: Final = 500
"""How many tables a statement names at most."""


class RelationState(StrEnum):
    """The table states that the catalog stores (D1); w and c exist in a worker's memory only."""

    INIT = "i"
    DATASYNC = "d"
    FINISHEDCOPY = "f"
    SYNCDONE = "s"
    READY = "r"


@dataclass(frozen=True, slots=True)
class SubscriptionRelation:
    """A row of ``subscriber_subscription_rel``; ``schema`` and ``name`` are the publisher's.

    Attributes:
        lsn: belongs to the state, see the module.
        error: why the last attempt to copy the table failed, as :meth:`SubscriberError.report`
            writes it.
        error_at: UTC, ISO 8601.
        replaces: whether the copy replaces the rows of the target's table; only in states i and d.
        is_sequence: whether it is a sequence, which has only the states i and r.
    """

    schema: str
    name: str
    state: RelationState
    lsn: LSN | None
    error: str | None = None
    error_at: str | None = None
    replaces: bool = False
    is_sequence: bool = False

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def applies_from(self) -> LSN | None:
        """From which LSN on the stream is applied to the table (D5); None if it is not yet."""
        if self.state is RelationState.READY:
            return INVALID_LSN
        return self.lsn if self.state is RelationState.SYNCDONE else None


def relations_of(connection: sa.Connection, subid: int) -> list[SubscriptionRelation]:
    """The tables of a subscription, ordered by schema and name."""
    return _relations(connection, subid, are_sequences=False)


def sequences_of(connection: sa.Connection, subid: int) -> list[SubscriptionRelation]:
    """The sequences of a subscription, ordered by schema and name."""
    return _relations(connection, subid, are_sequences=True)


def _relations(connection: sa.Connection, subid: int, *, are_sequences: bool) -> list[SubscriptionRelation]:
    columns = SUBSCRIPTION_REL.c
    return _ROWS.select(connection, columns.srschema, columns.srrelname, srsubid=subid, srsequence=are_sequences)


_ROWS: Final = RowMapper(
    SUBSCRIPTION_REL,
    SubscriptionRelation,
    schema="srschema",
    name="srrelname",
    state="srsubstate",
    lsn="srsublsn",
    error="srerror",
    error_at="srerrorat",
    replaces="srreplaces",
    is_sequence="srsequence",
)


class TableStates(tuple[SubscriptionRelation, ...]):  # noqa: SLOT001 - cached properties need a __dict__
    """A subscription's tables for caching, without what changes often: errors, and f's LSN.

    ``unfinished_sequences`` are the sequences in state i.
    """

    unfinished_sequences: Sequence[SubscriptionRelation] = ()

    @cached_property
    def unfinished(self) -> Sequence[SubscriptionRelation]:
        """The tables that are not ready: usually few or none."""
        return tuple(one for one in self if one.state is not RelationState.READY)

    @property
    def pending(self) -> Sequence[SubscriptionRelation]:
        """The tables and sequences that are not ready."""
        return (*self.unfinished, *self.unfinished_sequences)

    @cached_property
    def begins(self) -> Mapping[tuple[str, str], LSN | None]:
        return {(one.schema, one.name): one.applies_from for one in self}


def read_states(connection: sa.Connection, subid: int) -> TableStates:
    columns = SUBSCRIPTION_REL.c
    query = (
        sa.select(columns.srschema, columns.srrelname, columns.srsubstate, columns.srsublsn, columns.srsequence)
        .where(columns.srsubid == subid)
        .order_by(columns.srschema, columns.srrelname)
    )
    found = [
        SubscriptionRelation(
            schema, name, RelationState(state), lsn if state in "sr" else None, is_sequence=is_sequence
        )
        for schema, name, state, lsn, is_sequence in connection.execute(query)
    ]
    states = TableStates(one for one in found if not one.is_sequence)
    states.unfinished_sequences = [one for one in found if one.is_sequence and one.state is RelationState.INIT]
    return states


class CachedStates:
    """Reads tables only if they have changed (:mod:`subscriber.catalog.catalog_version`), each time
    in the transaction that has read the subscription.
    """

    def __init__(self) -> None:
        # Subscription numbers are used again, so there are never more entries than there were
        # subscriptions at a time.
        self._cached: dict[int, tuple[int, TableStates]] = {}

    def read(self, connection: sa.Connection, subscription: Subscription) -> TableStates:
        version, states = self._cached.get(subscription.subid, (None, TableStates()))
        if version != subscription.version:
            states = read_states(connection, subscription.subid)
            self._cached[subscription.subid] = subscription.version, states
        return states


def set_relation_states(
    connection: sa.Connection,
    subid: int,
    tables: Iterable[tuple[str, str]],
    state: RelationState,
    lsn: LSN | None = None,
    *,
    are_sequences: bool = False,
) -> None:
    """Store a state of tables or sequences, new or known, and the LSN that belongs to it (D1)."""
    change_version(connection, subid)
    values = {"srsubstate": state.value, "srsublsn": lsn, "srreplaces": False, "srsequence": are_sequences}
    for schema, name in tables:
        upsert(connection, SUBSCRIPTION_REL, {"srsubid": subid, "srschema": schema, "srrelname": name}, values)


def replace_relations(connection: sa.Connection, subid: int, tables: Iterable[tuple[str, str]] | None) -> None:
    """Have tables (None: all) copied again; each copy replaces their rows in its transaction."""
    change_version(connection, subid)
    values = {
        "srsubstate": RelationState.INIT.value,
        "srsublsn": None,
        "srreplaces": True,
        "srerror": None,
        "srerrorat": None,
    }
    if tables is None:
        tables_only = matching(SUBSCRIPTION_REL, srsubid=subid, srsequence=False)
        change_rows(connection, tables_only, SUBSCRIPTION_REL, **values)
        return
    for schema, name in tables:
        change_rows(connection, _key(subid, schema, name), SUBSCRIPTION_REL, **values)


def advance_sequences(connection: sa.Connection, subid: int, lsns: Mapping[tuple[str, str], LSN | None]) -> None:
    """Store the LSNs that the values of sequences are from (state r), or None for state i. A
    sequence that a command has removed meanwhile stays removed.
    """
    change_version(connection, subid)
    for (schema, name), lsn in lsns.items():
        state = RelationState.INIT if lsn is None else RelationState.READY
        values = {"srsubstate": state.value, "srsublsn": lsn, "srerror": None, "srerrorat": None}
        row = _key(subid, schema, name) & matching(SUBSCRIPTION_REL, srsequence=True)
        change_rows(connection, row, SUBSCRIPTION_REL, **values)


def advance_relation(
    connection: sa.Connection, subid: int, relation: SubscriptionRelation, state: RelationState, lsn: LSN | None = None
) -> SubscriptionRelation:
    """Move a table from the state in which ``relation`` was read to the next, and delete its error.
    ProgressConflict means that a command has removed it or reset its state.

    In a long transaction this must be the last statement: until the transaction ends, no other
    session can change the subscription.
    """
    change_version(connection, subid)
    # A command may have asked for replaced rows since then, and left the state as it is.
    unchanged = _key(subid, relation.schema, relation.name) & matching(
        SUBSCRIPTION_REL, srsubstate=relation.state.value, srreplaces=relation.replaces
    )
    replaces = relation.replaces and state in (RelationState.INIT, RelationState.DATASYNC)
    values = {
        "srsubstate": state.value,
        "srsublsn": lsn,
        "srerror": None,
        "srerrorat": None,
        "srreplaces": replaces,
    }
    if not change_rows(connection, unchanged, SUBSCRIPTION_REL, **values):
        raise ProgressConflict(
            f'table "{relation.qualified_name}" is not in state {relation.state.value} any more',
            hint="A command has changed the subscription at the same time; its tables are read again.",
        )
    return replace(relation, state=state, lsn=lsn, error=None, error_at=None, replaces=replaces)


def lock_ready(connection: sa.Connection, subid: int, schema: str, name: str) -> None:
    """Keep a table in state ready until the transaction ends; ProgressConflict if it is not."""
    ready = {"srsubstate": RelationState.READY.value}
    if not change_rows(
        connection, _key(subid, schema, name) & matching(SUBSCRIPTION_REL, **ready), SUBSCRIPTION_REL, **ready
    ):
        raise ProgressConflict(
            f'table "{schema}.{name}" is not ready any more', hint="A command has refreshed or removed it meanwhile."
        )


def make_ready(connection: sa.Connection, subid: int, up_to: LSN) -> None:
    """Set the tables to ready that were handed over (state s) at or before ``up_to``."""
    table = SUBSCRIPTION_REL.c
    handed_over = (table.srsubid == subid) & (table.srsubstate == RelationState.SYNCDONE.value)
    lsns = connection.execute(sa.select(table.srsublsn).where(handed_over).distinct()).scalars()
    passed = [lsn for lsn in lsns if lsn is not None and lsn <= up_to]
    if passed:
        change_version(connection, subid)
        ready = {"srsubstate": RelationState.READY.value, "srerror": None, "srerrorat": None}
        change_rows(connection, handed_over & table.srsublsn.in_(passed), SUBSCRIPTION_REL, **ready)


def delete_relations(connection: sa.Connection, subid: int, tables: Iterable[tuple[str, str]]) -> None:
    """Delete tables that are no longer published (D11); it is no error if one is unknown."""
    change_version(connection, subid)
    for schema, name in tables:
        delete_rows(connection, SUBSCRIPTION_REL, srsubid=subid, srschema=schema, srrelname=name)
        forget_shapes(connection, subid, [(schema, name)])
        resolve_differences(connection, subid, (schema, name))


def record_relation_error(connection: sa.Connection, subid: int, schema: str, name: str, report: str) -> None:
    moment = clock.now()
    change_rows(connection, _key(subid, schema, name), SUBSCRIPTION_REL, srerror=report, srerrorat=moment)


class CatchUpProgress:
    """The progress of copied tables (state f) that catch up together: their common ``srsublsn``,
    which is moved with the data. PostgreSQL's table synchronization worker has a replication origin
    for each table instead (D2). Only one thread uses it.

    It raises ProgressConflict if a table is no longer catching up, or from another LSN.
    """

    of_subscription: Final = False

    def __init__(self, subid: int, tables: Sequence[SubscriptionRelation]) -> None:
        self.name = f"pg_{subid}_{tables[0].qualified_name}" if len(tables) == 1 else f"pg_{subid}_sync"
        self._subid = subid
        self._names: dict[str, list[str]] = {}
        for table in tables:
            self._names.setdefault(table.schema, []).append(table.name)

    def leave(self, relation: SubscriptionRelation) -> None:
        """Leave a table behind, at its position: the others go on without it."""
        self._names[relation.schema].remove(relation.name)

    def read(self, connection: sa.Connection) -> LSN:
        found: set[LSN | None] = set()
        for piece, count in self._pieces():
            lsns = connection.execute(sa.select(SUBSCRIPTION_REL.c.srsublsn).where(piece)).scalars().all()
            if len(lsns) != count:
                raise self._conflict()
            found.update(lsns)
        lsn = found.pop() if len(found) == 1 else None
        if lsn is None:
            raise self._conflict()
        return lsn

    def lock(self, connection: sa.Connection, expected: LSN) -> None:
        self.advance(connection, expected, expected)

    def begin(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> bool:
        if self.read(connection) != from_lsn:
            return False
        self.advance(connection, from_lsn, to_lsn)
        return True

    def restart(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        self.advance(connection, from_lsn, to_lsn)

    def advance(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        self._set(connection, from_lsn, srsublsn=to_lsn)

    def finish(self, connection: sa.Connection, at_lsn: LSN) -> None:
        """Hand the tables over to the apply worker: they go to state s, at their position."""
        change_version(connection, self._subid)
        self._set(connection, at_lsn, srsubstate=RelationState.SYNCDONE.value, srerror=None, srerrorat=None)

    def _set(self, connection: sa.Connection, at_lsn: LSN, **values: Any) -> None:
        there = SUBSCRIPTION_REL.c.srsublsn == at_lsn
        for piece, count in self._pieces():
            if change_rows(connection, piece & there, SUBSCRIPTION_REL, **values) != count:
                raise self._conflict()

    def _pieces(self) -> Iterator[tuple[sa.ColumnElement[bool], int]]:
        """The rows of the tables, in pieces, and how many each has. They are found by their keys:
        MariaDB locks every row that a statement has looked at, and commands may change the others.
        """
        table = SUBSCRIPTION_REL.c
        catching_up = (table.srsubid == self._subid) & (table.srsubstate == RelationState.FINISHEDCOPY.value)
        for schema, names in self._names.items():
            for first in range(0, len(names), _PIECE):
                piece = names[first : first + _PIECE]
                yield catching_up & (table.srschema == schema) & table.srrelname.in_(piece), len(piece)

    def _conflict(self) -> ProgressConflict:
        return ProgressConflict(
            f'a table of replication origin "{self.name}" is not catching up any more',
            hint="A command has changed the subscription at the same time, or another `subscriber run` applies its changes.",
        )


def _key(subid: int, schema: str, name: str) -> sa.ColumnElement[bool]:
    return matching(SUBSCRIPTION_REL, srsubid=subid, srschema=schema, srrelname=name)
