"""Sequences as rows of a subscription (D14), on SQLite: AUTOINCREMENT columns are counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.lsn import LSN
from subscriber.catalog.subscriptions import set_enabled
from subscriber.catalog.table_states import relations_of, sequences_of
from subscriber.commands.refresh_sequences import sequences_behind
from subscriber.commands.sequence_rows import synchronize_sequences
from subscriber.postgres.publication.definition import Publication
from tests.scripted_publisher import PublishedCounter

CREATE = "CREATE SUBSCRIPTION s CONNECTION 'host=a' PUBLICATION p WITH (slot_name = none, create_slot = false, enabled = false)"
FILM_ID = ("public", "film", "id")
FLUSHED = LSN(0x500)


@pytest.fixture
def followed(session, publisher):
    """A subscription to all tables and sequences: that of table film, and one of no column."""
    publisher.info.server_version = 190000
    publisher.publications = {"p": Publication("p", all_tables=True, all_sequences=True)}
    publisher.add_table("film", "id")
    publisher.sequences["film_id_seq"] = PublishedCounter(41, [FILM_ID])
    publisher.sequences["tickets"] = PublishedCounter(7, used=False)
    session.execute("CREATE TABLE film (id integer PRIMARY KEY AUTOINCREMENT)")
    session.run(CREATE)
    return session


def rows(session) -> dict[str, tuple[str, LSN | None]]:
    """The sequences with the letters of their states, and their LSNs."""
    with session.target.engine.connect() as connection:
        return {one.name: (one.state.value, one.lsn) for one in sequences_of(connection, 1)}


def synchronize(session) -> list[str]:
    return synchronize_sequences(session.target, session.subscription(), session.target.begin)


def errors(session) -> list[str]:
    with session.target.engine.connect() as connection:
        return [one.error for one in sequences_of(connection, 1) if one.error is not None]


def next_key(session) -> int:
    session.execute("INSERT INTO film DEFAULT VALUES")
    return int(session.rows("SELECT max(id) AS id FROM film")[0]["id"])


def test_published_sequences_become_rows_beside_the_tables(followed):
    assert rows(followed) == {"film_id_seq": ("i", None)}
    with followed.target.engine.connect() as connection:
        assert [one.name for one in relations_of(connection, 1)] == ["film"]


def test_sequences_to_which_nothing_corresponds_are_told(followed):
    (said,) = [text for text in followed.said if "synchronized" in text]
    assert said.startswith('WARNING:  1 sequence is not synchronized: "public.tickets"\n')


def test_a_sequence_is_set_and_ready_with_the_lsn_of_its_value(followed):
    assert synchronize(followed) == []
    assert rows(followed) == {"film_id_seq": ("r", FLUSHED)}
    assert next_key(followed) == 42


def test_a_sequence_is_behind_when_it_was_set_and_the_publishers_has_gone_on(followed, publisher):
    assert sequences_behind(followed.target, followed.subscription()) == []
    synchronize(followed)
    assert sequences_behind(followed.target, followed.subscription()) == []
    publisher.sequences["film_id_seq"].last_value = 60
    assert sequences_behind(followed.target, followed.subscription()) == ["public.film.id"]


def test_without_copy_data_no_value_is_taken(session, publisher):
    publisher.info.server_version = 190000
    publisher.publications = {"p": Publication("p", all_sequences=True, all_tables=True)}
    publisher.add_table("film", "id")
    publisher.sequences["film_id_seq"] = PublishedCounter(41, [FILM_ID])
    session.execute("CREATE TABLE film (id integer PRIMARY KEY AUTOINCREMENT)")
    session.run(CREATE.replace("slot_name", "copy_data = false, slot_name"))
    assert rows(session) == {"film_id_seq": ("r", None)}


def test_a_sequence_with_another_direction_is_mismatched_and_stays(followed, publisher):
    publisher.sequences["film_id_seq"].increment = -1
    assert synchronize(followed) == ['mismatched or renamed sequence on subscriber ("public.film_id_seq")']
    assert rows(followed) == {"film_id_seq": ("i", None)}
    (error,) = errors(followed)
    assert 'mismatched or renamed sequence on subscriber ("public.film_id_seq")' in error
    publisher.sequences["film_id_seq"].increment = 1
    assert synchronize(followed) == []
    assert errors(followed) == []


def test_a_sequence_that_may_not_be_read_stays_with_the_statement_that_helps(followed, publisher):
    publisher.sequences["film_id_seq"].may_read = False
    assert synchronize(followed) == ['insufficient privileges on publisher sequence ("public.film_id_seq")']
    (error,) = errors(followed)
    assert 'HINT:  Run at the publisher: GRANT SELECT ON SEQUENCE "public"."film_id_seq" TO "ann";' in error


def test_a_sequence_that_was_dropped_is_missing(followed, publisher):
    del publisher.sequences["film_id_seq"]
    assert synchronize(followed) == ['missing sequence on publisher ("public.film_id_seq")']
    assert rows(followed) == {"film_id_seq": ("i", None)}


def test_refresh_sequences_sets_the_rows_again(followed, publisher):
    synchronize(followed)
    publisher.sequences["film_id_seq"].last_value = 60
    publisher.flushed = "0/600"
    followed.said.clear()
    followed.run("ALTER SUBSCRIPTION s REFRESH SEQUENCES")
    assert 'NOTICE:  sequence "film_id_seq": 41 → 60' in followed.said
    assert rows(followed) == {"film_id_seq": ("r", LSN(0x600))}
    assert next_key(followed) == 61


def test_refresh_sequences_leaves_what_cannot_be_set_to_the_worker(followed, publisher):
    synchronize(followed)
    publisher.sequences["film_id_seq"].may_read = False
    followed.run("ALTER SUBSCRIPTION s REFRESH SEQUENCES")
    assert rows(followed) == {"film_id_seq": ("i", None)}


def test_as_postgresql_19_refresh_sequences_says_nothing_of_rows_and_refuses_a_disabled_subscription(followed):
    followed.settings = replace(followed.settings, postgresql_version=19)
    refused = followed.refused("ALTER SUBSCRIPTION s REFRESH SEQUENCES")
    assert (refused.message, refused.sqlstate) == (
        "ALTER SUBSCRIPTION ... REFRESH SEQUENCES is not allowed for disabled subscriptions",
        "55000",
    )
    with followed.target.begin() as connection:
        set_enabled(connection, "s", enabled=True)
    followed.said.clear()
    followed.run("ALTER SUBSCRIPTION s REFRESH SEQUENCES")
    assert [text for text in followed.said if text.startswith("NOTICE:  sequence")] == []
    assert rows(followed) == {"film_id_seq": ("r", FLUSHED)}
