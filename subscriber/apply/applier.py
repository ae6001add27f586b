"""What applies batches of one subscription to one target, as those see it who hand the batches
over.

::

    start, end, frames ──▶ Applier.apply ──┬─▶ ApplyResult             the progress is ``end``
                                           └─▶ error, ApplyFailure     nothing of the batch is in the target

:class:`~subscriber.apply.exact.ExactApplier` is the first, and the definition of correct. What is
to be done after a failure is the same for every applier: :mod:`subscriber.apply.apply_batch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from subscriber.apply.conflict import Conflict
from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.errors import ColumnsToAdd
from subscriber.lsn import LSN
from subscriber.protocol.changes import Frame
from subscriber.targets import Interruption, Target


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What one batch did.

    Attributes:
        progress: the applied LSN in the target now.
        transactions: how many of the publisher's transactions were applied.
        changes: row changes and truncates in them.
        conflicts: kind to number, such as ``{"update_missing": 2}``.
        commit_timestamp: the last applied transaction's commit time at its origin (microseconds
            since 2000-01-01 UTC), None when there was none.
    """

    progress: LSN
    transactions: int = 0
    changes: int = 0
    conflicts: Mapping[ConflictKind, int] = field(default_factory=dict)
    commit_timestamp: int | None = None


class Applier(Protocol):
    """Applies batches of one subscription to one target."""

    @property
    def target(self) -> Target:
        """Where to."""

    @property
    def origin(self) -> str:
        """The replication origin's name."""

    @property
    def interruption(self) -> Interruption:
        """By which another thread ends a batch in progress."""

    @property
    def two_phase(self) -> bool:
        """Whether frames are to have prepared transactions where they were prepared, for the target
        to prepare them.
        """

    def apply(self, frames: Iterable[Frame], *, start: LSN, end: LSN, before: LSN | None = None) -> ApplyResult:
        """Apply the transactions that finished in (``start``, ``end``], and make ``end`` the
        progress.

        Args:
            frames: the batch, consumed one at a time.
            start: where the batch begins: the end of the batch before it.
            end: where it ends, at a finish LSN.
            before: stop after the transaction that finished here; ``end`` must be the same.

        Raises:
            SubscriberError: nothing of the batch is in the target; where trying again does not
                help, the error carries an :class:`~subscriber.apply.failure.ApplyFailure`.
        """

    def examine(self, frames: Iterable[Frame], conflict: Conflict, *, start: LSN, end: LSN) -> Conflict | None:
        """All of what a conflict that stopped :meth:`apply` violates; None where that cannot be
        found out.
        """

    def has_not_asked(self, needed: ColumnsToAdd) -> bool:
        """Whether the publisher is to be asked about columns, and has not been."""

    def ask_publisher(self, needed: ColumnsToAdd) -> None:
        """Ask the publisher what older rows have in columns that are to be added.

        Raises:
            PublisherError: it cannot be asked.
        """

    def add_columns(self, needed: ColumnsToAdd) -> None:
        """Alter a table of the target by itself, where that cannot be a part of the batch's
        transaction.

        Raises:
            TargetRelationError: the target refused.
        """

    def read_progress(self) -> LSN:
        """The progress that the target has.

        Raises:
            ProgressConflict: none is tracked here (any more).
            TargetUnavailable: try again.
        """
