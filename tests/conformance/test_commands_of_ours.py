"""Commands for targets other than PostgreSQL: what is refused, with the reason, and what goes
beyond PostgreSQL.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from subscriber.base.errors import NotSupportedError, SubscriberError, UsageError
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.released import released_slots
from subscriber.catalog.subscriptions import Subscription, get_subscription
from subscriber.catalog.table_states import RelationState, relations_of
from subscriber.commands import alter_subscription
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.publisher.connection import ReplicationConnection
from subscriber.publisher.slots import StreamOptions, start_command
from subscriber.stream.journal.control import JournalControl, write_control
from subscriber.stream.journal.storage import Storage, journal_url, open_storage
from subscriber.targets import Target, open_target
from tests.conftest import Database
from tests.journals import passed

pytestmark = pytest.mark.server


class Session:
    """Commands for one target; ``$pub`` in a command is the publisher's connection string."""

    def __init__(self, target: Target, publisher: Database, settings: Settings) -> None:
        self.target = target
        self.publisher = publisher
        self.settings = settings
        self.said: list[str] = []

    def run(self, sql: str) -> str:
        self.said.clear()
        command = parse(sql.replace("$pub", self.publisher.conninfo))
        assert not isinstance(command, Query)
        return run_command(self.target, command, self.settings, self.said.append)

    def refused(self, sql: str) -> SubscriberError:
        with pytest.raises(SubscriberError) as caught:
            self.run(sql)
        return caught.value

    def subscription(self, name: str = "s") -> Subscription:
        with self.target.engine.connect() as connection:
            return get_subscription(connection, name)

    def relations(self, name: str = "s") -> list[tuple[str, str]]:
        with self.target.engine.connect() as connection:
            return [
                (one.name, one.state.value)
                for one in relations_of(connection, get_subscription(connection, name).subid)
            ]

    def execute(self, sql: str) -> None:
        with self.target.begin() as connection:
            connection.exec_driver_sql(sql)

    def slots(self) -> list[str]:
        rows = self.publisher.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE database = current_database() ORDER BY 1"
        )
        return [name for (name,) in rows]

    def journal(self, name: str = "s") -> Storage:
        subscription = self.subscription(name)
        assert subscription.system_identifier is not None
        assert subscription.slot_name is not None
        return open_storage(journal_url(self.settings.journal, subscription.system_identifier, subscription.slot_name))


@pytest.fixture
def session(publisher_database, tmp_path) -> Iterator[Session]:
    publisher_database.execute("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE PUBLICATION p FOR TABLE t")
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        session = Session(target, publisher_database, Settings(journal=str(tmp_path / "journal")))
        session.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        yield session


@pytest.fixture
def older(postgresql15, session) -> Iterator[Session]:
    """The same on PostgreSQL 15."""
    name = f"{session.publisher.name}_older"
    postgresql15.create_database(name)
    try:
        publisher = Database(postgresql15, name, postgresql15.conninfo(name))
        publisher.execute("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE PUBLICATION p FOR TABLE t")
        yield Session(session.target, publisher, session.settings)
    finally:
        postgresql15.drop_database(name)


CREATE = "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION p"


# What is left behind ------------------------------------------------------------------------------


def test_a_new_subscription_has_its_slot_its_tables_and_a_beginning(session):
    """D1: a table waits for its copy; changes begin at the slot's consistent point."""
    assert session.run(CREATE) == "CREATE SUBSCRIPTION"
    assert session.said == ['NOTICE:  created replication slot "s" on publisher']
    assert session.relations() == [("t", RelationState.INIT.value)]
    subscription = session.subscription()
    with session.target.engine.connect() as connection:
        assert subscription.progress.read(connection) > 0
    ((system_identifier,),) = session.publisher.execute("SELECT system_identifier::text FROM pg_control_system()")
    assert subscription.system_identifier == system_identifier


def test_without_a_connection_nothing_is_known_of_the_publisher(session):
    """C54."""
    session.run("CREATE SUBSCRIPTION s CONNECTION 'host=nowhere.invalid' PUBLICATION p WITH (connect = false)")
    assert session.subscription().system_identifier is None
    assert (session.relations(), session.slots()) == ([], [])


