"""Several writers of one subscription (``parallel_apply``): each has a connection of the target,
and they commit in the publisher's order.

::

    a batch:  piece 1 │ piece 2 │ piece 3 │ …                       whole transactions of the publisher
    writer 1  begin ── write 1 ────────── commit ── begin ── write 4 ────── commit
    writer 2  begin ──── write 2 ── wait ──────── commit ── …
    writer 3  begin ── write 3 ── wait ─────────────────── commit ── …
    readers          nothing         1    1, 2     1, 2, 3                  a prefix of the publisher's order

A piece is a transaction of the target as any other batch: its progress moves last, after the
commit of the piece before (invariants commit_order, progress_with_data). So the row of the progress
is locked only between two commits.

A piece may be written beside an earlier one if both touch different rows
(:mod:`subscriber.apply.touched_rows`). It meets an earlier piece: it waits for its commit. In all
other cases it is *alone*: later pieces are rolled back, and it is applied after the commit of the
piece before, as without the option. These cases are:

- It has a TRUNCATE, or a table of which rows cannot be told apart, or whose rows are connected.
- A change did not find its row, or any statement failed.
- The rules were changed by a command meanwhile.
- The piece before has not committed for a while. It may wait for a lock that this piece holds,
  which the server cannot know, because this piece waits here.

So only what is applied alone can have a conflict, or stop the subscription. Where a batch has
a prepared transaction, or a transaction that is too large to be held in memory, the rest of the
batch is applied as without the option.

*Rejected:* locks of the target alone, without a comparison of rows. Pieces that meet would wait for
each other until the patience ends. *Rejected:* transactions that are prepared, and committed later.
They cost two more writes to disk, and keep their locks if the program ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from subscriber.apply.applier import ApplyResult, ReadRules, Rules
from subscriber.apply.exact import BulkApplier
from subscriber.apply.reorder import OrderMatters
from subscriber.apply.target_transactions import TargetTransactions
from subscriber.apply.touched_rows import TouchedRows, meet, touched_rows
from subscriber.base.errors import Stopped, SubscriberError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import Relation
from subscriber.targets import Interruption, Target

logger = logging.getLogger(__name__)

LEAST_CHANGES: Final = 4_096
"""A piece has at least this many changes, so that the commits do not take most of the time."""
_MOST_BYTES: Final = 32 * 1024 * 1024
"""A piece has about this many bytes at most; as many pieces as there are writers are in memory."""
_PATIENCE_SECONDS: Final = 1.0
_PATIENCE_FACTOR: Final = 2
"""How long a piece waits for the commit of the one before: a second, and twice the time that it was
written in itself.
"""
_POLL_SECONDS: Final = 0.1
_COMMIT, _TRUNCATE = b"CT"
_POSSIBLE: Final = np.frombuffer(b"BCOT", np.uint8)


class ParallelApplier(BulkApplier):
    """Applies a batch by several ``writers``. ``pieces`` counts how pieces were applied."""

    def __init__(self, target: Target, *, writers: int, **arguments: Any) -> None:
        super().__init__(target, **arguments)
        self._known = None  # it is for one thread, as the caches of the rules are
        self._read_rules = _one_at_a_time(self._read_rules)
        self.pieces: Counter[str] = Counter()
        self._writers = writers
        self._is_possible: bool | None = None
        self._once_alone = False

    def apply(self, frames: Iterable[Frame], *, start: LSN, end: LSN, before: LSN | None = None) -> ApplyResult:
        alone, self._once_alone = self._once_alone or self._exact_batches > 0, False
        if before is not None or alone or self._on_message is not None:
            return super().apply(frames, start=start, end=end, before=before)
        cut = _Cut(frames, start)
        first = next(cut.pieces, None)
        if first is None and cut.error is None:
            return super().apply(cut.rest(), start=start, end=end)
        if first is None or self.read_progress() != start or not self._possible():
            self._once_alone = True
            raise OrderMatters
        results = self._apply_pieces(chain([first], cut.pieces), cut, end)
        if cut.error is not None:  # it is raised by the transaction in which it happens
            self._once_alone = True
            raise OrderMatters
        if not cut.is_whole:
            results.append(super().apply(cut.rest(), start=cut.start, end=end))
        return _sum(results)

    def _possible(self) -> bool:
        """Whether the changes of all writers are marked in the same way."""
        origins = self.target.origins
        if self._is_possible is None and origins is not None and self._progress.of_subscription:
            marked = set()
            for name in (self.origin, *(_origin(self.origin, number) for number in range(self._writers))):
                with self.target.reporting(), self.target.engine.connect() as connection:
                    marked.add(origins.set(connection, name))
            self._is_possible = len(marked) == 1
            if not self._is_possible:
                logger.warning(
                    'subscription "%(subscription)s" has one writer: the target has no replication origins left',
                    {"subscription": self.subscription},
                )
        return self._is_possible is not False

    def _apply_pieces(self, pieces: Iterable[_Piece], cut: _Cut, end: LSN) -> list[ApplyResult]:
        line = _Line(self.interruption.check)
        results: list[ApplyResult] = []
        running: deque[Future[ApplyResult]] = deque()
        with ThreadPoolExecutor(self._writers, f"{self.origin} writer") as pool:
            try:
                for number, piece in enumerate(chain(pieces, cut.last(end))):
                    if len(running) == self._writers:
                        results.append(running.popleft().result())
                    piece.writer, piece.interruption = number % self._writers, Interruption(self.target)
                    line.join(piece)
                    running.append(pool.submit(self._apply_piece, line, piece))
                results += [future.result() for future in running]
            except BaseException as error:
                raise line.fail(error) from None
        return results

    def _apply_piece(self, line: _Line, piece: _Piece) -> ApplyResult:
        try:
            result = None if piece.truncates else self._apply_beside(line, piece)
            if result is None:
                line.be_alone(piece)
                self.pieces["alone"] += 1
                result = self._apply_alone(piece)
            line.leave(piece)
        except BaseException as error:
            line.fail(error)
            raise
        return result

    def _apply_alone(self, piece: _Piece) -> ApplyResult:
        while True:
            try:
                return super().apply(piece.frames, start=piece.start, end=piece.end)
            except OrderMatters:
                continue  # the next attempt is made in the publisher's order

    def _apply_beside(self, line: _Line, piece: _Piece) -> ApplyResult | None:
        """Apply a piece while others are written; None if it is to be applied alone."""
        while True:
            try:
                result = self._write_beside(line, piece)
            except _MeetsOther as met:
                line.wait_for(piece, met.pieces)
                continue
            except Stopped:
                self.interruption.check()
                return None  # an earlier piece is to be alone
            except (_BeAlone, OrderMatters, SubscriberError) as error:
                logger.debug('subscription "%s": a piece is applied alone: %s', self.subscription, error)
                return None
            finally:
                line.rolled_back(piece)
            self.pieces["beside"] += 1
            return result

    def _write_beside(self, line: _Line, piece: _Piece) -> ApplyResult:
        began = time.monotonic()
        arguments = (self._progress, self._read_rules, self._writer, self.interruption, self._changes.log)
        with _PieceTransaction(piece, self.target, *arguments) as local:
            local.begin()
            line.admit(piece, self._touched(local, piece))
            batch = self._batch(local, piece.end, reorders=True)
            batch.run(piece.frames)
            if batch.tally.conflicts.counts or batch.replaced:
                raise _BeAlone("it has conflicts")
            patience = _PATIENCE_SECONDS + _PATIENCE_FACTOR * (time.monotonic() - began)
            line.wait_for_turn(piece, patience)
            local.take()
            batch.commit(piece.end)
        return ApplyResult(
            piece.end,
            batch.transactions,
            batch.changes,
            commit_timestamp=batch.commit_timestamp,
            rows=batch.rows,
            exact=batch.exact,
            seconds={"commit": local.commit_seconds},
        )

    def _touched(self, local: TargetTransactions, piece: _Piece) -> TouchedRows:
        """The rows that a piece touches, or _BeAlone."""
        rules, connection = local.rules, local.connection
        if not _is_plain(rules):
            raise _BeAlone("an option of the subscription needs one writer")

        def place(relation: Relation) -> tuple[str, str] | None:
            if not rules.should_apply(relation, piece.end):
                return None
            if not self._changes.is_same(relation):
                self._changes.before(connection, relation)
            if not self._changes.is_same(relation):
                raise _BeAlone("a table has another shape")  # which one writer stores
            schema, name = rules.options.map.in_target(relation.namespace, relation.name)
            return schema.casefold(), name.casefold()  # some servers have one table for both

        for frame in piece.frames:
            local.writer.read_tables({group.relation for group in frame.groups})
        found = touched_rows(piece.frames, local.writer.independent_key, place)
        if found is None:
            raise _BeAlone("the rows of a table are connected, or cannot be told apart")
        return found


def _is_plain(rules: Rules) -> bool:
    options = rules.options
    return not (
        rules.skip_lsn != INVALID_LSN
        or rules.retains
        or rules.records
        or options.history_rules.any
        or options.transform.columns
        or options.conflict_resolvers.chosen
        or options.unrepresentable_values.replace_any
    )


def _one_at_a_time(read: ReadRules) -> ReadRules:
    lock = threading.Lock()

    def locked(connection: sa.Connection) -> Rules:
        with lock:
            return read(connection)

    return locked


def _origin(name: str, writer: int) -> str:
    return f"{name}_{writer + 1}"


def _sum(results: Sequence[ApplyResult]) -> ApplyResult:
    times = [one.commit_timestamp for one in results if one.commit_timestamp is not None]
    conflicts: Counter[Any] = Counter()
    rows: Counter[tuple[str, str, str]] = Counter()
    for one in results:
        conflicts.update(one.conflicts)
        rows.update(one.rows)
    return ApplyResult(
        results[-1].progress,
        sum(one.transactions for one in results),
        sum(one.changes for one in results),
        conflicts,
        times[-1] if times else None,
        rows,
        sum(one.replaced for one in results),
        sum(one.skipped for one in results),
        next((one.exact for one in results if one.exact is not None), None),
        {"commit": sum(one.seconds.get("commit", 0.0) for one in results)},
    )


# Pieces -------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Piece:
    """Whole transactions that finished in (``start``, ``end``].

    Attributes:
        truncates: whether it has a TRUNCATE, which locks a table.
        writer: the number of the writer.
        interruption: ends the writing of this piece, if an earlier one is to be alone.
        is_known: whether ``touched`` is known; it is None for a piece that is to be alone.
        is_written: whether its transaction may hold locks of rows.
    """

    frames: list[Frame]
    start: LSN
    end: LSN
    truncates: bool
    writer: int = 0
    interruption: Interruption = field(init=False)
    is_known: bool = False
    touched: TouchedRows | None = None
    is_written: bool = False


class _Cut:
    """Cuts the frames of a batch into pieces. What comes after the last of ``pieces`` is
    ``is_whole`` if it can be another piece. ``error`` is that of reading frames.
    """

    def __init__(self, frames: Iterable[Frame], start: LSN) -> None:
        self.start = start
        self.error: SubscriberError | None = None
        self.is_whole = True
        self._frames = iter(frames)
        self._left: list[Frame] = []
        self.pieces: Iterator[_Piece] = self._cut()

    def _cut(self) -> Iterator[_Piece]:
        end, changes, size = self.start, 0, 0
        while (frame := self._read()) is not None:
            possible = bool(np.all(np.isin(frame.controls.types(), _POSSIBLE)))
            for part, commit in _parts(frame) if possible else [(frame, None)]:
                if self.is_whole and changes >= LEAST_CHANGES:
                    yield self._piece(end)
                    changes = size = 0
                self._left.append(part)
                self.is_whole = commit is not None
                end = commit or end
                changes += sum(map(len, part.groups))
                size += sum(one.nbytes for group in part.groups for one in (group.old, group.new) if one is not None)
            if not possible or (size > _MOST_BYTES and not self.is_whole):
                return

    def _read(self) -> Frame | None:
        # Not by "yield from", which would close the frames when the last piece is cut.
        try:
            return next(self._frames, None)
        except SubscriberError as error:
            self.error, self.is_whole = error, False
            return None

    def _piece(self, end: LSN) -> _Piece:
        frames, self._left = self._left, []
        begin, self.start = self.start, end
        return _Piece(frames, begin, end, any(_TRUNCATE in frame.controls.types() for frame in frames))

    def last(self, end: LSN) -> Iterator[_Piece]:
        """After the other pieces: what is left, if it is whole."""
        if self.is_whole:
            yield self._piece(end)

    def rest(self) -> Iterator[Frame]:
        """The frames after the last piece."""
        return chain(self._left, self._frames)


def _parts(frame: Frame) -> Iterator[tuple[Frame, LSN | None]]:
    """A frame up to its last commit, with the LSN where that ends, and what comes after it."""
    controls = frame.controls
    commits = np.flatnonzero(controls.types() == _COMMIT)
    if len(commits):
        last = controls[int(commits[-1])]
        message = decode(last.message)
        assert isinstance(message, messages.Commit)
        before, frame = frame.split(last.position + 1)
        yield before, LSN(message.end_lsn)
    if len(frame.controls) or frame.groups:
        yield frame, None


class _PieceTransaction(TargetTransactions):
    """The transaction of a piece that is written beside others."""

    def __init__(self, piece: _Piece, target: Target, *arguments: Any) -> None:
        super().__init__(target, *arguments)
        self.origin = _origin(self.origin, piece.writer)
        self.stored = piece.start
        self._piece = piece

    def begin(self) -> None:
        """Begin without the lock of the progress; the catalog is only read."""
        self._enter(self.target.transactions.begin_beside_others())
        self.rules = self._read_rules(self.connection)
        self._open(prepared=True)

    def take(self) -> None:
        """Lock the progress, which is now where the piece begins."""
        self._progress.lock(self.connection, self.stored)
        if self._read_rules(self.connection).source != self.rules.source:
            raise _BeAlone("a command has changed the rules")

    def _enter(self, transaction: AbstractContextManager[sa.Connection]) -> None:
        super()._enter(transaction)
        self._block.enter_context(self._piece.interruption.of(self.connection))


# The order of the pieces --------------------------------------------------------------------------


class _BeAlone(Exception):
    """The piece is to be rolled back, and applied alone."""


class _MeetsOther(Exception):
    """The piece touches rows of earlier ones."""

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        super().__init__()
        self.pieces = pieces


class _GaveUpError(Exception):
    """Another piece has failed."""


class _Line:
    """The pieces that are not committed, in their order. ``check`` raises Stopped."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._changed = threading.Condition()
        self._pieces: list[_Piece] = []
        self._error: BaseException | None = None

    def join(self, piece: _Piece) -> None:
        with self._changed:
            self._pieces.append(piece)

    def leave(self, piece: _Piece) -> None:
        """After its commit."""
        with self._changed:
            self._pieces.remove(piece)
            self._changed.notify_all()

    def rolled_back(self, piece: _Piece) -> None:
        with self._changed:
            piece.is_written = False
            self._changed.notify_all()

    def fail(self, error: BaseException) -> BaseException:
        """End all waiting with an error; returns the first one."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()
            return self._error

    def admit(self, piece: _Piece, touched: TouchedRows) -> None:
        """Let a piece be written; _MeetsOther if it must wait."""
        with self._changed:
            earlier = self._pieces[: self._pieces.index(piece)]
            self._wait(lambda: all(one.is_known for one in earlier))
            if piece.is_known and piece.touched != touched:
                raise _BeAlone("a table has another key")  # later pieces were compared with the first one
            piece.touched, piece.is_known = touched, True
            self._changed.notify_all()
            compared = [(one, one.touched) for one in earlier if one in self._pieces]
        met = [one for one, other in compared if other is None or meet(other, touched)]
        with self._changed:
            # An earlier piece that is to be alone by now has set it.
            piece.interruption.check()
            if any(one in self._pieces for one in met):
                raise _MeetsOther(met)
            piece.is_written = True

    def wait_for(self, piece: _Piece, others: Sequence[_Piece]) -> None:
        with self._changed:
            self._wait(lambda: piece.interruption.stop.is_set() or not any(one in self._pieces for one in others))

    def wait_for_turn(self, piece: _Piece, patience: float) -> None:
        """Return after the commit of the piece before; _BeAlone if that takes too long."""
        with self._changed:
            while (first := self._pieces[0]) is not piece:
                changed = self._wait(
                    lambda first=first: self._pieces[0] is not first or piece.interruption.stop.is_set(),  # type: ignore[misc]
                    patience,
                )
                piece.interruption.check()
                if not changed:
                    raise _BeAlone("an earlier piece may wait for its locks")

    def be_alone(self, piece: _Piece) -> None:
        """Return after the commit of the piece before, when all later ones are rolled back."""
        with self._changed:
            piece.touched, piece.is_known = None, True
            later = self._pieces[self._pieces.index(piece) + 1 :]
            for one in later:
                one.interruption.stop.set()
            self._changed.notify_all()
        while True:
            for one in later:
                if one.is_written:
                    one.interruption.interrupt()
            with self._changed:
                if self._wait(
                    lambda: self._pieces[0] is piece and not any(one.is_written for one in later), 2 * _POLL_SECONDS
                ):
                    return

    def _wait(self, is_over: Callable[[], bool], seconds: float | None = None) -> bool:
        """Whether it is over before so many seconds have passed."""
        until = None if seconds is None else time.monotonic() + seconds
        while not is_over():
            self._check()
            if self._error is not None:
                raise _GaveUpError
            if until is not None and time.monotonic() > until:
                return False
            self._changed.wait(_POLL_SECONDS)
        return True
