"""Work beside a block ends with the block, and cannot delay its end for long."""

from __future__ import annotations

import threading
import time

import pytest

from subscriber.base.background import in_background


def test_the_work_is_told_when_the_block_ends_and_is_waited_for():
    seen: list[str] = []

    def work(end: threading.Event) -> None:
        seen.append(threading.current_thread().name)
        end.wait()
        seen.append("ended")

    with pytest.raises(ValueError, match="in the block"), in_background("beside", work, 30.0):
        raise ValueError("in the block")
    assert seen == ["beside", "ended"]


def test_work_that_hangs_does_not_hold_up_the_end():
    released = threading.Event()
    started = time.monotonic()
    with in_background("hangs", lambda _end: released.wait(), 0.01):
        pass
    assert time.monotonic() - started < 20
    released.set()