def test_a_subscription_without_a_connection_gets_its_tables_with_the_refresh(session):
    """C54, D11."""
    session.run(CREATE + " WITH (connect = false)")
    session.run("ALTER SUBSCRIPTION s ENABLE")
    session.run("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert session.relations() == [("t", "i")]


def test_an_interrupted_command_leaves_no_slot(session):
    """Creating the slot waits for the transactions that are open at the publisher."""
    # A shell starts background processes with SIGINT ignored, and Python does not change that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with psycopg.connect(session.publisher.conninfo) as busy:
        busy.execute("INSERT INTO t VALUES (1)")
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE_REPLICATION_SLOT%' AND wait_event IS NOT NULL"
        stop = threading.Event()

        def interrupt() -> None:
            while not stop.wait(0.05):
                if session.publisher.execute(waiting) != [(0,)]:
                    os.kill(os.getpid(), signal.SIGINT)
                    return

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                session.run(CREATE)
        finally:
            stop.set()
            thread.join()
            signal.signal(signal.SIGINT, before)
        busy.rollback()
    assert session.slots() == []
    session.run(CREATE)


def test_a_slot_is_dropped_again_when_the_subscription_cannot_be_stored(session, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise UsageError("no room")

    monkeypatch.setattr("subscriber.commands.create_subscription.insert_subscription", fail)
    assert session.refused(CREATE).message == "no room"
    assert session.slots() == []


def test_a_drop_that_fails_leaves_the_subscription_as_it_was(session):
    """C54: in particular enabled."""
    session.run(CREATE)
    session.run("ALTER SUBSCRIPTION s CONNECTION 'host=127.0.0.1 port=1'")
    error = session.refused("DROP SUBSCRIPTION s")
    assert error.message.startswith('could not connect to publisher when attempting to drop replication slot "s": ')
    assert "SET (slot_name = NONE)" in str(error.hint)
    assert session.subscription().enabled


def test_another_slot_makes_the_first_connection_a_first_one_again(session):
    """C54: the beginning of that slot is not known yet. At its first connection the system is
    checked again.
    """
    session.run(CREATE + " WITH (enabled = false)")
    known = session.subscription().system_identifier
    session.run("ALTER SUBSCRIPTION s SET (slot_name = s)")
    assert session.subscription().slot_adopted
    session.run("ALTER SUBSCRIPTION s SET (slot_name = other)")
    assert not session.subscription().slot_adopted
    assert session.subscription().system_identifier == known


def test_a_slot_that_a_subscription_was_taken_off_is_kept_with_what_was_applied(session):
    session.run(CREATE + " WITH (enabled = false)")
    subscription = session.subscription()
    with session.target.begin() as connection:
        begin = subscription.progress.read(connection)
        subscription.progress.advance(connection, begin, LSN(begin + 77))
    session.run("ALTER SUBSCRIPTION s SET (slot_name = NONE)")
    with session.target.engine.connect() as connection:
        (released,) = released_slots(connection)
    assert (released.system_identifier, released.slot) == (subscription.system_identifier, "s")
    assert (released.applied, released.subscription) == (begin + 77, "s")


def test_a_slot_that_is_created_begins_without_the_journal_of_an_earlier_one(session):
    """On a publisher that was restored since, the old journal would be ahead of the new slot, and
    would be refused for ever.
    """
    session.run(CREATE + " WITH (enabled = false)")
    journal = session.journal()
    write_control(journal, JournalControl("7", "s", LSN(1), LSN(2), LSN(2)))
    session.run("ALTER SUBSCRIPTION s SET (slot_name = NONE)")
    session.run("DROP SUBSCRIPTION s")
    assert journal.names()
    session.publisher.execute("SELECT pg_drop_replication_slot('s')")
    session.run(CREATE + " WITH (enabled = false)")
    assert journal.names() == []


def test_a_slot_that_is_created_again_is_no_released_one_any_more(session):
    session.run(CREATE + " WITH (enabled = false)")
    session.run("ALTER SUBSCRIPTION s SET (slot_name = NONE)")
    session.run("DROP SUBSCRIPTION s")
    session.publisher.execute("SELECT pg_drop_replication_slot('s')")
    session.run(CREATE + " WITH (enabled = false)")
    with session.target.engine.connect() as connection:
        assert released_slots(connection) == []


# Refused with the reason --------------------------------------------------------------------------


def test_a_target_that_is_no_postgresql_waits_for_no_standby(session):
    for value in ("remote_write", "remote_apply"):
        error = session.refused(f"{CREATE} WITH (synchronous_commit = {value})")
        assert isinstance(error, NotSupportedError)
        assert error.message == f"synchronous_commit = {value} is not supported"
        assert "SQLite" in str(error.detail)
    for value in ("off", "local", "on"):
        session.run(f"{CREATE} WITH (synchronous_commit = {value})")
        assert session.refused("ALTER SUBSCRIPTION s SET (synchronous_commit = remote_apply)").hint
        session.run("DROP SUBSCRIPTION s")


@pytest.mark.parametrize("option", ["origin = none", "failover"])
def test_what_the_publishers_server_cannot_do_is_refused(older, option):
    """F: PostgreSQL's own subscriber would ignore the option without a message."""
    error = older.refused(f"{CREATE} WITH ({option}, enabled = false)")
    assert isinstance(error, NotSupportedError)
    assert "or newer at the publisher" in error.message
    assert older.slots() == []
    older.run(f"{CREATE} WITH (enabled = false)")
    if option == "origin = none":
        older.refused(f"ALTER SUBSCRIPTION s SET ({option})")
        assert older.subscription().options.origin == "any"


def test_a_slot_that_another_subscription_streams_from_is_refused(session):
    session.run(CREATE)
    error = session.refused(
        "CREATE SUBSCRIPTION t CONNECTION '$pub' PUBLICATION p WITH (create_slot = false, slot_name = s)"
    )
    assert error.message == 'replication slot "s" is used by subscription "s"'
    session.run("CREATE SUBSCRIPTION t CONNECTION '$pub' PUBLICATION p WITH (enabled = false)")
    assert session.refused("ALTER SUBSCRIPTION t SET (slot_name = s)").message == error.message
    assert session.subscription("t").slot_name == "t"


def test_a_database_does_not_subscribe_to_itself(publisher_database, tmp_path):
    """In PostgreSQL, creating the slot waits for ever."""
    publisher_database.execute("CREATE TABLE t (a int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
    with open_target(publisher_database.url) as target:
        session = Session(target, publisher_database, Settings(journal=str(tmp_path)))
        error = session.refused(CREATE)
        assert error.message == "the publisher is the target itself"
        assert error.hint
        assert session.slots() == []


@pytest.mark.parametrize("owner", ["CURRENT_USER", "me"])
def test_a_subscription_has_no_owner_to_change(session, owner):
    session.run(CREATE + " WITH (connect = false)")
    error = session.refused(f"ALTER SUBSCRIPTION s OWNER TO {owner}")
    assert "subscriber has no roles" in str(error.detail)


# The journal --------------------------------------------------------------------------------------


def test_a_rename_changes_nothing_in_the_journal(session):
    """A consumer's name consists of what never changes, so an interrupted RENAME leaves nothing
    behind.
    """
    session.run(CREATE)
    passed(session.journal(), 77)
    before = session.journal().names()
    session.run("ALTER SUBSCRIPTION s RENAME TO t")
    assert session.journal("t").names() == before


def test_a_dropped_subscription_takes_its_journal_along(session):
    session.run(CREATE)
    journal = session.journal()
    passed(journal, 77)
    session.run("DROP SUBSCRIPTION s")
    assert journal.names() == []


def test_a_journal_that_cannot_be_removed_does_not_keep_the_subscription(session, tmp_path):
    """Its slot has been dropped by then, so a second DROP would fail."""
    session.run("CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION p WITH (enabled = false)")
    (tmp_path / "file").write_text("")
    session.settings = Settings(journal=str(tmp_path / "file"))
    assert session.run("DROP SUBSCRIPTION s") == "DROP SUBSCRIPTION"
    assert any(
        said.startswith('WARNING:  could not remove the journal of slot "s": could not read') for said in session.said
    )
    assert session.slots() == []


def test_two_phase_cannot_be_disabled_while_prepared_transactions_wait_for_their_verdict(session, monkeypatch):
    """C52."""
    session.run(CREATE + " WITH (two_phase, enabled = false, copy_data = false)")
    monkeypatch.setattr(alter_subscription, "undecided", lambda entries: ["one"])
    error = session.refused("ALTER SUBSCRIPTION s SET (two_phase = false)")
    assert error.message == 'cannot disable "two_phase" when prepared transactions exist'
    assert (error.sqlstate, error.hint) == ("55000", "Resolve these transactions and try again.")
    assert session.subscription().two_phase_state == "e"


@pytest.mark.parametrize("option", ["two_phase", "failover"])
def test_an_option_of_the_slot_cannot_be_altered_while_somebody_streams(session, monkeypatch, option):
    """C52."""
    session.run(f"{CREATE} WITH ({option}, enabled = false, copy_data = false)")
    before = session.subscription()
    monkeypatch.setattr("subscriber.commands.subscription_slots.WORKER_STOP_SECONDS", 0.0)
    with ReplicationConnection(session.publisher.conninfo, "s") as stream:
        stream.start(start_command(stream.server_version, "s", LSN(0), StreamOptions(("p",))))
        error = session.refused(f"ALTER SUBSCRIPTION s SET ({option} = false)")
    assert error.message == f'cannot alter "{option}" when logical replication worker is still running'
    assert (error.sqlstate, error.hint) == ("55000", "Try again after some time.")
    assert session.subscription() == before


# Tables that are made -----------------------------------------------------------------------------


def columns(session: Session, table: str) -> list[str]:
    return [column["name"] for column in sa.inspect(session.target.engine).get_columns(table)]


def test_missing_tables_are_made_when_that_is_asked_for(session):
    """D13."""
    session.publisher.execute(
        "CREATE TABLE u (a int PRIMARY KEY, b text DEFAULT 'x', c int, d text COLLATE \"C\" DEFAULT clock_timestamp()::text);"
        "CREATE PUBLICATION q FOR TABLE u (a, b, d)"
    )
    create = "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION p, q"
    assert session.refused(create).message == 'relation "public.u" does not exist'
    session.run(f"{create} WITH (create_tables)")
    assert session.said == [
        'NOTICE:  created replication slot "s" on publisher',
        'NOTICE:  created table "public.u" at the subscriber',
        'NOTICE:  1 column that is not published is left out: "public.u.c"',
        'NOTICE:  1 collation is left out: "public.u.d"',
        'NOTICE:  1 default is left out: "public.u.d"',
        'NOTICE:  table "subscriber_schema_difference" lists all 3 differences from the publisher\'s schema, with DDL and reason',
    ]
    assert columns(session, "u") == ["a", "b", "d"]
    assert columns(session, "t") == ["a", "b"]
    assert session.relations() == [("t", "i"), ("u", "i")]


def test_a_refresh_makes_missing_tables_too(session):
    """D11."""
    session.run(CREATE + " WITH (create_tables, copy_data = false)")
    session.publisher.execute("CREATE TABLE u (a int PRIMARY KEY); ALTER PUBLICATION p ADD TABLE u")
    session.run("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert session.said == ['NOTICE:  created table "public.u" at the subscriber']
    assert session.relations() == [("t", "r"), ("u", "i")]


def test_nothing_is_made_when_a_table_cannot_be(session):
    session.publisher.execute("CREATE TABLE u (a int); CREATE TABLE v (a int); ALTER PUBLICATION p ADD TABLE u, v")
    session.execute("CREATE VIEW v AS SELECT 1 AS a")
    assert session.refused(CREATE + " WITH (create_tables)").sqlstate == "42809"
    assert not sa.inspect(session.target.engine).has_table("u")
    assert session.slots() == []


# map ----------------------------------------------------------------------------------------------


def test_the_state_of_a_publisher_that_is_a_target_too_is_not_replicated(session):
    """B1: PostgreSQL's own catalogs are in no publication; the tables of this program could be
    published, and would become this subscriber's catalog
    """
    session.publisher.execute(
        "CREATE TABLE subscriber_subscription (subid int PRIMARY KEY); CREATE TABLE subscriber_list (a int PRIMARY KEY);"
        "CREATE PUBLICATION everything FOR ALL TABLES"
    )
    session.run("CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION everything WITH (create_tables = true)")
    said = (
        'the tables of subscriber\'s own catalog at the publisher are not replicated: "public.subscriber_subscription"'
    )
    assert sum(said in line for line in session.said) == 1
    names = [name for name, _ in session.relations()]
    assert "subscriber_list" in names
    assert "subscriber_subscription" not in names
    session.run("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert [name for name, _ in session.relations()] == names
    error = session.refused("ALTER SUBSCRIPTION s SET (map = 'public.subscriber_list => public.subscriber_conflict')")
    assert (error.sqlstate, "subscriber's catalog" in str(error.detail)) == ("42809", True)


def test_tables_are_looked_for_and_made_under_the_names_that_the_map_gives_them(session):
    """D13: the subscription stores the publisher's names of its tables"""
    session.publisher.execute("CREATE TABLE u (a int PRIMARY KEY, t int REFERENCES t); ALTER PUBLICATION p ADD TABLE u")
    create = CREATE + " WITH (map = 'public.* => archive.*, public.t => public.t', copy_data = false%s)"
    error = session.refused(create % "")
    assert (error.message, error.sqlstate) == ('relation "archive.u" does not exist', "42P01")
    assert error.detail == 'Option "map" replicates the publisher\'s table "public.u" into it.'
    assert session.slots() == []
    session.run(create % ", create_tables")
    assert 'NOTICE:  created table "archive.u" at the subscriber' in session.said
    assert columns(session, "archive.u") == ["a", "t"]
    assert session.relations() == [("t", "r"), ("u", "r")]
    (reference,) = sa.inspect(session.target.engine).get_foreign_keys("archive.u")
    assert reference["referred_table"] == "t"


def test_a_map_is_changed_only_to_tables_that_are_there(session):
    """Copied tables keep their table state; no table is created, because it would not have their
    rows.
    """
    session.run(CREATE + " WITH (create_tables, copy_data = false)")
    error = session.refused("ALTER SUBSCRIPTION s SET (map = 'public.t => archive.t')")
    assert (error.message, error.sqlstate) == ('relation "archive.t" does not exist', "42P01")
    assert error.hint == "Create the table at the subscriber, with the publisher's column names."
    assert str(session.subscription().options.map) == ""
    session.execute('ALTER TABLE t RENAME TO "archive.t"')
    session.run("ALTER SUBSCRIPTION s SET (map = 'public.t => archive.t, other.* => new.*, public.x => public.y')")
    assert session.said == [
        'WARNING:  relation "public.x" of option "map" matches no table of the subscription',
        'WARNING:  schema "other" of option "map" matches no table of the subscription',
    ]
    assert str(session.subscription().options.map) == "public.t => archive.t, public.x => public.y, other.* => new.*"
    assert session.relations() == [("t", "r")]


def test_two_tables_of_a_subscription_cannot_be_mapped_to_one(session):
    session.publisher.execute("CREATE TABLE u (a int PRIMARY KEY, b text); ALTER PUBLICATION p ADD TABLE u")
    error = session.refused(CREATE + " WITH (map = 'public.u => public.t')")
    assert error.message == 'relations "public.t" and "public.u" cannot both be replicated into "public.t"'
    assert session.slots() == []
    session.execute("CREATE TABLE u (a INTEGER PRIMARY KEY)")
    session.run(CREATE)
    error = session.refused("ALTER SUBSCRIPTION s SET (map = 'public.t => public.u')")
    assert error.message == 'relations "public.t" and "public.u" cannot both be replicated into "public.u"'


def test_a_refresh_looks_for_new_tables_under_their_mapped_names(session):
    """D11, D13"""
    session.run(CREATE + " WITH (map = 'old.* => new.*')")
    assert session.said[0] == 'WARNING:  schema "old" of option "map" matches no table of the subscription'
    session.publisher.execute("CREATE SCHEMA old; CREATE TABLE old.u (a int); ALTER PUBLICATION p ADD TABLE old.u")
    assert session.refused("ALTER SUBSCRIPTION s REFRESH PUBLICATION").message == 'relation "new.u" does not exist'
    session.execute('CREATE TABLE "new.u" (a INTEGER)')
    session.run("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert session.relations() == [("u", "i"), ("t", "i")]


def test_sequences_are_those_of_the_mapped_table(session):
    """D14"""
    session.publisher.execute(
        "CREATE TABLE u (a int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY); INSERT INTO u VALUES (DEFAULT), (DEFAULT);"
        "CREATE PUBLICATION q FOR TABLE u"
    )
    session.execute("CREATE TABLE v (a INTEGER PRIMARY KEY AUTOINCREMENT, s INTEGER)")
    session.run("CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION q WITH (map = 'public.u => public.v')")
    session.run("ALTER SUBSCRIPTION s REFRESH SEQUENCES")
    session.execute("INSERT INTO v (s) VALUES (0)")
    with session.target.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT a FROM v").scalars().all() == [3]


# Sequences ----------------------------------------------------------------------------------------


def test_sequences_go_on_as_at_the_publisher(session):
    """D14, for every version."""
    session.publisher.execute(
        "CREATE TABLE u (a int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, s serial); INSERT INTO u VALUES (DEFAULT), (DEFAULT);"
        "CREATE PUBLICATION q FOR TABLE u"
    )
    session.execute("CREATE TABLE u (a INTEGER PRIMARY KEY AUTOINCREMENT, s INTEGER)")
    session.run("CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION q")
    assert session.run("ALTER SUBSCRIPTION s REFRESH SEQUENCES") == "ALTER SUBSCRIPTION"
    assert [text.partition("\n")[0] for text in session.said if "sequence" in text] == [
        'NOTICE:  sequence "u_a_seq": 1 → 2',
        'WARNING:  sequence "u_s_seq" was not set: the target generates no values for column "public.u.s"',
    ]
    session.execute("INSERT INTO u (s) VALUES (0)")
    with session.target.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT a FROM u").scalars().all() == [3]
