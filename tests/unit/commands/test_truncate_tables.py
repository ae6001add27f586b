"""TRUNCATE in ``subscriber sql``: which tables are emptied, and which are refused."""

from __future__ import annotations

import pytest

from subscriber.base.errors import ConflictError, TargetRelationError
from subscriber.catalog.subscriptions import set_two_phase_state
from subscriber.catalog.table_states import RelationState, set_relation_states

READY, INIT = RelationState.READY, RelationState.INIT


@pytest.fixture
def filled(session):
    """A session with a disabled subscription to t and u, and another table; all have rows."""
    session.execute(
        "CREATE TABLE t (a integer PRIMARY KEY)",
        "CREATE TABLE u (a integer PRIMARY KEY)",
        "CREATE TABLE own (a integer)",
        *(f"INSERT INTO {table} VALUES (1), (2)" for table in ("t", "u", "own")),
    )
    session.subscribe(enabled=False, tables={"t": READY, "u": READY})
    return session


def rows(session) -> dict[str, int]:
    return {table: session.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in ("t", "u", "own")}


def test_the_tables_of_a_disabled_subscription_are_emptied_and_copied_again(filled):
    """Otherwise the stream would go on with tables that lack rows."""
    assert filled.run("TRUNCATE TABLE public.t, u, t") == "TRUNCATE TABLE"
    assert rows(filled) == {"t": 0, "u": 0, "own": 2}
    assert filled.states() == {"public.t": "i", "public.u": "i"}
    assert filled.said == [
        f'NOTICE:  table "public.{name}" is copied again when subscription "s" is enabled' for name in ("t", "u")
    ]


def test_the_tables_of_a_dropped_subscription_are_emptied_once(filled):
    filled.run("ALTER SUBSCRIPTION s SET (slot_name = NONE)")
    filled.run("DROP SUBSCRIPTION s")
    filled.said.clear()
    filled.run("TRUNCATE t")
    assert rows(filled) == {"t": 0, "u": 2, "own": 2}
    assert filled.said == []
    assert 'no subscription fills relation "t", or has filled it' in filled.refused("TRUNCATE t").message
    filled.run("TRUNCATE u")


def test_a_table_that_another_subscription_has_taken_over_is_refused_while_that_one_is_enabled(filled):
    filled.run("ALTER SUBSCRIPTION s SET (slot_name = NONE)")
    filled.run("DROP SUBSCRIPTION s")
    filled.subscribe("other", slot_name="other", tables={"t": READY})
    error = filled.refused("TRUNCATE t")
    assert (error.sqlstate, error.message) == (
        "55000",
        'cannot truncate table "public.t" while subscription "other" is enabled',
    )
    assert "DISABLE" in str(error.hint)


def test_an_enabled_subscription_of_one_table_refuses_all(filled):
    filled.subscribe("other", slot_name="other", tables={"u": READY})
    assert 'while subscription "other" is enabled' in filled.refused("TRUNCATE t, u").message
    assert rows(filled) == {"t": 2, "u": 2, "own": 2}


@pytest.mark.parametrize("name", ["own", "public.own", "subscriber_subscription", "nothing"])
def test_a_table_that_no_subscription_fills_is_refused(filled, name):
    error = filled.refused(f"TRUNCATE {name}")
    assert (error.sqlstate, error.message) == ("42704", f'no subscription fills relation "{name}", or has filled it')


def test_a_map_says_which_table_it_is(filled):
    filled.run("ALTER SUBSCRIPTION s SET (map = 'public.t => public.own')")
    filled.run("TRUNCATE t")
    assert rows(filled) == {"t": 2, "u": 2, "own": 0}


def test_a_name_without_schema_that_has_two_meanings_is_refused(filled):
    with filled.target.begin() as connection:
        set_relation_states(connection, filled.subscription().subid, [("archive", "t")], READY)
    error = filled.refused("TRUNCATE t")
    assert (error.sqlstate, error.message) == ("42P09", 'table name "t" is ambiguous')
    filled.run("TRUNCATE public.t")


def test_two_phase_is_refused_as_with_refresh_table(filled):
    with filled.target.begin() as connection:
        set_two_phase_state(connection, filled.subscription().subid, "e")
    assert filled.refused("TRUNCATE t").sqlstate == "42601"


def test_a_table_that_is_not_in_the_target_is_refused(filled):
    filled.execute("DROP TABLE t")
    error = filled.refused("TRUNCATE t")
    assert isinstance(error, TargetRelationError)
    assert (error.sqlstate, error.message) == ("42P01", 'relation "public.t" does not exist')


def test_a_table_that_others_refer_to_is_refused_with_the_way_out(filled):
    filled.execute("CREATE TABLE c (a integer REFERENCES t)")
    error = filled.refused("TRUNCATE t")
    assert isinstance(error, ConflictError)
    assert error.sqlstate == "0A000"
    assert "in the same command" in str(error.hint)
