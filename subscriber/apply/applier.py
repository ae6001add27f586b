"""The interface by which batches of one subscription are applied to one target.

::

    start, end, frames ──▶ Applier.apply ──┬─▶ ApplyResult             the progress is ``end``
                                           └─▶ error, ApplyFailure     nothing of the batch is in the target

:class:`~subscriber.apply.exact.ExactApplier` implements it, and defines what is correct. The
handling of a failure is the same for every applier: :mod:`subscriber.apply.apply_batch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from subscriber.apply.conflicts.conflict import Conflict
from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.errors import ColumnsToAdd
from subscriber.lsn import LSN
from subscriber.protocol.changes import Frame
from subscriber.targets import Interruption, Target


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of one batch.

    Attributes:
        progress: the applied LSN that the target has now.
        transactions: how many of the publisher's transactions were applied.
        changes: how many row changes and truncates these transactions have.
        conflicts: the number of conflicts by kind, such as ``{"update_missing": 2}``.
        commit_timestamp: the commit time of the last applied transaction at its origin
            (microseconds since 2000-01-01 UTC), None when no transaction was applied.
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
        """The target that changes are written to."""

    @property
    def origin(self) -> str:
        """The replication origin's name."""

    @property
    def interruption(self) -> Interruption:
        """The object by which another thread ends a batch in progress."""

    @property
    def two_phase(self) -> bool:
        """Whether the frames must contain prepared transactions at the place of their PREPARE, so
        that the target can prepare them.
        """

    def apply(self, frames: Iterable[Frame], *, start: LSN, end: LSN, before: LSN | None = None) -> ApplyResult:
        """Apply the transactions that finished in (``start``, ``end``], and make ``end`` the
        progress.

        Args:
            frames: the frames of the batch; they are consumed one at a time.
            start: where the batch begins: the end of the previous batch.
            end: where the batch ends, at an end LSN.
            before: stop after the transaction that finished at this LSN; ``end`` must be the same
                LSN.

        Raises:
            OrderMatters: nothing of the batch is in the target; call it again, and it applies the
                batch in the publisher's order. Not raised with ``before``.
            SubscriberError: nothing of the batch is in the target. If trying again does not help,
                the error carries an :class:`~subscriber.apply.conflicts.failure.ApplyFailure`.
        """

    def examine(self, frames: Iterable[Frame], conflict: Conflict, *, start: LSN, end: LSN) -> Conflict | None:
        """Find all keys that are violated by a conflict that stopped :meth:`apply`; None where that
        is not possible.
        """

    def has_not_asked(self, needed: ColumnsToAdd) -> bool:
        """Whether the publisher must be asked about the columns, and was not asked yet."""

    def ask_publisher(self, needed: ColumnsToAdd) -> None:
        """Ask the publisher for the values that older rows have in the columns to be added.

        Raises:
            PublisherError: the publisher cannot be asked.
        """

    def add_columns(self, needed: ColumnsToAdd) -> None:
        """Alter a table of the target in a separate transaction, where that cannot be part of the
        batch's transaction.

        Raises:
            TargetRelationError: the target refused.
        """

    def read_progress(self) -> LSN:
        """The progress that the target has.

        Raises:
            ProgressConflict: the target does not track this progress, or no longer does.
            TargetUnavailable: try again.
        """
