"""The snapshot of a worker: its state as of one moment, as data, for everything that shows, logs or
waits for a worker.

::

    worker.snapshot() ──▶ WorkerSnapshot ──▶ live table, demo, log ── run --once ── scenario engine ── status file

A snapshot is immutable data, so any thread may read it. All of it is taken from memory, except for
the positions of the journal. The positions only increase, both are from the same read, and the
target's progress is read after them. Therefore :meth:`WorkerSnapshot.has_applied` may become true
late, but it is never true too early.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from subscriber.catalog import Subscription, TableStates
from subscriber.errors import SubscriberError
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.runtime.attempts import FailedAttempts
from subscriber.runtime.copy_progress import CopyStatus

PATIENT_FAILURES: Final = 5
"""The number of failures in a row after which `run --once` gives up: about ten seconds, in which a
publisher or a target may restart.
"""
PATIENT_COPIES: Final = 2
"""The number of failed copies of one table after which `run --once` gives up."""

NONE_FAILED: Final = FailedAttempts()


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """The state of one worker.

    Attributes:
        subscription: the subscription of the worker.
        began: when the worker was started (monotonic seconds); it distinguishes the workers of the
            same subscription.
        relations: the states of the tables, as they were when the catalog was last read.
        stopped: whether the worker has stopped, because changes are lost or positions contradict
            each other.
        disabled: whether this failure has disabled the subscription (option ``disable_on_error``).
        receives: whether a receiver streams, and has therefore checked the publisher's history.
        applies: whether a query is started.
        received: the LSN up to which the journal has received.
        last_entry: the end of the last entry of the journal.
        applied: the target's progress; 0/0 while it is not known.
        transactions: the number of transactions that were applied since the worker began.
        changes: the number of changes in these transactions.
        receiving: failed attempts to receive.
        applying: failed attempts to apply.
        synchronizing: failed attempts to start the table synchronization.
        rounds: failed rounds of copies.
        marking: failed attempts to write the mark.
        faults: unexpected errors of the program.
        copy_error: the error of the last copy that has failed; None once every table is ready.
        failed_tables: the failed attempts of the tables whose last copy or hand-over has failed, by
            schema and name.
        copies: the progress of the copies that are in progress.
        mark: the position of the publisher that ``run --once`` waits for; None if it is not set.
        busy_since: since when a batch or a copy holds the target (monotonic seconds); None if none
            does.
        stuck_since: when the batch began that contains a change which cannot be applied (monotonic
            seconds); None if there is no such change. Only a change that somebody makes in the
            target after this time can let the batch succeed.
        waiting_for: the requests to servers that are not answered yet, in words.
        gave_up: whether the worker had given up when it was told to end.
        server: host, port and version of the server that the receiver streams from; None while none
            streams.
        notices: the number of notices and warnings of the publisher since the worker began.
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
    marking: FailedAttempts = NONE_FAILED
    faults: FailedAttempts = NONE_FAILED
    copy_error: SubscriberError | None = None
    failed_tables: Mapping[tuple[str, str], FailedAttempts] = field(default_factory=dict)
    copies: tuple[CopyStatus, ...] = ()
    mark: LSN | None = None
    busy_since: float | None = None
    stuck_since: float | None = None
    waiting_for: tuple[str, ...] = ()
    gave_up: bool = False
    notices: int = 0
    server: str | None = None

    @property
    def failure(self) -> SubscriberError | None:
        """The last failure of a part that does not work now; None while all parts work."""
        return self.failing.error or self.copy_error

    @property
    def failing(self) -> FailedAttempts:
        """The failed attempts of a part that does not work now, the receiver first."""
        parts = (self.faults, self.receiving, self.applying, self.synchronizing, self.rounds, self.marking)
        return next((part for part in parts if part.error is not None), NONE_FAILED)

    @property
    def state(self) -> Literal["stopped", "retrying", "copying", "streaming", "starting"]:
        """The state of the worker as one word, for display."""
        if self.stopped:
            return "stopped"
        if self.failure is not None:
            return "retrying"
        if self.copies:
            return "copying"
        return "streaming" if self.receives and self.applies else "starting"

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to copy, and everything that was received is applied."""
        return self.stopped or (
            self.applies and self.busy_since is None and not self.relations.unfinished and not self.lag_bytes
        )

    @property
    def lag_bytes(self) -> int:
        """The bytes of WAL that are received and not applied."""
        return max(0, self.last_entry - self.applied)

    @property
    def failed_attempts(self) -> tuple[int, int, int]:
        """The number of failures since the worker began: of the receiver, of the query and of whole
        rounds of copies.
        """
        return self.receiving.in_all, self.applying.in_all, self.rounds.in_all

    @property
    def stream_caught_up(self) -> bool:
        """Whether everything up to the mark is applied to the tables that are ready."""
        return self.mark is not None and self.has_applied(self.mark)

    @property
    def caught_up(self) -> bool:
        """Whether everything up to the mark is applied, and all tables are ready."""
        return self.stream_caught_up and not self.relations.unfinished

    @property
    def given_up(self) -> bool:
        """Whether it is useless to wait for the worker: it has stopped, it has failed too often, or
        only tables are left whose copies fail.

        A table that fails ends neither the copies of other tables nor the stream. The value stays
        true after the worker has ended.
        """
        parts = (self.faults, self.receiving, self.applying, self.marking, self.rounds)
        return (
            self.gave_up
            or self.stopped
            or max(part.in_a_row for part in parts) >= PATIENT_FAILURES
            or self._has_only_failing_tables_left
        )

    @property
    def _has_only_failing_tables_left(self) -> bool:
        unfinished = self.relations.unfinished
        return (
            bool(unfinished)
            and all(self._failed_copies(one.schema, one.name).in_a_row >= PATIENT_COPIES for one in unfinished)
            and (self.mark is None or self.stream_caught_up)
        )

    def _failed_copies(self, schema: str, name: str) -> FailedAttempts:
        return self.failed_tables.get((schema, name), NONE_FAILED)

    def has_applied(self, position: LSN) -> bool:
        """Return whether everything that the publisher has committed before ``position`` is applied
        to the tables that are ready.
        """
        # Under load, the journal always has an entry after the position that is not applied yet.
        # Without load, the progress may stay before the position, because nothing is left to apply.
        reached = self.applied >= position or self.applied >= self.last_entry
        return self.applies and self.received >= position and reached

    def copies_settled(self, relations: TableStates, since: float) -> bool:
        """Return whether no table has to be waited for.

        That is so if every table is ready, or has a failed attempt that began after ``since``.

        Args:
            relations: the tables with their current states.
            since: a time in monotonic seconds.
        """
        return all(self._failed_copies(one.schema, one.name).began > since for one in relations.unfinished)

    def summary(self) -> str:
        """Return the state as one line, for display."""
        return (
            f"{self.subscription.name} {self.state}, received {format_lsn(self.received)}, applied {format_lsn(self.applied)},"
            f" lag {self.lag_bytes:,} B, {self.transactions:,} transactions, {self.changes:,} changes"
        )
