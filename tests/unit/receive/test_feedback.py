"""Three positions that only move forward, in the order of the wire."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from subscriber.lsn import LSN
from subscriber.protocol.envelope import StandbyStatusUpdate, decode_reply
from subscriber.receive.feedback import Feedback

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
