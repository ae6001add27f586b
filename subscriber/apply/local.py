"""The transactions of the target that one batch is applied in: one, and more around each that is
prepared there.

::

    B … C  B … C │ b … P │ B … C │ K │ B … C             messages
    └── begin ───┘       └───────┘   └───────┘           commits: data, progress, statistics
                 └───────┘       └───┘                   prepare; COMMIT PREPARED, outside of every transaction

What is prepared keeps its locks until it is finished, so nothing that others write is written in
it: its progress, and the skip LSN that it used up, are moved by the transaction after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Protocol, Self

import sqlalchemy as sa

from subscriber import failpoints
from subscriber.apply.batch_rules import ReadRules, Rules
from subscriber.apply.change_writer import ChangeWriter
from subscriber.apply.failure import with_failure
from subscriber.catalog.prepared_transactions import PreparedTransaction, mark_committed
from subscriber.catalog.progress import Progress
from subscriber.catalog.schema_changes import Alteration
from subscriber.errors import SubscriberError
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.targets import Interruption, Target


class MakeWriter(Protocol):
    """Makes what writes changes in one of the transactions; ``prepared``: in one that is to be
    prepared.
    """

    def __call__(self, connection: sa.Connection, rules: Rules, *, prepared: bool = False) -> ChangeWriter:
        """The writer."""


class LocalTransactions:
    """See the module. A context: leaving it rolls back what is still open.

    Args:
        target: where they are.
        kept: the progress that moves with the data.
        read_rules: reads what the catalog says, in each of them.
        make_writer: makes what writes changes in one of them.
        interruption: ends the statement that runs in one of them.
        on_altered: told what was altered, once it is committed.

    Attributes:
        target: where they are.
        connection: of the open one.
        stored: the progress that the target has.
        rules: what the catalog says in the open one.
        writer: writes changes in the open one.
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
        self._progress = kept
        self._read_rules = read_rules
        self._make_writer = make_writer
        self._interruption = interruption
        self._on_altered = on_altered
        self._block = ExitStack()
        self.stored = INVALID_LSN

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, traceback)

    def start(self) -> LSN:
        """Begin the first one; gives the progress.

        Raises:
            ProgressConflict: none is tracked here (any more).
        """
        self._enter(self.target.begin())
        self.stored = self._progress.read(self.connection)
        return self.stored

    def take(self) -> None:
        """Begin to write in the open one: nobody else may move the progress until it ends.

        Raises:
            ProgressConflict: somebody else has moved it.
        """
        self._progress.lock(self.connection, self.stored)
        self.rules = self._read_rules(self.connection)
        self._open()

    def begin(self) -> None:
        """Begin the next one.

        Raises:
            ProgressConflict: somebody else has moved the progress since the one before.
        """
        self._enter(self.target.begin())
        self.take()

    def commit(self, applied: LSN, timestamp: int | None = None) -> None:
        """Commit the open one, with ``applied`` as the progress.

        Args:
            applied: the progress.
            timestamp: of the last remote commit in it (microseconds since 2000-01-01 UTC).

        Raises:
            ProgressConflict: somebody else has moved it.
        """
        self._progress.advance(self.connection, self.stored, applied)
        if self.target.origins is not None:
            self.target.origins.set_position(self.connection, applied, timestamp)
        failpoints.hit("target.commit.before")
        try:
            self._block.close()
        except SubscriberError as error:
            raise with_failure(error, at_commit=True) from None
        failpoints.hit("target.commit.after")
        self._on_altered(self.writer.alterations)
        self.stored = applied

    def begin_prepared(self, transaction: PreparedTransaction) -> None:
        """Begin one that is to be prepared; it does not touch the progress.

        Nor does it read the catalog, whose tables it would lock: the rules are those of the
        transaction before.

        Raises:
            ApplyError: its name is in use.
        """
        assert self.target.prepared is not None
        self._enter(self.target.prepared.begin(transaction.gid))
        self._open(prepared=True)
        mark_committed(self.connection, transaction.subid, transaction.xid)

    def prepare(self) -> None:
        """Prepare the open one, and begin the next.

        Raises:
            ApplyError: the server does not allow it.
        """
        failpoints.hit("target.prepare.before")
        self._block.close()
        failpoints.hit("target.prepare.after")
        self.begin()

    def finish_prepared(self, gid: str, applied: LSN, *, commit: bool) -> None:
        """Commit the open one, then COMMIT PREPARED or ROLLBACK PREPARED, and begin the next.

        Raises:
            ApplyError: there is no such prepared transaction (any more).
        """
        assert self.target.prepared is not None
        self.commit(applied)
        failpoints.hit("target.finish.before")
        self.target.prepared.finish(gid, commit=commit, origin=self._progress.name)
        failpoints.hit("target.finish.after")
        self.begin()

    def _enter(self, transaction: AbstractContextManager[sa.Connection]) -> None:
        self.connection = self._block.enter_context(transaction)
        # Left first: how a transaction ends is not interrupted.
        self._block.enter_context(self._interruption.of(self.connection))

    def _open(self, *, prepared: bool = False) -> None:
        self.target.transactions.set_synchronous_commit(self.connection, self.rules.synchronous_commit)
        if self._progress.of_subscription and self.target.origins is not None:
            self.target.origins.set(self.connection, self._progress.name)
        self.writer = self._make_writer(self.connection, self.rules, prepared=prepared)
