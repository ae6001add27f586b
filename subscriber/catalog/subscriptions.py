"""The subscriptions of a target: the equivalent of ``pg_subscription``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import sqlalchemy as sa

from subscriber.catalog.apply_holds import forget_holds
from subscriber.catalog.catalog_version import new_version, note_change
from subscriber.catalog.conflicts import forget_conflicts
from subscriber.catalog.logical_messages import drop_messages
from subscriber.catalog.own_tables import (
    CUTOVER,
    PREPARED_TRANSACTION,
    SCHEMA_DIFFERENCE,
    SUBSCRIPTION,
    SUBSCRIPTION_REL,
    SUBSCRIPTION_STATS,
)
from subscriber.catalog.progress import OriginProgress
from subscriber.catalog.relation_shapes import forget_all_shapes
from subscriber.catalog.replaced_values import forget_replaced_values
from subscriber.catalog.schema_changes import forget_schema_changes
from subscriber.catalog.subscription_options import Streaming, SubscriptionOptions
from subscriber.catalog.worker_status import forget_worker_status
from subscriber.errors import ProgressConflict, UsageError
from subscriber.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn
from subscriber.schema.relation_names import RelationNames, parse_names
from subscriber.schema.value_rules import STOP, ValueRules, parse_value_rules

TwoPhaseState = Literal["d", "p", "e"]
"""The values of ``subtwophasestate`` (C48): disabled; pending, until every table is ready; enabled.
"""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A row of ``subscriber_subscription``."""

    subid: int
    name: str
    conninfo: str = field(repr=False)  # may contain a password
    publications: tuple[str, ...]
    options: SubscriptionOptions
    """The options as stored; ``enabled`` and ``slot_name`` have their current values."""
    enabled: bool
    slot_name: str | None
    skip_lsn: LSN
    """The finish LSN of the transaction to skip; 0/0 means none."""
    system_identifier: str | None
    """The publisher's system identifier, in decimal; None until the first connection with this
    slot.
    """
    two_phase_state: TwoPhaseState = "d"
    """Prepared transactions are sent at their PREPARE in state ``e`` only; ``options.two_phase`` is
    the value that the user set.
    """
    slot_adopted: bool = True
    """Whether it is known where the changes of the slot begin
    (:mod:`subscriber.positions.slot_position`).
    """
    version: int = field(default=0, compare=False)
    """Changes whenever the row or its table states are written
    (:mod:`subscriber.catalog.catalog_version`).
    """

    @property
    def origin(self) -> str:
        """The replication origin that tracks this subscription's progress (C34)."""
        return self.progress.name

    @property
    def progress(self) -> OriginProgress:
        """The progress of the subscription."""
        return OriginProgress(self.subid)

    @property
    def streamed_publications(self) -> tuple[str, ...]:
        """The publications of the server that are streamed: those that the subscription names, or
        its carrier.
        """
        return self.publications if self.options.carrier is None else (self.options.carrier,)


