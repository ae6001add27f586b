"""ALTER SUBSCRIPTION … REFRESH SEQUENCES on SQLite, whose AUTOINCREMENT tables have counters."""

from __future__ import annotations

import pytest

from subscriber.base.lsn import LSN
from subscriber.catalog.table_states import RelationState
from subscriber.commands.refresh_sequences import sequences_behind
from tests.journals import writing
from tests.scripted_publisher import PublishedCounter, PublishedSlot
from tests.streams import SYSTEM

READY = RelationState.READY
REFRESH = "ALTER SUBSCRIPTION s REFRESH SEQUENCES"
FILM_ID = ("public", "film", "id")


@pytest.fixture
def subscribed(session, publisher):
    """A subscription of table film that has applied everything; the table counts its keys."""
    session.execute("CREATE TABLE film (id integer PRIMARY KEY AUTOINCREMENT, note text)")
    session.subscribe(applied=0x500, slot_name=None, enabled=False, tables={"film": READY})
    return session


def refresh(session) -> list[str]:
    """The first lines of what the command tells."""
    session.said.clear()
    assert session.run(REFRESH) == "ALTER SUBSCRIPTION"
    return [text.partition("\n")[0] for text in session.said]


def next_key(session) -> int:
    session.execute("INSERT INTO film DEFAULT VALUES")
    return int(session.rows("SELECT max(id) AS id FROM film")[0]["id"])


# Carried over -------------------------------------------------------------------------------------


def test_a_counter_goes_on_where_the_publishers_sequence_is(subscribed, publisher):
    publisher.sequences["film_id_seq"] = PublishedCounter(41, [FILM_ID])
    assert refresh(subscribed) == ['NOTICE:  sequence "film_id_seq": 1 → 41']
    assert next_key(subscribed) == 42


def test_a_sequence_that_was_never_used_begins_with_its_value(subscribed, publisher):
    publisher.sequences["film_id_seq"] = PublishedCounter(7, [FILM_ID], is_called=False)
    refresh(subscribed)
    assert next_key(subscribed) == 7


def test_a_counter_that_goes_back_is_a_warning(subscribed, publisher):
    """D14: the publisher's value is used even if it is lower."""
    publisher.sequences["film_id_seq"] = PublishedCounter(41, [FILM_ID])
    refresh(subscribed)
    publisher.sequences["film_id_seq"] = PublishedCounter(20, [FILM_ID])
    assert refresh(subscribed) == ['WARNING:  sequence "film_id_seq": 41 → 20, a step back']
    assert next_key(subscribed) == 21


def test_a_counter_with_other_steps_is_set_with_a_warning(subscribed, publisher):
    publisher.sequences["film_id_seq"] = PublishedCounter(41, [FILM_ID], increment=10)
    assert refresh(subscribed) == [
        'WARNING:  sequence "film_id_seq" counts in steps of 10 at the publisher and of 1 in the target',
        'NOTICE:  sequence "film_id_seq": 1 → 41',
    ]
    assert next_key(subscribed) == 51


def test_of_two_sequences_of_a_column_the_further_one_counts(subscribed, publisher):
    publisher.sequences["a"] = PublishedCounter(10, [FILM_ID])
    publisher.sequences["b"] = PublishedCounter(5, [FILM_ID])
    publisher.sequences["c"] = PublishedCounter(30, [FILM_ID])
    assert refresh(subscribed) == [
        'NOTICE:  sequence "a": 1 → 10',
        (
            'WARNING:  sequence "b" was not set: its counter in the target has just been set to a later value, from another sequence'
            " of the same column"
        ),
        'NOTICE:  sequence "c": 10 → 30',
    ]
    assert next_key(subscribed) == 31


def test_a_sequence_of_two_columns_is_told_for_each_of_them(subscribed, publisher):
    subscribed.execute("CREATE TABLE actor (id integer PRIMARY KEY AUTOINCREMENT)")
    publisher.sequences["people"] = PublishedCounter(200, [("public", "actor", "id"), FILM_ID])
    assert refresh(subscribed) == [
        'NOTICE:  sequence "people" for column "public.actor.id": 1 → 200',
        'NOTICE:  sequence "people" for column "public.film.id": 1 → 200',
    ]


