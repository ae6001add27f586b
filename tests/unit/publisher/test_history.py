"""Is the publisher's WAL still the history that was received?"""

from __future__ import annotations

import pytest

from subscriber.base.errors import HistoryDiverged, PublisherNotReady, PublisherUnavailable, SlotLost
from subscriber.base.lsn import LSN
from subscriber.publisher.history import (
    Server,
    TimelineEnd,
    check_history,
    check_is_primary,
    explain,
    identify,
    naming_server,
    parse_timeline_history,
)

PRIMARY = Server("7300", 1, LSN(0x500), is_standby=False, address='"h", port 5432')
PROMOTED = Server(
    "7300",
    3,
    LSN(0x900),
    is_standby=False,
    ancestors=(TimelineEnd(1, LSN(0x300)), TimelineEnd(2, LSN(0x600))),
    address='"h", port 5432',
)


class Commands:
    """A replication connection that answers from a table."""

    address = '"h", port 5432'

    def __init__(self, *, in_recovery="f", **answers):
        self.answers = {"SELECT": {"pg_is_in_recovery": in_recovery}, **answers}
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
    found = identify(commands, received_on=3)
    assert found == Server("7300", 3, LSN(0x900), is_standby=False, address='"h", port 5432')
    assert identify(commands, received_on=0).ancestors == ()
    assert commands.asked == ["SELECT pg_is_in_recovery()", "IDENTIFY_SYSTEM"] * 2


def test_a_server_on_another_timeline_is_asked_for_its_history():
    commands = Commands(IDENTIFY_SYSTEM=IDENTIFIED, TIMELINE_HISTORY={"filename": "f", "content": HISTORY})
    assert identify(commands, received_on=1) == PROMOTED
    assert commands.asked[1:] == ["IDENTIFY_SYSTEM", "TIMELINE_HISTORY 3"]


def test_a_history_file_that_is_missing_is_not_waited_for():
    missing = PublisherUnavailable("could not open file", sqlstate="58P01")
    with pytest.raises(PublisherNotReady, match="does not have the history file of its timeline 3"):
        identify(Commands(IDENTIFY_SYSTEM=IDENTIFIED, TIMELINE_HISTORY=missing), received_on=1)
    lost = PublisherUnavailable("the connection was lost")
    with pytest.raises(PublisherUnavailable):
        identify(Commands(IDENTIFY_SYSTEM=IDENTIFIED, TIMELINE_HISTORY=lost), received_on=1)


# Which server has answered ------------------------------------------------------------------------


def test_a_standby_is_refused_after_a_primary_and_says_where_the_primary_is_looked_for():
    standby = identify(Commands(in_recovery="t", IDENTIFY_SYSTEM=IDENTIFIED), received_on=3)
    with pytest.raises(PublisherUnavailable, match="is a standby, but changes were received from a primary") as caught:
        check_is_primary(standby, 3)
    assert str(caught.value.detail).startswith(
        'The server that answered is "h", port 5432: it is a standby (in recovery), on timeline 3.'
    )
    assert "target_session_attrs=primary" in str(caught.value.hint)
    assert "DROP" not in caught.value.report()


def test_a_standby_is_no_mistake_if_it_was_streamed_from_before_or_is_asked_for():
    standby = identify(Commands(in_recovery="t", IDENTIFY_SYSTEM=IDENTIFIED), received_on=0)
    check_is_primary(standby, 0)
    check_is_primary(standby, 3, wants_standby=True)


def test_an_old_primary_that_comes_back_is_refused_without_a_word_of_lost_changes():
    with pytest.raises(
        PublisherUnavailable, match="is on timeline 1, but changes were received on timeline 2"
    ) as caught:
        check_is_primary(PRIMARY, 2)
    assert not caught.value.stops
    assert "The slot on the present primary is not affected" in str(caught.value.hint)
    assert "DROP" not in caught.value.report()


@pytest.mark.parametrize("received_on", [0, 1, 3])
def test_a_primary_on_the_same_or_a_later_timeline_is_accepted(received_on):
    check_is_primary(PROMOTED, received_on)


def test_an_error_that_stops_names_the_server_and_the_way_to_another_one_first():
    with pytest.raises(SlotLost) as caught, naming_server(PRIMARY):
        raise SlotLost("gone", hint="RECREATE SLOT")
    assert caught.value.detail == 'The server that answered is "h", port 5432: it is not in recovery, on timeline 1.'
    hint = str(caught.value.hint)
    assert hint.index("correct CONNECTION") < hint.index("RECREATE SLOT")


def test_an_error_that_passes_is_left_as_it_is():
    with pytest.raises(PublisherUnavailable) as caught, naming_server(PRIMARY):
        raise PublisherUnavailable("away", hint="h")
    assert (caught.value.detail, caught.value.hint) == (None, "h")


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
    assert "RECREATE SLOT" in error.hint
    assert 'the journal at "/srv/journal/7300_s"' in error.hint