def insert_subscription(
    connection: sa.Connection,
    name: str,
    conninfo: str,
    publications: Sequence[str],
    options: SubscriptionOptions,
    system_identifier: str | None = None,
    two_phase_state: TwoPhaseState | None = None,
    *,
    slot_adopted: bool = True,
) -> Subscription:
    """Store a new subscription and its row of statistics, and give it its number.

    Args:
        connection: to the target.
        name: the subscription's name.
        conninfo: the connection string of the publisher.
        publications: the names of the publications, in the order given.
        options: the options of the command.
        system_identifier: the publisher's system identifier; None when the publisher was not asked.
        two_phase_state: the first state; None means PostgreSQL's: p with ``two_phase``, else d
            (C48).
        slot_adopted: whether it is known where the changes of the slot begin.

    Raises:
        UsageError: 42710, ``subscription "…" already exists``.
    """
    if find_subscription(connection, name) is not None:
        raise UsageError(f'subscription "{name}" already exists', sqlstate="42710")
    # A number is not used again while a prepared transaction of a dropped subscription contains it.
    used = (SUBSCRIPTION.c.subid, PREPARED_TRANSACTION.c.subid)
    subid = 1 + max(connection.execute(sa.select(sa.func.max(column))).scalar_one() or 0 for column in used)
    values = {
        "subid": subid,
        "subname": name,
        "subskiplsn": format_lsn(INVALID_LSN),
        "subconninfo": conninfo,
        "subpublications": _stored_names(publications),
        "systemidentifier": system_identifier,
        "subslotadopted": slot_adopted,
        "subversion": new_version(),
    }
    if two_phase_state is not None:
        values["subtwophasestate"] = two_phase_state
    connection.execute(sa.insert(SUBSCRIPTION).values(_option_columns(options) | values))
    connection.execute(sa.insert(SUBSCRIPTION_STATS).values(subid=subid, subname=name))
    return get_subscription(connection, name)


def find_subscription(connection: sa.Connection, name: str) -> Subscription | None:
    """The subscription with this name, or None."""
    row = connection.execute(sa.select(*_READ).where(SUBSCRIPTION.c.subname == name)).one_or_none()
    # In MariaDB, a catalog that an earlier version has created treats "s " and "s" as equal.
    return _subscription(row) if row is not None and row.subname == name else None


def get_subscription(connection: sa.Connection, name: str) -> Subscription:
    """The subscription with this name.

    Raises:
        UsageError: 42704, ``subscription "…" does not exist``.
    """
    subscription = find_subscription(connection, name)
    if subscription is None:
        raise UsageError(f'subscription "{name}" does not exist', sqlstate="42704")
    return subscription


def list_subscriptions(connection: sa.Connection) -> list[Subscription]:
    """All subscriptions of the target, ordered by name."""
    rows = connection.execute(sa.select(*_READ).order_by(SUBSCRIPTION.c.subname))
    return [_subscription(row) for row in rows]


def set_enabled(connection: sa.Connection, name: str, *, enabled: bool) -> None:
    """Enable or disable a subscription.

    Raises:
        UsageError: 42704, ``subscription "…" does not exist``.
    """
    _update(connection, get_subscription(connection, name).subid, subenabled=enabled)


def set_options(connection: sa.Connection, subid: int, changes: Mapping[str, Any]) -> None:
    """Change options.

    Args:
        connection: to the target.
        subid: the subscription's number.
        changes: options by name, with values as in :class:`SubscriptionOptions`. ``two_phase``
            resets its state to p or d.
    """
    columns = {column: to_stored(changes[name]) for name, (column, to_stored) in _OPTIONS.items() if name in changes}
    if columns:
        _update(connection, subid, **columns)


def rename_subscription(connection: sa.Connection, subid: int, name: str) -> None:
    """Give a subscription another name, in its statistics too.

    Raises:
        UsageError: 42710, ``subscription "…" already exists``.
    """
    if find_subscription(connection, name) is not None:
        raise UsageError(f'subscription "{name}" already exists', sqlstate="42710")
    _update(connection, subid, subname=name)
    connection.execute(sa.update(SUBSCRIPTION_STATS).where(SUBSCRIPTION_STATS.c.subid == subid).values(subname=name))


def set_publications(connection: sa.Connection, subid: int, publications: Sequence[str]) -> None:
    """Replace the list of publications."""
    _update(connection, subid, subpublications=_stored_names(publications))


def set_connection(connection: sa.Connection, subid: int, conninfo: str) -> None:
    """Replace the connection string."""
    _update(connection, subid, subconninfo=conninfo)


def set_skip_lsn(connection: sa.Connection, subid: int, lsn: LSN) -> None:
    """Set the finish LSN of the transaction to skip; 0/0 means none (C40)."""
    _update(connection, subid, subskiplsn=format_lsn(lsn))


