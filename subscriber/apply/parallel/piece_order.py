"""The order in which pieces are written and committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from subscriber.apply.parallel.pieces import BatchPiece
from subscriber.apply.parallel.touched_rows import TouchedRows, meet

_POLL_SECONDS: Final = 0.1


class BeAlone(Exception):
    """The piece is to be rolled back, and applied alone."""


class MeetsOther(Exception):
    """The piece touches rows of earlier ones."""

    def __init__(self, pieces: Sequence[BatchPiece]) -> None:
        super().__init__()
        self.pieces = pieces


class _GaveUpError(Exception):
    """Another piece has failed."""


class Line:
    """The pieces that are not committed, in their order. ``check`` raises Stopped."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._changed = threading.Condition()
        self._pieces: list[BatchPiece] = []
        self._error: BaseException | None = None

    def join(self, piece: BatchPiece) -> None:
        with self._changed:
            self._pieces.append(piece)

    def leave(self, piece: BatchPiece) -> None:
        """After its commit."""
        with self._changed:
            self._pieces.remove(piece)
            self._changed.notify_all()

    def rolled_back(self, piece: BatchPiece) -> None:
        with self._changed:
            piece.is_written = False
            self._changed.notify_all()

    def fail(self, error: BaseException) -> BaseException:
        """End all waiting with an error; returns the first one."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()
            return self._error

    def admit(self, piece: BatchPiece, touched: TouchedRows) -> None:
        """Let a piece be written; MeetsOther if it must wait."""
        with self._changed:
            earlier = self._pieces[: self._pieces.index(piece)]
            self._wait(lambda: all(one.is_known for one in earlier))
            if piece.is_known and piece.touched != touched:
                raise BeAlone("a table has another key")  # later pieces were compared with the first one
            piece.touched, piece.is_known = touched, True
            self._changed.notify_all()
            compared = [(one, one.touched) for one in earlier if one in self._pieces]
        met = [one for one, other in compared if other is None or meet(other, touched)]
        with self._changed:
            # An earlier piece that is to be alone by now has set it.
            piece.interruption.check()
            if any(one in self._pieces for one in met):
                raise MeetsOther(met)
            piece.is_written = True

    def wait_for(self, piece: BatchPiece, others: Sequence[BatchPiece]) -> None:
        with self._changed:
            self._wait(lambda: piece.interruption.stop.is_set() or not any(one in self._pieces for one in others))

    def wait_for_turn(self, piece: BatchPiece, patience: float) -> None:
        """Return after the commit of the piece before; BeAlone if that takes too long."""
        with self._changed:
            while (first := self._pieces[0]) is not piece:
                moved = self._wait(partial(self._has_moved, piece, first), patience)
                piece.interruption.check()
                if not moved:
                    raise BeAlone("an earlier piece may wait for its locks")

    def _has_moved(self, piece: BatchPiece, first: BatchPiece) -> bool:
        return self._pieces[0] is not first or piece.interruption.stop.is_set()

    def be_alone(self, piece: BatchPiece) -> None:
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
