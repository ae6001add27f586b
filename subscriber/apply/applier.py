"""The interface by which batches of one subscription are applied to one target.

:class:`~subscriber.apply.exact.ExactApplier` implements it, and :mod:`subscriber.apply.apply_batch`
handles its failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import sqlalchemy as sa

from subscriber.apply.conflicts.conflict import Conflict
from subscriber.base.errors import ColumnsToAdd
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog.own_tables import ConflictKind
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.protocol.messages import Relation
from subscriber.targets import Interruption, Target


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of one batch: the ``progress`` that the target has now, and what was applied.

    Attributes:
        progress: the applied LSN that the target has now.
        transactions: how many of the publisher's transactions were applied.
        changes: how many row changes and truncates these transactions have.
        conflicts: the number of conflicts by kind, such as ``{"update_missing": 2}``.
        commit_timestamp: the commit time of the last applied transaction at its origin
            (microseconds since 2000-01-01 UTC), None when no transaction was applied.
        rows: how many rows were written, by schema and name of the publisher's table and by
            operation; changes of one row that were merged count once.
        replaced: how many values got NULL instead. skipped: how many transactions SKIP left out.
        exact: why the changes were applied in the publisher's order; None if they could be
            reordered.
        seconds: the time that it took, by stage.
    """

    progress: LSN
    transactions: int = 0
    changes: int = 0
    conflicts: Mapping[ConflictKind, int] = field(default_factory=dict)
    commit_timestamp: int | None = None
    rows: Mapping[tuple[str, str, str], int] = field(default_factory=dict, compare=False)
    replaced: int = 0
    skipped: int = 0
    exact: str | None = field(default=None, compare=False)
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)


class Applier(Protocol):
    """Applies batches of one subscription to one target."""

    @property
    def target(self) -> Target: ...

    @property
    def origin(self) -> str:
        """The replication origin's name."""

    @property
    def version(self) -> int:
        """The major version of PostgreSQL whose words errors have."""

    @property
    def interruption(self) -> Interruption:
        """By this, another thread ends a batch in progress."""

    @property
    def two_phase(self) -> bool:
        """Whether frames must contain prepared transactions at the place of their PREPARE."""

    def apply(self, frames: Iterable[Frame], *, start: LSN, end: LSN, before: LSN | None = None) -> ApplyResult:
        """Apply the transactions that finished in (``start``, ``end``], and make ``end``, an end
        LSN, the progress. ``start`` is the end of the previous batch. The frames are consumed one
        at a time. With ``before``, which is the same LSN as ``end``, stop after the transaction
        that finished there.

        After an error, nothing of the batch is in the target. After OrderMatters, which is not
        raised with ``before``, another call applies the batch in the publisher's order. If trying
        again does not help, the error carries an
        :class:`~subscriber.apply.conflicts.conflict.ApplyFailure`.
        """

    def examine(self, frames: Iterable[Frame], conflict: Conflict, *, start: LSN, end: LSN) -> Conflict | None:
        """Find all keys violated by a conflict that stopped :meth:`apply`; None if not possible."""

    def knows_defaults_of(self, needed: ColumnsToAdd) -> bool:
        """Whether the publisher was asked about the columns."""

    def ask_publisher(self, needed: ColumnsToAdd) -> None:
        """Ask for the values that older rows have in the columns, or raise PublisherError."""

    def add_columns(self, needed: ColumnsToAdd) -> None:
        """Alter a table in a transaction of its own, or raise TargetRelationError."""

    def read_progress(self) -> LSN:
        """The target's progress; raises ProgressConflict if it tracks none, or no longer."""


# The catalog's settings ---------------------------------------------------------------------------

ShouldApply = Callable[[Relation, LSN], bool]
"""Whether changes of a relation are applied in a transaction with this commit LSN (rules C4, D5).
The relation's table is looked up in both cases.
"""


ANY_FORMAT: Final = SubscriptionOptions(binary=True)
"""Options under which changes are applied in both formats."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The catalog's settings for a batch.

    Attributes:
        should_apply: relations for which it returns False are looked up, and their changes are
            ignored (rules C4, D5).
        skip_lsn: the transaction to leave out (rule C40), or 0/0. ``clear_skip`` clears it in the
            batch's transaction, after it was used (rule C41).
        options: those of the subscription. With ``binary``, values in binary format are accepted
            only by columns that read this form; otherwise they are converted in the same way as
            text values (rule C5).
        is_shared: whether another subscription also writes to the target's table of a relation.
        retains: an UPDATE that does not find its row looks for the row among the deleted ones.
        records: deleted rows are recorded, for this or another subscription.
        source: what the rules were made from; they are the same as others with an equal source.
    """

    should_apply: ShouldApply = field(default=lambda _relation, _lsn: True)
    skip_lsn: LSN = INVALID_LSN
    clear_skip: Callable[[sa.Connection], None] = field(default=lambda _connection: None)
    options: SubscriptionOptions = ANY_FORMAT
    is_shared: Callable[[Relation], bool] = field(default=lambda _relation: False)
    retains: bool = False
    records: bool = False
    source: object = None


ReadRules = Callable[[sa.Connection], Rules]
"""Reads the rules of one batch in the batch's transaction. A setting that a command changes
meanwhile is used from the next batch on. A table that was handed over before the batch is included.
"""