def check_replicated(connection: sa.Connection, subscription: Subscription) -> None:
    """Lock the subscription's row, so that what it replicates, and into which tables, does not
    change until the transaction ends.

    If a table were copied while a receiver still streams with an older list of publications, the
    table would miss the changes that this receiver leaves out.

    Raises:
        ProgressConflict: its slot, publications, origin or map differ from those of
            ``subscription``, or its slot was recreated.
    """
    table = SUBSCRIPTION.c
    stored = _stored_map(subscription.options.map)
    unchanged = sa.update(SUBSCRIPTION).where(
        table.subid == subscription.subid,
        table.submap.is_not_distinct_from(stored),
        table.subpublications == _stored_names(subscription.publications),
        table.suborigin == subscription.options.origin,
        table.subslotname == subscription.slot_name,
        table.subslotadopted == subscription.slot_adopted,
    )
    if connection.execute(unchanged.values(submap=stored)).rowcount != 1:
        raise ProgressConflict(
            f'the definition of subscription "{subscription.name}" has changed',
            hint="Its tables are read again.",
        )


def set_two_phase_state(connection: sa.Connection, subid: int, state: TwoPhaseState) -> None:
    """Set the state of two_phase (C48)."""
    _update(connection, subid, subtwophasestate=state)


def adopt_slot(connection: sa.Connection, subid: int, system_identifier: str) -> None:
    """Store the publisher's system identifier, and that it is known where the changes of the slot
    begin.
    """
    _update(connection, subid, systemidentifier=system_identifier, subslotadopted=True)


def take_up_slot(connection: sa.Connection, subid: int) -> None:
    """Record that the subscription has another slot. Where its changes begin is determined at the
    next connection.
    """
    _update(connection, subid, subslotadopted=False)


def publisher_tables(connection: sa.Connection, subid: int) -> str | None:
    """The publisher's tables as :func:`set_publisher_tables` has stored them; None if they were not
    stored.
    """
    query = sa.select(SUBSCRIPTION.c.subpublishertables).where(SUBSCRIPTION.c.subid == subid)
    kept: str | None = connection.execute(query).scalar_one_or_none()
    return kept


def set_publisher_tables(connection: sa.Connection, subid: int, tables: str) -> None:
    """Store the properties of the publisher's tables, for emulated publications."""
    _update(connection, subid, subpublishertables=tables)


def _update(connection: sa.Connection, subid: int, **columns: object) -> None:
    columns["subversion"] = new_version()
    connection.execute(sa.update(SUBSCRIPTION).where(SUBSCRIPTION.c.subid == subid).values(**columns))


def delete_subscription(connection: sa.Connection, name: str) -> None:
    """Delete a subscription with its table states, progress, statistics and hold.

    Subscription numbers are used again, so no row with this number may remain.

    Raises:
        UsageError: 42704, ``subscription "…" does not exist``.
    """
    subscription = get_subscription(connection, name)
    note_change(connection, subscription.subid)  # locks its row before those of its tables
    connection.execute(sa.delete(SUBSCRIPTION_REL).where(SUBSCRIPTION_REL.c.srsubid == subscription.subid))
    connection.execute(sa.delete(SUBSCRIPTION_STATS).where(SUBSCRIPTION_STATS.c.subid == subscription.subid))
    subscription.progress.drop(connection)
    drop_messages(connection, subscription.subid)
    forget_conflicts(connection, subscription.subid)
    connection.execute(sa.delete(CUTOVER).where(CUTOVER.c.subid == subscription.subid))
    forget_holds(connection, subscription.subid)
    forget_replaced_values(connection, subscription.subid)
    connection.execute(sa.delete(SCHEMA_DIFFERENCE).where(SCHEMA_DIFFERENCE.c.subid == subscription.subid))
    forget_all_shapes(connection, subscription.subid)
    forget_schema_changes(connection, subscription.subid)
    forget_worker_status(connection, subscription.subid)
    connection.execute(sa.delete(SUBSCRIPTION).where(SUBSCRIPTION.c.subid == subscription.subid))


