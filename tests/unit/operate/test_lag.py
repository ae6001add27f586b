"""The lag is 0 only if that is proven, absent if it is not known, and never an old value."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from subscriber.base.lsn import LSN
from subscriber.base.reach import Reach
from subscriber.operate.lag import RECENT_SECONDS, Backlog, WalEnd, lag_bytes, lag_seconds
from subscriber.operate.observation import Observation
from subscriber.operate.sampler import PublisherSample
from subscriber.stream.receive.walreceiver import ReceiverCounts
from subscriber.worker.commit_marks import CommitMarks
from tests.observations import observation

POSTGRESQL_EPOCH = 946_684_800
NOW = 1_800_000_000.0
DONE, WAITS = Reach(LSN(500), LSN(400), LSN(400)), Reach(LSN(500), LSN(500), LSN(400))


def marks(*commits: tuple[int, float], begin: int = 0) -> CommitMarks:
    made = CommitMarks()
    made.begin(begin)
    for lsn, moment in commits:
        made.record(lsn, int((moment - POSTGRESQL_EPOCH) * 1e6))
    return made


def moment(lsn: int, ago: float = 1.0, offset: float = 0.0) -> WalEnd:
    return WalEnd(NOW - ago + offset, offset, LSN(lsn))


def test_the_lag_is_0_if_the_target_has_everything_that_the_publisher_had_just_now():
    assert lag_seconds(NOW, DONE, [moment(500)], marks()) == 0.0


def test_a_publisher_that_writes_between_two_answers_does_not_hide_the_proof():
    assert lag_seconds(NOW, DONE, [moment(500, 11), moment(900, 1)], marks()) == 0.0


def test_the_lag_is_unknown_if_the_publisher_has_wal_that_was_not_received():
    assert lag_seconds(NOW, DONE, [moment(900)], marks()) is None


def test_a_proof_grows_old_when_the_publisher_does_not_answer():
    assert lag_seconds(NOW + RECENT_SECONDS, DONE, [moment(500)], marks()) is None
    assert lag_bytes(NOW + RECENT_SECONDS, DONE, [moment(500)]) is None


def test_without_an_answer_nothing_is_known():
    assert lag_seconds(NOW, WAITS, [], marks((500, NOW - 3))) is None
    assert lag_bytes(NOW, WAITS, []) is None


def test_the_lag_is_the_age_of_the_oldest_commit_that_is_not_applied():
    received = marks((300, NOW - 60), (450, NOW - 20), (500, NOW - 3))
    assert lag_seconds(NOW, WAITS, [moment(500)], received) == 20.0


def test_the_lag_grows_although_nothing_new_is_heard():
    received, answers = marks((500, NOW - 3)), [moment(500)]
    assert lag_seconds(NOW + 3600, WAITS, answers, received) == 3603.0


def test_the_lag_is_by_the_publisher_s_clock():
    ahead = [moment(500, offset=100.0)]
    assert lag_seconds(NOW, WAITS, ahead, marks((500, NOW + 97))) == 3.0
    assert lag_seconds(NOW, DONE, ahead, marks()) == 0.0


def test_what_was_received_by_an_earlier_run_is_asked_of_the_journal():
    received = marks((500, NOW - 3), begin=450)
    assert lag_seconds(NOW, WAITS, [moment(500)], received) is None
    assert lag_seconds(NOW, WAITS, [moment(500)], received, Backlog(NOW - 7200)) == 7200.0


def test_bytes_are_what_was_not_received_and_what_is_not_applied():
    assert lag_bytes(NOW, DONE, [moment(700)]) == 200
    assert lag_bytes(NOW, WAITS, [moment(700)]) == 300
    assert lag_bytes(NOW, Reach(), [moment(700)]) is None


def test_many_marks_become_fewer_and_the_oldest_stays():
    received = marks(*((number, NOW - 5000 + number) for number in range(1, 5000)))
    assert received.oldest_after(0) == NOW - 4999
    assert received.oldest_after(4998) is not None
    received.record(6000, None, applied=5000)
    assert received.oldest_after(0) is None


def idle(**worker: Any) -> Observation:
    """A subscription whose journal was last read when it began, beside a publisher that writes."""
    return observation(
        worker={"received": LSN(400), "last_entry": LSN(400), "applied": LSN(400), "marks": marks(), **worker},
        publisher=PublisherSample((moment(900, 11), moment(950, 1))),
        now=NOW,
    )


def test_an_idle_subscription_is_proven_to_have_everything_by_what_its_receiver_has_confirmed():
    """The publisher writes for others: the slot moves, and the journal has no new entry."""
    assert idle().lag_seconds is None
    assert idle(received_counts=ReceiverCounts(confirmed_lsn=900)).lag_seconds == 0.0
    assert idle(received_counts=ReceiverCounts(confirmed_lsn=899)).lag_seconds is None


def test_a_commit_of_the_last_beat_that_is_not_applied_is_no_proof_but_a_lag():
    counts = ReceiverCounts(confirmed_lsn=900, commit_lsn=890)
    one = idle(received_counts=counts, marks=marks((890, NOW - 7)))
    assert (one.lag_seconds, one.lag_bytes) == (7.0, 540)
    assert idle(received_counts=counts).lag_seconds is None, "its mark may come with the next beat"
    assert idle(received_counts=counts, applied=LSN(890)).lag_seconds == 0.0


def test_the_fields_of_a_beat_are_read_in_the_order_that_the_proof_needs():
    names = [field.name for field in fields(ReceiverCounts)]
    assert names.index("confirmed_lsn") < names.index("commit_lsn")
