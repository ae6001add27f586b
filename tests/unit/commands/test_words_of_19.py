"""What commands say with ``SUBSCRIBER_POSTGRESQL_VERSION=19``. The texts are those that servers of
PostgreSQL 19 printed (scenarios/9[45]*.psql) or that its source has.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.catalog.subscriptions import set_two_phase_state


@pytest.fixture(autouse=True)
def version_19(session):
    session.settings = replace(session.settings, postgresql_version=19)


def test_refresh_is_named_with_its_publications(session):
    """C52"""
    session.subscribe(enabled=False)
    error = session.refused("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert error.message == "ALTER SUBSCRIPTION ... REFRESH PUBLICATION is not allowed for disabled subscriptions"


def test_a_copy_while_prepared_transactions_are_sent_is_refused(session):
    """C52"""
    made = session.subscribe(two_phase=True)
    with session.target.begin() as connection:
        set_two_phase_state(connection, made.subid, "e")
    error = session.refused("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert (
        error.message
        == "ALTER SUBSCRIPTION ... REFRESH PUBLICATION with copy_data is not allowed when two_phase is enabled"
    )
    assert error.hint == (
        "Use ALTER SUBSCRIPTION ... REFRESH PUBLICATION with copy_data = false, or use DROP/CREATE SUBSCRIPTION."
    )


def test_positions_have_eight_digits(session):
    """A19a, C40"""
    session.subscribe(applied=0x300)
    error = session.refused("ALTER SUBSCRIPTION s SKIP (lsn = '0/2FF')")
    assert error.message == "skip WAL location (LSN 0/000002FF) must be greater than origin LSN 0/00000300"


def test_the_next_steps_after_a_creation_without_connection(session):
    """C54"""
    session.run("CREATE SUBSCRIPTION s CONNECTION 'host=h' PUBLICATION p WITH (connect = false)")
    assert session.said[0].splitlines()[1] == (
        "HINT:  To initiate replication, you must manually create the replication slot, enable the subscription, "
        "and alter the subscription to refresh publications."
    )
