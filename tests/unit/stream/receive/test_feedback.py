"""Three positions that only move forward, in the order of the wire, and when they are sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import PublisherUnavailable
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.postgres.protocol.envelope import StandbyStatusUpdate, decode_reply
from subscriber.stream.receive.feedback import (
    LONGEST_WAIT_SECONDS,
    SETTLED_WAIT_SECONDS,
    Feedback,
    Periodic,
    Schedule,
)

positions = st.integers(0, 100).map(LSN)


def test_the_message_has_received_flushed_applied_in_this_order():
    """Rule A35."""
    feedback = Feedback()
    feedback.move(received=LSN(30), durable=LSN(20), applied=LSN(10))
    assert decode_reply(feedback.message(7)) == StandbyStatusUpdate(30, 20, 10, 7, False)
    assert decode_reply(feedback.message(7, reply_requested=True)) == StandbyStatusUpdate(30, 20, 10, 7, True)


def test_it_tells_whether_there_is_news_for_the_publisher():
    feedback = Feedback()
    assert feedback.move(received=LSN(30), durable=LSN(20), applied=LSN(10))
    assert not feedback.move(received=LSN(40), durable=LSN(20), applied=LSN(10))
    assert feedback.move(received=LSN(40), durable=LSN(21), applied=LSN(10))
    assert feedback.move(received=LSN(40), durable=LSN(21), applied=LSN(11))


def test_nothing_is_applied_that_is_not_durable():
    """Invariant slot_after_disk."""
    feedback = Feedback()
    feedback.move(received=LSN(30), durable=LSN(20), applied=LSN(25))
    assert (feedback.flushed, feedback.applied) == (20, 20)


def test_what_is_durable_was_received():
    feedback = Feedback()
    feedback.move(received=LSN(0), durable=LSN(20), applied=LSN(0))
    assert feedback.received == 20


@given(st.lists(st.tuples(positions, positions, positions), max_size=10))
def test_no_position_moves_back_or_passes_the_one_before_it(moves):
    """Rule C36."""
    feedback, last = Feedback(), (0, 0, 0)
    for received, durable, applied in moves:
        feedback.move(received=received, durable=durable, applied=applied)
        now = (feedback.received, feedback.flushed, feedback.applied)
        assert all(new >= old for new, old in zip(now, last, strict=True))
        assert now[0] >= now[1] >= now[2]
        assert now[1] == max(durable, last[1])
        last = now


# When ---------------------------------------------------------------------------------------------


def schedule(*, interval: float = 10.0, timeout: float = 60.0) -> Schedule:
    """As of second 100."""
    settings = Settings(journal="", wal_receiver_status_interval=interval, wal_receiver_timeout=timeout)
    return Schedule(settings, 100.0)


def test_an_update_is_due_after_the_status_interval_or_with_news():
    """Rule C36."""
    when = schedule()
    assert [when.update_due(now) for now in (100.0, 109.9, 110.0)] == [False, False, True]
    assert when.update_due(100.0, moved=True)
    when.updated(110.0)
    assert [when.update_due(now) for now in (110.0, 119.9, 120.0)] == [False, False, True]


def test_without_a_status_interval_only_what_is_asked_for_is_sent():
    """Rule C36."""
    when = schedule(interval=0)
    assert not when.update_due(1e6)
    assert not when.update_due(1e6, moved=True)


def test_a_receiver_waits_until_the_next_update_but_never_long():
    when = schedule()
    assert when.patience(100.0) == LONGEST_WAIT_SECONDS
    assert when.patience(109.9) == pytest.approx(0.1)
    assert when.patience(111.0) == 0.0
    assert schedule(interval=0).patience(1e6) == LONGEST_WAIT_SECONDS


def test_a_receiver_waits_longer_when_all_is_applied_unless_its_publisher_must_hear_of_it_soon():
    when = schedule()
    assert when.patience(100.0, settled=True) == SETTLED_WAIT_SECONDS
    assert when.patience(109.9, settled=True) == pytest.approx(0.1)
    assert schedule(interval=0).patience(1e6, settled=True) == SETTLED_WAIT_SECONDS
    hasty = Schedule(Settings("", wal_receiver_timeout=2.0), 100.0)
    assert hasty.patience(100.0, settled=True) == LONGEST_WAIT_SECONDS


def test_a_silent_publisher_is_asked_once_and_again_after_it_was_heard():
    """Rule C36: at half of wal_receiver_timeout."""
    when = schedule()
    assert [when.ping_due(now) for now in (129.9, 130.0, 131.0, 159.9)] == [False, True, False, False]
    when.heard(159.9)
    assert [when.ping_due(now) for now in (189.8, 189.9, 190.0)] == [False, True, False]
    with pytest.raises(
        PublisherUnavailable, match=r"^terminating logical replication worker due to timeout$"
    ) as caught:
        when.ping_due(219.9)
    assert "60 s" in (caught.value.hint or "")


def test_without_a_timeout_silence_is_no_failure():
    assert not schedule(timeout=0).ping_due(1e9)


def test_an_interval_begins_at_once_and_anew_each_time():
    every = Periodic(2.0)
    assert [every.passed(now) for now in (0.0, 1.9, 2.0, 3.9, 4.5, 6.4, 6.5)] == [
        True, False, True, False, True, False, True,
    ]  # fmt: skip
    assert every.passed(7.0, force=True)
    assert not every.passed(8.9)
    assert every.passed(9.0)


def test_after_a_quiet_time_an_interval_may_be_over_several_times_in_a_row():
    """On average it is as long as ever, and being forced does not use up more than there is."""
    every = Periodic(2.0, burst=3)
    assert [every.passed(now) for now in (10.0, 10.1, 10.2, 10.3, 11.9, 12.0, 12.1, 14.0, 30.0, 30.0, 30.0, 30.0)] == [
        True, True, True, False, False, True, False, True, True, True, True, False,
    ]  # fmt: skip
    assert all(every.passed(30.0, force=True) for _ in range(5))
    assert not every.passed(31.9)
    assert every.passed(32.0)
