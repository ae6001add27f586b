"""What ``subscriber status`` tells: the catalog, the journal and the publisher, each as far as it can be reached."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.errors import PublisherError, SubscriberError
from subscriber.journal.reader import journal_positions, oldest_commit
from subscriber.journal.storage import journal_url, open_storage
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.publisher.publisher import Publisher, Slot, connect_publisher
from subscriber.runtime.copy_progress import CopyStatus, read_copies
from subscriber.runtime.heartbeat import is_alive
from subscriber.settings import Settings, redact_conninfo
from subscriber.targets import Target

_RECEIVED_SECONDS: Final = 1.5
"""An idle position is made durable twice a second on average."""
_RECEIVED_PAUSE: Final = 0.1


@dataclass(frozen=True, slots=True)
class CopyFigures:
    """How far a table's copy is; see :class:`subscriber.runtime.copy_progress.CopyStatus`."""

    rows: int
    bytes: int
    estimated_rows: int
    estimated_bytes: int
    rows_per_second: float
    started_at: str


@dataclass(frozen=True, slots=True)
class RelationStatus:
    """One table of a subscription.

    Attributes:
        schema: at the publisher.
        name: its name.
        state: its letter (rule D1).
        lsn: the position that belongs to the state.
        error: why it could not be copied, or could not catch up.
        error_at: when.
        copy: how far its copy is, while it is being copied and the journal can be seen from here.
    """

    schema: str
    name: str
    state: str
    lsn: str | None
    error: str | None
    error_at: str | None
    copy: CopyFigures | None


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """The replication slot, as ``pg_replication_slots`` shows it.

    Attributes:
        active: whether a receiver streams from it now.
        confirmed_lsn: what it has confirmed.
        wal_status: reserved, extended, unreserved or lost; None before PostgreSQL 13.
        retained_bytes: WAL that the publisher keeps for it; None where it keeps none, or cannot be asked how far it is.
        safe_wal_bytes: what may still be written before the slot is in danger of being lost; None without such a limit, and before
            PostgreSQL 13.
        lost: why it cannot be used any more (``invalidation_reason``, before PostgreSQL 17 wal_removed); None where it can.
    """

    active: bool
    confirmed_lsn: str
    wal_status: str | None
    retained_bytes: int | None
    safe_wal_bytes: int | None
    lost: str | None


@dataclass(frozen=True, slots=True)
class RunnerStatus:
    """The last `subscriber run` of the target; times are UTC, ISO 8601.

    Attributes:
        alive: whether it works now.
        host: the machine that it was started on.
        process_id: its process there.
        started_at: when.
        heartbeat_at: when it was last heard of.
        busy_since: since when a batch or a copy was in progress then; None where none was.
        ended_at: when it ended in order; None while it works, and where it was killed.
    """

    alive: bool
    host: str
    process_id: int
    started_at: str
    heartbeat_at: str
    busy_since: str | None
    ended_at: str | None


@dataclass(frozen=True, slots=True)
class SubscriptionStatus:
    """One subscription at a glance; LSNs are text, None is "not known from here".

    Attributes:
        name: the subscription.
        enabled: whether `subscriber run` works for it.
        connection: where it replicates from, without secrets.
        publications: what it subscribes to.
        slot_name: the replication slot.
        slot_active: whether a receiver streams from it now.
        publisher_lsn: end of the publisher's WAL.
        confirmed_lsn: what the slot has confirmed.
        received_lsn: what the journal holds.
        applied_lsn: what the target has.
        lag_bytes: publisher's end of WAL less what was received, plus what is received and not applied; None also where more was
            received than the publisher has, which was restored to an older state then, and until a run has begun with a slot that was there before.
        lag_seconds: how old the oldest commit is that is received and not applied, by the publisher's clock; 0 where the target has
            everything that the publisher has; None where that is not known: the journal is not here, the publisher cannot be asked, or
            it has WAL that was not received.
        tables: state letter → number of tables (rule D1).
        relations: each table, by schema and name.
        conflicts: kind → number.
        apply_errors: how many errors the apply worker has met.
        sync_errors: how many errors the copies of tables have met.
        last_error: the report of the last one.
        last_error_at: when.
        last_error_resolved_at: since when it is over; None while it is not.
        schema_changes: what was altered in the target, oldest first.
        history_diverged: whether more was received than the publisher has: it was restored to an older state.
        slot: the replication slot; None where the publisher cannot be asked, or has none of that name.
        slot_missing: whether the publisher was asked, and has no slot of that name.
        runner: the last `subscriber run` of the target; None where there has been none.
        as_of: when all this was so, where it is not now: a run that holds the target has left it (ISO 8601).
    """

    name: str
    enabled: bool
    connection: str
    publications: tuple[str, ...]
    slot_name: str | None
    slot_active: bool | None
    publisher_lsn: str | None
    confirmed_lsn: str | None
    received_lsn: str | None
    applied_lsn: str
    lag_bytes: int | None
    lag_seconds: float | None
    tables: dict[str, int]
    relations: tuple[RelationStatus, ...]
    conflicts: dict[str, int]
    apply_errors: int
    last_error: str | None
    last_error_at: str | None
    schema_changes: tuple[catalog.SchemaChange, ...] = ()
    history_diverged: bool = False
    sync_errors: int = 0
    last_error_resolved_at: str | None = None
    slot: SlotStatus | None = None
    slot_missing: bool = False
    runner: RunnerStatus | None = None
    as_of: str | None = None


