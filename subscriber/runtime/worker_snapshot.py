"""One picture of a running subscription, as of one moment: what is shown, logged, waited for and
reported of a worker.

::

    worker.snapshot() ──▶ WorkerSnapshot ──▶ live table, demo, log ── run --once ── scenario engine ── status file

A snapshot is data: whoever has one may ask it anything, in any thread. All of it is taken from
memory, but for the journal's positions. These only move forward, both are of one reading, and the
target's progress is taken after them; so :meth:`WorkerSnapshot.has_applied` may be late and is
never wrong.
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
"""How many failures in a row `run --once` puts up with: about ten seconds of a publisher or target
that restarts.
"""
PATIENT_COPIES: Final = 2
"""How many failed copies of one table it puts up with."""

NONE_FAILED: Final = FailedAttempts()


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """See the module.

    Attributes:
        subscription: what the worker works for.
        began: when it was started (monotonic seconds), which tells it from another worker of the
            same subscription.
        relations: its tables, as they were when the catalog was last read.
        stopped: whether it has failed for good.
        disabled: whether that has disabled the subscription, as ``disable_on_error`` asks.
        receives: whether a receiver streams, which has checked the publisher's history.
        applies: whether a query runs.
        received: how far the journal has received.
        last_entry: where the journal's last entry ends.
        applied: the target's progress; 0/0 while it is not known.
        transactions: how many were applied since the worker began.
        changes: how many changes they had.
        receiving: failed attempts to receive.
        applying: failed attempts to apply.
        synchronizing: failed attempts to begin with the tables' copies.
        rounds: failed rounds of copies.
        marking: failed attempts to write the mark.
        copy_error: why a copy has failed last; None once every table is ready.
        failed_tables: the tables whose last copy or hand-over has failed, by schema and name.
        copies: the tables that are being copied.
        mark: the publisher's position that ``run --once`` waits for; None where it is not set.
        busy_since: since when a batch or a copy holds the target (monotonic seconds); None where
            none does.
        stuck_since: when the batch began that holds a change which cannot be applied (monotonic
            seconds); None where there is none. Only a change of the target's own, made after that,
            can let it go on.
        waiting_for: the questions to a server that have no answer yet, in words.
        gave_up: whether it had given up when it was told to end.
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
    copy_error: SubscriberError | None = None
    failed_tables: Mapping[tuple[str, str], FailedAttempts] = field(default_factory=dict)
    copies: tuple[CopyStatus, ...] = ()
    mark: LSN | None = None
    busy_since: float | None = None
    stuck_since: float | None = None
    waiting_for: tuple[str, ...] = ()
    gave_up: bool = False

    @property
    def failure(self) -> SubscriberError | None:
        """The last failure of what does not work; None while everything does."""
        return (
            self.receiving.error
            or self.applying.error
            or self.synchronizing.error
            or self.copy_error
            or self.marking.error
        )

    @property
    def state(self) -> Literal["stopped", "retrying", "copying", "streaming", "starting"]:
        """One word for people."""
        if self.stopped:
            return "stopped"
        if self.failure is not None:
            return "retrying"
        if self.copies:
            return "copying"
        return "streaming" if self.receives and self.applies else "starting"

    @property
    def lag_bytes(self) -> int:
        """Bytes of WAL that are received and not applied."""
        return max(0, self.last_entry - self.applied)

    @property
    def failed_attempts(self) -> tuple[int, int, int]:
        """How often the receiver, the query and a round of copies have failed since the worker
        began.
        """
        return self.receiving.in_all, self.applying.in_all, self.rounds.in_all

    @property
    def stream_caught_up(self) -> bool:
        """Whether everything up to the mark is in those tables of the target that are ready."""
        return self.mark is not None and self.has_applied(self.mark)

    @property
    def caught_up(self) -> bool:
        """Whether everything up to the mark is in the target."""
        return self.stream_caught_up and not self.relations.unfinished

    @property
    def given_up(self) -> bool:
        """Whether somebody who waits for it should not: it is stopped, or nothing that could still
        succeed is left to be waited for.

        A table that fails does not end the copies of others, nor the stream. It stays true when the
        worker has ended.
        """
        parts = (self.receiving, self.applying, self.marking, self.rounds)
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
        """Whether everything that the publisher has committed before ``position`` is in those
        tables that are ready.
        """
        # Under load there is always something after the position that is not applied yet; without,
        # nothing is applied that is as far.
        reached = self.applied >= position or self.applied >= self.last_entry
        return self.applies and self.received >= position and reached

    def copies_settled(self, relations: TableStates, since: float) -> bool:
        """Whether no table's copy is worth waiting for.

        A table is ready, or an attempt to copy it has failed that began after ``since``.

        Args:
            relations: the tables as they are now.
            since: monotonic seconds.
        """
        return all(self._failed_copies(one.schema, one.name).began > since for one in relations.unfinished)

    def summary(self) -> str:
        """One line for people."""
        return (
            f"{self.subscription.name} {self.state}, received {format_lsn(self.received)}, applied {format_lsn(self.applied)},"
            f" lag {self.lag_bytes:,} B, {self.transactions:,} transactions, {self.changes:,} changes"
        )
