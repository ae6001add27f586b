"""The status of a subscription, as ``subscriber status`` prints it and the status file keeps it:
plain data.

It is made by :mod:`subscriber.runtime.read_status`, from what the catalog, the journal and the
publisher say. What a worker of this process knows of itself is another picture:
:class:`subscriber.runtime.worker_snapshot.WorkerSnapshot`.
"""

from __future__ import annotations

from dataclasses import dataclass

from subscriber import catalog


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
        retained_bytes: WAL that the publisher keeps for it; None where it keeps none, or cannot be
            asked how far it is.
        safe_wal_bytes: what may still be written before the slot is in danger of being lost; None
            without such a limit, and before PostgreSQL 13.
        lost: why it cannot be used any more (``invalidation_reason``, before PostgreSQL 17
            wal_removed); None where it can.
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
        lag_bytes: publisher's end of WAL less what was received, plus what is received and not
            applied; None also where more was received than the publisher has, which was restored to
            an older state then, and until a run has begun with a slot that was there before.
        lag_seconds: how old the oldest commit is that is received and not applied, by the
            publisher's clock; 0 where the target has everything that the publisher has; None where
            that is not known: the journal is not here, the publisher cannot be asked, or it has WAL
            that was not received.
        tables: state letter → number of tables (rule D1).
        relations: each table, by schema and name.
        conflicts: kind → number.
        apply_errors: how many errors the apply worker has met.
        sync_errors: how many errors the copies of tables have met.
        last_error: the report of the last one.
        last_error_at: when.
        last_error_resolved_at: since when it is over; None while it is not.
        schema_changes: what was altered in the target, oldest first.
        history_diverged: whether more was received than the publisher has: it was restored to an
            older state.
        slot: the replication slot; None where the publisher cannot be asked, or has none of that
            name.
        slot_missing: whether the publisher was asked, and has no slot of that name.
        runner: the last `subscriber run` of the target; None where there has been none.
        as_of: when all this was so, where it is not now: a run that holds the target has left it
            (ISO 8601).
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
