"""Is the publisher's WAL still the history that was received?"""

from __future__ import annotations

import pytest

from subscriber.errors import HistoryDiverged, PublisherNotReady, PublisherUnavailable
from subscriber.lsn import LSN
from subscriber.publisher.history import Server, TimelineEnd, check_history, explain, identify, parse_timeline_history

PRIMARY = Server("7300", 1, LSN(0x500), is_standby=False)
PROMOTED = Server(
    "7300", 3, LSN(0x900), is_standby=False, ancestors=(TimelineEnd(1, LSN(0x300)), TimelineEnd(2, LSN(0x600)))
)


class Commands:
    """A replication connection that answers from a table."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked: list[str] = []

    def execute(self, command):
        self.asked.append(command)
        answer = self.answers[command.partition(" ")[0]]
        if isinstance(answer, Exception):
            raise answer
        return [answer]


IDENTIFIED = {"systemid": "7300", "timeline": "3", "xlogpos": "0/900", "dbname": "d"}
HISTORY = "1\t0/300\tno recovery target specified\n\n2\t0/600\tbefore 2026-01-01 00:00:00+00\n"


def test_a_history_file_names_each_older_timeline_and_where_it_ended():
    assert parse_timeline_history(HISTORY) == PROMOTED.ancestors


def test_a_server_on_the_timeline_that_was_received_is_not_asked_for_its_history():
    commands = Commands(IDENTIFY_SYSTEM=IDENTIFIED)
    assert identify(commands, is_standby=False, received_on=3) == Server("7300", 3, LSN(0x900), is_standby=False)
    assert identify(commands, is_standby=False, received_on=0).ancestors == ()
    assert commands.asked == ["IDENTIFY_SYSTEM"] * 2


def test_a_server_on_another_timeline_is_asked_for_its_history():
    commands = Commands(IDENTIFY_SYSTEM=IDENTIFIED, TIMELINE_HISTORY={"filename": "f", "content": HISTORY})
    assert identify(commands, is_standby=False, received_on=1) == PROMOTED
    assert commands.asked == ["IDENTIFY_SYSTEM", "TIMELINE_HISTORY 3"]


def test_a_history_file_that_is_missing_is_not_waited_for():
    missing = PublisherUnavailable("could not open file", sqlstate="58P01")
    with pytest.raises(PublisherNotReady, match="does not have the history file of its timeline 3"):
        identify(Commands(IDENTIFY_SYSTEM=IDENTIFIED, TIMELINE_HISTORY=missing), is_standby=False, received_on=1)
    lost = PublisherUnavailable("the connection was lost")
    with pytest.raises(PublisherUnavailable):
        identify(Commands(IDENTIFY_SYSTEM=IDENTIFIED, TIMELINE_HISTORY=lost), is_standby=False, received_on=1)


@pytest.mark.parametrize("received_on", [0, 1])
def test_what_was_received_up_to_the_end_of_the_publishers_wal_is_its_history(received_on):
    check_history(PRIMARY, LSN(0x500), received_on)


@pytest.mark.parametrize("received_on", [0, 1])
def test_more_than_the_publishers_flushed_wal_was_received_from_another_history(received_on):
    with pytest.raises(
        HistoryDiverged, match="up to 0/501 were received, but the publisher's WAL ends at 0/500"
    ) as caught:
        check_history(PRIMARY, LSN(0x501), received_on)
    assert caught.value.diverged_at == 0x500


@pytest.mark.parametrize(("received_on", "received"), [(1, 0x300), (2, 0x600), (3, 0x900), (0, 0x900)])
def test_what_was_received_before_a_timeline_ended_is_in_the_new_one(received_on, received):
    check_history(PROMOTED, LSN(received), received_on)


@pytest.mark.parametrize(("received_on", "received", "left"), [(1, 0x301, 0x300), (2, 0x601, 0x600)])
def test_what_was_received_after_its_timeline_was_left_is_in_no_history_of_the_publisher(received_on, received, left):
    with pytest.raises(
        HistoryDiverged, match=f"on timeline {received_on}, but the publisher, now on timeline 3"
    ) as caught:
        check_history(PROMOTED, LSN(received), received_on)
    assert caught.value.diverged_at == left


def test_a_timeline_that_the_publisher_never_had_is_refused():
    with pytest.raises(HistoryDiverged, match="on timeline 1, whose history does not contain timeline 4") as caught:
        check_history(PRIMARY, LSN(0x400), 4)
    assert caught.value.diverged_at == 0x400


def test_a_standby_that_is_behind_is_waited_for_and_has_no_timeline_of_its_own():
    standby = Server("7300", 1, LSN(0x500), is_standby=True)
    with pytest.raises(PublisherUnavailable, match="replayed WAL up to 0/500"):
        check_history(standby, LSN(0x600), 1)
    assert (standby.stays_on, PRIMARY.stays_on) == (0, 1)


@pytest.mark.parametrize(
    ("relations", "trimmed", "said"),
    [
        (None, 0, "is not known: the journal keeps what is not applied."),
        ([], 0x300, "has no change of any table."),
        ([], 0x301, "is not known: the journal keeps what is not applied."),
        (["public.a", "public.b"], 0x300, "After 0/300 the journal has changes of: public.a, public.b."),
        (
            ["a"],
            0x301,
            "changes of: a. Which tables had changes that were applied since then is not known: the journal keeps what is not applied.",
        ),
        ([f"t{number}" for number in range(12)], 0, "t9 and 2 more."),
    ],
)
def test_the_error_says_which_tables_have_changes_that_the_publisher_lost(relations, trimmed, said):
    error = explain(
        HistoryDiverged("…", diverged_at=0x300), relations, trimmed=LSN(trimmed), journal="/srv/journal/7300_s"
    )
    assert error.detail is not None
    assert error.detail.endswith(said)
    assert error.hint is not None
    assert "DROP SUBSCRIPTION" in error.hint
    assert 'the journal at "/srv/journal/7300_s"' in error.hint