# Rows -------------------------------------------------------------------------------------------

_READ: Final = tuple(column for column in SUBSCRIPTION.columns if column.name != "subpublishertables")
"""The columns that every batch reads. The publisher's tables are left out, because that text grows
with the number of tables.
"""

_STREAM_CODES: Final[dict[Streaming, str]] = {"off": "f", "on": "t", "parallel": "p"}
_STREAMING: Final[dict[str, Streaming]] = {code: value for value, code in _STREAM_CODES.items()}


def _as_it_is(value: object) -> object:
    return value


def _stored_map(names: RelationNames) -> str | None:
    return str(names) or None


def _stored_rules(rules: ValueRules) -> str | None:
    return None if rules == STOP else str(rules)


_OPTIONS: Final[Mapping[str, tuple[str, Callable[[Any], object]]]] = {
    "enabled": ("subenabled", _as_it_is),
    "binary": ("subbinary", _as_it_is),
    "streaming": ("substream", lambda streaming: _STREAM_CODES[streaming]),
    "two_phase": ("subtwophasestate", lambda two_phase: "p" if two_phase else "d"),
    "disable_on_error": ("subdisableonerr", _as_it_is),
    "password_required": ("subpasswordrequired", _as_it_is),
    "run_as_owner": ("subrunasowner", _as_it_is),
    "failover": ("subfailover", _as_it_is),
    "slot_name": ("subslotname", _as_it_is),
    "synchronous_commit": ("subsynccommit", _as_it_is),
    "origin": ("suborigin", _as_it_is),
    "create_tables": ("subcreatetables", _as_it_is),
    "carrier": ("subcarrier", _as_it_is),
    "map": ("submap", _stored_map),
    "schema_changes": ("subschemachanges", _as_it_is),
    "log_conflict_values": ("sublogconflictvalues", _as_it_is),
    "unrepresentable_values": ("subunrepresentable", _stored_rules),
}
"""Each option that is stored: its column, and the conversion to the stored value."""


def _option_columns(options: SubscriptionOptions) -> dict[str, object]:
    return {column: to_stored(getattr(options, name)) for name, (column, to_stored) in _OPTIONS.items()}


def _stored_names(publications: Sequence[str]) -> str:
    return json.dumps(list(publications), ensure_ascii=False)


def _subscription(row: sa.Row[tuple[object, ...]]) -> Subscription:
    options = SubscriptionOptions(
        enabled=row.subenabled,
        slot_name=row.subslotname,
        copy_data=False,
        create_slot=False,
        binary=row.subbinary,
        streaming=_STREAMING[row.substream],
        two_phase=row.subtwophasestate != "d",
        disable_on_error=row.subdisableonerr,
        password_required=row.subpasswordrequired,
        run_as_owner=row.subrunasowner,
        failover=row.subfailover,
        origin=row.suborigin,
        synchronous_commit=row.subsynccommit,
        create_tables=row.subcreatetables,
        carrier=row.subcarrier,
        map=parse_names(row.submap or ""),
        schema_changes=row.subschemachanges,
        log_conflict_values=row.sublogconflictvalues,
        unrepresentable_values=STOP if row.subunrepresentable is None else parse_value_rules(row.subunrepresentable),
    )
    return Subscription(
        subid=row.subid,
        name=row.subname,
        conninfo=row.subconninfo,
        publications=tuple(json.loads(row.subpublications)),
        options=options,
        enabled=row.subenabled,
        slot_name=row.subslotname,
        skip_lsn=parse_lsn(row.subskiplsn),
        system_identifier=row.systemidentifier,
        two_phase_state=row.subtwophasestate,
        slot_adopted=row.subslotadopted,
        version=row.subversion,
    )
