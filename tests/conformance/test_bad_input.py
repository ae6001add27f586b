"""Every wrong input gives one sentence with a hint, and never shows a secret."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from subscriber.base.errors import PublisherNotReady, SlotLost
from subscriber.base.lsn import INVALID_LSN
from subscriber.cli import main
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import ReplicationConnection, connect_publisher
from subscriber.publisher.slots import StreamOptions, start_command
from subscriber.testing.servers.open_servers import find_postgresql
from subscriber.testing.servers.postgresql_server import PostgreSQLServer
from subscriber.testing.servers.processes import free_port
from tests.conftest import fresh_database, server_or_skip
from tests.crash.harness import Runner, wait_until
from tests.crash.proxy import Proxy

SECRET = "hunter2secret"
RIGHT = "right4secret"


@dataclass
class Answer:
    code: int
    out: str
    err: str

    def refuses(self, *texts, code=1):
        """Check that the command ended with ``code`` and printed each of ``texts``, briefly,
        without a traceback or a secret.
        """
        assert self.code == code, self.err
        for text in texts:
            assert text in self.err
        assert "Traceback" not in self.err
        assert SECRET not in self.out + self.err
        assert RIGHT not in self.out + self.err
        if code == 1:
            assert [line[:6] for line in self.err.splitlines()].count("ERROR:") == 1
            assert len(self.err.splitlines()) <= 5


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    """Run ``subscriber`` in this process, with a SQLite target unless another is given."""

    def call(*arguments, **variables):
        environment = {
            "SUBSCRIBER_TARGET": f"sqlite:///{tmp_path / 'target.db'}",
            "SUBSCRIBER_JOURNAL": str(tmp_path / "journal"),
            **variables,
        }
        with monkeypatch.context() as patched:
            for name, value in environment.items():
                patched.setenv(name, value)
            patched.setattr(sys, "argv", ["subscriber", *arguments])
            code: str | int | None = 0
            try:
                main()
            except SystemExit as leaving:
                code = leaving.code
        said = capsys.readouterr()
        assert isinstance(code, int)
        return Answer(code, said.out, said.err)

    return call


def create(conninfo, publication="p", options="copy_data = false", name="s"):
    return f"CREATE SUBSCRIPTION {name} CONNECTION '{conninfo}' PUBLICATION {publication} WITH ({options})"


# Words on the command line ------------------------------------------------------------------------

USAGE = {
    "verb": ["rnu"],
    "sql option": ["sql", "--comand", "SELECT 1"],
    "sql option without value": ["sql", "-c"],
    "sql extra argument": ["sql", "SELECT 1"],
    "sql two sources": ["sql", "-c", "SELECT 1", "-f", "x.sql"],
    "run option": ["run", "--onc3"],
    "run target without value": ["run", "--target"],
    "status option": ["status", "--jsn"],
    "journal verb": ["journal", "lss"],
    "journal option": ["journal", "show", "--form", "0/1"],
    "journal xid": ["journal", "show", "--xid", "many"],
}


@pytest.mark.parametrize("case", USAGE)
def test_a_typo_on_the_command_line_is_wrong_usage(cli, case):
    cli(*USAGE[case]).refuses("Error:", code=2)


@pytest.mark.parametrize("content", [b"'\xe9'", b"\xff", b"'\xe9abc'", b"'\xc3('", b"'\xf0\x9f'", b"'\xed\xa0\x80'"])
def test_a_file_that_is_not_utf8_is_refused_in_the_words_of_the_server(cli, database, tmp_path, content):
    (tmp_path / "f.sql").write_bytes(b"SELECT " + content)
    with psycopg.connect(database.conninfo) as connection:
        said = connection.pgconn.exec_(b"SELECT " + content).error_message.decode().strip()
    cli("sql", "-f", str(tmp_path / "f.sql")).refuses(said, f"CONTEXT:  {tmp_path / 'f.sql'}:1")


@pytest.mark.parametrize("verb", [["run"], ["status"], ["sql", "-c", "SELECT 1"]], ids=lambda verb: verb[0])
def test_without_a_target_there_is_nothing_to_do(cli, verb):
    cli(*verb, SUBSCRIBER_TARGET="").refuses("--target", code=2)


VALUES = {
    "no journal": (["journal", "show"], {}, ["there is no journal at"]),
    "statement": (
        ["sql", "-c", "SELEC 1"],
        {},
        ['syntax error at or near "SELEC"', 'Perhaps you meant the keyword "SELECT".'],
    ),
    "file": (["sql", "-f", "/nowhere/x.sql"], {}, ["/nowhere/x.sql: No such file or directory"]),
    "setting": (["run"], {"SUBSCRIBER_SEGMENT_BYTES": "12zz"}, ['"SUBSCRIBER_SEGMENT_BYTES": "12zz"', "valid units"]),
    "setting out of range": (["run"], {"SUBSCRIBER_SEGMENT_BYTES": "2"}, ["outside the valid range"]),
    "subscription": (["sql", "-c", "DROP SUBSCRIPTION nobody"], {}, ['subscription "nobody" does not exist']),
    "publisher": (
        ["sql", "-c", "CREATE SUBSCRIPTION s CONNECTION 'host=/nowhere dbname=x' PUBLICATION p"],
        {},
        [
            'subscription "s" could not connect to the publisher: connection to server on socket "/nowhere/',
            "host and port",
        ],
    ),
    "option": (["sql", "-c", create("dbname=x", options="copy_dat = false")], {}, ['parameter: "copy_dat"']),
    "query": (["sql", "-c", "SELECT * FROM nowhere"], {}, ["no such table: nowhere"]),
}


@pytest.mark.parametrize("case", VALUES)
def test_a_wrong_value_is_named(cli, case):
    """refuse_not_guess"""
    arguments, variables, texts = VALUES[case]
    cli(*arguments, **variables).refuses(*texts)


TARGETS = {
    "no URL": ("target.db", ["the target URL is not a SQLAlchemy URL", "sqlite:////path/to/file.db"]),
    "a secret in no URL": (f"postgresql//me:{SECRET}@h/d", ["the target URL is not a SQLAlchemy URL"]),
    "dialect": (f"postgrse://me:{SECRET}@h/d", ['unknown database "postgrse"']),
    "driver": ("mssql+pyodbc://h/d", ['the driver of "mssql+pyodbc" is not installed', "pip install"]),
    "PostgreSQL driver": ("postgresql+psycopg2://h/d", ['"psycopg2" is not supported', "postgresql+psycopg://"]),
    "memory": ("sqlite://", ["in-memory SQLite database", "Name a file"]),
    "folder": ("sqlite:////nowhere/x.db", ["/nowhere/x.db is not available"]),
    "server": (f"postgresql://me:{SECRET}@127.0.0.1:1/d", ["PostgreSQL is not available", "127.0.0.1"]),
}


@pytest.mark.parametrize("case", TARGETS)
@pytest.mark.parametrize("verb", [["status"], ["sql", "-c", "SELECT 1"]], ids=lambda verb: verb[0])
def test_a_wrong_target_is_refused(cli, case, verb):
    """names_are_data: no secret is printed"""
    url, texts = TARGETS[case]
    cli(*verb, SUBSCRIBER_TARGET=url).refuses(*texts)


def test_run_refuses_a_wrong_target_before_it_starts_anything(tmp_path):
    runner = Runner(f"postgresql://me:{SECRET}@127.0.0.1:1/d", tmp_path)
    answer = runner.call("run")
    Answer(answer.returncode, answer.stdout, answer.stderr).refuses("PostgreSQL is not available")


def test_a_failpoint_that_does_not_exist_is_named(tmp_path):
    """A misspelled failpoint in a crash test must not become a test that cannot fail."""
    runner = Runner(f"sqlite:///{tmp_path / 't.db'}", tmp_path, {"SUBSCRIBER_FAILPOINTS": "journal.synk.before=kill"})
    answer = runner.call("run")
    Answer(answer.returncode, answer.stdout, answer.stderr).refuses('unknown failpoint "journal.synk.before"')


@pytest.mark.spark
@pytest.mark.slow
def test_a_wrong_master_is_named(tmp_path):
    answer = Runner(f"sqlite:///{tmp_path / 't.db'}", tmp_path).call("run", "--master", "locall[2]")
    Answer(answer.returncode, answer.stdout, answer.stderr).refuses('could not start Spark on master "locall[2]"')


# The publisher, at CREATE SUBSCRIPTION ------------------------------------------------------------


@pytest.fixture(scope="module")
def locked_server():
    """A separate server whose superuser ``locked`` needs a password."""
    with server_or_skip(lambda: PostgreSQLServer(find_postgresql(18))) as server:
        server.execute(f"CREATE ROLE locked SUPERUSER LOGIN PASSWORD '{RIGHT}'")
        rules = server.data_directory / "pg_hba.conf"
        rules.write_text(f"host all,replication locked 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        server.execute("SELECT pg_reload_conf()")
        wait_until(
            lambda: server.execute("SELECT count(*) FROM pg_hba_file_rules WHERE 'locked' = ANY (user_name)")[0][0],
            "the rules to be read",
        )
        yield server


@pytest.fixture
def database(locked_server):
    yield from fresh_database(locked_server)


@pytest.mark.server
def test_a_connection_that_cannot_be_made_is_explained(cli, database, locked_server):
    """Wrong syntax, port, database, user and password; one after the other into one target."""
    port, dead = locked_server.port, free_port()
    right = f"host=127.0.0.1 port={port}"
    for conninfo, texts in {
        f"host=127.0.0.1 pasword={SECRET}": ["invalid connection string syntax", "host=… port=…"],
        f"host=127.0.0.1 password={SECRET} port": ["invalid connection string syntax"],
        f"postgresql://me:{SECRET}@/%zz": ["invalid connection string syntax"],
        f"host=127.0.0.1 port={dead} user=postgres password={SECRET}": [
            "could not connect to the publisher",
            str(dead),
        ],
        f"{right} user=postgres dbname=nowhere password={SECRET}": ['database "nowhere" does not exist'],
        f"{right} user=nobody dbname={database.name} password={SECRET}": ['role "nobody" does not exist'],
        f"{right} user=locked dbname={database.name} password={SECRET}": ['authentication failed for user "locked"'],
        f"{right} user=locked dbname={database.name}": ["no password supplied"],
    }.items():
        cli("sql", "-c", create(conninfo)).refuses(*texts, "HINT")
    assert "no subscriptions" in cli("status").out


@pytest.mark.server
def test_a_table_that_the_target_lacks_is_named_and_no_slot_is_left(cli, database):
    """D13"""
    database.execute("CREATE TABLE t (a int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
    cli("sql", "-c", create(database.conninfo)).refuses('relation "public.t" does not exist', "Create the table")
    assert database.execute("SELECT slot_name FROM pg_replication_slots") == []


@pytest.mark.server
def test_a_slot_or_subscription_that_exists_is_named(cli, database, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "target.db")) as target:
        target.execute("CREATE TABLE t (a int PRIMARY KEY)")
    database.execute("CREATE TABLE t (a int PRIMARY KEY)")
    database.execute("CREATE PUBLICATION p FOR TABLE t")
    assert cli("sql", "-c", create(database.conninfo)).code == 0
    cli("sql", "-c", create(database.conninfo)).refuses('subscription "s" already exists')
    again = create(database.conninfo, options="copy_data = false, slot_name = s", name="s2")
    cli("sql", "-c", again).refuses('replication slot "s" already exists')


@pytest.mark.server
def test_a_slot_that_somebody_else_streams_from_is_not_dropped(cli, database, tmp_path, monkeypatch):
    """C54: the subscription stays as it was, and a later DROP succeeds"""
    monkeypatch.setattr("subscriber.commands.subscription_slots.WORKER_STOP_SECONDS", 0.5)
    table = "CREATE TABLE t (a int PRIMARY KEY)"
    database.execute(f"{table}; CREATE PUBLICATION p FOR TABLE t")
    with contextlib.closing(sqlite3.connect(tmp_path / "target.db")) as target:
        target.execute(table)
    assert cli("sql", "-c", create(database.conninfo)).code == 0
    with ReplicationConnection(database.conninfo, "somebody else") as stream:
        stream.start(start_command(stream.server_version, "s", INVALID_LSN, StreamOptions(("p",))))
        cli("sql", "-c", "DROP SUBSCRIPTION s").refuses(
            'could not drop replication slot "s" on publisher: ERROR:  replication slot "s" is active for PID',
            "Stop it",
        )
    assert [one["enabled"] for one in json.loads(cli("status", "--json").out)] == [True]
    assert cli("sql", "-c", "DROP SUBSCRIPTION s").code == 0
    assert database.execute("SELECT slot_name FROM pg_replication_slots") == []


@pytest.mark.server
def test_a_publisher_without_logical_decoding_is_refused(cli, locked_server):
    locked_server.restart({"wal_level": "replica"})
    try:
        cli("sql", "-c", create(locked_server.conninfo())).refuses(
            'logical decoding requires "wal_level" >= "logical"', 'wal_level = "replica"', "ALTER SYSTEM SET wal_level"
        )
    finally:
        locked_server.restart({"wal_level": "logical"})


@pytest.mark.server
def test_a_slot_of_another_plugin_is_refused(postgresql15):
    with contextlib.contextmanager(fresh_database)(postgresql15) as database:
        try:
            database.execute("SELECT pg_create_logical_replication_slot('other', 'test_decoding')")
        except psycopg.errors.UndefinedFile:
            pytest.skip("this server has no test_decoding")
        with (
            connect_publisher(database.conninfo, "test") as server,
            pytest.raises(
                PublisherNotReady, match='"other" has output plugin "test_decoding", but "pgoutput" is needed'
            ),
        ):
            PublisherClient(server).check_slot("other")


@pytest.mark.server
def test_a_slot_that_was_invalidated_is_refused(database, locked_server):
    database.execute("SELECT pg_create_logical_replication_slot('late', 'pgoutput')")
    locked_server.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    try:
        locked_server.execute("SELECT pg_reload_conf()")

        def lost():
            database.execute("SELECT pg_logical_emit_message(true, 'x', repeat('x', 1000))")
            database.execute("SELECT pg_switch_wal()")
            database.execute("CHECKPOINT")
            return database.execute("SELECT 1 FROM pg_replication_slots WHERE wal_status = 'lost'")

        wait_until(lost, "the slot to be lost")
        with (
            connect_publisher(database.conninfo, "test") as server,
            pytest.raises(SlotLost, match='can no longer access replication slot "late"') as refused,
        ):
            PublisherClient(server).check_slot("late")
        assert 'invalidated due to "wal_removed"' in str(refused.value.detail)
    finally:
        locked_server.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        locked_server.execute("SELECT pg_reload_conf()")


# The publisher, at run ----------------------------------------------------------------------------

TROUBLE = {
    "unreachable": ["could not connect to the publisher"],
    "slotless": ['replication slot "nowhere" does not exist'],
    "physical": ['replication slot "is_physical" has no output plugin', '"pgoutput" is needed'],
    "unpublished": ['publication "forgotten" does not exist'],
    "locked_out": ['authentication failed for user "locked"'],
    "tableless": ['relation "public.gone" does not exist'],
}
"""Subscription → the text that its error must contain."""


@pytest.fixture
def troubled(database, locked_server, tmp_path):
    """A subscription for each kind of problem, and a healthy one."""
    tables = "CREATE TABLE healthy (a int PRIMARY KEY); CREATE TABLE gone (a int PRIMARY KEY);"
    database.execute(tables)
    for name in ("healthy", "gone"):
        database.execute(f"CREATE PUBLICATION {name} FOR TABLE {name}")
    database.execute("SELECT pg_create_physical_replication_slot('is_physical')")
    with contextlib.closing(sqlite3.connect(tmp_path / "target.db")) as target:
        target.executescript(tables)
    runner = Runner(f"sqlite:///{tmp_path / 'target.db'}", tmp_path)
    plain, no_slot = "copy_data = false", "copy_data = false, create_slot = false, slot_name = "
    password = f"host=127.0.0.1 port={locked_server.port} user=locked password={RIGHT} dbname={database.name}"
    try:
        with Proxy(database.conninfo) as proxy:
            for name, conninfo, publication, options in (
                ("healthy", database.conninfo, "healthy", plain),
                ("unreachable", proxy.conninfo, "healthy", plain),
                ("slotless", database.conninfo, "healthy", no_slot + "nowhere"),
                ("physical", database.conninfo, "healthy", no_slot + "is_physical"),
                ("unpublished", database.conninfo, "forgotten", plain),
                ("locked_out", password, "healthy", plain),
                ("tableless", database.conninfo, "gone", plain),
            ):
                runner.sql(create(conninfo, publication, options, name))
        database.execute(f"ALTER ROLE locked PASSWORD '{SECRET}'")
        with contextlib.closing(sqlite3.connect(tmp_path / "target.db")) as target:
            target.execute("DROP TABLE gone")
        database.execute("INSERT INTO gone VALUES (1)")
        database.execute("INSERT INTO healthy VALUES (1)")
        yield runner
    finally:
        runner.close()
        database.execute(f"ALTER ROLE locked PASSWORD '{RIGHT}'")
        database.execute("SELECT pg_drop_replication_slot('is_physical')")


def everything_written(folder: Path) -> bytes:
    """All files of the runner except the target, which stores the connection string as PostgreSQL's
    catalog does.
    """
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("target.db"))
    return b"".join(path.read_bytes() for path in files)


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.slow
def test_every_trouble_of_a_run_is_said_and_one_does_not_stop_another(troubled, tmp_path):
    """Each problem is in the log and in the status, with what was found; neither contains a secret
    (names_are_data)
    """
    answer = troubled.once()
    assert answer.returncode == 1
    status = troubled.status()
    for name, texts in TROUBLE.items():
        for text in texts:
            assert text in answer.stderr
            assert text in status[name]["last_error"], name
    assert status["healthy"]["last_error"] is None
    with contextlib.closing(sqlite3.connect(tmp_path / "target.db")) as target:
        assert target.execute("SELECT a FROM healthy").fetchall() == [(1,)]
    assert "Traceback" not in answer.stderr
    for secret in (SECRET, RIGHT):
        assert secret not in answer.stdout + answer.stderr
        assert secret not in str(status)
        assert secret.encode() not in everything_written(tmp_path)
