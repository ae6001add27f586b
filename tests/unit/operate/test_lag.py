"""The lag is 0 only if that is proven, absent if it is not known, and never an old value."""

from __future__ import annotations

from subscriber.base.lsn import LSN
from subscriber.base.reach import Reach
from subscriber.operate.lag import RECENT_SECONDS, Backlog, WalEnd, lag_bytes, lag_seconds
from subscriber.worker.commit_marks import CommitMarks

POSTGRESQL_EPOCH = 946_684_800
NOW = 1_800_000_000.0
DONE, WAITS = Reach(LSN(500), LSN(400), LSN(400)), Reach(LSN(500), LSN(500), LSN(400))


def marks(*commits: tuple[int, float], begin: int = 0) -> CommitMarks:
    made = CommitMarks()
    made.begin(begin)
    for lsn, moment in commits:
        made.note(lsn, int((moment - POSTGRESQL_EPOCH) * 1e6))
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
    received.note(6000, None, applied=5000)
    assert received.oldest_after(0) is None
