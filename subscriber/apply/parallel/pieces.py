"""Cuts a batch into pieces, which are whole transactions of the publisher."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from subscriber.apply.parallel.touched_rows import TouchedRows
from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.protocol.decode_message import decode
from subscriber.targets import Interruption

LEAST_CHANGES: Final = 4_096
"""A piece has at least this many changes, so that the commits do not take most of the time."""
_MOST_BYTES: Final = 32 * 1024 * 1024
"""A piece has about this many bytes at most; as many pieces as there are writers are in memory."""
_COMMIT, _TRUNCATE = b"CT"
_POSSIBLE: Final = np.frombuffer(b"BCOT", np.uint8)


@dataclass(slots=True, eq=False)
class BatchPiece:
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


class Cut:
    """Cuts the frames of a batch into pieces. What comes after the last of ``pieces`` is
    ``is_whole`` if it can be another piece. ``error`` is that of reading frames.
    """

    def __init__(self, frames: Iterable[Frame], start: LSN) -> None:
        self.start = start
        self.error: SubscriberError | None = None
        self.is_whole = True
        self._frames = iter(frames)
        self._left: list[Frame] = []
        self.pieces: Iterator[BatchPiece] = self._cut()

    def _cut(self) -> Iterator[BatchPiece]:
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

    def _piece(self, end: LSN) -> BatchPiece:
        frames, self._left = self._left, []
        begin, self.start = self.start, end
        return BatchPiece(frames, begin, end, any(_TRUNCATE in frame.controls.types() for frame in frames))

    def last(self, end: LSN) -> Iterator[BatchPiece]:
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
