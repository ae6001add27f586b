"""ALTER SUBSCRIPTION … PUBLICATION and REFRESH PUBLICATION."""

from __future__ import annotations

import pytest

from subscriber.base.errors import PublisherNotReady
from subscriber.catalog.subscriptions import set_two_phase_state
from subscriber.catalog.table_states import RelationState
from tests.streams import SYSTEM

READY, INIT = RelationState.READY, RelationState.INIT


# The list of publications -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "publications"),
    [
        ("SET PUBLICATION z", ("z",)),
        ("ADD PUBLICATION z, y", ("p", "q", "z", "y")),
        ("DROP PUBLICATION p", ("q",)),
    ],
)
def test_the_list_changes_without_a_publisher_when_it_is_not_refreshed(session, form, publications):
    """D11, D12."""
    session.subscribe(publications=("p", "q"), enabled=False)
    session.run(f"ALTER SUBSCRIPTION s {form} WITH (refresh = false)")
    assert session.subscription().publications == publications


@pytest.mark.parametrize(
    ("form", "message", "sqlstate"),
    [
        ("ADD PUBLICATION z, z", 'publication name "z" used more than once', "42710"),
        ("SET PUBLICATION z, z", 'publication name "z" used more than once', "42710"),
        ("ADD PUBLICATION p", 'publication "p" is already in subscription "s"', "42710"),
        ("DROP PUBLICATION z", 'publication "z" is not in subscription "s"', "42P17"),
        ("DROP PUBLICATION p, q", "cannot drop all the publications from a subscription", "42P17"),
    ],
)
def test_a_list_that_is_not_valid_is_refused_in_postgresqls_words(session, form, message, sqlstate):
    """merge_publications, publicationListToArray."""
    session.subscribe(publications=("p", "q"))
    error = session.refused(f"ALTER SUBSCRIPTION s {form}")
    assert (error.message, error.sqlstate) == (message, sqlstate)


# When a refresh is possible -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "hint"),
    [
        ("SET PUBLICATION z", "Use ALTER SUBSCRIPTION ... SET PUBLICATION ... WITH (refresh = false)."),
        ("ADD PUBLICATION z", "Use ALTER SUBSCRIPTION ... ADD PUBLICATION ... WITH (refresh = false) instead."),
        ("DROP PUBLICATION p", "Use ALTER SUBSCRIPTION ... DROP PUBLICATION ... WITH (refresh = false) instead."),
    ],
)
def test_a_disabled_subscription_is_not_refreshed_with_its_list(session, form, hint):
    session.subscribe(publications=("p", "q"), enabled=False)
    error = session.refused(f"ALTER SUBSCRIPTION s {form}")
    assert error.message == "ALTER SUBSCRIPTION with refresh is not allowed for disabled subscriptions"
    assert (error.sqlstate, error.hint) == ("55000", hint)


def test_a_disabled_subscription_is_not_refreshed(session):
    session.subscribe(enabled=False)
    error = session.refused("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert error.message == "ALTER SUBSCRIPTION ... REFRESH is not allowed for disabled subscriptions"
    assert error.sqlstate == "55000"


@pytest.mark.parametrize(
    ("form", "message", "sqlstate"),
    [
        (
            "SET PUBLICATION p",
            "ALTER SUBSCRIPTION with refresh and copy_data is not allowed when two_phase is enabled",
            "55000",
        ),
        (
            "REFRESH PUBLICATION",
            "ALTER SUBSCRIPTION ... REFRESH with copy_data is not allowed when two_phase is enabled",
            "42601",
        ),
    ],
)
def test_tables_are_not_copied_while_prepared_transactions_are_sent(session, publisher, form, message, sqlstate):
    """C52: only copy_data = false is possible."""
    made = session.subscribe(two_phase=True)
    with session.target.begin() as connection:
        set_two_phase_state(connection, made.subid, "e")
    error = session.refused(f"ALTER SUBSCRIPTION s {form}")
    assert (error.message, error.sqlstate) == (message, sqlstate)
    assert session.run(f"ALTER SUBSCRIPTION s {form} WITH (copy_data = false)") == "ALTER SUBSCRIPTION"


@pytest.mark.parametrize("option", ["refresh = false", "binary"])
def test_an_option_that_a_refresh_does_not_have_is_refused(session, option):
    session.subscribe()
    error = session.refused(f"ALTER SUBSCRIPTION s REFRESH PUBLICATION WITH ({option})")
    assert error.message == f'unrecognized subscription parameter: "{option.partition(" ")[0]}"'


# What a refresh does ------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "state"), [("", "i"), (" WITH (copy_data = false)", "r")])
def test_a_refresh_adds_new_tables_and_removes_those_that_are_no_longer_published(session, publisher, option, state):
    session.subscribe(tables={"actor": READY, "film": READY})
    session.execute("CREATE TABLE film (id integer PRIMARY KEY)", "CREATE TABLE staff (id integer PRIMARY KEY)")
    publisher.add_table("film", "id")
    publisher.add_table("staff", "id")
    session.run(f"ALTER SUBSCRIPTION s REFRESH PUBLICATION{option}")
    assert session.states() == {"public.film": "r", "public.staff": state}
    assert session.said == []


def test_a_missing_table_is_refused_and_changes_nothing(session, publisher):
    session.subscribe()
    publisher.add_table("film", "id")
    error = session.refused("ALTER SUBSCRIPTION s SET PUBLICATION p")
    assert (error.message, error.sqlstate) == ('relation "public.film" does not exist', "42P01")


def test_a_missing_table_is_created_when_the_subscription_creates_tables(session, publisher):
    session.subscribe(create_tables=True)
    publisher.add_table("film", "id", "year")
    session.run("ALTER SUBSCRIPTION s SET PUBLICATION p")
    assert session.states() == {"public.film": "i"}
    assert session.said == ['NOTICE:  created table "public.film" at the subscriber']
    session.execute("INSERT INTO film (id, year) VALUES (1, 1999)")


def test_publications_that_the_command_names_and_the_publisher_lacks_are_told(session, publisher):
    """C54: a publication that is dropped is not looked for."""
    session.subscribe(publications=("p", "q"))
    session.run("ALTER SUBSCRIPTION s ADD PUBLICATION z")
    session.run("ALTER SUBSCRIPTION s DROP PUBLICATION q")
    session.run("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert session.said == ['WARNING:  publication "z" does not exist on the publisher']
    assert session.subscription().publications == ("p", "z")


def test_a_publisher_that_is_not_ready_refuses_the_refresh(session, publisher):
    session.subscribe()
    publisher.wal_level = "replica"
    assert isinstance(session.refused("ALTER SUBSCRIPTION s REFRESH PUBLICATION"), PublisherNotReady)


def test_the_receiver_ends_after_the_list_has_changed(session, publisher):
    """It would otherwise stream by the older list."""
    session.subscribe(system_identifier=SYSTEM)
    session.run("ALTER SUBSCRIPTION s SET PUBLICATION z WITH (refresh = false)")
    assert publisher.statements("FROM pg_replication_slots")