def subscription_statuses(target: Target, settings: Settings) -> list[SubscriptionStatus]:
    """The status of every subscription of a target, by name.

    Raises:
        TargetUnavailable: the target cannot be asked. A publisher or journal that cannot be is just not known.
    """
    with target.reporting():
        catalog.ensure_catalog(target.engine)
    with target.reporting(), target.engine.connect() as connection:
        identifier = catalog.target_identifier(connection)
        runner = _runner(target, connection)
        return [
            _status(
                subscription,
                settings,
                identifier,
                applied=subscription.progress.read(connection),
                tables=catalog.relations_of(connection, subscription.subid),
                statistics=catalog.statistics_of(connection, subscription.subid),
                runner=runner,
                schema_changes=tuple(catalog.schema_changes_of(connection, subscription.subid)),
            )
            for subscription in catalog.list_subscriptions(connection)
        ]


def runner_status(target: Target) -> RunnerStatus | None:
    """The last `subscriber run` of a target that has a catalog; None where there has been none.

    Raises:
        TargetUnavailable: the target cannot be asked.
    """
    with target.reporting(), target.engine.connect() as connection:
        return _runner(target, connection)


def _runner(target: Target, connection: Any) -> RunnerStatus | None:
    runner = catalog.read_runner(connection)
    if runner is None:
        return None
    held = None if target.run_lock is None else target.run_lock.is_held(connection)
    return RunnerStatus(
        alive=is_alive(runner, held),
        host=runner.host,
        process_id=runner.process_id,
        started_at=runner.started_at,
        heartbeat_at=runner.heartbeat_at,
        busy_since=runner.busy_since,
        ended_at=runner.ended_at,
    )


def _status(
    subscription: Subscription,
    settings: Settings,
    target_identifier: str,
    *,
    applied: LSN,
    tables: list[catalog.SubscriptionRelation],
    statistics: dict[str, Any],
    runner: RunnerStatus | None,
    schema_changes: tuple[catalog.SchemaChange, ...],
) -> SubscriptionStatus:
    # The publisher first: what it has then, the journal has as well if nothing is behind.
    publisher_lsn, slot = _publisher_positions(subscription)
    asked_for = publisher_lsn
    received, last_entry = _journal_positions(subscription, settings)
    if slot is not None and slot.active_pid is not None:
        received, last_entry = _when_received(subscription, settings, publisher_lsn)
    waiting = last_entry is not None and last_entry > applied
    states = [relation.state.value for relation in tables]
    copies = {(copy.schema, copy.name): copy for copy in _copies(subscription, settings, target_identifier)}
    known = max(received or INVALID_LSN, applied)
    if publisher_lsn is not None and known > publisher_lsn:
        publisher_lsn, slot = _publisher_positions(subscription)  # it may have gone on meanwhile
    return SubscriptionStatus(
        name=subscription.name,
        enabled=subscription.enabled,
        connection=redact_conninfo(subscription.conninfo),
        publications=subscription.publications,
        slot_name=subscription.slot_name,
        slot_active=None if slot is None else slot.active_pid is not None,
        publisher_lsn=_text(publisher_lsn),
        confirmed_lsn=None if slot is None else format_lsn(slot.confirmed_flush_lsn),
        received_lsn=_text(received),
        applied_lsn=format_lsn(applied),
        lag_bytes=_lag(publisher_lsn, known, applied, waiting=waiting),
        lag_seconds=_lag_seconds(subscription, settings, applied, asked_for, received, waiting=waiting),
        tables={state: states.count(state) for state in sorted(set(states))},
        relations=tuple(_relation(relation, copies) for relation in tables),
        conflicts={
            name.removeprefix("confl_"): number
            for name, number in statistics.items()
            if name.startswith("confl_") and number
        },
        apply_errors=statistics.get("apply_error_count", 0),
        last_error=statistics.get("last_error"),
        last_error_at=statistics.get("last_error_at"),
        schema_changes=schema_changes,
        history_diverged=publisher_lsn is not None and known > publisher_lsn,
        sync_errors=statistics.get("sync_error_count", 0),
        last_error_resolved_at=statistics.get("last_error_resolved_at"),
        slot=None if slot is None else _slot(slot, publisher_lsn),
        slot_missing=publisher_lsn is not None and slot is None and subscription.slot_name is not None,
        runner=runner,
    )


