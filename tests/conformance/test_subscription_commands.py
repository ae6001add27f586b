"""The commands compared with PostgreSQL 18: the same session on a native subscriber and on this
program gives the same texts and the same catalog.

A session is played twice, each time with a fresh publisher and a fresh subscriber, so that nothing
of the one is in the other's way. The native subscriber is a server of its own: a slot cannot be
made for a subscription of the same cluster.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import psycopg
import pytest

from subscriber.base.errors import SubscriberError
from subscriber.base.settings import Settings
from subscriber.catalog.own_tables import SUBSCRIPTION
from subscriber.catalog.subscriptions import list_subscriptions
from subscriber.catalog.table_states import relations_of
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.targets import open_target
from subscriber.testing.servers.open_servers import open_postgresql
from subscriber.testing.servers.postgresql_server import PostgreSQL
from tests.conftest import Database, fresh_database, server_or_skip
from tests.subscriptions import as_stored

pytestmark = pytest.mark.server

open_database = contextmanager(fresh_database)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one command: notices and warnings, then the tag or the error."""

    said: tuple[str, ...] = ()
    tag: str = ""
    message: str = ""
    sqlstate: str = ""
    detail: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """The state after a session: the subscriptions with their tables, and the slots at the
    publisher.
    """

    subscriptions: list[dict[str, Any]]
    slots: list[tuple[Any, ...]]


class Subscriber(Protocol):
    """A subscriber to which a session is typed."""

    def command(self, sql: str) -> Outcome: ...
    def execute(self, sql: str) -> None: ...
    def subscriptions(self) -> list[dict[str, Any]]: ...


COLUMNS = (
    *("subname", "subenabled", "subbinary", "substream", "subtwophasestate", "subdisableonerr"),
    *("subpasswordrequired", "subrunasowner", "subfailover", "subslotname", "subsynccommit", "suborigin", "subskiplsn"),
)


