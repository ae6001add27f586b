"""Reads the status of subscriptions from catalog, journal and publisher, as far as possible."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any, Final, Self

from subscriber.base import clock
from subscriber.base.errors import PublisherError, SubscriberError
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.base.reach import Reach
from subscriber.base.settings import Settings, redact_conninfo
from subscriber.catalog import catalog_upgrade, leases
from subscriber.catalog.cutovers import ASKED, Cutover, read_cutover
from subscriber.catalog.existing_catalog import existing_catalog
from subscriber.catalog.replaced_values import ReplacedCount, replaced_counts
from subscriber.catalog.schema_changes import SchemaChange, schema_changes_of
from subscriber.catalog.statistics import statistics_of
from subscriber.catalog.subscriptions import Subscription, list_subscriptions
from subscriber.catalog.table_states import RelationState, SubscriptionRelation, relations_of, sequences_of
from subscriber.catalog.worker_status import WorkerStatus, read_worker_statuses
from subscriber.commands.reached_position import reach_of
from subscriber.publisher.client import PublisherClient, Slot
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.conninfo import wants_standby
from subscriber.publisher.fence.open_transactions import standbys_of
from subscriber.publisher.history import UNKNOWN_TIMELINE, check_is_primary, check_system
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.positions import journal_bytes
from subscriber.stream.journal.storage import journal_url, open_storage
from subscriber.targets import Connection, Target
from subscriber.worker import subscription_status
from subscriber.worker.copy_progress import CopyStatus, read_copies

_RECEIVED_SECONDS: Final = 1.5
"""An idle position of the journal is made durable twice a second on average."""
_RECEIVED_PAUSE: Final = 0.1


def subscription_statuses(
    target: Target, settings: Settings, *, with_sequences: bool = False
) -> list[subscription_status.SubscriptionStatus]:
    """The status of every subscription, ordered by name; none without a catalog. What is not known
    is None. ``with_sequences`` takes queries for each table that has one.
    """
    # The target is released before journals and publishers are asked, which may take seconds: a
    # connection to DuckDB's file locks it for all other processes.
    with existing_catalog(target) as connection:
        if connection is None:
            return []
        identifier = catalog_upgrade.target_identifier(connection)
        runner = runner_status(target, connection)
        pauses = leases.read_leases(connection, leases.LeaseKind.PAUSE)
        workers = read_worker_statuses(connection)
        stored = [_Stored.read(connection, subscription) for subscription in list_subscriptions(connection)]
        version = target.read_facts(connection).version
    failovers = _failovers([one.subscription for one in stored if one.subscription.options.failover])
    statuses = [
        replace(
            _status(one, settings, identifier, runner),
            hold=_hold(pauses.get(one.subscription.subid)),
            failover=failovers.get(one.subscription.subid),
            worker=workers.get(one.subscription.subid),
            state=_state(one.subscription, runner, workers.get(one.subscription.subid)),
            version=metadata.version("subscriber"),
            target_version=None if version is None else f"{target.capabilities.database} {version}",
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


def _state(
    subscription: Subscription, runner: subscription_status.RunnerStatus | None, worker: WorkerStatus | None
) -> str:
    if not subscription.enabled:
        return "disabled"
    if runner is None or not runner.alive:
        return "stopped" if worker is not None and worker.state == "stopped" else "not running"
    # A row that is older than the run is from an earlier one.
    return "starting" if worker is None or worker.since < runner.started_at else worker.state


@dataclass(frozen=True, slots=True)
class _Stored:
    subscription: Subscription
    applied: LSN
    tables: list[SubscriptionRelation]
    sequences: list[SubscriptionRelation]
    statistics: dict[str, Any]
    schema_changes: tuple[SchemaChange, ...]
    replaced_values: tuple[ReplacedCount, ...]
    cutover: subscription_status.CutoverStatus | None

    @classmethod
    def read(cls, connection: Connection, subscription: Subscription) -> Self:
        subid = subscription.subid
        return cls(
            subscription,
            applied=subscription.progress.read(connection),
            tables=relations_of(connection, subid),
            sequences=sequences_of(connection, subid),
            statistics=statistics_of(connection, subid),
            schema_changes=tuple(schema_changes_of(connection, subid)),
            replaced_values=tuple(replaced_counts(connection, subid)),
            cutover=cutover_status(read_cutover(connection, subid)),
        )


def runner_status(target: Target, connection: Connection) -> subscription_status.RunnerStatus | None:
    """The last `subscriber run`; None if there was none."""
    run = leases.find_run(connection)
    if run is None:
        return None
    alive, may_be_busy = leases.is_running(target, connection, run), leases.is_silent_while_busy(target)
    return subscription_status.RunnerStatus(
        alive=alive,
        host=run.host,
        process_id=run.process_id,
        started_at=run.since,
        heartbeat_at=run.heartbeat,
        busy_since=run.busy_since,
        ended_at=run.ended_at,
        silent_seconds=clock.seconds_since(run.heartbeat)
        if alive and leases.is_silent(run, may_be_busy=may_be_busy)
        else None,
        may_be_busy=may_be_busy,
    )


def _status(
    stored: _Stored, settings: Settings, target_identifier: str, runner: subscription_status.RunnerStatus | None
) -> subscription_status.SubscriptionStatus:
    subscription, applied, statistics = stored.subscription, stored.applied, stored.statistics
    # The publisher is read first: if nothing is behind, the journal then has at least the same
    # position.
    there = _at_publisher(subscription, settings)
    publisher_lsn, slot = there.lsn, there.slot
    asked_for = publisher_lsn
    wanted = publisher_lsn if slot is not None and slot.active_pid is not None else None
    reach = _when_received(subscription, settings, applied, wanted)
    received = reach.received if reach.last_entry else None
    states = [relation.state.value for relation in stored.tables]
    copies = {(copy.schema, copy.name): copy for copy in _copies(subscription, settings, target_identifier)}
    known = max(reach.received, applied)
    if publisher_lsn is not None and known > publisher_lsn:
        # the publisher may have advanced meanwhile
        there = _at_publisher(subscription, settings)
        publisher_lsn, slot = there.lsn, there.slot
    size, no_journal = _journal_bytes(subscription, settings)
    lag = _lag(publisher_lsn, known, applied, waiting=reach.waits)
    seconds = _lag_seconds(subscription, settings, applied, asked_for, received, waiting=reach.waits)
    return subscription_status.SubscriptionStatus(
        name=subscription.name,
        enabled=subscription.enabled,
        state="",
        connection=redact_conninfo(subscription.connection or ""),
        publications=subscription.publications,
        slot_name=subscription.slot_name,
        slot_active=None if slot is None else slot.active_pid is not None,
        publisher_lsn=_text(publisher_lsn),
        confirmed_lsn=None if slot is None else format_lsn(slot.confirmed_flush_lsn),
        received_lsn=_text(received),
        applied_lsn=format_lsn(applied),
        lag_bytes=lag,
        lag_seconds=seconds,
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
        sequence_errors=statistics.get("sync_seq_error_count", 0),
        sequences=tuple(_relation(relation, {}) for relation in stored.sequences),
        last_error_resolved_at=statistics.get("last_error_resolved_at"),
        slot=None if slot is None else _slot(slot, publisher_lsn),
        slot_missing=publisher_lsn is not None and slot is None and subscription.slot_name is not None,
        runner=runner,
        cutover=stored.cutover,
        missing_publications=there.missing,
        waits_for=there.waits_for,
        journal_bytes=size,
        publisher_version=there.version,
        unknown=tuple(_unknown(there, no_journal, lag, seconds)),
        conflict_resolvers=dict(subscription.options.conflict_resolvers.chosen),
    )


def _journal_bytes(subscription: Subscription, settings: Settings) -> tuple[int | None, str | None]:
    """The size of the journal, or why it is not known, as are its positions then."""
    if subscription.system_identifier is None or subscription.slot_name is None:
        return None, "the publisher was not asked yet"
    url = journal_url(settings.journal, subscription.system_identifier, subscription.slot_name)
    try:
        if read_control(open_storage(url)) is None:
            return None, f"there is no journal at {url}: nothing was received yet, or it is on another machine"
        return journal_bytes(url), None
    except SubscriberError as error:
        return None, error.message


def _unknown(there: _AtPublisher, no_journal: str | None, lag: int | None, seconds: float | None) -> Iterator[str]:
    """Why values are not known."""
    if there.error is not None:
        yield f"the publisher: {there.error}"
    if no_journal is not None:
        yield no_journal
    if there.error is None and no_journal is None and seconds is None and lag:
        yield "the publisher has WAL that was not received; it may have commits of any age"


def _sequences_behind(target: Target, subscription: Subscription) -> tuple[str, ...] | None:
    from subscriber.commands.refresh_sequences import sequences_behind  # only this question needs it

    try:
        return tuple(sequences_behind(target, subscription))
    except SubscriberError:
        return None


def _failovers(subscriptions: Sequence[Subscription]) -> dict[int, subscription_status.FailoverStatus]:
    """Whether standbys could take the slots over. A server that is away costs two seconds."""
    if not subscriptions:
        return {}
    # Few targets need these.
    from concurrent.futures import ThreadPoolExecutor

    from subscriber.publisher.failover import judge_readiness, read_failover_servers

    def ask(subscription: Subscription) -> subscription_status.FailoverStatus:
        servers = read_failover_servers(subscription.conninfo, subscription.name, subscription.slot_name)
        found = judge_readiness(subscription.name, subscription.slot_name, servers)
        problems = tuple(f"{problem.place}: {problem.message}" for problem in found.problems)
        return subscription_status.FailoverStatus(found.ready, found.standbys, problems)

    with ThreadPoolExecutor(max_workers=len(subscriptions)) as threads:
        answers = list(threads.map(ask, subscriptions))
    return {one.subid: answer for one, answer in zip(subscriptions, answers, strict=True)}


def cutover_status(found: Cutover | None) -> subscription_status.CutoverStatus | None:
    """None if none is in progress, or if it has changed nothing and nobody carries it out."""
    if found is None or not found.in_progress or not (found.is_held or found.has_effects):
        return None
    fence, reverse = found.options.get("fence"), found.options.get("reverse")
    return subscription_status.CutoverStatus(
        state=found.state,
        step=found.step,
        started_at=found.started_at,
        switched_at=found.switched_at,
        barrier_lsn=_text(found.barrier),
        process=found.lease.holder_in_words if found.lease is not None and found.is_held else None,
        fenced_database=None if fence is None else fence["database"],
        way_back=None if reverse is None else reverse["name"],
        options=found.options.get(ASKED, ""),
    )


def _hold(pause: leases.Lease | None) -> subscription_status.HoldStatus | None:
    if pause is None:
        return None
    assert pause.state is not None
    return subscription_status.HoldStatus(
        pause.host, pause.process_id, pause.since, pause.state, _text(pause.reached or pause.bound)
    )


def _slot(slot: Slot, publisher_lsn: LSN | None) -> subscription_status.SlotStatus:
    retained = None
    if publisher_lsn is not None and slot.restart_lsn is not None:
        retained = max(0, publisher_lsn - slot.restart_lsn)
    return subscription_status.SlotStatus(
        active=slot.active_pid is not None,
        confirmed_lsn=format_lsn(slot.confirmed_flush_lsn),
        wal_status=slot.wal_status,
        retained_bytes=retained,
        safe_wal_bytes=slot.safe_wal_size,
        lost=slot.lost,
    )


def _when_received(subscription: Subscription, settings: Settings, applied: LSN, publisher_lsn: LSN | None) -> Reach:
    """How far it has come once the journal has what the publisher had, or after a short time: a
    receiver appears to be behind until the next idle position is durable.
    """
    deadline = time.monotonic() + _RECEIVED_SECONDS
    while True:
        reach = reach_of(subscription, settings, applied)
        there = not reach.last_entry or publisher_lsn is None or reach.received >= publisher_lsn
        if there or time.monotonic() > deadline:
            return reach
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
    if received is None:
        return None
    if not waiting:
        # The WAL that was not received yet may contain commits of any age for this subscription.
        return 0.0 if publisher_lsn is not None and publisher_lsn <= received else None
    assert subscription.system_identifier is not None
    assert subscription.slot_name is not None
    # With Arrow, which only this question needs.
    from subscriber.stream.journal.message_rows import oldest_commit
    from subscriber.stream.journal.reader import JournalReader

    try:
        storage = open_storage(journal_url(settings.journal, subscription.system_identifier, subscription.slot_name))
        committed = oldest_commit(JournalReader(storage), applied)
    except SubscriberError:
        return None
    return None if committed is None else max(0.0, time.time() - committed.timestamp())


def _lag(publisher: LSN | None, known: LSN, applied: LSN, *, waiting: bool) -> int | None:
    """The bytes that the subscription is behind the publisher. None if the publisher does not
    answer or has another history, and before the first run finds out where the slot begins.
    """
    if publisher is None or known > publisher or known == INVALID_LSN:
        return None
    return publisher - known + (max(0, known - applied) if waiting else 0)


def _copies(subscription: Subscription, settings: Settings, target_identifier: str) -> list[CopyStatus]:
    if subscription.system_identifier is None or subscription.slot_name is None:
        return []
    url = journal_url(settings.journal, subscription.system_identifier, subscription.slot_name)
    try:
        return read_copies(open_storage(url), target_identifier, subscription.subid)
    except SubscriberError:
        return []


def _relation(
    relation: SubscriptionRelation, copies: Mapping[tuple[str, str], CopyStatus]
) -> subscription_status.RelationStatus:
    copy = copies.get((relation.schema, relation.name)) if relation.state is RelationState.DATASYNC else None
    return subscription_status.RelationStatus(
        relation.schema,
        relation.name,
        relation.state.value,
        _text(relation.lsn),
        relation.error,
        relation.error_at,
        None if copy is None else copy.figures,
    )


@dataclass(frozen=True, slots=True)
class _AtPublisher:
    """What the publisher says of a subscription; nothing if it cannot be queried."""

    lsn: LSN | None = None
    slot: Slot | None = None
    missing: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    version: str | None = None
    error: str | None = None


def _at_publisher(subscription: Subscription, settings: Settings) -> _AtPublisher:
    """Ask the publisher. A server that a receiver would not stream from, such as a former primary,
    counts as one that does not answer: what it says proves nothing.
    """
    try:
        with connect_publisher(subscription.conninfo, subscription.name) as connection:
            publisher = PublisherClient(connection)
            server = publisher.server()
            check_system(server.system_identifier, subscription.system_identifier)
            received_on = _timeline(subscription, settings)
            check_is_primary(server, received_on, wants_standby=wants_standby(subscription.conninfo))
            slot = publisher.slot(subscription.slot_name) if subscription.slot_name else None
            missing = publisher.missing_publications(subscription.streamed_publications)
            waits_for = standbys_of(connection, slot.active_pid) if slot is not None and slot.active_pid else []
            version = connection.info.parameter_status("server_version")
            return _AtPublisher(publisher.flushed_lsn(), slot, tuple(missing), tuple(waits_for), version)
    except PublisherError as error:
        return _AtPublisher(error=error.message)


def _timeline(subscription: Subscription, settings: Settings) -> int:
    """The timeline of the received changes; unknown where the journal is not here."""
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