def _slot(slot: Slot, publisher_lsn: LSN | None) -> SlotStatus:
    retained = None
    if publisher_lsn is not None and slot.restart_lsn is not None:
        retained = max(0, publisher_lsn - slot.restart_lsn)
    return SlotStatus(
        active=slot.active_pid is not None,
        confirmed_lsn=format_lsn(slot.confirmed_flush_lsn),
        wal_status=slot.wal_status,
        retained_bytes=retained,
        safe_wal_bytes=slot.safe_wal_size,
        lost=slot.lost,
    )


def _when_received(
    subscription: Subscription, settings: Settings, publisher_lsn: LSN | None
) -> tuple[LSN | None, LSN | None]:
    """The journal's positions, as soon as it has what the publisher had, or after a moment.

    A receiver that is up to date is behind all the same for as long as it takes to make an idle position durable.
    """
    deadline = time.monotonic() + _RECEIVED_SECONDS
    while True:
        received, last_entry = _journal_positions(subscription, settings)
        there = received is None or publisher_lsn is None or received >= publisher_lsn
        if there or time.monotonic() > deadline:
            return received, last_entry
        time.sleep(_RECEIVED_PAUSE)


def _lag_seconds(
    subscription: Subscription,
    settings: Settings,
    applied: LSN,
    publisher_lsn: LSN | None,
    received: LSN | None,
    *,
    waiting: bool,
) -> float | None:
    """See :attr:`SubscriptionStatus.lag_seconds`."""
    if received is None:
        return None
    if not waiting:
        # What the publisher has beyond that may have commits for us, of any age.
        return 0.0 if publisher_lsn is not None and publisher_lsn <= received else None
    assert subscription.system_identifier is not None
    assert subscription.slot_name is not None
    try:
        storage = open_storage(journal_url(settings.journal, subscription.system_identifier, subscription.slot_name))
        committed = oldest_commit(storage, applied)
    except SubscriberError:
        return None
    return None if committed is None else max(0.0, time.time() - committed.timestamp())


def _lag(publisher: LSN | None, known: LSN, applied: LSN, *, waiting: bool) -> int | None:
    """Bytes behind the publisher.

    None where it cannot be asked, where more is known than it has (that was another history), and as long as nothing is: then the first
    run finds out where the changes of the slot begin.
    """
    if publisher is None or known > publisher or known == INVALID_LSN:
        return None
    return publisher - known + (max(0, known - applied) if waiting else 0)


def _journal_positions(subscription: Subscription, settings: Settings) -> tuple[LSN | None, LSN | None]:
    """How far the journal has received, and where its last entry ends."""
    if subscription.system_identifier is None or subscription.slot_name is None:
        return None, None
    try:
        received, last = journal_positions(
            journal_url(settings.journal, subscription.system_identifier, subscription.slot_name)
        )
    except SubscriberError:
        return None, None
    return (received, last) if last else (None, None)


def _copies(subscription: Subscription, settings: Settings, target_identifier: str) -> list[CopyStatus]:
    if subscription.system_identifier is None or subscription.slot_name is None:
        return []
    url = journal_url(settings.journal, subscription.system_identifier, subscription.slot_name)
    try:
        return read_copies(open_storage(url), target_identifier, subscription.subid)
    except SubscriberError:
        return []


def _relation(relation: catalog.SubscriptionRelation, copies: Mapping[tuple[str, str], CopyStatus]) -> RelationStatus:
    copy = copies.get((relation.schema, relation.name)) if relation.state is catalog.RelationState.DATASYNC else None
    return RelationStatus(
        relation.schema,
        relation.name,
        relation.state.value,
        _text(relation.lsn),
        relation.error,
        relation.error_at,
        None
        if copy is None
        else CopyFigures(
            copy.rows, copy.bytes, copy.estimated_rows, copy.estimated_bytes, copy.rows_per_second, copy.started_at
        ),
    )


def _publisher_positions(subscription: Subscription) -> tuple[LSN | None, Slot | None]:
    try:
        with connect_publisher(subscription.conninfo, subscription.name) as server:
            publisher = Publisher(server)
            slot = publisher.slot(subscription.slot_name) if subscription.slot_name else None
            return publisher.flushed_lsn(), slot
    except PublisherError:
        return None, None


def _text(lsn: LSN | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)
