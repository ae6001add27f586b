"""ALTER SUBSCRIPTION, except the forms that change publications and tables."""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError, PublisherUnavailable, UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.released import released_slots
from subscriber.catalog.table_states import RelationState
from tests.scripted_publisher import PublishedSlot
from tests.streams import SYSTEM


@pytest.mark.parametrize(
    "form",
    [
        "CONNECTION 'host=b'",
        "DISABLE",
        "SET (binary)",
        "SET (nonsense)",
        "SKIP (lsn = none)",
        "RENAME TO t",
        "REFRESH PUBLICATION",
        "OWNER TO CURRENT_USER",
    ],
)
def test_the_subscription_is_looked_for_before_anything_else(session, form):
    error = session.refused(f"ALTER SUBSCRIPTION nope {form}")
    assert (error.message, error.sqlstate) == ('subscription "nope" does not exist', "42704")


# CONNECTION, ENABLE, RENAME, OWNER ----------------------------------------------------------------


def test_a_connection_string_is_replaced_without_connecting(session):
    session.subscribe()
    assert session.run("ALTER SUBSCRIPTION s CONNECTION 'host=nowhere.invalid'") == "ALTER SUBSCRIPTION"
    assert session.subscription().conninfo == "host=nowhere.invalid"


def test_what_is_no_connection_string_is_refused(session):
    session.subscribe()
    error = session.refused("ALTER SUBSCRIPTION s CONNECTION 'nonsense'")
    assert (error.sqlstate, session.subscription().conninfo) == ("42601", "host=a")


def test_a_subscription_is_disabled_and_enabled(session):
    session.subscribe()
    session.run("ALTER SUBSCRIPTION s DISABLE")
    assert session.subscription().enabled is False
    session.run("ALTER SUBSCRIPTION s ENABLE")
    assert session.subscription().enabled is True


def test_a_subscription_without_a_slot_is_not_enabled(session):
    session.subscribe(slot_name=None, enabled=False)
    error = session.refused("ALTER SUBSCRIPTION s ENABLE")
    assert (error.message, error.sqlstate) == ("cannot enable subscription that does not have a slot name", "55000")
    session.run("ALTER SUBSCRIPTION s DISABLE")


def test_a_subscription_is_renamed_unless_the_name_is_taken(session):
    session.subscribe()
    session.subscribe("t", slot_name="t")
    error = session.refused("ALTER SUBSCRIPTION s RENAME TO t")
    assert (error.message, error.sqlstate) == ('subscription "t" already exists', "42710")
    session.run("ALTER SUBSCRIPTION s RENAME TO u")
    assert session.subscription("u").slot_name == "s"


def test_a_subscription_has_no_owner_to_change(session):
    """The role is looked for before the subscription, as in PostgreSQL."""
    named = session.refused("ALTER SUBSCRIPTION nope OWNER TO ann")
    assert (type(named), named.message, named.sqlstate) == (UsageError, 'role "ann" does not exist', "42704")
    session.subscribe()
    assert isinstance(session.refused("ALTER SUBSCRIPTION s OWNER TO CURRENT_USER"), NotSupportedError)


# SKIP ---------------------------------------------------------------------------------------------


def test_a_transaction_to_skip_is_stored_and_taken_back(session):
    session.subscribe(applied=0x300)
    session.run("ALTER SUBSCRIPTION s SKIP (lsn = '0/300')")
    assert session.subscription().skip_lsn == 0x300
    session.run("ALTER SUBSCRIPTION s SKIP (lsn = none)")
    assert session.subscription().skip_lsn == 0


def test_a_transaction_that_was_applied_cannot_be_skipped(session):
    """C40."""
    session.subscribe(applied=0x300)
    error = session.refused("ALTER SUBSCRIPTION s SKIP (lsn = '0/2FF')")
    assert error.message == "skip WAL location (LSN 0/2FF) must be greater than origin LSN 0/300"
    assert error.sqlstate == "22023"


# SET (…) ------------------------------------------------------------------------------------------


def test_options_are_changed_without_a_publisher_that_was_never_connected_to(session):
    session.subscribe()
    session.run("ALTER SUBSCRIPTION s SET (binary, origin = none, streaming = off, disable_on_error)")
    options = session.subscription().options
    assert (options.binary, options.origin, options.streaming, options.disable_on_error) == (True, "none", "off", True)
    assert session.said == []


@pytest.mark.parametrize(
    ("options", "message", "sqlstate"),
    [
        ("slot_name = none", "cannot set slot_name = NONE for enabled subscription", "55000"),
        ("failover", 'cannot set option "failover" for enabled subscription', "55000"),
        ("two_phase", 'cannot set option "two_phase" for enabled subscription', "55000"),
        ("two_phase = false", 'cannot set option "two_phase" for enabled subscription', "55000"),
        ("system_identifier = '7', binary", '"system_identifier" cannot be altered together with another option', "42601"),
        ("synchronous_commit = remote_apply", "synchronous_commit = remote_apply is not supported", "0A000"),
    ],
)  # fmt: skip
def test_what_an_enabled_subscription_cannot_change_is_refused(session, options, message, sqlstate):
    """C52, C54: AlterSubscription."""
    session.subscribe()
    error = session.refused(f"ALTER SUBSCRIPTION s SET ({options})")
    assert (error.message, error.sqlstate) == (message, sqlstate)


