"""Reads the status of subscriptions from the catalog, the journal and the publisher, as far as each
can be reached.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.catalog.cutovers import ASKED, Cutover, read_cutover
from subscriber.errors import PublisherError, SubscriberError
from subscriber.journal.control import read_control
from subscriber.journal.positions import journal_positions
from subscriber.journal.storage import journal_url, open_storage
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.publisher.blockers import standbys_of
from subscriber.publisher.conninfo import wants_standby
from subscriber.publisher.history import UNKNOWN_TIMELINE, check_is_primary, check_system
from subscriber.publisher.publisher import Publisher, Slot, connect_publisher
from subscriber.runtime.copy_progress import CopyStatus, read_copies
from subscriber.runtime.subscription_status import (
    CopyFigures,
    CutoverStatus,
    FailoverStatus,
    HoldStatus,
    RelationStatus,
    RunnerStatus,
    SlotStatus,
    SubscriptionStatus,
)
from subscriber.settings import Settings, redact_conninfo
from subscriber.targets import Connection, Target

_RECEIVED_SECONDS: Final = 1.5
"""How long to wait until the journal has what the publisher has. An idle position is made durable
twice a second on average.
"""
_RECEIVED_PAUSE: Final = 0.1


def subscription_statuses(
    target: Target, settings: Settings, *, with_sequences: bool = False
) -> list[SubscriptionStatus]:
    """Return the status of every subscription of a target, ordered by name. A target without a
    catalog has none, and does not get one.

    Args:
        target: the target.
        settings: the settings; they contain the place of the journals.
        with_sequences: compare the sequences of target and publisher, which takes queries for each
            table that has one.

    Raises:
        TargetUnavailable: the target cannot be queried. If a publisher or a journal cannot be
            reached, the corresponding fields are None.
    """
    # The target is released before journals and publishers are asked, which may take seconds: a
    # connection to DuckDB's file locks it for all other processes.
    with catalog.existing_catalog(target) as connection:
        if connection is None:
            return []
        identifier = catalog.target_identifier(connection)
        runner = _runner(target, connection)
        holds = catalog.read_holds(connection)
        workers = catalog.read_worker_statuses(connection)
        stored = [_Stored.read(connection, subscription) for subscription in catalog.list_subscriptions(connection)]
    failovers = _failovers([one.subscription for one in stored if one.subscription.options.failover])
    statuses = [
        replace(
            _status(one, settings, identifier, runner),
            hold=_hold(holds.get(one.subscription.subid)),
            failover=failovers.get(one.subscription.subid),
            worker=workers.get(one.subscription.subid),
            state=_state(one.subscription, runner, workers.get(one.subscription.subid)),
        )
        for one in stored
    ]
    if not with_sequences:
        return statuses
    return [
        status
        if status.publisher_lsn is None
        else replace(status, sequences_behind=_sequences_behind(target, one.subscription))
        for status, one in zip(statuses, stored, strict=True)
    ]


def _state(subscription: Subscription, runner: RunnerStatus | None, worker: catalog.WorkerStatus | None) -> str:
    """The state of a subscription; see :attr:`SubscriptionStatus.state`."""
    if not subscription.enabled:
        return "disabled"
    if runner is None or not runner.alive:
        return "stopped" if worker is not None and worker.state == "stopped" else "not running"
    # A row that is older than the run is from an earlier one.
    return "starting" if worker is None or worker.since < runner.started_at else worker.state


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the catalog has of a subscription."""

    subscription: Subscription
    applied: LSN
    tables: list[catalog.SubscriptionRelation]
    statistics: dict[str, Any]
    schema_changes: tuple[catalog.SchemaChange, ...]
    replaced_values: tuple[catalog.ReplacedCount, ...]
    cutover: CutoverStatus | None

    @classmethod
    def read(cls, connection: Connection, subscription: Subscription) -> Self:
        subid = subscription.subid
        return cls(
            subscription,
            applied=subscription.progress.read(connection),
            tables=catalog.relations_of(connection, subid),
            statistics=catalog.statistics_of(connection, subid),
            schema_changes=tuple(catalog.schema_changes_of(connection, subid)),
            replaced_values=tuple(catalog.replaced_counts(connection, subid)),
            cutover=_cutover(read_cutover(connection, subid)),
        )