class Native:
    """PostgreSQL's own subscriber."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection = psycopg.connect(database.conninfo, autocommit=True)

    def command(self, sql: str) -> Outcome:
        said: list[str] = []

        def hear(notice: psycopg.errors.Diagnostic) -> None:
            parts = (("DETAIL", notice.message_detail), ("HINT", notice.message_hint))
            lines = [
                f"{notice.severity}:  {notice.message_primary}",
                *(f"{label}:  {text}" for label, text in parts if text),
            ]
            # A slot of a table synchronization that had not ended, which depends on the time.
            if not re.search(r'replication slot "pg_\d+_sync_', lines[0]):
                said.append("\n".join(lines))

        self._connection.add_notice_handler(hear)
        try:
            tag = self._connection.execute(sql.encode()).statusmessage or ""
            return Outcome(tuple(said), tag)
        except psycopg.Error as error:
            # libpqwalreceiver puts the publisher's DETAIL and HINT into its message; psql prints
            # the same either way.
            message, *hints = (error.diag.message_primary or "").rstrip().split("\nHINT:  ")
            message, *details = message.split("\nDETAIL:  ")
            return Outcome(
                tuple(said),
                "",
                message,
                error.sqlstate or "",
                details[0] if details else error.diag.message_detail,
                hints[0] if hints else error.diag.message_hint,
            )
        finally:
            self._connection.remove_notice_handler(hear)

    def execute(self, sql: str) -> None:
        self._connection.execute(sql.encode())

    def subscriptions(self) -> list[dict[str, Any]]:
        columns = ", ".join(f"{column}::text" if column in TEXTS else column for column in COLUMNS)
        tables = "ARRAY(SELECT srrelid::regclass::text FROM pg_subscription_rel WHERE srsubid = s.oid ORDER BY 1)"
        rows = self._connection.execute(
            f"SELECT {columns}, subpublications, {tables} FROM pg_subscription s"
            " WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY subname".encode()
        )
        names = (*COLUMNS, "subpublications", "tables")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def close(self) -> None:
        for (name,) in self._connection.execute(
            "SELECT subname FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchall():
            for form in (
                "ALTER SUBSCRIPTION {} DISABLE",
                "ALTER SUBSCRIPTION {} SET (slot_name = NONE)",
                "DROP SUBSCRIPTION {}",
            ):
                self._connection.execute(psycopg.sql.SQL(form).format(psycopg.sql.Identifier(name)))
        self._connection.close()


OURS_ALONE = re.compile(
    "WARNING:  (published table|[0-9,]+ published tables|[0-9,]+ tables? of subscription .* never copied|"
    "relation .* of the target requires|logical replication target relation|publisher did not send)"
)
"""Warnings that PostgreSQL's commands do not give; tests/conformance/test_what_commands_tell.py
tests them.
"""

TEXTS = frozenset({"substream", "subtwophasestate", "subskiplsn"})


class Ours:
    """The commands of this program on a SQLite database."""

    def __init__(self, folder: Any) -> None:
        self._settings = Settings(journal=str(folder / "journal"))
        self._target = open_target(f"sqlite:///{folder / 'target.db'}")

    def command(self, sql: str) -> Outcome:
        said: list[str] = []
        try:
            command = parse(sql)
            assert not isinstance(command, Query)
            tag = run_command(self._target, command, self._settings, said.append)
            return Outcome(self._as_the_server_would(said), tag)
        except SubscriberError as error:
            return Outcome(self._as_the_server_would(said), "", error.message, error.sqlstate, error.detail, error.hint)

    @staticmethod
    def _as_the_server_would(said: list[str]) -> tuple[str, ...]:
        return tuple(text for text in said if OURS_ALONE.match(text) is None)

    def execute(self, sql: str) -> None:
        with self._target.begin() as connection:
            connection.exec_driver_sql(sql)

    def subscriptions(self) -> list[dict[str, Any]]:
        with self._target.engine.connect() as connection:
            rows = {row.subname: row._asdict() for row in connection.execute(as_stored(*SUBSCRIPTION.c))}
            return [
                {column: rows[one.name][column] for column in COLUMNS}
                | {
                    "subpublications": list(one.publications),
                    "tables": [
                        relation.name if relation.schema == "public" else f"{relation.schema}.{relation.name}"
                        for relation in relations_of(connection, one.subid)
                    ],
                }
                for one in list_subscriptions(connection)
            ]

    def close(self) -> None:
        self._target.close()


def play(subscriber: Subscriber, publisher: Database, session: str) -> tuple[list[Outcome], State]:
    """The outcomes of the commands of a session; lines that begin with ``pub:`` and ``sub:`` are
    statements for those databases.
    """
    outcomes = []
    for line in filter(None, (line.strip() for line in session.splitlines())):
        where, _, statement = line.partition(": ")
        if where == "pub":
            publisher.execute(statement)
        elif where == "sub":
            subscriber.execute(statement)
        else:
            outcomes.append(subscriber.command(line.replace("$pub", publisher.conninfo)))
    more = ", two_phase" if publisher.server.major >= 14 else ""
    more += ", failover" if publisher.server.major >= 17 else ""
    slots = publisher.execute(
        f"SELECT slot_name{more} FROM pg_replication_slots WHERE database = current_database()"
        " AND slot_name !~ '_sync_' ORDER BY 1"
    )
    return outcomes, State(subscriber.subscriptions(), slots)


def without_names(outcome: Outcome, publisher: Database) -> Outcome:
    """The two publishers have different names."""
    return replace(outcome, message=outcome.message.replace(publisher.name, "test_pub"))


def both(
    server: PostgreSQL, subscriber: PostgreSQL, folder: Any, session: str
) -> tuple[list[Outcome], list[Outcome], State, State]:
    with open_database(server) as publisher, open_database(subscriber) as database:
        native = Native(database)
        try:
            expected, wanted = play(native, publisher, session)
        finally:
            native.close()
        expected = [without_names(one, publisher) for one in expected]
    with open_database(server) as publisher:
        mine = Ours(folder)
        try:
            found, state = play(mine, publisher, session)
        finally:
            mine.close()
        found = [without_names(one, publisher) for one in found]
    return expected, found, wanted, state


def assert_same(expected: list[Outcome], found: list[Outcome]) -> None:
    """This program may add DETAIL and HINT where PostgreSQL has none."""
    for number, (want, have) in enumerate(zip(expected, found, strict=True)):
        told = replace(have, detail=have.detail if want.detail else None, hint=have.hint if want.hint else None)
        assert told == want, f"command {number}"


@pytest.fixture(scope="module")
def subscriber_server():
    with server_or_skip(lambda: open_postgresql(18)) as server:
        yield server


TABLES = """
    pub: CREATE TABLE town (id int PRIMARY KEY, name text)
    pub: CREATE TABLE road (id int PRIMARY KEY)
    pub: CREATE PUBLICATION towns FOR TABLE town
    pub: CREATE PUBLICATION roads FOR TABLE road
    pub: CREATE PUBLICATION nothing
    sub: CREATE TABLE town (id int PRIMARY KEY, name text)
    sub: CREATE TABLE road (id int PRIMARY KEY)
