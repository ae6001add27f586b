"""The part of a worker that keeps a receiver running."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest

from subscriber.base.background import Background
from subscriber.base.errors import PublisherUnavailable, TargetUnavailable
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import delete_subscription, set_enabled, set_options, set_publications
from subscriber.worker.publisher_notices import SkippedPublications
from subscriber.worker.receiving import Receiving, start_receiver
from subscriber.worker.worker_state import WorkerState
from tests.subscriptions import NOWHERE
from tests.waits import wait_until


class Receiver:
    """A walreceiver process that is played."""

    def __init__(self, *, running: bool = True, ready: bool = False, streaming: bool = False) -> None:
        self.running, self.ready, self.streaming = running, ready, streaming
        self.went = self.stopped = self.killed = False
        self.heard_at = time.monotonic()
        self.skipped: SkippedPublications | None = None
        self.server: str | None = None
        self.pid = 1

    def kill_silent(self, silence: float) -> None:
        self.killed = True

    def go(self) -> None:
        self.went = True

    def failure(self) -> PublisherUnavailable:
        return PublisherUnavailable("the connection was lost")

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def half(worker_state, tmp_path) -> Receiving:
    return half_of(worker_state(conninfo=NOWHERE), tmp_path)


def half_of(state: WorkerState, folder: Any) -> Receiving:
    settings = Settings(str(folder / "journals"), wal_retrieve_retry_interval=5.0)
    return Receiving(state, settings, start_receiver, messages=False)


def with_receiver(half: Receiving, **state: bool) -> Receiver:
    receiver = Receiver(**state)
    half.process = receiver  # type: ignore[assignment]
    return receiver


# Watching -----------------------------------------------------------------------------------------


def test_without_a_receiver_nothing_streams_and_nothing_has_failed(half):
    assert not half.streams
    assert half.watch() is None


@pytest.mark.parametrize("streaming", [True, False])
def test_a_receiver_streams_after_it_has_reported_that(half, streaming):
    with_receiver(half, streaming=streaming)
    assert half.streams == streaming


def test_the_error_of_a_receiver_that_has_ended_is_returned_once(half):
    receiver = with_receiver(half, running=False, streaming=True)
    error = half.watch()
    assert str(error) == "the connection was lost"
    assert (half.process, receiver.stopped) == (None, True)
    assert half.watch() is None


def test_a_failure_is_over_only_after_the_receiver_has_streamed_for_a_while(half):
    """Before that, the failure may occur again, and the wait must go on doubling."""
    half.attempts.record_failure(PublisherUnavailable("away"), 5.0)
    with_receiver(half, streaming=True)
    half.watch()
    assert half.attempts.error is not None
    half.attempts.wait(-5.0)
    half.watch()
    assert half.attempts.error is None


def test_a_receiver_that_does_not_stream_yet_does_not_count_as_a_success(half):
    half.attempts.record_failure(PublisherUnavailable("away"), 5.0)
    half.attempts.wait(-60.0)
    with_receiver(half, streaming=False)
    half.watch()
    assert half.attempts.error is not None


def test_a_restart_ends_the_receiver(half):
    receiver = with_receiver(half)
    half.restart()
    assert (half.process, receiver.stopped) == (None, True)
    half.restart()


# Silence ------------------------------------------------------------------------------------------


def test_a_receiver_that_gives_no_sign_of_life_is_killed(half):
    """SIGSTOP: it neither receives nor ends."""
    receiver = with_receiver(half, streaming=True)
    half.watch()
    assert not receiver.killed
    receiver.heard_at -= half._settings.wal_receiver_timeout + 1
    half.watch()
    assert receiver.killed


def test_a_run_that_was_stopped_itself_does_not_take_that_for_the_silence_of_its_receiver(half):
    """The signs of life wait in the pipe."""
    receiver = with_receiver(half, streaming=True)
    half.watch()
    half._looked_at -= half._settings.wal_receiver_timeout
    receiver.heard_at -= half._settings.wal_receiver_timeout + 1
    half.watch()
    half.watch()
    assert not receiver.killed


def test_a_subscriptions_own_timeout_replaces_the_settings(worker_state, tmp_path):
    state = worker_state()
    options = dataclasses.replace(state.subscription.options, wal_receiver_timeout="7s")
    state.subscription = dataclasses.replace(state.subscription, options=options)
    half = half_of(state, tmp_path)
    receiver = with_receiver(half, streaming=True)
    receiver.heard_at -= 6
    half.watch()
    assert not receiver.killed
    receiver.heard_at -= 2
    half.watch()
    assert receiver.killed


def test_without_a_timeout_no_receiver_is_killed(worker_state, tmp_path):
    half = Receiving(worker_state(), Settings(str(tmp_path), wal_receiver_timeout=0.0), start_receiver, messages=False)
    receiver = with_receiver(half, streaming=True)
    receiver.heard_at -= 1_000_000
    half.watch()
    assert not receiver.killed


# Skipped publications -----------------------------------------------------------------------------


def test_a_receiver_goes_on_when_it_is_recorded_that_a_publication_is_skipped(half):
    receiver = with_receiver(half, streaming=True)
    half.let_receive()
    assert not receiver.went
    receiver.skipped = SkippedPublications(("p",), LSN(0x100))

    def went() -> bool:
        half.let_receive()
        return receiver.went

    wait_until(went)


# Letting it receive -------------------------------------------------------------------------------


def test_a_receiver_that_does_not_hold_the_slot_yet_is_left_alone(half):
    half.let_receive()
    receiver = with_receiver(half, ready=False)
    half.let_receive()
    assert (receiver.went, receiver.stopped) == (False, False)


def test_a_receiver_begins_if_the_subscription_is_unchanged(half):
    receiver = with_receiver(half, ready=True)
    half.let_receive()
    assert (receiver.went, half.process) == (True, receiver)


def change_the_publications(connection) -> None:
    set_publications(connection, 1, ["p", "q"])


def disable(connection) -> None:
    set_enabled(connection, "s", enabled=False)


def drop(connection) -> None:
    delete_subscription(connection, "s")


@pytest.mark.parametrize("change", [change_the_publications, disable, drop])
def test_a_receiver_does_not_begin_if_a_command_has_changed_the_subscription(half, target, change):
    """slot_after_disk: it would confirm what the changed subscription needs differently."""
    receiver = with_receiver(half, ready=True)
    with target.begin() as connection:
        change(connection)
    half.let_receive()
    assert (receiver.went, receiver.stopped, half.process) == (False, True, None)
    assert not half.attempts.is_due(), "the supervisor replaces the worker meanwhile"
    assert half.attempts.error is None


def test_an_option_that_needs_no_restart_lets_the_receiver_begin(half, target):
    """C39"""
    receiver = with_receiver(half, ready=True)
    with target.begin() as connection:
        set_options(connection, 1, {"disable_on_error": True})
    half.let_receive()
    assert receiver.went


def test_a_receiver_begins_while_the_target_is_away(half):
    """No command can succeed meanwhile, and the publisher must not wait."""

    class AwayTarget:
        def reporting(self):
            raise TargetUnavailable("away")

    half._state.target = AwayTarget()
    receiver = with_receiver(half, ready=True)
    half.let_receive()
    assert receiver.went


# Starting -----------------------------------------------------------------------------------------


def started(half: Receiving) -> None:
    """Start a receiver, with what is found out in the background first."""

    def has_started() -> bool:
        half.start()
        return half.process is not None

    wait_until(has_started)


def test_the_beginning_of_the_slot_is_read_before_the_receiver_starts(half):
    half.adopting = Background(lambda: (half._state.subscription, LSN(70)), "slot of s")
    try:
        started(half)
        assert half._state.applied == 70
        assert half._state.consumers is not None
        assert half._state.consumers.journal.endswith("/journals/1_s")
    finally:
        half.restart()


def test_the_beginning_of_the_slot_is_not_read_again(half):
    """A receiver must be able to restart while the target cannot be reached."""

    def fail() -> Any:
        raise AssertionError("it is known already")

    half._state.applied = LSN(70)
    half.adopting = Background(fail, "slot of s")
    try:
        half.start()
        assert half.process is not None
    finally:
        half.restart()


def test_the_start_raises_the_error_of_a_publisher_that_cannot_be_asked(half):
    def fail() -> Any:
        raise PublisherUnavailable("away")

    half.adopting = Background(fail, "slot of s")
    with pytest.raises(PublisherUnavailable):
        started(half)