@pytest.mark.parametrize("option", ["failover", "two_phase = false"])
def test_an_option_of_the_slot_needs_a_slot(session, option):
    session.subscribe(slot_name=None, enabled=False)
    error = session.refused(f"ALTER SUBSCRIPTION s SET ({option})")
    name = option.partition(" ")[0]
    assert error.message == f'cannot set option "{name}" for a subscription that does not have a slot name'
    assert error.sqlstate == "55000"


def test_two_phase_is_turned_on_without_a_slot(session):
    """The walsender turns it on when all tables are ready (C48)."""
    session.subscribe(slot_name=None, enabled=False)
    session.run("ALTER SUBSCRIPTION s SET (two_phase)")
    assert session.subscription().two_phase_state == "p"


def test_two_phase_is_not_turned_off_together_with_another_slot(session):
    session.subscribe(enabled=False)
    error = session.refused("ALTER SUBSCRIPTION s SET (slot_name = other, two_phase = false)")
    assert error.message == '"slot_name" and "two_phase" cannot be altered at the same time'
    assert error.sqlstate == "42601"


def test_an_option_that_the_publisher_does_not_have_is_refused(session, publisher):
    publisher.info.server_version = 150000
    session.subscribe(system_identifier=SYSTEM)
    error = session.refused("ALTER SUBSCRIPTION s SET (origin = none)")
    assert error.message == "origin = none needs PostgreSQL 16 or newer at the publisher"
    session.run("ALTER SUBSCRIPTION s SET (origin = any)")


def test_a_publisher_that_does_not_answer_keeps_the_subscription_as_it_is(session):
    session.subscribe(conninfo="host=127.0.0.1 port=1", system_identifier=SYSTEM)
    error = session.refused("ALTER SUBSCRIPTION s SET (binary)")
    assert isinstance(error, PublisherUnavailable)
    assert error.message.startswith('subscription "s" could not connect to the publisher: ')


# slot_name ----------------------------------------------------------------------------------------


def test_a_slot_that_is_left_is_kept_with_what_was_applied(session):
    session.subscribe(enabled=False, system_identifier=SYSTEM, applied=0x300)
    session.run("ALTER SUBSCRIPTION s SET (slot_name = none)")
    with session.target.engine.connect() as connection:
        (released,) = released_slots(connection)
    assert (released.slot, released.applied, released.subscription) == ("s", LSN(0x300), "s")
    changed = session.subscription()
    assert (changed.slot_name, changed.slot_adopted) == (None, False)


def test_another_slot_is_taken_up_unless_a_subscription_uses_it(session):
    session.subscribe(system_identifier=SYSTEM)
    session.subscribe("t", slot_name="t", system_identifier=SYSTEM)
    error = session.refused("ALTER SUBSCRIPTION s SET (slot_name = t)")
    assert (error.message, error.sqlstate) == ('replication slot "t" is used by subscription "t"', "55006")
    session.run("ALTER SUBSCRIPTION s SET (slot_name = u)")
    assert (session.subscription().slot_name, session.subscription().slot_adopted) == ("u", False)


def test_the_slot_that_it_has_changes_nothing(session):
    session.subscribe(system_identifier=SYSTEM)
    session.run("ALTER SUBSCRIPTION s SET (slot_name = s)")
    assert session.subscription().slot_adopted is True


# map ----------------------------------------------------------------------------------------------


def test_a_map_needs_the_tables_under_their_new_names(session):
    session.subscribe(tables={"film": RelationState.READY})
    session.execute("CREATE TABLE film (id integer)")
    error = session.refused("ALTER SUBSCRIPTION s SET (map = 'public.film => public.movie')")
    assert (error.message, error.sqlstate) == ('relation "public.movie" does not exist', "42P01")
    assert error.detail == 'Option "map" replicates the publisher\'s table "public.film" into it.'
    session.execute("CREATE TABLE movie (id integer)")
    session.run("ALTER SUBSCRIPTION s SET (map = 'public.film => public.movie, x.* => y.*')")
    assert str(session.subscription().options.map) == "public.film => public.movie, x.* => y.*"
    assert session.said == ['WARNING:  schema "x" of option "map" matches no table of the subscription']


# system_identifier --------------------------------------------------------------------------------


def test_an_upgraded_publisher_is_followed_by_its_identifier(session):
    session.subscribe(enabled=False, system_identifier=SYSTEM)
    session.run(f"ALTER SUBSCRIPTION s SET (system_identifier = '{SYSTEM}')")
    assert session.subscription().system_identifier == SYSTEM


