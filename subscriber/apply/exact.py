"""The exact path: one micro-batch becomes one transaction of the target. The definition of correct.

::

    BEGIN
      stored := read progress        at least ``start``, or a gap would be skipped: JournalGap
      lock progress at stored        nobody else may move it until we are done
      for each frame, in order       transactions that finished at or below ``stored`` are read past
        for each run of changes      one executemany; controls say where transactions begin and end
      progress := ``end``            in the same transaction (invariant progress_with_data)
      count conflicts
    COMMIT                           failpoints target.commit.before / .after around it

A target transaction holds whole transactions of the publisher, in their order (invariant commit_order), and
one frame at a time is in memory (invariant bounded_memory).

When a change cannot be applied everything is rolled back, and the error tells (:func:`applied_before`) where
the last good transaction finished. The caller then applies once more with ``end`` and ``before`` at that LSN:
the good prefix is committed as PostgreSQL would have, and the subscription stops at the bad transaction.
Savepoints around every transaction would spare the second pass, and cost every batch for the sake of the
failing one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from subscriber import failpoints
from subscriber.apply import progress
from subscriber.apply.batch import Batch, Scope, ShouldApply
from subscriber.apply.progress import Progress
from subscriber.apply.writer import ChangeWriter, StatementCache
from subscriber.errors import JournalGap
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.protocol.changes import Frame
from subscriber.target import Target


@dataclass(frozen=True, slots=True)
class Rules:
    """What the catalog says about a batch.

    Attributes:
        should_apply: relations it says no to are ignored before their name is looked up (rules C4, D5).
        skip_lsn: the transaction to leave out (rule C40); 0/0 is none.
        clear_skip: forgets ``skip_lsn`` in the batch's transaction, when it is used up (rule C41).
        synchronous_commit: how the target is to commit, see :meth:`Target.set_synchronous_commit`.
    """

    should_apply: ShouldApply = field(default=lambda _relation, _lsn: True)
    skip_lsn: LSN = INVALID_LSN
    clear_skip: Callable[[sa.Connection], None] = field(default=lambda _connection: None)
    synchronous_commit: str = "off"


ReadRules = Callable[[sa.Connection], Rules]
"""Reads the rules of one batch in its transaction: what a command has changed meanwhile holds from the next batch on, and a table
that was handed over before the batch is in it."""


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What one batch did.

    Attributes:
        progress: the applied LSN in the target now.
        transactions: how many of the publisher's transactions were applied.
        changes: row changes and truncates in them.
        conflicts: kind to number, such as ``{"update_missing": 2}``.
        commit_timestamp: the last applied transaction's commit time at its origin (microseconds since
            2000-01-01 UTC), None when there was none.
    """

    progress: LSN
    transactions: int = 0
    changes: int = 0
    conflicts: Mapping[str, int] = field(default_factory=dict)
    commit_timestamp: int | None = None


class ExactApplier:
    """Applies batches of one subscription to one target.

    Args:
        target: where to.
        subscription: its name, for the statistics.
        subid: its number; the replication origin is ``pg_<subid>`` (rule C34).
        read_rules: what to apply; everything where it is not given.
        kept: what is moved with the data; the subscription's own progress where it is not given.
    """

    def __init__(
        self,
        target: Target,
        *,
        subscription: str,
        subid: int,
        read_rules: ReadRules | None = None,
        kept: Progress | None = None,
    ) -> None:
        self.target = target
        self.subscription = subscription
        self.subid = subid
        self._read_rules = read_rules or _apply_everything
        self._progress: Final = kept or progress.OriginProgress(subid)
        self._statements: StatementCache = {}

    def apply(self, frames: Iterable[Frame], *, start: LSN, end: LSN, before: LSN | None = None) -> ApplyResult:
        """Apply the transactions that finished in (``start``, ``end``], and make ``end`` the progress.

        ``start`` may lie below the stored progress: then the stored progress is what counts, and what
        finished at or below it is read past. Replaying a batch that is already applied does nothing.

        Args:
            frames: the batch, consumed one at a time.
            start: where the batch begins: the end of the batch before it.
            end: where it ends, at a finish LSN.
            before: stop after the transaction that finished here; ``end`` must be the same.

        Raises:
            JournalGap: the stored progress lies below ``start``.
            ProgressConflict: another runner moved the progress.
            ApplyError: a change cannot be applied; see :func:`~subscriber.apply.conflict.applied_before`.
            ProtocolError: messages out of order, or a commit that does not fit its begin (C31).
            TargetUnavailable: try again.
        """
        with self.target.begin() as connection:
            stored = self._progress.read(connection)
            if stored < start:
                raise _gap(self._progress.name, stored, start)
            if stored >= end:
                return ApplyResult(stored)
            self._progress.lock(connection, stored)
            rules = self._read_rules(connection)
            self.target.set_synchronous_commit(connection, rules.synchronous_commit)
            scope = Scope(
                self._progress.name,
                self.subscription,
                rules.should_apply,
                stored=stored,
                end=end,
                before=before,
                tentative=stored > start or before is not None,
                skip_lsn=rules.skip_lsn,
            )
            batch = Batch(scope, connection, ChangeWriter(self.target, connection, self._statements))
            batch.run(frames)
            if batch.skip_lsn != rules.skip_lsn:
                rules.clear_skip(connection)
            self._progress.advance(connection, stored, end)
            progress.count_conflicts(connection, self.subid, self.subscription, batch.tally.by_kind())
            failpoints.hit("target.commit.before")
        failpoints.hit("target.commit.after")
        batch.tally.log()
        conflicts = batch.tally.by_kind()
        return ApplyResult(end, batch.transactions, batch.changes, conflicts, batch.commit_timestamp)


def _apply_everything(_connection: sa.Connection) -> Rules:
    return Rules()


def _gap(origin: str, stored: LSN, start: LSN) -> JournalGap:
    return JournalGap(
        f"the target has applied up to {format_lsn(stored)}, but the batch begins at {format_lsn(start)}",
        detail=f'The progress of replication origin "{origin}" lies before the batch; changes between would be lost.',
        hint="Was the target restored from a backup? Start the pipeline again from the target's progress.",
        lsn=stored,
    )
