"""The messages of a frame in the publisher's order: controls one by one, changes in runs.

A *run* is the longest sequence of consecutive changes that belong to the same group. Executing a
run as one ``executemany`` has the same result as executing it row by row. A control always ends a
run. Therefore a run that fails belongs to one transaction and one relation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from subscriber.protocol.changes import Control, Frame


@dataclass(frozen=True, slots=True)
class Run:
    """Changes ``start`` up to ``stop`` (exclusive) of the frame's group number ``group``."""

    group: int
    start: int
    stop: int


def steps(frame: Frame) -> Iterator[Control | Run]:
    """Controls and runs by ascending position (invariant commit_order)."""
    positions = [np.array([control.position for control in frame.controls], np.int32)]
    positions.extend(group.positions for group in frame.groups)
    sizes = [len(part) for part in positions]
    if not sum(sizes):
        return
    # Owner 0 is the controls, owner n + 1 is group n.
    owners = np.repeat(np.arange(len(positions)), sizes)[np.argsort(np.concatenate(positions), kind="stable")]
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(owners)) + 1, [len(owners)]))
    controls = sorted(frame.controls, key=attrgetter("position"))
    done = [0] * len(positions)
    for owner, length in zip(owners[bounds[:-1]].tolist(), np.diff(bounds).tolist(), strict=True):
        start = done[owner]
        done[owner] = stop = start + length
        if owner:
            yield Run(owner - 1, start, stop)
        else:
            yield from controls[start:stop]
