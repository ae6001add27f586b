"""Batches one at a time, none while somebody has closed the pause, and none beyond its limit."""

from __future__ import annotations

import threading

import pytest

from subscriber.base.lsn import LSN
from subscriber.spark.apply_pause import NO_PAUSE, ApplyPause
from tests.waits import wait_until

SOON = 5.0


@pytest.fixture
def writer_lock():
    return threading.Lock()


def test_a_batch_holds_the_writer_lock_while_it_is_inside(writer_lock):
    pause = ApplyPause(writer_lock)
    with pause:
        inside = (pause.busy, writer_lock.locked())
    assert inside == (True, True)
    assert (pause.busy, writer_lock.locked()) == (False, False)


def test_closing_waits_for_the_batch_in_progress_and_keeps_the_next_one_out(writer_lock):
    pause = ApplyPause(writer_lock)
    inside, leave, second = threading.Event(), threading.Event(), threading.Event()

    def batches():
        with pause:
            inside.set()
            leave.wait(SOON)
        with pause:
            second.set()

    thread = threading.Thread(target=batches)
    thread.start()
    assert inside.wait(SOON)
    threading.Timer(0.05, leave.set).start()
    with pause.closed():
        assert leave.is_set()
        assert not pause.busy
        assert not second.wait(0.05)
    assert second.wait(SOON)
    thread.join()


def test_the_pause_opens_when_everybody_who_closed_it_has_left():
    pause = ApplyPause()
    entered = threading.Event()

    def batch():
        with pause:
            entered.set()

    with pause.closed():
        with pause.closed():
            thread = threading.Thread(target=batch)
            thread.start()
        assert not entered.wait(0.05)
    assert entered.wait(SOON)
    thread.join()


def test_a_pause_that_is_closed_at_first_is_opened_when_its_time_is_over():
    pause = ApplyPause()
    entered = threading.Event()

    def batch():
        with pause:
            entered.set()

    with pause.closed_at_first(0.1) as hold:
        thread = threading.Thread(target=batch)
        thread.start()
        assert not hold.is_over()
        assert not entered.wait(0.05)
        wait_until(hold.is_over)
        assert not entered.is_set()
        hold.end()
        assert entered.wait(SOON)
        assert not hold.is_over()
    thread.join()


def test_a_pause_that_was_not_closed_is_not_opened():
    assert not NO_PAUSE.is_over()


def test_a_pause_is_not_busy_after_the_writer_lock_could_not_be_taken():
    class Broken:
        def __enter__(self):
            raise RuntimeError("no lock")

        def __exit__(self, *_):
            raise AssertionError("never entered")

    pause = ApplyPause(Broken())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no lock"), pause:
            pass
    assert not pause.busy


@pytest.mark.parametrize(
    ("limit", "allowed"), [(None, [0, 1, 2, 3]), (LSN(0), [0]), (LSN(2), [0, 1, 2]), (LSN(9), [0, 1, 2, 3])]
)
def test_a_batch_may_end_at_or_before_the_limit(limit, allowed):
    pause = ApplyPause()
    pause.limit = limit
    assert [end for end in range(4) if pause.allows(LSN(end))] == allowed


def test_what_wakes_a_loop_while_it_looks_ends_its_next_wait():
    pause = ApplyPause()
    pause.look()
    pause.wake()
    pause.wait(3600.0)
    pause.look()
    pause.limit = LSN(7)
    pause.wait(3600.0)