def test_two_phase_is_turned_off_only_when_the_slot_is_released(session, publisher, impatient):
    publisher.slots["s"] = PublishedSlot(pid=4711)
    session.subscribe(enabled=False, system_identifier=SYSTEM, two_phase=True)
    error = session.refused("ALTER SUBSCRIPTION s SET (two_phase = false)")
    assert error.message == 'cannot alter "two_phase" when logical replication worker is still running'
    assert (error.sqlstate, error.hint) == ("55000", "Try again after some time.")


# Deleted rows -------------------------------------------------------------------------------------


def triggers(session) -> list[str]:
    return [row["name"] for row in session.rows("SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name")]


def test_the_triggers_that_record_deleted_rows_come_and_go_with_the_option(session, publisher):
    session.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    session.subscribe(tables={"t": RelationState.READY})
    session.run("ALTER SUBSCRIPTION s DISABLE")
    session.run("ALTER SUBSCRIPTION s SET (retain_dead_tuples = true)")
    assert triggers(session) == ["subscriber_deleted_t", "subscriber_updated_t"]
    session.execute("INSERT INTO t VALUES (1)", "DELETE FROM t")
    assert len(session.rows("SELECT * FROM subscriber_deleted_row")) == 1
    session.run("ALTER SUBSCRIPTION s SET (retain_dead_tuples = false)")
    assert triggers(session) == session.rows("SELECT * FROM subscriber_deleted_row") == []


def test_the_triggers_stay_while_another_subscription_retains_the_tables_rows(session, publisher):
    session.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    for name in ("s", "other"):
        session.subscribe(name, tables={"t": RelationState.READY}, slot_name=None, enabled=False)
        session.run(f"ALTER SUBSCRIPTION {name} SET (retain_dead_tuples = true)")
    session.run("DROP SUBSCRIPTION s")
    assert len(triggers(session)) == 2
    session.run("DROP SUBSCRIPTION other")
    assert triggers(session) == []


IN_RECOVERY = "cannot enable retain_dead_tuples if the publisher is in recovery"


@pytest.mark.parametrize(
    ("sql", "retained"),
    [
        ("ALTER SUBSCRIPTION s SET (retain_dead_tuples = true)", False),
        ("ALTER SUBSCRIPTION s SET (origin = any)", True),
        ("ALTER SUBSCRIPTION s CONNECTION 'host=b'", True),
        ("ALTER SUBSCRIPTION s ENABLE", True),
    ],
)
def test_a_standby_is_refused_wherever_it_would_become_the_publisher_of_retained_rows(
    session, publisher, sql, retained
):
    """As in 19: it cannot say which transactions of the primary are in progress."""
    session.subscribe(enabled=False, retain_dead_tuples=retained)
    publisher.in_recovery = True
    error = session.refused(sql)
    assert (error.message, error.sqlstate) == (IN_RECOVERY, "55000")
    publisher.in_recovery = False
    session.run(sql)


def test_a_standby_is_no_reason_against_other_changes(session, publisher):
    session.subscribe(enabled=False)
    publisher.in_recovery = True
    for sql in ("SET (origin = any)", "CONNECTION 'host=b'", "SET (retain_dead_tuples = false)", "ENABLE"):
        session.run(f"ALTER SUBSCRIPTION s {sql}")


def test_a_publisher_that_does_not_answer_is_enabled_and_asked_by_the_worker(session):
    session.subscribe(enabled=False, retain_dead_tuples=True, conninfo="host=/nowhere dbname=a")
    session.run("ALTER SUBSCRIPTION s ENABLE")
    assert session.subscription().enabled


@pytest.mark.parametrize("value", ["true", "false"])
def test_the_retention_is_not_altered_while_a_worker_is_still_running(session, publisher, impatient, value):
    publisher.slots["s"] = PublishedSlot(pid=4711)
    session.subscribe(enabled=False, retain_dead_tuples=value == "false")
    error = session.refused(f"ALTER SUBSCRIPTION s SET (retain_dead_tuples = {value})")
    assert error.message == "cannot alter retain_dead_tuples when logical replication worker is still running"
    assert (error.sqlstate, error.hint) == ("55000", "Try again after some time.")


@pytest.mark.parametrize(
    ("sql", "origin", "told"),
    [
        ("SET (retain_dead_tuples = true)", "any", True),
        ("SET (retain_dead_tuples = true)", "none", False),
        ("SET (retain_dead_tuples = true, origin = any)", "none", True),
        ("CONNECTION 'host=b'", "any", True),
        ("SET (retain_dead_tuples = false)", "any", False),
    ],
)
def test_retained_rows_of_other_origins_are_told(session, publisher, sql, origin, told):
    """C55."""
    publisher.other_origins = ["p"]
    session.subscribe(enabled=False, origin=origin, retain_dead_tuples="CONNECTION" in sql)
    session.run(f"ALTER SUBSCRIPTION s {sql}")
    message = 'WARNING:  subscription "s" enabled retain_dead_tuples but might not reliably detect conflicts for'
    assert [text.startswith(message) for text in session.said if "reliably" in text] == ([True] if told else [])
