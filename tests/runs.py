"""The runs of a frame, for tests of the modules that write them."""

from __future__ import annotations

from subscriber.apply.frame_order import ChangeRun, steps
from subscriber.postgres.protocol.changes import Frame


def runs(made: Frame) -> list[ChangeRun]:
    """The runs of a frame, in the publisher's order."""
    return [step for step in steps(made) if isinstance(step, ChangeRun)]
