"""The messages of a frame in the publisher's order: controls one by one, changes in runs.

A *run* is the longest sequence of consecutive changes that belong to the same group. Executing a
run as one ``executemany`` has the same result as executing it row by row. A control always ends a
run. Therefore a run that fails belongs to one transaction and one relation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from subscriber.postgres.protocol.changes import ChangeGroup, Control, Controls, Frame


@dataclass(frozen=True, slots=True)
class ChangeRun:
    """Changes ``start`` up to ``stop`` (exclusive) of the frame's group number ``group``."""

    group: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FrameOrder:
    """The messages of a frame, each with an *item number*: the controls first, then the rows of
    each group.

    Attributes:
        first: the item number of the first control, of the first row of each group, and the number
            of items.
        at: the item numbers in the publisher's order (invariant commit_order).
        owner: for each item 0 for a control, n + 1 for a row of group n.
    """

    groups: tuple[ChangeGroup, ...]
    controls: Controls
    first: NDArray[np.int64]
    at: NDArray[np.int64]
    owner: NDArray[np.int64]

    @classmethod
    def of(cls, frame: Frame) -> FrameOrder:
        controls = frame.controls
        if np.any(np.diff(controls.positions) < 0):
            controls = controls.take(np.argsort(controls.positions))
        positions = [controls.positions, *(group.positions for group in frame.groups)]
        sizes = [len(part) for part in positions]
        return cls(
            frame.groups,
            controls,
            np.concatenate(([0], np.cumsum(sizes))),
            np.argsort(np.concatenate(positions), kind="stable"),
            np.repeat(np.arange(len(positions)), sizes),
        )

    def __len__(self) -> int:
        return len(self.at)

    def runs(self, start: int, stop: int) -> int:
        owners = self.owner[self.at[start:stop]]
        begins = np.diff(owners, prepend=-1) != 0
        return int(np.count_nonzero(begins & (owners > 0)))

    def rows_of(self, group: int) -> slice:
        return slice(int(self.first[group + 1]), int(self.first[group + 2]))

    def walk(self, start: int, stop: int) -> Iterator[Control | ChangeRun]:
        """The messages at the places from ``start`` to ``stop``, in the publisher's order."""
        items = self.at[start:stop]
        if not len(items):
            return
        owners = self.owner[items]
        bounds = np.concatenate(([0], np.flatnonzero(np.diff(owners)) + 1, [len(owners)]))
        for begin, length in zip(bounds[:-1].tolist(), np.diff(bounds).tolist(), strict=True):
            owner, item = int(owners[begin]), int(items[begin])
            if owner:
                row = item - int(self.first[owner])
                yield ChangeRun(owner - 1, row, row + length)
            else:
                yield from self.controls[item : item + length]


def steps(frame: Frame) -> Iterator[Control | ChangeRun]:
    """Controls and runs by ascending position (invariant commit_order)."""
    messages = FrameOrder.of(frame)
    yield from messages.walk(0, len(messages))
