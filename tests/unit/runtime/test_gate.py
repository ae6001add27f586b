"""subscription.gate: batches one at a time, and none while somebody has closed it."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from subscriber.runtime.gate import Gate

SOON = 5.0


@pytest.fixture
def turn():
    return threading.Lock()


def test_a_batch_holds_the_turn_while_it_is_inside(turn):
    gate = Gate(turn)
    with gate:
        inside = (gate.busy, turn.locked())
    assert inside == (True, True)
    assert (gate.busy, turn.locked()) == (False, False)


def test_closing_waits_for_the_batch_in_progress_and_keeps_the_next_one_out(turn):
    gate = Gate(turn)
    inside, leave, second = threading.Event(), threading.Event(), threading.Event()

    def batches():
        with gate:
            inside.set()
            leave.wait(SOON)
        with gate:
            second.set()

    thread = threading.Thread(target=batches)
    thread.start()
    assert inside.wait(SOON)
    threading.Timer(0.05, leave.set).start()
    with gate.closed():
        assert leave.is_set()
        assert not gate.busy
        assert not second.wait(0.05)
    assert second.wait(SOON)
    thread.join()


def test_the_gate_opens_when_everybody_who_closed_it_has_left():
    gate = Gate(contextlib.nullcontext())
    entered = threading.Event()

    def batch():
        with gate:
            entered.set()

    with gate.closed():
        with gate.closed():
            thread = threading.Thread(target=batch)
            thread.start()
        assert not entered.wait(0.05)
    assert entered.wait(SOON)
    thread.join()


def test_a_gate_that_is_closed_at_first_opens_when_its_time_is_over():
    gate = Gate(contextlib.nullcontext())
    entered = threading.Event()

    def batch():
        with gate:
            entered.set()

    with gate.closed_at_first(0.1) as open_when_over:
        thread = threading.Thread(target=batch)
        thread.start()
        open_when_over()
        assert not entered.wait(0.05)
        deadline = time.monotonic() + SOON
        while not entered.is_set():
            assert time.monotonic() < deadline
            open_when_over()
    thread.join()


def test_a_gate_is_not_busy_after_the_turn_could_not_be_taken():
    class Broken:
        def __enter__(self):
            raise RuntimeError("no turn")

        def __exit__(self, *_):
            raise AssertionError("never entered")

    gate = Gate(Broken())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no turn"), gate:
            pass
    assert not gate.busy
