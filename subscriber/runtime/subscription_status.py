"""The status of a subscription as plain data. ``subscriber status`` prints it, and the status file
stores it.

:mod:`subscriber.runtime.read_status` creates it from the catalog, the journal and the publisher.
The state of a worker in this process is a different object:
:class:`subscriber.runtime.worker_snapshot.WorkerSnapshot`.
"""

from __future__ import annotations

from dataclasses import dataclass

from subscriber import catalog


@dataclass(frozen=True, slots=True)
class CopyFigures:
    """The progress of the copy of a table; see
    :class:`subscriber.runtime.copy_progress.CopyStatus`.
    """

    rows: int
    bytes: int
    estimated_rows: int
    estimated_bytes: int
    rows_per_second: float
    started_at: str


@dataclass(frozen=True, slots=True)
class RelationStatus:
    """The status of one table of a subscription.

    Attributes:
        schema: the schema of the table at the publisher.
        name: the name of the table.
        state: the letter of the table state (rule D1).
        lsn: the position that belongs to the state.
        error: why the table could not be copied, or could not catch up.
        error_at: when this error occurred.
        copy: the progress of the copy; None if the table is not being copied, or if the journal
            cannot be read from here.
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
    """The status of the replication slot, as ``pg_replication_slots`` shows it.

    Attributes:
        active: whether a receiver streams from the slot now.
        confirmed_lsn: the confirmed position of the slot.
        wal_status: reserved, extended, unreserved or lost; None before PostgreSQL 13.
        retained_bytes: the size of the WAL that the publisher keeps for the slot; None if it keeps
            none, or if its current position is not known.
        safe_wal_bytes: how much WAL may still be written before the slot is in danger of being
            lost; None without such a limit, and before PostgreSQL 13.
        lost: why the slot cannot be used any more (``invalidation_reason``, before PostgreSQL 17
            wal_removed); None if it can be used.
    """

    active: bool
    confirmed_lsn: str
    wal_status: str | None
    retained_bytes: int | None
    safe_wal_bytes: int | None
    lost: str | None


@dataclass(frozen=True, slots=True)
class RunnerStatus:
    """The last `subscriber run` of the target. Times are UTC in ISO 8601.

    Attributes:
        alive: whether the run is alive now.
        host: the machine on which it was started.
        process_id: the number of its process on this machine.
        started_at: when it was started.
        heartbeat_at: the time of its last heartbeat.
        busy_since: since when a batch or a copy was in progress at the last heartbeat; None if
            there was none.
        ended_at: when it ended in order; None while it is alive, and if it was killed.
        silent_seconds: how old its last heartbeat is, if the run is alive and may hang; None
            otherwise.
        may_be_busy: whether no heartbeat is written during a batch or a copy, which may also
            explain that the last one is old.
    """

    alive: bool
    host: str
    process_id: int
    started_at: str
    heartbeat_at: str
    busy_since: str | None
    ended_at: str | None
    silent_seconds: float | None = None
    may_be_busy: bool = False


@dataclass(frozen=True, slots=True)
class CutoverStatus:
    """A cutover in progress. Times are UTC in ISO 8601.

    Attributes:
        state: running, or switched if the subscription is disabled and its slot is kept.
        step: the step that was begun last.
        started_at: when the cutover was begun.
        switched_at: when the subscription was disabled; None before.
        barrier_lsn: the barrier that the target has; None before.
        process: the process and host of the command that carries it out; None if it was
            interrupted, or waits for --finish.
        fenced_database: the publisher's database that it has fenced; None if there is no fence.
        way_back: the name of the way back; None if there is none.
        options: the options of the command that began it or last went on with it.
    """

    state: str
    step: str
    started_at: str
    switched_at: str | None
    barrier_lsn: str | None
    process: str | None
    fenced_database: str | None
    way_back: str | None
    options: str = ""


@dataclass(frozen=True, slots=True)
class FailoverStatus:
    """Whether a standby of the publisher could take the slot over
    (:mod:`subscriber.publisher.failover_readiness`).

    Attributes:
        ready: whether each standby that CONNECTION names could; None if none has answered.
        standbys: the host and port of each standby that has answered.
        problems: what stands against it: the host and port, and a sentence.
    """

    ready: bool | None
    standbys: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HoldStatus:
    """A hold of the apply by a command.

    Attributes:
        host: the machine of the command.
        process_id: the number of its process on this machine.
        since: when it was requested (UTC, ISO 8601).
        state: "requested", "paused" or "held".
        lsn: the LSN that the target is held at, or will be held at; None while it is not known.
    """

    host: str
    process_id: int
    since: str
    state: str
    lsn: str | None


@dataclass(frozen=True, slots=True)
class SubscriptionStatus:
    """The status of one subscription. LSNs are text; None means that the value is not known from
    here.

    Attributes:
        name: the name of the subscription.
        enabled: whether the subscription is enabled, so that `subscriber run` applies it.
        state: disabled; not running, if no `subscriber run` is alive; otherwise the state of its
            worker: starting, copying, streaming, retrying or stopped. A worker that had stopped
            when its run ended is still stopped.
        connection: the connection string, without secrets.
        publications: the names of the publications.
        slot_name: the name of the replication slot.
        slot_active: whether a receiver streams from the slot now.
        publisher_lsn: the end of the publisher's WAL.
        confirmed_lsn: the confirmed position of the slot.
        received_lsn: the LSN up to which the journal has received.
        applied_lsn: the LSN up to which the target has applied.
        lag_bytes: the bytes between the end of the publisher's WAL and what was received, plus the
            bytes that are received and not applied; None also if more was received than the
            publisher has (it was then restored to an older state), and before the first run with a
            slot that already existed.
        lag_seconds: the age of the oldest commit that is received and not applied, by the
            publisher's clock; 0 if the target has everything that the publisher has; None if that
            is not known: the journal is not here, the publisher cannot be queried, or it has WAL
            that was not received.
        tables: the number of tables by the letter of their state (rule D1).
        relations: the tables, ordered by schema and name.
        conflicts: the number of conflicts by their kind.
        apply_errors: the number of errors of the apply worker.
        sync_errors: the number of errors of the copies of tables.
        last_error: the report of the last error.
        last_error_at: when the last error occurred.
        last_error_resolved_at: since when the last error is resolved; None while it is not.
        schema_changes: the tables that were altered in the target, oldest first.
        replaced_values: how many values of which columns the target could not hold and got NULL
            instead, by relation and column.
        history_diverged: whether more was received than the publisher has, because it was restored
            to an older state.
        slot: the replication slot; None if the publisher cannot be queried, or has no slot with
            this name.
        slot_missing: whether the publisher was queried and has no slot with this name.
        runner: the last `subscriber run` of the target; None if there was none.
        cutover: the cutover in progress; None if there is none.
        worker: what the worker of the last `subscriber run` did last: since when it is in its
            state, its error, how many attempts have failed, and when the next one begins; None if
            there was no worker.
        hold: the hold of the apply by a command; None if there is none.
        sequences_behind: the columns and sequences of the target that would give out values again
            that the publisher has used; None if this is not known.
        missing_publications: the publications that do not exist at the publisher.
        waits_for: the standbys that the walsender waits for, in words
            (``synchronized_standby_slots``).
        as_of: when the status was read (ISO 8601), if it is from the status file of a run that
            holds the target; None if it is current.
        failover: whether a standby could take the slot over; None if the subscription does not have
            ``failover = true``.
    """

    name: str
    enabled: bool
    state: str
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
    replaced_values: tuple[catalog.ReplacedCount, ...] = ()
    history_diverged: bool = False
    sync_errors: int = 0
    last_error_resolved_at: str | None = None
    slot: SlotStatus | None = None
    slot_missing: bool = False
    runner: RunnerStatus | None = None
    hold: HoldStatus | None = None
    as_of: str | None = None
    cutover: CutoverStatus | None = None
    worker: catalog.WorkerStatus | None = None
    sequences_behind: tuple[str, ...] | None = None
    missing_publications: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    failover: FailoverStatus | None = None
