"""The supervisor's handle of a walreceiver process, with real processes that find no publisher."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from subscriber.base.errors import PublisherUnavailable
from subscriber.worker.receiving import ReceiverProcess, start_receiver
from tests.assignments import assignment_to_nowhere
from tests.waits import PATIENCE, wait_until


@pytest.fixture
def told() -> threading.Event:
    """Set when the process has sent an event, or has ended."""
    return threading.Event()


@pytest.fixture
def receiver(tmp_path, told) -> Iterator[ReceiverProcess]:
    process = ReceiverProcess(assignment_to_nowhere(tmp_path), start_receiver(), told.set)
    yield process
    process.stop()


def wait_for_the_end(receiver: ReceiverProcess) -> None:
    wait_until(lambda: not receiver.running)


def test_the_failure_is_the_error_of_the_process(receiver):
    """The process sends its error as it was raised, with its class."""
    assert (receiver.ready, receiver.streaming) == (False, False)
    wait_for_the_end(receiver)
    error = receiver.failure()
    assert isinstance(error, PublisherUnavailable)
    assert "could not connect to the publisher" in error.message
    receiver.go()
    assert not receiver.ready, "a process that has ended receives nothing"


def test_the_end_of_the_process_is_told(receiver, told):
    assert told.wait(PATIENCE)


def test_a_process_that_was_killed_is_started_again(receiver):
    receiver._process.kill()
    wait_for_the_end(receiver)
    error = receiver.failure()
    assert isinstance(error, PublisherUnavailable)
    assert error.transient
    assert error.message == 'the walreceiver of subscription "s" ended with exit code -9'


def test_a_process_that_was_killed_for_its_silence_says_so(receiver):
    receiver.kill_silent(61.4)
    assert receiver.killed
    wait_for_the_end(receiver)
    error = receiver.failure()
    assert error.message == 'the walreceiver of subscription "s" gave no sign of life for 61 s, and was killed'
    assert "wal_receiver_timeout" in str(error.hint)
    assert error.transient


def test_stop_returns_after_the_process_has_ended(receiver):
    receiver.stop()
    assert not receiver.running
    receiver.stop()