def runner_status(target: Target) -> RunnerStatus | None:
    """Return the last `subscriber run` of a target that has a catalog; None if there was none.

    Raises:
        TargetUnavailable: the target cannot be queried.
    """
    with target.reporting(), target.engine.connect() as connection:
        return _runner(target, connection)


def _runner(target: Target, connection: Connection) -> RunnerStatus | None:
    runner = catalog.read_runner(connection)
    if runner is None:
        return None
    held = None if target.run_lock is None else target.run_lock.is_held(connection)
    alive, may_be_busy = catalog.is_alive(runner, held), catalog.pauses_while_busy(target)
    return RunnerStatus(
        alive=alive,
        host=runner.host,
        process_id=runner.process_id,
        started_at=runner.started_at,
        heartbeat_at=runner.heartbeat_at,
        busy_since=runner.busy_since,
        ended_at=runner.ended_at,
        silent_seconds=runner.heartbeat_age if alive and catalog.is_silent(runner, may_be_busy=may_be_busy) else None,
        may_be_busy=may_be_busy,
    )


def _status(
    stored: _Stored, settings: Settings, target_identifier: str, runner: RunnerStatus | None
) -> SubscriptionStatus:
    subscription, applied, statistics = stored.subscription, stored.applied, stored.statistics
    # The publisher is read first: if nothing is behind, the journal then has at least the same
    # position.
    there = _at_publisher(subscription, settings)
    publisher_lsn, slot = there.lsn, there.slot
    asked_for = publisher_lsn
    received, last_entry = _journal_positions(subscription, settings)
    if slot is not None and slot.active_pid is not None:
        received, last_entry = _when_received(subscription, settings, publisher_lsn)
    waiting = last_entry is not None and last_entry > applied
    states = [relation.state.value for relation in stored.tables]
    copies = {(copy.schema, copy.name): copy for copy in _copies(subscription, settings, target_identifier)}
    known = max(received or INVALID_LSN, applied)
    if publisher_lsn is not None and known > publisher_lsn:
        # the publisher may have advanced meanwhile
        there = _at_publisher(subscription, settings)
        publisher_lsn, slot = there.lsn, there.slot
    return SubscriptionStatus(
        name=subscription.name,
        enabled=subscription.enabled,
        state="",
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
        relations=tuple(_relation(relation, copies) for relation in stored.tables),
        conflicts={
            name.removeprefix("confl_"): number
            for name, number in statistics.items()
            if name.startswith("confl_") and number
        },
        apply_errors=statistics.get("apply_error_count", 0),
        last_error=statistics.get("last_error"),
        last_error_at=statistics.get("last_error_at"),
        schema_changes=stored.schema_changes,
        replaced_values=stored.replaced_values,
        history_diverged=publisher_lsn is not None and known > publisher_lsn,
        sync_errors=statistics.get("sync_error_count", 0),
        last_error_resolved_at=statistics.get("last_error_resolved_at"),
        slot=None if slot is None else _slot(slot, publisher_lsn),
        slot_missing=publisher_lsn is not None and slot is None and subscription.slot_name is not None,
        runner=runner,
        cutover=stored.cutover,
        missing_publications=there.missing,
        waits_for=there.waits_for,
    )


def _sequences_behind(target: Target, subscription: Subscription) -> tuple[str, ...] | None:
    from subscriber.commands.refresh_sequences import sequences_behind  # only this question needs it

    try:
        return tuple(sequences_behind(target, subscription))
    except SubscriberError:
        return None


def _failovers(subscriptions: Sequence[Subscription]) -> dict[int, FailoverStatus]:
    """Return whether standbys could take the slots over, by subscription. All servers are asked at
    the same time: one that is away costs two seconds.
    """
    if not subscriptions:
        return {}
    # Few targets need these.
    from concurrent.futures import ThreadPoolExecutor

    from subscriber.publisher.failover_readiness import judge_readiness
    from subscriber.publisher.failover_servers import read_failover_servers

    def ask(subscription: Subscription) -> FailoverStatus:
        servers = read_failover_servers(subscription.conninfo, subscription.name, subscription.slot_name)
        found = judge_readiness(subscription.name, subscription.slot_name, servers)
        problems = tuple(f"{problem.place}: {problem.message}" for problem in found.problems)
        return FailoverStatus(found.ready, found.standbys, problems)

    with ThreadPoolExecutor(max_workers=len(subscriptions)) as threads:
        answers = list(threads.map(ask, subscriptions))
    return {one.subid: answer for one, answer in zip(subscriptions, answers, strict=True)}


