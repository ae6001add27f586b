"""Applies a batch by several connections of the target."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, Final

import sqlalchemy as sa

from subscriber.apply.applier import ApplyResult, ReadRules, Rules
from subscriber.apply.exact import BulkApplier
from subscriber.apply.parallel.piece_order import BeAlone, Line, MeetsOther
from subscriber.apply.parallel.pieces import BatchPiece, Cut
from subscriber.apply.parallel.touched_rows import TouchedRows, touched_rows
from subscriber.apply.reorder import OrderMatters
from subscriber.apply.target_transactions import TargetTransactions
from subscriber.base.errors import Stopped, SubscriberError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.protocol.messages import Relation
from subscriber.targets import Interruption, Target

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 1.0
_PATIENCE_FACTOR: Final = 2
"""How long a piece waits for the commit of the one before: a second, and twice the time that it was
written in itself.
"""


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
        cut = Cut(frames, start)
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
                    'subscription "%(subscription)s" has one writer: the target gives no replication origin to each of several',
                    {"subscription": self.subscription},
                )
        return self._is_possible is not False

    def _apply_pieces(self, pieces: Iterable[BatchPiece], cut: Cut, end: LSN) -> list[ApplyResult]:
        line = Line(self.interruption.check)
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

    def _apply_piece(self, line: Line, piece: BatchPiece) -> ApplyResult:
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

    def _apply_alone(self, piece: BatchPiece) -> ApplyResult:
        while True:
            try:
                return super().apply(piece.frames, start=piece.start, end=piece.end)
            except OrderMatters:
                continue  # the next attempt is made in the publisher's order

    def _apply_beside(self, line: Line, piece: BatchPiece) -> ApplyResult | None:
        """Apply a piece while others are written; None if it is to be applied alone."""
        while True:
            try:
                result = self._write_beside(line, piece)
            except MeetsOther as met:
                line.wait_for(piece, met.pieces)
                continue
            except Stopped:
                self.interruption.check()
                return None  # an earlier piece is to be alone
            except (BeAlone, OrderMatters, SubscriberError) as error:
                logger.debug('subscription "%s": a piece is applied alone: %s', self.subscription, error)
                return None
            finally:
                line.rolled_back(piece)
            self.pieces["beside"] += 1
            return result

    def _write_beside(self, line: Line, piece: BatchPiece) -> ApplyResult:
        began = time.monotonic()
        arguments = (self._progress, self._read_rules, self._writer, self.interruption, self._changes.log)
        with _PieceTransaction(piece, self.target, *arguments) as local:
            local.begin()
            line.admit(piece, self._touched(local, piece))
            batch = self._batch(local, piece.end, reorders=True)
            batch.run(piece.frames)
            if batch.tally.conflicts.counts or batch.replaced:
                raise BeAlone("it has conflicts")
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

    def _touched(self, local: TargetTransactions, piece: BatchPiece) -> TouchedRows:
        """The rows that a piece touches, or BeAlone."""
        rules, connection = local.rules, local.connection
        if not _is_plain(rules):
            raise BeAlone("an option of the subscription needs one writer")

        def place(relation: Relation) -> tuple[str, str] | None:
            if not rules.should_apply(relation, piece.end):
                return None
            if not self._changes.is_same(relation):
                self._changes.before(connection, relation)
            if not self._changes.is_same(relation):
                raise BeAlone("a table has another shape")  # which one writer stores
            schema, name = rules.options.map.in_target(relation.namespace, relation.name)
            return schema.casefold(), name.casefold()  # some servers have one table for both

        for frame in piece.frames:
            local.writer.read_tables({group.relation for group in frame.groups})
        found = touched_rows(piece.frames, local.writer.independent_key, place)
        if found is None:
            raise BeAlone("the rows of a table are connected, or cannot be told apart")
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
        transactions=sum(one.transactions for one in results),
        changes=sum(one.changes for one in results),
        conflicts=conflicts,
        commit_timestamp=times[-1] if times else None,
        rows=rows,
        replaced=sum(one.replaced for one in results),
        skipped=sum(one.skipped for one in results),
        exact=next((one.exact for one in results if one.exact is not None), None),
        seconds={"commit": sum(one.seconds.get("commit", 0.0) for one in results)},
    )


class _PieceTransaction(TargetTransactions):
    """The transaction of a piece that is written beside others."""

    def __init__(self, piece: BatchPiece, target: Target, *arguments: Any) -> None:
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
            raise BeAlone("a command has changed the rules")

    def _enter(self, transaction: AbstractContextManager[sa.Connection]) -> None:
        super()._enter(transaction)
        self._block.enter_context(self._piece.interruption.of(self.connection))