"""

SESSIONS = {
    "names and connection strings": """
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns WITH (enabled = false)
        CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p, p
        CREATE SUBSCRIPTION t CONNECTION 'x' PUBLICATION p, p
        CREATE SUBSCRIPTION t CONNECTION 'dbname=x server=y' PUBLICATION p, p
        CREATE SUBSCRIPTION t CONNECTION $$dbname='x$$ PUBLICATION p, p
        CREATE SUBSCRIPTION t CONNECTION 'dbname=x' PUBLICATION p, p
        ALTER SUBSCRIPTION s CONNECTION 'x'
        ALTER SUBSCRIPTION t CONNECTION 'x'
        ALTER SUBSCRIPTION t RENAME TO s
        CREATE SUBSCRIPTION t CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false)
        ALTER SUBSCRIPTION t RENAME TO s
        ALTER SUBSCRIPTION t RENAME TO u
        ALTER SUBSCRIPTION t ENABLE
        ALTER SUBSCRIPTION u CONNECTION 'dbname=y'
        ALTER SUBSCRIPTION nope OWNER TO nobody_at_all
        ALTER SUBSCRIPTION nope OWNER TO CURRENT_USER
        ALTER SUBSCRIPTION u OWNER TO public
    """,
    "missing publications": """
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns, a, b
        ALTER SUBSCRIPTION s ADD PUBLICATION c
        ALTER SUBSCRIPTION s SET PUBLICATION c, d
        ALTER SUBSCRIPTION s REFRESH PUBLICATION
    """,
    "the slot's name": """
        CREATE SUBSCRIPTION "My s" CONNECTION '$pub' PUBLICATION towns
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns WITH (enabled = false)
        CREATE SUBSCRIPTION t CONNECTION '$pub' PUBLICATION towns WITH (slot_name = 's')
        CREATE SUBSCRIPTION t CONNECTION '$pub' PUBLICATION towns WITH (slot_name = NONE, enabled = false, create_slot = false)
        ALTER SUBSCRIPTION t ENABLE
        ALTER SUBSCRIPTION t DISABLE
        ALTER SUBSCRIPTION t SET (slot_name = 'Not a slot')
        ALTER SUBSCRIPTION t SET (failover = true)
        ALTER SUBSCRIPTION t SET (two_phase = false)
        ALTER SUBSCRIPTION t SET (slot_name = 'x', two_phase = false)
        ALTER SUBSCRIPTION t SET (slot_name = 'later')
        ALTER SUBSCRIPTION s SET (slot_name = 'x', two_phase = false)
        ALTER SUBSCRIPTION t ENABLE
        ALTER SUBSCRIPTION t SET (slot_name = NONE)
    """,
    "tables of the subscriber": """
        pub: CREATE TABLE "Odd ""one" (id int)
        pub: CREATE PUBLICATION odd FOR TABLE "Odd ""one"
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION odd
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns, odd
        sub: DROP TABLE road
        sub: CREATE VIEW road AS SELECT 1 AS id
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION roads
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns
        ALTER SUBSCRIPTION s ADD PUBLICATION odd
        ALTER SUBSCRIPTION s ADD PUBLICATION roads
        ALTER SUBSCRIPTION s ADD PUBLICATION roads WITH (refresh = false)
        ALTER SUBSCRIPTION s REFRESH PUBLICATION
    """,
    "lists of publications": """
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns
        ALTER SUBSCRIPTION s ADD PUBLICATION towns
        ALTER SUBSCRIPTION s ADD PUBLICATION roads, roads
        ALTER SUBSCRIPTION s DROP PUBLICATION roads
        ALTER SUBSCRIPTION s DROP PUBLICATION towns
        ALTER SUBSCRIPTION s SET PUBLICATION roads, roads
        ALTER SUBSCRIPTION s ADD PUBLICATION roads WITH (binary = true)
        ALTER SUBSCRIPTION s ADD PUBLICATION roads WITH (copy_data = perhaps)
        ALTER SUBSCRIPTION s REFRESH PUBLICATION WITH (refresh = false)
        ALTER SUBSCRIPTION s ADD PUBLICATION roads, nothing WITH (copy_data = false)
        ALTER SUBSCRIPTION s DROP PUBLICATION towns
        ALTER SUBSCRIPTION s SET PUBLICATION towns WITH (refresh = false)
        ALTER SUBSCRIPTION s REFRESH PUBLICATION
        ALTER SUBSCRIPTION s DISABLE
        ALTER SUBSCRIPTION s REFRESH PUBLICATION WITH (nope)
        ALTER SUBSCRIPTION s REFRESH PUBLICATION
        ALTER SUBSCRIPTION s ADD PUBLICATION roads
        ALTER SUBSCRIPTION s SET PUBLICATION roads
        ALTER SUBSCRIPTION s DROP PUBLICATION towns
        ALTER SUBSCRIPTION s ADD PUBLICATION roads WITH (refresh = false)
        ALTER SUBSCRIPTION s DROP PUBLICATION towns WITH (refresh = false)
    """,
    "options": """
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns WITH (enabled = false, binary, disable_on_error, streaming = off)
        ALTER SUBSCRIPTION s SET (binary = false, streaming = on, disable_on_error = 0, run_as_owner, password_required = off)
        ALTER SUBSCRIPTION s SET (synchronous_commit = local)
        ALTER SUBSCRIPTION s SET (synchronous_commit = sometimes)
        ALTER SUBSCRIPTION s SET (copy_data = false)
        ALTER SUBSCRIPTION s SET (enabled = false)
        ALTER SUBSCRIPTION s SET (binary = yellow)
        ALTER SUBSCRIPTION s SET (binary, binary)
        ALTER SUBSCRIPTION s SET (binary, "Binary")
        ALTER SUBSCRIPTION nope SET (nope)
        ALTER SUBSCRIPTION s ENABLE
        ALTER SUBSCRIPTION s SET (slot_name = NONE)
        ALTER SUBSCRIPTION s SET (two_phase = true)
        ALTER SUBSCRIPTION s SET (two_phase = false, slot_name = 'x')
        ALTER SUBSCRIPTION s SET (failover = true)
        ALTER SUBSCRIPTION s SET (slot_name = s)
    """,
    "skip": """
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns WITH (enabled = false)
        ALTER SUBSCRIPTION s SKIP (lsn = '0/0')
        ALTER SUBSCRIPTION s SKIP (lsn = 'somewhere')
        ALTER SUBSCRIPTION s SKIP (lsn)
        ALTER SUBSCRIPTION s SKIP (lsn = 5)
        ALTER SUBSCRIPTION s SKIP (nope = '0/1')
        ALTER SUBSCRIPTION s SKIP (lsn = 'F/F', lsn = NONE)
        ALTER SUBSCRIPTION s SKIP (lsn = 'FFFF/FFFF')
        ALTER SUBSCRIPTION nope SKIP (nope)
    """,
    "two_phase": """
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns WITH (enabled = false, two_phase, copy_data = false)
        CREATE SUBSCRIPTION t CONNECTION '$pub' PUBLICATION towns WITH (enabled = false, two_phase)
        CREATE SUBSCRIPTION u CONNECTION '$pub' PUBLICATION nothing WITH (enabled = false, two_phase, copy_data = false)
        CREATE SUBSCRIPTION v CONNECTION '$pub' PUBLICATION nothing WITH (enabled = false)
        ALTER SUBSCRIPTION v SET (two_phase)
        ALTER SUBSCRIPTION s ADD PUBLICATION roads WITH (refresh = false)
        ALTER SUBSCRIPTION s ENABLE
        ALTER SUBSCRIPTION s REFRESH PUBLICATION
        ALTER SUBSCRIPTION s SET PUBLICATION roads
        ALTER SUBSCRIPTION s ADD PUBLICATION nothing
        ALTER SUBSCRIPTION s DROP PUBLICATION roads
        ALTER SUBSCRIPTION s REFRESH PUBLICATION WITH (copy_data = false)
    """,
    "dropping": """
        DROP SUBSCRIPTION s
        DROP SUBSCRIPTION IF EXISTS s
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns WITH (enabled = false)
        DROP SUBSCRIPTION s
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns WITH (enabled = false)
        pub: SELECT pg_drop_replication_slot('s')
        DROP SUBSCRIPTION s
        ALTER SUBSCRIPTION s SET (slot_name = NONE)
        DROP SUBSCRIPTION s CASCADE
        CREATE SUBSCRIPTION s CONNECTION 'port=1 host=127.0.0.1' PUBLICATION towns WITH (connect = false)
        DROP SUBSCRIPTION s
        ALTER SUBSCRIPTION s SET (slot_name = NONE)
        DROP SUBSCRIPTION IF EXISTS s RESTRICT
    """,
    "no connection": """
        CREATE SUBSCRIPTION s CONNECTION 'port=1 host=127.0.0.1' PUBLICATION towns
        CREATE SUBSCRIPTION s CONNECTION '$pub dbname=no_such_database' PUBLICATION towns
        CREATE SUBSCRIPTION s CONNECTION '$pub user=no_such_user' PUBLICATION towns
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns
        ALTER SUBSCRIPTION s CONNECTION 'port=1 host=127.0.0.1'
        ALTER SUBSCRIPTION s REFRESH PUBLICATION
        ALTER SUBSCRIPTION s DISABLE
        ALTER SUBSCRIPTION s SET (failover = true)
    """,
    "no free slot": """
        pub: SELECT pg_create_physical_replication_slot('taken_' || n) FROM generate_series(1, (SELECT count(*) FROM pg_replication_slots) * -1 + current_setting('max_replication_slots')::int) AS n
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns
        pub: SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name ~ '^taken_'
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns WITH (enabled = false)
    """,
    "what origin cannot promise": """
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns WITH (origin = none, enabled = false)
        pub: CREATE SUBSCRIPTION up CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false)
        pub: INSERT INTO pg_subscription_rel SELECT oid, 'road'::regclass, 'r' FROM pg_subscription WHERE subname = 'up'
        CREATE SUBSCRIPTION t CONNECTION '$pub' PUBLICATION towns, roads WITH (origin = none)
        CREATE SUBSCRIPTION u CONNECTION '$pub' PUBLICATION towns, roads WITH (origin = none, copy_data = false)
        ALTER SUBSCRIPTION t REFRESH PUBLICATION
        pub: INSERT INTO pg_subscription_rel SELECT oid, 'town'::regclass, 'r' FROM pg_subscription WHERE subname = 'up'
        CREATE SUBSCRIPTION v CONNECTION '$pub' PUBLICATION towns, roads WITH (origin = none, enabled = false)
        pub: ALTER SUBSCRIPTION up SET (slot_name = NONE)
        pub: DROP SUBSCRIPTION up
    """,
    "different column lists": """
        pub: CREATE PUBLICATION names FOR TABLE town (id, name)
        pub: CREATE PUBLICATION ids FOR TABLE town (id)
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns, ids
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns, names WITH (enabled = false)
        CREATE SUBSCRIPTION t CONNECTION '$pub' PUBLICATION ids
        ALTER SUBSCRIPTION t ADD PUBLICATION names
    """,
    "partitions": """
        pub: CREATE TABLE part (id int) PARTITION BY RANGE (id)
        pub: CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (9)
        pub: CREATE PUBLICATION leaves FOR TABLE part
        pub: CREATE PUBLICATION root FOR TABLE part WITH (publish_via_partition_root)
        sub: CREATE TABLE part (id int)
        sub: CREATE TABLE part1 (id int)
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION leaves WITH (enabled = false)
        CREATE SUBSCRIPTION t CONNECTION '$pub' PUBLICATION root WITH (enabled = false)
        CREATE SUBSCRIPTION u CONNECTION '$pub' PUBLICATION root, leaves WITH (enabled = false)
    """,
}


SESSIONS_SINCE_17 = {
    "failover": """
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns WITH (failover, copy_data = false)
        ALTER SUBSCRIPTION s SET (failover = false)
        ALTER SUBSCRIPTION s DISABLE
        ALTER SUBSCRIPTION s SET (failover = false)
        CREATE SUBSCRIPTION t CONNECTION '$pub' PUBLICATION towns WITH (failover = false, enabled = false)
        ALTER SUBSCRIPTION t SET (failover)
        ALTER SUBSCRIPTION t SET (slot_name = 'nowhere')
        ALTER SUBSCRIPTION t SET (failover = false)
        CREATE SUBSCRIPTION u CONNECTION '$pub' PUBLICATION towns WITH (connect = false, failover)
    """,
    "two_phase of the slot": """
        CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION towns WITH (two_phase, enabled = false, copy_data = false)
        ALTER SUBSCRIPTION s SET (two_phase = false)
        ALTER SUBSCRIPTION s SET (two_phase = true)
        ALTER SUBSCRIPTION s SET (two_phase = off, failover = on)
    """,
}
SESSIONS_BEFORE_16 = (
    "missing publications",
    "the slot's name",
    "lists of publications",
    "different column lists",
    "partitions",
)


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_a_session_is_told_what_the_server_tells_and_leaves_the_same_catalog(
    postgresql16, subscriber_server, tmp_path, session
):
    """C53, C54, C55, D9, D11, D13, B39."""
    expected, found, wanted, state = both(postgresql16, subscriber_server, tmp_path, TABLES + session)
    assert_same(expected, found)
    assert state == wanted


@pytest.mark.parametrize("session", SESSIONS_SINCE_17.values(), ids=SESSIONS_SINCE_17)
def test_options_of_the_slot_change_with_the_subscription(postgresql18, subscriber_server, tmp_path, session):
    """C52, C53."""
    expected, found, wanted, state = both(postgresql18, subscriber_server, tmp_path, TABLES + session)
    assert_same(expected, found)
    assert state == wanted


@pytest.mark.parametrize("session", SESSIONS_BEFORE_16)
def test_a_session_with_an_older_publisher_is_the_same_too(postgresql15, subscriber_server, tmp_path, session):
    """C54, D9, D11."""
    expected, found, wanted, state = both(postgresql15, subscriber_server, tmp_path, TABLES + SESSIONS[session])
    assert_same(expected, found)
    assert state == wanted
