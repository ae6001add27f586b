"""test_decoding and the SQL functions of a slot beside PostgreSQL's: the same statements, the same
lines (rules E10, E11, E20-E28).

Only Debian's server ships the plugin. Transaction numbers are replaced by their order, and times by
a word, and both sides have the rest to the letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from subscriber.base.errors import SubscriberError
from subscriber.postgres.logical_decoding import (
    Column,
    MemoryDatabase,
    RecordedWal,
    ReplicationSlot,
    SlotFunctions,
    Toasted,
)
from subscriber.postgres.logical_decoding.plugins.test_decoding import TestDecoding
from tests.conftest import Database, fresh_database

TYPES = {
    "smallint": "-1", "integer": "5", "bigint": "9", "oid": "7", "real": "1.5", "double precision": "NaN",
    "numeric(10,2)": "1.50", "bit(3)": "101", "bit varying(5)": "01", "boolean": "f", "text": "it's \\ a 'text'\n2",
    "character varying(10)": "x", "character(3)": "x  ", '"char"': "c", "name": "n", "bytea": "\\x00ff",
    "date": "2000-01-01", "time without time zone": "01:02:03", "time with time zone": "01:02:03+00",
    "timestamp without time zone": "2000-01-01 00:00:00", "timestamp with time zone": "2000-01-01 00:00:00+00",
    "interval": "1 day", "uuid": "00000000-0000-0000-0000-000000000001", "json": '{"a": 1}', "jsonb": '{"a": 1}',
    "integer[]": "{1,2}", "text[]": "{a,NULL}", "int4range": "[1,5)", "inet": "10.0.0.1", "point": "(1,2)",
    "xml": "<a/>", "money": "$1.00", "tsvector": "'a'", "regclass": "pg_class", "int2vector": "1 2", "numeric[]": "{1.5}",
}  # fmt: skip


class OnServer:
    """Runs statements on a server."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.slot = f"{database.name}_lines"
        database.execute(f"SELECT pg_create_logical_replication_slot('{self.slot}', 'test_decoding', false, true)")

    def run(self, *statements: str) -> None:
        with psycopg.connect(self._database.conninfo, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def call(self, function: str, upto_nchanges: int | None = None, *options: object) -> list[tuple[str, str]]:
        places = "".join(", %s" for _ in options)
        statement = f"SELECT xid, data FROM pg_logical_slot_{function}('{self.slot}', NULL, %s{places})"
        with psycopg.connect(self._database.conninfo, autocommit=True) as connection:
            connection.execute("SET bytea_output = hex")
            rows = connection.execute(statement, (upto_nchanges, *options)).fetchall()
        return [(xid, data.decode() if isinstance(data, bytes) else data) for xid, data in rows]


class OnPublisher:
    """Runs the same in memory."""

    def __init__(self) -> None:
        self.publisher = MemoryDatabase(150000)
        slot = ReplicationSlot("s", "test_decoding", two_phase=True)
        self.functions = SlotFunctions(TestDecoding(), slot, RecordedWal.of(self.publisher))

    def call(self, function: str, upto_nchanges: int | None = None, *options: object) -> list[tuple[str, str]]:
        rows = getattr(self.functions, function)(None, upto_nchanges, *options)
        return [(str(xid), data.decode() if isinstance(data, bytes) else data) for _, xid, data in rows]


def canonical(rows: Sequence[tuple[str, str]]) -> list[tuple[int, str]]:
    """The rows with transactions numbered in the order in which they come."""
    numbers = {"0": 0}
    for xid, _ in rows:
        numbers.setdefault(xid, len(numbers))

    def numbered(text: str) -> str:
        text = re.sub(
            r"(?:(?<=^BEGIN )|(?<=^COMMIT )|(?<=, txid )|(?<= TXN ))\d+",
            lambda found: f"#{numbers.setdefault(found[0], len(numbers))}",
            text,
        )
        return re.sub(r"\(at [-0-9 :.+]+\)", "(at TIME)", text)

    return [(numbers[xid], numbered(data)) for xid, data in rows]


Both = tuple[OnServer, OnPublisher]


@pytest.fixture(scope="module")
def database(postgresql15) -> Iterator[Database]:
    yield from fresh_database(postgresql15)


@pytest.fixture
def both(database) -> Iterator[Both]:
    """A server's slot, and a publisher in memory; both have the table t."""
    database.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    server, memory = OnServer(database), OnPublisher()
    server.run("CREATE TABLE t (a integer PRIMARY KEY, b text)")
    memory.publisher.create_table("t", {"a": "integer", "b": "text"}, ["a"])
    yield server, memory
    database.execute(f"SELECT pg_drop_replication_slot('{server.slot}')")


def equal(both: Both, *options: object, changes: int | None = None, function: str = "peek_changes") -> list[str]:
    """Both sides' lines, which are equal."""
    server, memory = both
    theirs, ours = (
        canonical(server.call(function, changes, *options)),
        canonical(memory.call(function, changes, *options)),
    )
    assert ours == theirs
    return [data for _, data in theirs]


def test_rows_of_every_kind_of_identity(both):
    server, memory = both
    server.run(
        "BEGIN", "INSERT INTO t VALUES (1, 'it''s'), (2, NULL)", "UPDATE t SET b = 'y' WHERE a = 1",
        "UPDATE t SET a = 3 WHERE a = 2", "DELETE FROM t WHERE a = 1", "COMMIT",
        "ALTER TABLE t REPLICA IDENTITY FULL", "UPDATE t SET b = 'z' WHERE a = 3", "DELETE FROM t",
        "ALTER TABLE t REPLICA IDENTITY NOTHING", "INSERT INTO t VALUES (4, 'x')", "UPDATE t SET a = 5", "DELETE FROM t",
    )  # fmt: skip
    session = memory.publisher.session()
    session.begin()
    session.insert("t", a=1, b="it's")
    session.insert("t", a=2)
    session.update("t", {"a": 1}, b="y")
    session.update("t", {"a": 2}, a=3)
    session.delete("t", {"a": 1})
    session.commit()
    session.replica_identity("t", "full")
    session.update("t", {"a": 3}, b="z")
    session.delete("t", {})
    session.replica_identity("t", "nothing")
    session.insert("t", a=4, b="x")
    session.update("t", {}, a=5)
    session.delete("t", {})
    assert len(equal(both)) == 28
    equal(both, "include-xids", "off", "skip-empty-xacts", "y")
    equal(both, "include-timestamp", "1")


def test_literals_of_every_type(both):
    server, memory = both
    columns = {f"c{number}": name for number, name in enumerate(TYPES)}
    definition = ", ".join(f"{column} {name}" for column, name in columns.items())
    texts = ", ".join("'" + text.replace("'", "''") + "'" for text in TYPES.values())
    server.run(f"CREATE TABLE v ({definition})", "SET lc_monetary = 'C'", f"INSERT INTO v VALUES ({texts})")
    memory.publisher.create_table("v", columns)
    shown = dict(TYPES) | {"money": "$1.00"}
    memory.publisher.session().insert("v", dict(zip(columns, shown.values(), strict=True)))
    assert len(equal(both, "skip-empty-xacts", "1")) == 3


def test_names_domains_enums_dropped_and_generated_columns(both):
    server, memory = both
    server.run(
        'CREATE SCHEMA "S s"', "CREATE DOMAIN positive AS integer", "CREATE TYPE \"S s\".mood AS ENUM ('ok')",
        'CREATE TABLE "S s"."select" (gone integer, "order" positive, "Up" "S s".mood, many "S s".mood[], g integer'
        ' GENERATED ALWAYS AS (1) STORED, "q""q" boolean)',
        'ALTER TABLE "S s"."select" DROP COLUMN gone',
        'INSERT INTO "S s"."select" VALUES (5, \'ok\', \'{ok}\', DEFAULT, NULL)',
    )  # fmt: skip
    session = memory.publisher.session()
    session.create_domain("positive", "integer")
    session.create_enum("S s.mood")
    session.create_table(
        "S s.select",
        [Column("gone", "integer"), Column("order", "positive"), Column("Up", '"S s".mood'), Column("many", '"S s".mood[]'),
         Column("g", "integer", generated="stored", compute=lambda _row: 1), Column('q"q', "boolean")],
    )  # fmt: skip
    session.drop_column("S s.select", "gone")
    session.insert("S s.select", {"order": 5, "Up": "ok", "many": "{ok}"})
    (line,) = [one for one in equal(both, "skip-empty-xacts", "1") if one.startswith("table")]
    assert line == (
        'table "S s"."select": INSERT: "order"[positive]:\'5\' "Up"["S s".mood]:\'ok\' many["S s".mood[]]:\'{ok}\''
        ' g[integer]:1 "q""q"[boolean]:null'
    )


def test_a_toasted_value_that_is_not_written_again(both):
    server, memory = both
    server.run(
        "ALTER TABLE t ALTER b SET STORAGE EXTERNAL",
        "INSERT INTO t VALUES (1, repeat('x', 5000))",
        "UPDATE t SET a = 2",
    )
    session = memory.publisher.session()
    session.insert("t", a=1, b=Toasted("x" * 5000))
    session.update("t", {}, a=2)
    assert equal(both, "skip-empty-xacts", "1")[-2].endswith("b[text]:unchanged-toast-datum")


def test_truncate_and_messages(both):
    server, memory = both
    server.run("CREATE TABLE u (a integer)", "TRUNCATE t, u", "TRUNCATE u RESTART IDENTITY CASCADE")
    server.run("SELECT pg_logical_emit_message(false, 'p p', 'outside')")
    server.run("BEGIN", "SELECT pg_logical_emit_message(true, 'p', 'é')", "COMMIT")
    server.run("BEGIN", "TRUNCATE t CASCADE", "SELECT pg_logical_emit_message(false, '', '')", "COMMIT")
    publisher = memory.publisher
    publisher.create_table("u", {"a": "integer"})
    session = publisher.session()
    session.truncate("t", "u")
    session.truncate("u", restart_identity=True, cascade=True)
    session.message("p p", b"outside", transactional=False)
    session.begin()
    session.message("p", "é".encode())
    session.commit()
    session.begin()
    session.truncate("t", cascade=True)
    session.message("", b"", transactional=False)
    session.commit()
    equal(both)
    assert "BEGIN" in equal(both, "skip-empty-xacts", "1", "include-xids", "0")


def test_two_phase_commit(both):
    server, memory = both
    session = memory.publisher.session()
    for number, (gid, end) in enumerate([("it's", "COMMIT"), ("a\\b", "ROLLBACK"), ("x_nodecode", "COMMIT"), ("y_nodecode", "ROLLBACK")]):  # fmt: skip
        literal = "'" + gid.replace("'", "''") + "'"
        server.run(
            "BEGIN", f"INSERT INTO t VALUES ({number})", f"PREPARE TRANSACTION {literal}", f"{end} PREPARED {literal}"
        )
        session.begin()
        session.insert("t", a=number)
        session.prepare(gid)
        getattr(session, f"{end.lower()}_prepared")(gid)
    assert len(equal(both)) == 2 + 4 + 4 + 3
    equal(both, "include-timestamp", "1", "skip-empty-xacts", "1")
    equal(both, "include-timestamp", "1", "include-xids", "0")


def test_savepoints_and_interleaved_sessions(both):
    server, memory = both
    with psycopg.connect(server._database.conninfo) as other:
        other.execute("INSERT INTO t VALUES (10)")
        server.run("BEGIN", "INSERT INTO t VALUES (1)", "SAVEPOINT a", "INSERT INTO t VALUES (2)", "SAVEPOINT b",
                   "INSERT INTO t VALUES (3)", "ROLLBACK TO b", "INSERT INTO t VALUES (4)", "COMMIT")  # fmt: skip
        other.execute("INSERT INTO t VALUES (11)")
    session, first = memory.publisher.session(), memory.publisher.session()
    first.begin()
    first.insert("t", a=10)
    session.begin()
    session.insert("t", a=1)
    session.savepoint("a")
    session.insert("t", a=2)
    session.savepoint("b")
    session.insert("t", a=3)
    session.rollback_to("b")
    session.insert("t", a=4)
    session.commit()
    first.insert("t", a=11)
    first.commit()
    equal(both)


def test_get_moves_the_slot_peek_does_not_and_the_number_of_changes_keeps_transactions_whole(both):
    server, memory = both
    server.run(*(f"INSERT INTO t VALUES ({number})" for number in range(4)))
    for number in range(4):
        memory.publisher.session().insert("t", a=number)
    for changes in (1, 2, 3, 4, 7, 0, -1):
        equal(both, changes=changes)
    assert len(equal(both, function="get_changes", changes=4)) == 5
    assert len(equal(both, function="get_changes", changes=1)) == 3
    assert len(equal(both, function="get_binary_changes")) == 6
    assert equal(both, function="get_changes") == []


@pytest.mark.parametrize(
    "options",
    [
        ["include-xids"], ["include-xids", None], ["include-xids", "maybe"], ["include-xids", " on"],
        ["only-local", ""], ["nonsense", "1"], ["include-sequences", "1"], ["force-binary", "1"], ["force-binary", "x"],
    ],
)  # fmt: skip
def test_errors_are_postgresqls(both, options):
    server, memory = both
    server.run("INSERT INTO t VALUES (1)")
    memory.publisher.session().insert("t", a=1)
    with pytest.raises(psycopg.Error) as theirs:
        server.call("peek_changes", None, *options)
    with pytest.raises(SubscriberError) as ours:
        memory.call("peek_changes", None, *options)
    assert (ours.value.message, ours.value.sqlstate) == (theirs.value.diag.message_primary, theirs.value.sqlstate)
    assert (ours.value.context or "") == (theirs.value.diag.context or "").replace(server.slot, "s")


def test_every_option_of_boolean_text_is_read_alike(both):
    server, memory = both
    server.run("INSERT INTO t VALUES (1)")
    memory.publisher.session().insert("t", a=1)
    for text in ("t", "TRUE", "tr", "f", "fal", "y", "NO", "on", "of", "OFF", "1", "0"):
        equal(both, "include-xids", text, "skip-empty-xacts", text)


def test_the_rows_of_a_rewrite(both):
    server, memory = both
    server.run("INSERT INTO t VALUES (1, 'x')", "ALTER TABLE t ADD COLUMN c bigint DEFAULT random()")
    session = memory.publisher.session()
    session.insert("t", a=1, b="x")
    session.rewrite_table("t")
    equal(both)
    theirs = canonical(server.call("peek_changes", None, "include-rewrites", "1", "skip-empty-xacts", "1"))
    ours = canonical(memory.call("peek_changes", None, "include-rewrites", "1", "skip-empty-xacts", "1"))
    prefix = "table public.t: INSERT: a[integer]:1 b[text]:'x'"
    assert [data.startswith(prefix) for _, data in theirs] == [data.startswith(prefix) for _, data in ours]
    assert [data.startswith(prefix) for _, data in ours] == [False, True, False, False, True, False]
