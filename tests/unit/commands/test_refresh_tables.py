"""ALTER SUBSCRIPTION … REFRESH TABLE: which tables are copied again, and which are refused."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import SUBSCRIPTION
from subscriber.catalog.subscriptions import set_two_phase_state
from subscriber.catalog.table_states import RelationState, record_relation_error, relations_of, set_relation_states

READY, INIT, DATASYNC = RelationState.READY, RelationState.INIT, RelationState.DATASYNC
REFRESH = "ALTER SUBSCRIPTION s REFRESH TABLE"


def replaced(session, name="s") -> dict[str, tuple[str, bool]]:
    """The states of tables, and whether their copy replaces rows."""
    subid = session.subscription(name).subid
    with session.target.engine.connect() as connection:
        return {one.qualified_name: (one.state.value, one.replaces) for one in relations_of(connection, subid)}


def test_the_named_tables_are_to_be_copied_again_and_the_others_stay_as_they_are(session):
    session.subscribe(tables={"t": READY, "u": READY, "v": READY})
    assert session.run(f"{REFRESH} t, public.v, t") == "ALTER SUBSCRIPTION"
    assert replaced(session) == {"public.t": ("i", True), "public.u": ("r", False), "public.v": ("i", True)}


def test_a_table_that_is_not_ready_is_copied_again_and_its_error_and_position_are_forgotten(session):
    subid = session.subscribe(tables={"t": DATASYNC, "u": INIT}).subid
    with session.target.begin() as connection:
        set_relation_states(connection, subid, [("public", "u")], INIT, LSN(5))
        record_relation_error(connection, subid, "public", "t", "ERROR:  duplicate key")
    session.run(f"{REFRESH} t, u")
    with session.target.engine.connect() as connection:
        for one in relations_of(connection, subid):
            assert (one.state, one.replaces, one.lsn, one.error, one.error_at) == (INIT, True, None, None, None)


def test_a_disabled_subscription_has_its_tables_copied_when_it_is_enabled(session):
    session.subscribe(slot_name=None, enabled=False, tables={"t": READY})
    session.run(f"{REFRESH} t")
    assert replaced(session) == {"public.t": ("i", True)}


def test_the_command_gives_the_subscription_a_new_version(session):
    """A worker notices it."""
    before = session.subscribe(tables={"t": READY}).version
    session.run(f"{REFRESH} t")
    assert session.subscription().version != before


def test_an_unknown_table_is_refused_with_the_tables_that_there_are(session):
    session.subscribe(tables={"t": READY, "u": READY})
    error = session.refused(f"{REFRESH} t, other.t")
    assert error.report().splitlines() == [
        'ERROR:  relation "other.t" is not part of the subscription',
        'DETAIL:  The subscription has the tables "public.t", "public.u".',
        (
            "HINT:  Tables are named as at the publisher."
            " ALTER SUBSCRIPTION ... REFRESH PUBLICATION adds tables that were published later."
        ),
    ]
    assert error.sqlstate == "42704"


def test_a_table_of_another_subscription_is_refused_with_the_name_of_that_subscription(session):
    session.subscribe()
    session.subscribe("other", slot_name="other", tables={"t": READY})
    error = session.refused(f"{REFRESH} t")
    assert error.sqlstate == "42704"
    assert error.detail == 'The subscription has no tables. The table belongs to subscription "other".'


def test_a_name_without_schema_that_has_two_meanings_is_refused(session):
    subid = session.subscribe(tables={"t": READY}).subid
    with session.target.begin() as connection:
        set_relation_states(connection, subid, [("archive", "t")], READY)
    error = session.refused(f"{REFRESH} t")
    assert (error.sqlstate, error.message) == ("42P09", 'table name "t" is ambiguous')
    assert error.detail == 'The subscription has the tables "archive.t", "public.t".'
    session.run(f"{REFRESH} archive.t")
    assert replaced(session) == {"archive.t": ("i", True), "public.t": ("r", False)}


def test_two_phase_is_refused_as_with_refresh_publication(session):
    """C52"""
    subid = session.subscribe(tables={"t": READY}).subid
    with session.target.begin() as connection:
        set_two_phase_state(connection, subid, "e")
    error = session.refused(f"{REFRESH} t")
    assert error.sqlstate == "42601"
    assert error.message == "ALTER SUBSCRIPTION ... REFRESH TABLE is not allowed when two_phase is enabled"


@pytest.mark.parametrize("name", ["public.t => public.u", ""])
def test_a_table_that_has_rows_of_two_subscriptions_is_refused(session, name):
    """The rows of the other one would be deleted."""
    one = session.subscribe(tables={"t": READY})
    session.subscribe("other", slot_name="other", tables={"u" if name else "t": READY})
    with session.target.begin() as connection:
        connection.execute(sa.update(SUBSCRIPTION).where(SUBSCRIPTION.c.subid == one.subid).values(submap=name or None))
    error = session.refused(f"{REFRESH} t")
    assert error.sqlstate == "55000"
    assert f'table "public.{"u" if name else "t"}" cannot be copied again' in error.message
    assert 'subscription "other"' in error.message
