"""The runs of a frame, for tests of the modules that write them."""

from __future__ import annotations

from subscriber.apply.walk import Run, steps
from subscriber.protocol.changes import Frame


def runs(made: Frame) -> list[Run]:
    """The runs of a frame, in the publisher's order."""
    return [step for step in steps(made) if isinstance(step, Run)]
