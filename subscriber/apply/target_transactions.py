"""The transactions of the target in which a batch is applied: a single one, or several if
transactions are prepared there.

::

    B … C  B … C │ b … P │ B … C │ K │ B … C             messages
    └── begin ───┘       └───────┘   └───────┘           commits: data, progress, statistics
                 └───────┘       └───┘                   prepare; COMMIT PREPARED, outside of every transaction

A prepared transaction keeps its locks until COMMIT PREPARED or ROLLBACK PREPARED. Therefore it
writes no rows that other sessions also write: the transaction after it moves the progress and
clears the skip LSN.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Protocol, Self

import sqlalchemy as sa

from subscriber.apply.applier import ReadRules, Rules
from subscriber.apply.conflicts.conflict import with_failure
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.base import failpoints
from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog import deleted_rows
from subscriber.catalog.prepared_transactions import PreparedTransaction, mark_committed
from subscriber.catalog.progress import Progress
from subscriber.catalog.schema_changes import Alteration
from subscriber.targets import Interruption, Target


class MakeWriter(Protocol):
    """Creates the writer of changes for a transaction; ``prepared``: one that is to be prepared."""

    def __call__(self, connection: sa.Connection, rules: Rules, *, prepared: bool = False) -> ChangeWriter: ...


class TargetTransactions:
    """The transactions of the target in which a batch is applied, as a context manager. An error
    rolls back the open transaction.

    Args:
        kept: the progress that moves with the data.
        read_rules: reads the catalog's settings, in each transaction.
        interruption: ends the statement that runs in a transaction.
        on_altered: called with the alterations of tables, after they are committed.

    Attributes:
        origin: with which changes are marked, where the target can do so.
        stored: the progress that the target has.
        commit_seconds: how long the commits have taken.
        connection: that of the open transaction, as are ``rules`` and ``writer``.
    """

    connection: sa.Connection
    rules: Rules
    writer: ChangeWriter

    def __init__(
        self,
        target: Target,
        kept: Progress,
        read_rules: ReadRules,
        make_writer: MakeWriter,
        interruption: Interruption,
        on_altered: Callable[[Sequence[Alteration]], None],
    ) -> None:
        self.target = target
        self.origin = kept.name
        self._progress = kept
        self._read_rules = read_rules
        self._make_writer = make_writer
        self._interruption = interruption
        self._on_altered = on_altered
        self._block = ExitStack()
        self.stored = INVALID_LSN
        self._moved_to = INVALID_LSN
        self.commit_seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, traceback)

    def start(self, expected: LSN, end: LSN) -> LSN:
        """Begin the first transaction, of a batch up to ``end``; returns the stored progress, or
        raises ProgressConflict. Usually the progress is as ``expected``, and one statement checks,
        locks and moves it.
        """
        self._enter(self.target.begin())
        if expected < end and self._progress.begin(self.connection, expected, end):
            self.stored, self._moved_to = expected, end
        else:
            self.stored = self._moved_to = self._progress.read(self.connection)
        return self.stored

    def take(self) -> None:
        """Begin to write: no other session may move the progress until the transaction ends.
        ProgressConflict, also in :meth:`begin` and :meth:`commit`, tells that one has moved it.
        """
        if self._moved_to == self.stored:
            self._progress.lock(self.connection, self.stored)
        self.rules = self._read_rules(self.connection)
        self._record()
        self._open()

    def begin(self) -> None:
        self._enter(self.target.begin())
        self.take()

    def commit(self, applied: LSN, timestamp: int | None = None) -> None:
        """Commit; ``timestamp`` is the last remote transaction's (µs since 2000-01-01 UTC)."""
        self._move(applied)
        if self.target.origins is not None:
            self.target.origins.set_position(self.connection, applied, timestamp)
        failpoints.hit("target.commit.before")
        began = time.perf_counter()
        try:
            self._block.close()
        except SubscriberError as error:
            raise with_failure(error, at_commit=True) from None
        self.commit_seconds += time.perf_counter() - began
        failpoints.hit("target.commit.after")
        self._on_altered(self.writer.alterations)
        self.stored = self._moved_to = applied

    def _move(self, applied: LSN) -> None:
        """Move the progress to where this transaction ends: a prepared one ends it early."""
        if applied >= self.stored and self._moved_to > self.stored:
            if applied != self._moved_to:
                self._progress.restart(self.connection, self._moved_to, applied)
            return
        self._progress.advance(self.connection, self.stored, applied)

    def begin_prepared(self, transaction: PreparedTransaction) -> None:
        """Begin a transaction that is to be prepared. It does not move the progress, and uses the
        rules of the previous transaction, because reading the catalog would lock its tables.
        """
        assert self.target.prepared is not None
        self._enter(self.target.prepared.begin(transaction.gid))
        self._record()
        self._open(prepared=True)
        mark_committed(self.connection, transaction.subid, transaction.xid)

    def prepare(self) -> None:
        failpoints.hit("target.prepare.before")
        self._block.close()
        failpoints.hit("target.prepare.after")
        self.begin()

    def finish_prepared(self, gid: str, applied: LSN, *, commit: bool) -> None:
        """Commit, execute COMMIT PREPARED or ROLLBACK PREPARED, and begin the next transaction."""
        assert self.target.prepared is not None
        self.commit(applied)
        failpoints.hit("target.finish.before")
        self.target.prepared.finish(gid, commit=commit, origin=self._progress.name)
        failpoints.hit("target.finish.after")
        self.begin()

    def _record(self) -> None:
        if self.rules.records:
            self._block.enter_context(deleted_rows.deleted_by(self.connection, self.target, self._progress.name))

    def _enter(self, transaction: AbstractContextManager[sa.Connection]) -> None:
        self.connection = self._block.enter_context(transaction)
        # This context is left first, so that the end of a transaction is not interrupted.
        self._block.enter_context(self._interruption.of(self.connection))

    def _open(self, *, prepared: bool = False) -> None:
        self.target.transactions.set_synchronous_commit(self.connection, self.rules.options.synchronous_commit)
        if self._progress.of_subscription and self.target.origins is not None:
            self.target.origins.set(self.connection, self.origin)
        self.writer = self._make_writer(self.connection, self.rules, prepared=prepared)