def _cutover(found: Cutover | None) -> CutoverStatus | None:
    if found is None or not found.in_progress or not (found.is_held or found.has_effects):
        return None
    fence, reverse = found.options.get("fence"), found.options.get("reverse")
    return CutoverStatus(
        state=found.state,
        step=found.step,
        started_at=found.started_at,
        switched_at=found.switched_at,
        barrier_lsn=_text(found.barrier),
        process=f"process {found.process_id} on host {found.host}" if found.is_held else None,
        fenced_database=None if fence is None else fence["database"],
        way_back=None if reverse is None else reverse["name"],
        options=found.options.get(ASKED, ""),
    )


def _hold(hold: catalog.ApplyHold | None) -> HoldStatus | None:
    if hold is None:
        return None
    return HoldStatus(hold.host, hold.process_id, hold.since, hold.state.value, _text(hold.reached or hold.bound))


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
    """Return the positions of the journal as soon as it has what the publisher had, or after a
    short time.

    A receiver that is up to date appears to be behind until the next idle position is durable.
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
    """Return the lag in seconds; see :attr:`SubscriptionStatus.lag_seconds`."""
    if received is None:
        return None
    if not waiting:
        # The WAL that was not received yet may contain commits of any age for this subscription.
        return 0.0 if publisher_lsn is not None and publisher_lsn <= received else None
    assert subscription.system_identifier is not None
    assert subscription.slot_name is not None
    from subscriber.journal.scan import oldest_commit  # with Arrow, which only this question needs

    try:
        storage = open_storage(journal_url(settings.journal, subscription.system_identifier, subscription.slot_name))
        committed = oldest_commit(storage, applied)
    except SubscriberError:
        return None
    return None if committed is None else max(0.0, time.time() - committed.timestamp())


def _lag(publisher: LSN | None, known: LSN, applied: LSN, *, waiting: bool) -> int | None:
    """Return the number of bytes that the subscription is behind the publisher.

    None if the publisher cannot be queried; if more was received than the publisher has, because
    the publisher's history is then a different one; and if nothing was received or applied yet,
    because only the first run finds out where the changes of the slot begin.
    """
    if publisher is None or known > publisher or known == INVALID_LSN:
        return None
    return publisher - known + (max(0, known - applied) if waiting else 0)


def _journal_positions(subscription: Subscription, settings: Settings) -> tuple[LSN | None, LSN | None]:
    """Return the LSN up to which the journal has received, and the end of its last entry."""
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


@dataclass(frozen=True, slots=True)
class _AtPublisher:
    """What the publisher says of a subscription; nothing if it cannot be queried."""

    lsn: LSN | None = None
    slot: Slot | None = None
    missing: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()


def _at_publisher(subscription: Subscription, settings: Settings) -> _AtPublisher:
    """Ask the publisher. A server that a receiver would not stream from, such as a former primary,
    counts as one that does not answer: what it says of the slot and of its WAL proves nothing.
    """
    try:
        with connect_publisher(subscription.conninfo, subscription.name) as connection:
            publisher = Publisher(connection)
            server = publisher.server()
            check_system(server.system_identifier, subscription.system_identifier)
            received_on = _timeline(subscription, settings)
            check_is_primary(server, received_on, wants_standby=wants_standby(subscription.conninfo))
            slot = publisher.slot(subscription.slot_name) if subscription.slot_name else None
            missing = publisher.missing_publications(subscription.streamed_publications)
            waits_for = standbys_of(connection, slot.active_pid) if slot is not None and slot.active_pid else []
            return _AtPublisher(publisher.flushed_lsn(), slot, tuple(missing), tuple(waits_for))
    except PublisherError:
        return _AtPublisher()


def _timeline(subscription: Subscription, settings: Settings) -> int:
    """Return the timeline that changes were received on; unknown where the journal is not here."""
    if subscription.system_identifier is None or subscription.slot_name is None:
        return UNKNOWN_TIMELINE
    url = journal_url(settings.journal, subscription.system_identifier, subscription.slot_name)
    try:
        control = read_control(open_storage(url))
    except SubscriberError:
        return UNKNOWN_TIMELINE
    return UNKNOWN_TIMELINE if control is None else control.timeline


def _text(lsn: LSN | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)
