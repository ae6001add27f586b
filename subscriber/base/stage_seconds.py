"""How long the stages of a pipeline of generators take.

::

    read ──▶ decode ──▶ filter ──▶ apply          each takes what it needs from the stage before

A stage is charged with the time in its own code: not with that of the stages before it, which it
waits for, nor with that of the consumer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class StageSeconds(Counter[str]):
    """Seconds by stage. One thread writes them."""

    def timed(self, stage: str, items: Iterable[T]) -> Iterator[T]:
        """The items, with the time that it takes to get them."""
        iterator = iter(items)
        while True:
            # What the stages before have taken meanwhile is theirs.
            began, before = time.perf_counter(), self.total()
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                self.add(stage, time.perf_counter() - began - (self.total() - before))
            yield item

    def add(self, stage: str, seconds: float) -> None:
        self[stage] += max(0.0, seconds)  # type: ignore[assignment]  # Counter's values may be floats

    def taken(self) -> dict[str, float]:
        """The seconds since the last call."""
        found: dict[str, float] = {**self}
        self.clear()
        return found