# Left alone ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sequence", "told"),
    [
        (
            PublishedCounter(41, [FILM_ID], may_read=False),
            'WARNING:  sequence "q" was not set: the role of the subscription\'s CONNECTION may not read it',
        ),
        (
            PublishedCounter(41, [("public", "gone", "id")]),
            'WARNING:  sequence "q" was not set: table "public.gone" does not exist in the target',
        ),
        (
            PublishedCounter(41, [("public", "film", "note")]),
            'WARNING:  sequence "q" was not set: the target generates no values for column "public.film.note"',
        ),
        (
            PublishedCounter(-41, [FILM_ID], increment=-1),
            'WARNING:  sequence "q" was not set: it counts downwards at the publisher and upwards in the target',
        ),
        (
            PublishedCounter(0, [FILM_ID], is_called=False),
            'WARNING:  sequence "q" was not set: 0 is out of its range in the target (1 .. 9223372036854775807)',
        ),
        (PublishedCounter(41, used=False), 'WARNING:  1 sequence was not set: "q"'),
        (
            PublishedCounter(41, used=True),
            'NOTICE:  1 sequence was not set, because the subscription does not have its table: "q"',
        ),
    ],
    ids=["unreadable", "no table", "no counter", "other direction", "out of range", "unused", "of another table"],
)
def test_a_sequence_that_is_not_set_is_told_with_the_reason(subscribed, publisher, sequence, told):
    publisher.sequences["q"] = sequence
    assert refresh(subscribed) == [told]
    assert next_key(subscribed) == 1


def test_a_sequence_that_may_not_be_read_may_be_ahead(subscribed, publisher):
    """The columns for which the target makes values are told; its counter for others is none."""
    publisher.sequences["q"] = PublishedCounter(41, [FILM_ID, ("public", "film", "note")], may_read=False)
    assert sequences_behind(subscribed.target, subscribed.subscription()) == ["public.film.id"]


def test_the_grant_for_a_sequence_is_told(subscribed, publisher):
    publisher.sequences["q"] = PublishedCounter(41, [FILM_ID], may_read=False)
    refresh(subscribed)
    assert subscribed.said[0].endswith('HINT:  Run at the publisher: GRANT SELECT ON SEQUENCE "public"."q" TO "ann";')


def test_several_unused_sequences_are_one_warning(subscribed, publisher):
    publisher.sequences |= {"a": PublishedCounter(1, used=False), "b": PublishedCounter(1, used=False)}
    assert refresh(subscribed) == ['WARNING:  2 sequences were not set: "a", "b"']


# Not up to date -----------------------------------------------------------------------------------


def test_tables_that_are_not_ready_are_told(session, publisher):
    states = {"a": RelationState.INIT, "b": RelationState.SYNCDONE, "c": READY}
    session.subscribe(applied=0x500, slot_name=None, enabled=False, tables=states)
    assert refresh(session) == ['WARNING:  2 tables are not ready in subscription "s": "public.a", "public.b"']


def test_a_subscription_that_is_behind_is_told_at_once_when_nobody_receives(session, publisher):
    publisher.slots["s"] = PublishedSlot()
    session.subscribe(applied=0x300, system_identifier=SYSTEM)
    assert refresh(session) == [
        'WARNING:  subscription "s" is behind: it has everything up to 0/300, and the publisher is at 0/500'
    ]
    assert "DETAIL:  No receiver is connected to its slot" in session.said[0]


def test_wal_without_changes_counts_as_applied_once_it_was_received(session, publisher):
    """The last change in the journal ends at 0/400 and is applied."""
    session.subscribe(applied=0x400, system_identifier=SYSTEM)
    folder = session.make_journal()
    assert len(refresh(session)) == 1
    with writing(folder) as journal:
        journal.advance(LSN(0x500))
    assert refresh(session) == []


def test_what_was_received_and_not_applied_does_not_count(session, publisher):
    session.subscribe(applied=0x300, system_identifier=SYSTEM)
    with writing(session.make_journal()) as journal:
        journal.advance(LSN(0x500))
    assert refresh(session) == [
        'WARNING:  subscription "s" is behind: it has everything up to 0/300, and the publisher is at 0/500'
    ]
