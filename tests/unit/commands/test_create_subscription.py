"""CREATE SUBSCRIPTION with a slot that exists or with none; the creation of slots needs a server
(tests/conformance/test_commands_of_ours.py).
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError, PublisherNotReady, UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.released import ReleasedSlot, release_slot, released_slots
from subscriber.commands.create_subscription import check_named_once
from tests.scripted_publisher import PublishedSlot
from tests.streams import SYSTEM

CREATE = "CREATE SUBSCRIPTION s CONNECTION 'host=a' PUBLICATION p"
WITHOUT_SLOT = f"{CREATE} WITH (slot_name = none, create_slot = false, enabled = false)"
WITH_SLOT = f"{CREATE} WITH (create_slot = false)"


def subscriptions(session) -> list[str]:
    return [row["subname"] for row in session.rows("SELECT subname FROM subscriber_subscription")]


# Before the publisher is connected to -------------------------------------------------------------


def test_a_name_that_is_taken_is_refused(session):
    session.subscribe()
    error = session.refused(CREATE)
    assert (error.message, error.sqlstate) == ('subscription "s" already exists', "42710")
    assert error.hint


@pytest.mark.parametrize(
    ("command", "message", "sqlstate"),
    [
        ("CREATE SUBSCRIPTION s CONNECTION 'nonsense' PUBLICATION p", "invalid connection string syntax", "42601"),
        (
            "CREATE SUBSCRIPTION s CONNECTION 'host=a' PUBLICATION p, q, p",
            'publication name "p" used more than once',
            "42710",
        ),
    ],
)
def test_a_command_that_is_not_valid_is_refused_without_a_connection(session, command, message, sqlstate):
    error = session.refused(command)
    assert error.message.startswith(message)
    assert error.sqlstate == sqlstate


def test_what_the_target_cannot_do_is_refused_first(session):
    error = session.refused(f"{CREATE} WITH (synchronous_commit = remote_write)")
    assert isinstance(error, NotSupportedError)


def test_a_list_may_name_different_publications_only():
    check_named_once(())
    check_named_once(("p", "P", "q"))
    with pytest.raises(UsageError, match=r'^publication name "q" used more than once$'):
        check_named_once(("p", "q", "r", "q"))


def test_without_a_connection_the_subscription_is_stored_with_a_warning(session):
    """C54: the text is PostgreSQL's."""
    assert session.run(f"{CREATE} WITH (connect = false)") == "CREATE SUBSCRIPTION"
    made = session.subscription()
    assert (made.enabled, made.slot_name, made.slot_adopted, made.system_identifier) == (False, "s", False, None)
    assert (session.applied(), session.states()) == (0, {})
    assert session.said == [
        (
            "WARNING:  subscription was created, but is not connected\n"
            "HINT:  To initiate replication, you must manually create the replication slot, enable the subscription, "
            "and refresh the subscription."
        )
    ]


def test_without_a_connection_two_phase_waits_for_its_tables(session):
    """C48."""
    session.run(f"{CREATE} WITH (connect = false, two_phase)")
    assert session.subscription().two_phase_state == "p"


def test_without_a_connection_the_slot_of_another_subscription_of_the_server_is_refused(session):
    session.subscribe("other")
    error = session.refused(f"{CREATE} WITH (connect = false, slot_name = s)")
    assert (error.message, error.sqlstate) == ('replication slot "s" is used by subscription "other"', "55006")


# With a publisher ---------------------------------------------------------------------------------


def test_the_tables_are_stored_to_be_copied(session, publisher):
    publisher.add_table("film", "id")
    session.execute("CREATE TABLE film (id integer PRIMARY KEY)")
    session.run(WITHOUT_SLOT)
    assert session.states() == {"public.film": "i"}
    assert session.subscription().system_identifier == SYSTEM
    assert (session.applied(), session.subscription().slot_adopted) == (0, False)
    assert session.said == []


def test_tables_that_are_not_copied_are_ready(session, publisher):
    publisher.add_table("film", "id")
    session.execute("CREATE TABLE film (id integer PRIMARY KEY)")
    session.run(f"{WITHOUT_SLOT[:-1]}, copy_data = false)")
    assert session.states() == {"public.film": "r"}


def test_a_slot_that_exists_is_begun_with_where_it_is_confirmed(session, publisher):
    """The copy contains everything that the slot's earlier subscription has not applied."""
    publisher.slots["s"] = PublishedSlot(confirmed="0/700")
    with session.target.begin() as connection:
        release_slot(connection, ReleasedSlot(SYSTEM, "s", LSN(0x600), "earlier"))
    session.run(WITH_SLOT)
    assert (session.applied(), session.subscription().slot_adopted) == (0x700, True)
    with session.target.engine.connect() as connection:
        assert released_slots(connection) == []


def test_a_slot_that_does_not_exist_yet_is_looked_at_later(session, publisher):
    session.run(WITH_SLOT)
    assert (session.applied(), session.subscription().slot_adopted) == (0, False)


def test_the_slot_of_another_subscription_is_refused(session, publisher):
    session.subscribe("other", "host=elsewhere", system_identifier=SYSTEM)
    assert session.refused(WITH_SLOT).sqlstate == "55006"


def test_missing_tables_are_created_when_that_is_asked_for(session, publisher):
    publisher.add_table("film", "id", "year")
    error = session.refused(WITHOUT_SLOT)
    assert (error.sqlstate, error.relation) == ("42P01", "public.film")
    session.run(f"{WITHOUT_SLOT[:-1]}, create_tables)")
    assert session.said == ['NOTICE:  created table "public.film" at the subscriber']
    assert session.rows("SELECT id, year FROM film") == []


def test_nothing_is_stored_when_the_publisher_is_not_ready(session, publisher):
    publisher.wal_level = "replica"
    assert isinstance(session.refused(WITHOUT_SLOT), PublisherNotReady)
    assert subscriptions(session) == []


def test_what_the_publisher_cannot_do_is_refused(session, publisher):
    publisher.info.server_version = 130000
    error = session.refused(f"{WITHOUT_SLOT[:-1]}, binary)")
    assert error.message == "binary = true needs PostgreSQL 14 or newer at the publisher"


def test_names_of_the_map_that_are_not_published_are_told(session, publisher):
    session.run(f"{WITHOUT_SLOT[:-1]}, map = 'a.t => b.t')")
    assert session.said == ['WARNING:  relation "a.t" of option "map" matches no table of the subscription']
