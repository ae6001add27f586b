"""The state of a worker at one moment, for everything that shows, logs or waits for it.

::

    worker.snapshot() ──▶ WorkerSnapshot ──▶ live table, demo, log ── run --once ── scenario engine ── status file

A snapshot is immutable data, so any thread may read it. All of it is taken from memory, except for
the positions of the journal. The positions only increase, both are from the same read, and the
target's progress is read after them. Therefore :meth:`WorkerSnapshot.has_applied` may become true
late, but it is never true too early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.base.reach import Reach
from subscriber.base.retry import PATIENT_FAILURES, FailedAttempts
from subscriber.catalog.counters import WorkerCounters
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import TableStates
from subscriber.stream.receive.walreceiver import ReceiverCounts
from subscriber.worker.commit_marks import CommitMarks
from subscriber.worker.copy_progress import CopyStatus

PATIENT_COPIES: Final = 2
"""The number of failed copies of one table after which `run --once` gives up."""

NONE_FAILED: Final = FailedAttempts()


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """A batch that was applied.

    Attributes:
        at: when it was committed (seconds since 1970).
        lag: from the commit of its last transaction at the publisher until then, by this machine's
            clock; None for a batch without a transaction.
        exact: why it was applied in the publisher's order; None if it could be reordered.
        seconds: by stage: read, decode, filter, apply, commit.
    """

    at: float
    end: LSN
    transactions: int
    changes: int
    lag: float | None
    exact: str | None
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """The state of one worker. Times are monotonic seconds.

    Attributes:
        began: when it was started; it distinguishes the workers of a subscription.
        relations: the states of the tables, as they were when the catalog was last read.
        stopped: changes are lost or positions contradict each other.
        disabled: this failure has disabled the subscription (option ``disable_on_error``).
        receives: a receiver streams, and has therefore checked the publisher's history.
        last_entry: the end of the last entry of the journal.
        applied: the target's progress; 0/0 while it is not known.
        receiving: failed attempts; likewise ``applying``, ``synchronizing`` (to start), ``rounds``,
            ``once_target_attempts``.
        faults: unexpected errors of the program.
        copy_error: the error of the last copy that has failed; None once every table is ready.
        once_target: the publisher's position that ``run --once`` waits for.
        busy_since: since when a batch or a copy holds the target.
        stuck_since: when the batch began that has a change which cannot be applied. Only a change
            of the target after this time can let the batch succeed.
        waiting_for: the requests to servers that are not answered yet, in words.
        gave_up: the worker had given up when it was told to end.
        server: host, port and version of the server that the receiver streams from.
        receiver_pid: the process of the receiver; None while there is none.
        counts: what was counted since the worker began, by metric and labels. Unlike the rest it
            grows on, as do ``received_counts`` and ``marks``: copy it before you walk through it.
        batches: the last batches, oldest first.
        applied_at: when the last commit was applied (seconds since 1970).
    """

    subscription: Subscription
    began: float = 0.0
    relations: TableStates = field(default_factory=TableStates)
    stopped: bool = False
    disabled: bool = False
    receives: bool = False
    applies: bool = False
    received: LSN = INVALID_LSN
    last_entry: LSN = INVALID_LSN
    applied: LSN = INVALID_LSN
    transactions: int = 0
    changes: int = 0
    receiving: FailedAttempts = NONE_FAILED
    applying: FailedAttempts = NONE_FAILED
    synchronizing: FailedAttempts = NONE_FAILED
    rounds: FailedAttempts = NONE_FAILED
    once_target_attempts: FailedAttempts = NONE_FAILED
    faults: FailedAttempts = NONE_FAILED
    copy_error: SubscriberError | None = None
    failed_tables: Mapping[tuple[str, str], FailedAttempts] = field(default_factory=dict)
    copies: tuple[CopyStatus, ...] = ()
    once_target: LSN | None = None
    busy_since: float | None = None
    stuck_since: float | None = None
    waiting_for: tuple[str, ...] = ()
    gave_up: bool = False
    counters: WorkerCounters = field(default_factory=WorkerCounters)
    server: str | None = None
    receiver_pid: int | None = None
    counts: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    received_counts: ReceiverCounts = field(default_factory=ReceiverCounts)
    marks: CommitMarks = field(default_factory=CommitMarks)
    batches: Sequence[AppliedBatch] = ()
    applied_at: float | None = None

    @property
    def failure(self) -> SubscriberError | None:
        """The last failure of a part that does not work now; None while all parts work."""
        return self.failing.error or self.copy_error

    @property
    def failing(self) -> FailedAttempts:
        """The failed attempts of a part that does not work now, the receiver first."""
        parts = (self.faults, self.receiving, self.applying, self.synchronizing, self.rounds, self.once_target_attempts)
        return next((part for part in parts if part.error is not None), NONE_FAILED)

    @property
    def state(self) -> Literal["stopped", "retrying", "copying", "streaming", "starting"]:
        if self.stopped:
            return "stopped"
        if self.failure is not None:
            return "retrying"
        if self.copies:
            return "copying"
        return "streaming" if self.receives and self.applies else "starting"

    @property
    def is_settled(self) -> bool:
        """Whether all parts work, and there is nothing to copy and nothing to wait for."""
        return self.stopped or (self.state == "streaming" and not self.relations.pending and not self.waiting_for)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to copy, and everything that was received is applied."""
        return self.stopped or (
            self.applies and self.busy_since is None and not self.relations.pending and not self.lag_bytes
        )

    @property
    def reach(self) -> Reach:
        return Reach(self.received, self.last_entry, self.applied)

    @property
    def lag_bytes(self) -> int:
        """The bytes of WAL that are received and not applied."""
        return self.reach.lag_bytes

    @property
    def failed_attempts(self) -> tuple[int, int, int]:
        """The failures so far: of the receiver, of batches, and of whole rounds of copies."""
        return self.receiving.in_all, self.applying.in_all, self.rounds.in_all

    @property
    def stream_caught_up(self) -> bool:
        """Whether everything up to :attr:`once_target` is applied to the tables that are ready."""
        return self.once_target is not None and self.has_applied(self.once_target)

    @property
    def caught_up(self) -> bool:
        """Whether everything up to :attr:`once_target` is applied, and all tables and sequences are
        ready.
        """
        return self.stream_caught_up and not self.relations.pending

    @property
    def given_up(self) -> bool:
        """Whether it is useless to wait for the worker: it has stopped, it has failed too often, or
        only tables are left whose copies fail. It stays true after the worker has ended.
        """
        parts = (self.faults, self.receiving, self.applying, self.once_target_attempts, self.rounds)
        return (
            self.gave_up
            or self.stopped
            or max(part.in_a_row for part in parts) >= PATIENT_FAILURES
            or self._has_only_failing_tables_left
        )

    @property
    def _has_only_failing_tables_left(self) -> bool:
        unfinished = self.relations.pending
        return (
            bool(unfinished)
            and all(self._failed_copies(one.schema, one.name).in_a_row >= PATIENT_COPIES for one in unfinished)
            and (self.once_target is None or self.stream_caught_up)
        )

    def _failed_copies(self, schema: str, name: str) -> FailedAttempts:
        return self.failed_tables.get((schema, name), NONE_FAILED)

    def has_applied(self, position: LSN) -> bool:
        """Whether all that was committed before ``position`` is applied to the ready tables."""
        return self.applies and self.reach.has(position)

    def copies_settled(self, relations: TableStates, since: float) -> bool:
        """Whether every table and sequence is ready, or failed in an attempt that began after
        ``since``.
        """
        return all(self._failed_copies(one.schema, one.name).began > since for one in relations.pending)

    def summary(self) -> str:
        return (
            f"{self.subscription.name} {self.state}, received {format_lsn(self.received)}, applied {format_lsn(self.applied)},"
            f" lag {self.lag_bytes:,} B, {self.transactions:,} transactions, {self.changes:,} changes"
        )
