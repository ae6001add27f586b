"""One process is started before a receiver is needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from subscriber.worker import receiving
from subscriber.worker.receiving import SpareReceiver


@pytest.fixture
def spare(monkeypatch) -> Iterator[SpareReceiver]:
    monkeypatch.setattr(receiving, "_PAUSE_SECONDS", 0.0)
    spare = SpareReceiver()
    yield spare
    spare.end()


def test_the_process_that_waits_is_the_next_receiver(spare):
    spare.keep()
    waiting = spare._process
    spare.keep()
    assert spare._process is waiting, "there is at most one"
    taken = spare.take()
    assert taken is waiting
    taken.communicate("")
    assert taken.returncode == 0, "a receiver without an assignment has nothing to do"


def test_without_one_that_waits_a_receiver_is_started(spare):
    taken = spare.take()
    assert taken.poll() is None
    taken.communicate("")


def test_one_that_was_killed_is_not_used(spare):
    spare.keep()
    killed = spare._process
    assert killed is not None
    killed.kill()
    killed.wait()
    taken = spare.take()
    assert taken is not killed
    taken.communicate("")


def test_one_that_was_taken_is_replaced_after_a_pause(spare, monkeypatch):
    """Importing the modules must not delay the receiver that was just started."""
    monkeypatch.setattr(receiving, "_PAUSE_SECONDS", 3600.0)
    spare.take().communicate("")
    spare.keep()
    assert spare._process is None


def test_it_ends_with_the_supervisor(spare):
    spare.keep()
    waiting = spare._process
    assert waiting is not None
    spare.end()
    assert waiting.returncode == 0
    spare.end()
