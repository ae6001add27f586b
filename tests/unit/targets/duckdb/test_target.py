"""DuckDB as a target: the file, the shapes, the values, the exact path and the loader."""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from typing import Literal

import duckdb as duckdb_driver
import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.apply.exact import ExactApplier
from subscriber.catalog import CATALOG, OriginProgress
from subscriber.errors import (
    ConflictError,
    TargetError,
    TargetRelationError,
    TargetUnavailable,
    UnsupportedValue,
    UsageError,
)
from subscriber.lsn import LSN
from subscriber.protocol import messages as m
from subscriber.schema.shape import SequencePosition
from subscriber.targets import TargetColumn, TargetTable, open_target
from subscriber.targets.duckdb import connection as duckdb_connection
from subscriber.targets.duckdb.values import check_column, declaration, storage
from subscriber.targets.loader import LoadColumn, write_block
from subscriber.types import BUILT_IN_TYPES, family_of, type_name
from subscriber.verify.canonical_text import text_of
from subscriber.verify.read_rows import target_rows
from tests.frames import OIDS, frame, relation, transaction, values
from tests.target_databases import set_sequence

SECRET = "sec" + "ret"  # tracebacks quote source lines
OPEN = "import duckdb, sys, time; c = duckdb.connect(sys.argv[1]); print('open', flush=True); time.sleep({})"


@pytest.fixture
def target(tmp_path):
    with open_target(f"duckdb:///{tmp_path / 'target.duckdb'}") as opened:
        yield opened


@pytest.fixture
def apply(target):
    with target.begin() as connection:
        CATALOG.create_all(connection)
        OriginProgress(1).create(connection, LSN(100))
    applier = ExactApplier(target, subscription="sub", subid=1)

    def call(relations, *messages):
        return applier.apply([frame(relations, messages)], start=LSN(100), end=LSN(1000))

    return call


def create(target, *statements: str) -> None:
    with target.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def rows(target, query: str) -> list[tuple[object, ...]]:
    with target.engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


def reflected(target, name: str, schema: str = "public") -> TargetTable:
    with target.engine.connect() as connection:
        table: TargetTable | None = target.shapes.reflect(connection, schema, name)
    assert table is not None
    return table


def loaded(target, table: TargetTable, types: dict[str, int], *batches: pa.RecordBatch) -> None:
    columns = [LoadColumn(next(one for one in table.columns if one.name == name), oid) for name, oid in types.items()]
    with target.begin() as connection, target.loading.loader(connection, table, columns) as load:
        for batch in batches:
            load(write_block(batch))


def insert(*texts: str | None) -> m.Insert:
    return m.Insert(16384, values(*texts))


# The file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["duckdb://", "duckdb:///:memory:", "duckdb:///:memory:named"])
def test_an_in_memory_database_is_refused(url):
    with pytest.raises(UsageError, match="in-memory DuckDB"):
        open_target(url)


def test_between_transactions_another_process_can_open_the_file(target):
    create(target, "CREATE TABLE t (a int)")
    path = str(target.url.database)
    other = subprocess.run([sys.executable, "-c", OPEN.format(0), path], capture_output=True, text=True, check=True)
    assert other.stdout == "open\n"


@pytest.mark.parametrize("patience", [0.2, 30])
def test_a_file_that_another_process_has_open_is_waited_for(target, monkeypatch, patience):
    monkeypatch.setattr(duckdb_connection, "BUSY_TIMEOUT", patience)
    create(target, "CREATE TABLE t (a int)")
    seconds = 1 if patience > 1 else 30
    command = [sys.executable, "-c", OPEN.format(seconds), str(target.url.database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        try:
            if patience < seconds:
                with pytest.raises(TargetUnavailable, match=r"not available \(IOException\)"), target.begin():
                    pass
            else:
                began = time.monotonic()
                create(target, "INSERT INTO t VALUES (1)")
                assert time.monotonic() - began < patience
        finally:
            other.kill()


def test_a_file_that_another_thread_is_about_to_close_is_opened_anew(target, monkeypatch):
    """DuckDB refuses it for a moment: "Unique file handle conflict" """
    conflict = type("ResourceInUseException", (duckdb_driver.OperationalError,), {})
    open_it = target.engine.dialect.connect
    answers = iter([conflict("Unique file handle conflict"), conflict("Unique file handle conflict")])

    def connect(*arguments: object, **options: object) -> object:
        for answer in answers:
            raise answer
        return open_it(*arguments, **options)

    monkeypatch.setattr(target.engine.dialect, "connect", connect)
    create(target, "CREATE TABLE t (a int)")
    assert rows(target, "SELECT * FROM t") == []


CHANGE = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('CREATE TABLE u (a int)')"


def test_a_file_that_another_process_changes_before_it_is_locked_is_opened_anew(target, monkeypatch):
    """DuckDB 2.0 reads the headers before its lock: it would miss the table, and what it wrote then
    would be the end of the file.
    """
    create(target, "CREATE TABLE t (a int)")
    open_it = target.engine.dialect.connect
    opened: list[duckdb_driver.DuckDBPyConnection] = []

    def connect(*arguments: object, **options: object) -> object:
        if not opened:
            subprocess.run([sys.executable, "-c", CHANGE, str(target.url.database)], check=True)
        opened.append(open_it(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(target.engine.dialect, "connect", connect)
    create(target, "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (2)")
    assert len(opened) == 2
    with pytest.raises(duckdb_driver.ConnectionException, match="closed"):
        opened[0].execute("SELECT 1")
    assert rows(target, "SELECT t.a, u.a FROM t, u") == [(1, 2)]


def test_a_look_at_the_headers_does_not_give_up_the_lock_of_a_file_that_is_open(target):
    """POSIX: whoever closes one descriptor of a file loses the lock that he has by another."""
    create(target, "CREATE TABLE t (a int)")
    with target.begin(), target.engine.connect():
        command = [sys.executable, "-c", OPEN.format(0), str(target.url.database)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Could not set lock on file" in answer.stderr


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "t.duckdb").write_bytes(b"not a database" * 1000)
    target = open_target(f"duckdb:///{tmp_path / 't.duckdb'}")
    with pytest.raises(TargetError, match="is not a DuckDB database") as raised, target.begin():
        pass
    assert not raised.value.transient


def test_an_option_that_duckdb_does_not_know_is_named(tmp_path):
    target = open_target(f"duckdb:///{tmp_path / 't.duckdb'}?nonsense=1")
    with pytest.raises(TargetError, match='does not know the option "nonsense"') as raised, target.begin():
        pass
    assert raised.value.hint


def test_of_two_transactions_that_change_a_row_one_is_tried_again(target):
    """any_crash: nothing of it is there"""
    create(target, "CREATE TABLE t (a int)", "INSERT INTO t VALUES (0)")
    with target.begin() as first:
        first.exec_driver_sql("UPDATE t SET a = 1")
        with pytest.raises(TargetUnavailable, match="another transaction") as raised, target.begin() as second:
            second.exec_driver_sql("UPDATE t SET a = 2")
    assert (raised.value.transient, rows(target, "SELECT a FROM t")) == (True, [(1,)])


def test_the_url_limits_duckdbs_memory(tmp_path):
    with open_target(f"duckdb:///{tmp_path / 't.duckdb'}?memory_limit=50MB") as target:
        create(target, "CREATE TABLE t (a bigint PRIMARY KEY)")
        with pytest.raises(TargetUnavailable, match="memory limit") as raised, target.reporting():
            create(target, "INSERT INTO t SELECT range FROM range(0, 20000000, 3)")
        assert (raised.value.sqlstate, raised.value.transient) == ("53200", True)
        assert "memory_limit=" in str(raised.value.hint)
        assert rows(target, "SELECT count(*) FROM t") == [(0,)]


# Shapes -------------------------------------------------------------------------------------------


def test_a_tables_shape(target):
    create(
        target,
        'CREATE TABLE "T ""1""" (a INT, "b.c" VARCHAR NOT NULL, d DECIMAL(5,2), g AS (a + 1), UNIQUE (d), PRIMARY KEY ("b.c", a))',
        "CREATE VIEW v AS SELECT 1 AS a",
        "CREATE TABLE r (rowid int)",
    )
    table = reflected(target, 'T "1"')
    assert (table.key, table.kind, table.locators) == (("b.c", "a"), "table", ("rowid",))
    assert [(c.name, c.declared_type, c.storage, c.nullable, c.generated) for c in table.columns] == [
        ("a", "INTEGER", "INTEGER", False, False),
        ("b.c", "VARCHAR", "VARCHAR", False, False),
        ("d", "DECIMAL(5,2)", "DECIMAL", True, False),
        ("g", "INTEGER", "INTEGER", True, True),
    ]
    assert reflected(target, "v").kind == "view"
    assert reflected(target, "r").locators == ()


def test_names_compare_exactly(target):
    """C1"""
    create(target, "CREATE TABLE t (a int)")
    with target.engine.connect() as connection:
        assert target.shapes.reflect(connection, "public", "T") is None
        assert target.shapes.reflect(connection, "main2", "t") is None


def test_a_schema_is_the_one_of_its_name(target):
    """C1: though it has a dot, which duckdb-engine takes for a database's"""
    create(target, 'CREATE SCHEMA "s.x"', 'CREATE TABLE "s.x".t (a int)')
    table = reflected(target, "t", "s.x")
    with target.begin() as connection:
        connection.execute(sa.insert(table.clause()).values(a=1))
    assert rows(target, 'SELECT a FROM "s.x".t') == [(1,)]


def test_a_schema_may_have_the_databases_name(apply, target):
    """C1: which DuckDB by itself calls ambiguous"""
    create(target, "CREATE SCHEMA target.target", "CREATE TABLE target.target.t (a int PRIMARY KEY, b text)")
    apply([relation("target.t", {"a": "int4", "b": "text"}, ["a"])], *transaction(200, insert("1", "x")))
    assert rows(target, "SELECT * FROM target.target.t") == [(1, "x")]


# Values -------------------------------------------------------------------------------------------

VALUES = {
    "bool": ["t", "f"],
    "int2": ["-32768"],
    "int8": ["9223372036854775807"],
    "float4": ["0.1", "NaN", "-Infinity", "1e-45"],
    "float8": ["5e-324", "Infinity", "NaN"],
    "numeric": ["NaN", "Infinity", "1.50", "123456789012345678901234567890.123456789"],
    "text": ["", "007", "é%s:x\\$1?", "'"],
    "bytea": ["\\x", "\\x00ff27"],
    "date": ["infinity", "-infinity", "0044-03-15 BC", "294276-12-31"],
    "time": ["24:00:00", "00:00:00.000001"],
    "timestamp": ["-infinity", "4713-01-01 00:00:00 BC", "2026-11-21 01:02:03.5"],
    "timestamptz": ["infinity", "0044-03-15 01:02:03+00 BC", "2026-11-21 01:02:03+00"],
    "interval": ["-1 days +02:03:00", "1 year 2 mons -3 days"],
    "uuid": ["12345678-1234-1234-1234-123456789012"],
    "json": ['{"a":  1}', "7"],
    "jsonb": ['{"a": 1}'],
    "int4[]": ["{}", "{1,NULL}", "[0:1]={1,2}"],
}


def stored(target, type_oid: int) -> dict[int, str | None]:
    table = reflected(target, "v")
    with target.engine.connect() as connection:
        return {k: text_of(type_oid, value) for k, value in target_rows(target, connection, table, ["k", "v"], ["k"])}


def expected(name: str) -> dict[int, str | None]:
    return {-1: None, **dict(enumerate(VALUES[name]))}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_value_comes_back_as_it_was(apply, target, name):
    """C5: replicated into the column that we declare for its type, found by it (C16), and loaded by
    a copy
    """
    create(target, f"CREATE TABLE v (k INTEGER, v {declaration(OIDS[name], type_name(OIDS[name]))})")
    remote = relation("public.v", {"k": "int4", "v": name}, identity="f")
    numbered = [(str(k), v) for k, v in enumerate(VALUES[name])]
    searchable = name != "json"  # which PostgreSQL cannot compare (C17)
    apply(
        [remote],
        *transaction(
            200,
            *(insert(k, v) for k, v in numbered),
            insert("-1", None),
            *(m.Update(16384, "O", values(k, v), values(k, v)) for k, v in numbered if searchable),
        ),
    )
    assert stored(target, OIDS[name]) == expected(name)
    table = reflected(target, "v")
    texts = pa.array([*(v.encode() for _, v in numbered), None], pa.binary())
    batch = pa.record_batch(
        [pa.array([*range(len(numbered)), -1], pa.int32()), family_of(OIDS[name]).decode_text(texts)], names=["k", "v"]
    )
    create(target, "DELETE FROM v")
    loaded(target, table, {"k": 23, "v": OIDS[name]}, batch)
    assert stored(target, OIDS[name]) == expected(name)


@pytest.mark.parametrize("oid", sorted(BUILT_IN_TYPES | {99_999}), ids=type_name)
def test_the_declaration_holds_every_type(oid):
    """refuse_not_guess: the column that we make is one that we accept"""
    declared = declaration(oid, type_name(oid))
    check_column(oid, TargetColumn("c", declared, storage(declared)))


@pytest.mark.parametrize(
    ("name", "declared", "hint"),
    [
        ("float8", "FLOAT", "DOUBLE"), ("numeric", "FLOAT", "DECIMAL"), ("timestamp", "TIMESTAMP_S", "TIMESTAMP"),
        ("timestamp", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP"), ("text", "BLOB", "VARCHAR"), ("int8", "FLOAT", "BIGINT"),
        ("date", "TIMESTAMP WITH TIME ZONE", "DATE"), ("int4[]", "INTEGER[]", "VARCHAR"), ("interval", "INTERVAL", "VARCHAR"),
    ],
)  # fmt: skip
def test_a_column_that_would_change_values_is_refused(name, declared, hint):
    """C3, refuse_not_guess"""
    with pytest.raises(TargetRelationError, match="cannot hold type") as raised:
        check_column(OIDS[name], TargetColumn("c", declared, storage(declared)))
    assert hint in str(raised.value.hint)


@pytest.mark.parametrize(
    ("name", "declared", "value"),
    [
        ("numeric", "DECIMAL(6,2)", "1.505"), ("numeric", "DECIMAL(6,2)", "NaN"), ("numeric", "DECIMAL(4,2)", "12345"),
        ("timestamp", "TIMESTAMP", "294276-12-31 23:59:59"), ("int4", "TINYINT", "300"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(apply, target, name, declared, value):
    """refuse_not_guess, names_are_data: replicated or loaded, and the message does not have it"""
    create(target, f"CREATE TABLE v (k INTEGER PRIMARY KEY, v {declared})")
    with pytest.raises(UnsupportedValue) as raised:
        apply([relation("public.v", {"k": "int4", "v": name}, ["k"])], *transaction(200, insert("1", value)))
    table = reflected(target, "v")
    array = family_of(OIDS[name]).decode_text(pa.array([value.encode()], pa.binary()))
    with pytest.raises(UnsupportedValue) as loading:
        loaded(target, table, {"v": OIDS[name]}, pa.record_batch([array], names=["v"]))
    assert value not in raised.value.report() + loading.value.report()


def test_zeros_at_the_end_of_a_number_do_not_count(apply, target):
    create(target, "CREATE TABLE v (k INTEGER PRIMARY KEY, v DECIMAL(6,2))")
    apply([relation("public.v", {"k": "int4", "v": "numeric"}, ["k"])], *transaction(200, insert("1", "1.5000")))
    assert rows(target, "SELECT v::varchar FROM v") == [("1.50",)]


# Applying -----------------------------------------------------------------------------------------

T = relation("public.t", {"a": "int4", "b": "text"}, ["a"])


def test_changes_reach_the_table(apply, target):
    """C7-C9, C18: executemany counts the rows it found; a key may go and come again within a
    transaction
    """
    create(target, "CREATE TABLE t (b text, a int PRIMARY KEY, own text DEFAULT 'mine')")
    result = apply(
        [T],
        *transaction(
            200,
            *(insert(str(number), "x") for number in range(5)),
            m.Update(16384, None, None, values("0", m.UNCHANGED)),
            m.Update(16384, None, None, values("1", None)),
            m.Update(16384, None, None, values("77", None)),
            m.Update(16384, "K", values("2", None), values("20", "moved")),
            insert("2", "again"),
            *(m.Delete(16384, "K", values(key, None)) for key in ("3", "88", "99")),
        ),
    )
    assert rows(target, "SELECT a, b, own FROM t ORDER BY a") == [
        (0, "x", "mine"), (1, None, "mine"), (2, "again", "mine"), (4, "x", "mine"), (20, "moved", "mine"),
    ]  # fmt: skip
    assert result.conflicts == {"update_missing": 1, "delete_missing": 2}


def test_of_equal_rows_one_is_changed(apply, target):
    """C16: found by the whole row, NULL-safe"""
    create(target, "CREATE TABLE t (a int, b text)", "INSERT INTO t VALUES (1, NULL), (1, NULL), (1, 'x')")
    whole = relation("public.t", {"a": "int4", "b": "text"}, identity="f")
    apply([whole], *transaction(200, m.Delete(16384, "O", values("1", None))))
    assert rows(target, "SELECT a, b FROM t ORDER BY b") == [(1, "x"), (1, None)]


@pytest.mark.parametrize("identity", ["d", "f"])
def test_letters_of_both_cases_find_their_own_row(apply, target, identity):
    """C8, C14: DuckDB's indexes take no notice of a column's collation, and its = does"""
    key = " PRIMARY KEY" if identity == "d" else ""
    create(target, f"CREATE TABLE t (a text COLLATE nocase{key}, b text COLLATE noaccent)")
    remote = relation("public.t", {"a": "text", "b": "text"}, ["a"], identity=identity)
    kind: Literal["K", "O"] = "K" if key else "O"
    old = values("A", None if key else "é")
    apply(
        [remote],
        *transaction(200, insert("a", "é"), insert("A", "e"), insert("A" if not key else "b", "é")),
        *transaction(300, m.Update(16384, kind, old, values("A", "x")), m.Delete(16384, kind, values("A", "x"))),
    )
    left = [("a", "é"), ("b", "é")] if key else [("a", "é"), ("A", "e")]
    assert sorted(rows(target, "SELECT a, b FROM t"), reverse=True) == sorted(left, reverse=True)


def test_a_collation_of_the_database_changes_no_row_but_the_one(tmp_path):
    """C14: the URL may set one for every text"""
    with open_target(f"duckdb:///{tmp_path / 'target.duckdb'}?default_collation=nocase") as target:
        create(target, "CREATE TABLE t (a text PRIMARY KEY)", "INSERT INTO t VALUES ('a'), ('A')")
        with target.begin() as connection:
            table = reflected(target, "t").clause()
            column = reflected(target, "t").columns[0]
            connection.execute(sa.delete(table).where(target.matching.finds(column, table.c.a, sa.literal("A"))))
        assert rows(target, "SELECT a FROM t") == [("a",)]


def test_any_name_is_only_a_name(apply, target):
    """names_are_data"""
    names = ["%s", ":p0", "$1", 'q"q', ") VALUES (", "p0", "rowid%", "select"]
    quoted = ", ".join('"' + name.replace('"', '""') + '" text' for name in names)
    create(target, 'CREATE SCHEMA "s.%(x)s"', f'CREATE TABLE "s.%(x)s"."t;--" (id int PRIMARY KEY, {quoted})')
    remote = relation("s.%(x)s.t;--", {"id": "int4", **dict.fromkeys(names, "text")}, ["id"])
    apply([remote], *transaction(200, insert("1", *names), m.Update(16384, None, None, values("1", *names))))
    assert rows(target, 'SELECT * FROM "s.%(x)s"."t;--"') == [(1, *names)]
    batch = pa.record_batch([pa.array([2], pa.int32()), *([name] for name in names)], names=["id", *names])
    loaded(target, reflected(target, "t;--", "s.%(x)s"), {"id": 23, **dict.fromkeys(names, 25)}, batch)
    assert rows(target, 'SELECT * FROM "s.%(x)s"."t;--" ORDER BY id')[1] == (2, *names)


@pytest.mark.parametrize(
    ("ddl", "sqlstate", "column"),
    [
        ("a int, b text PRIMARY KEY", "23505", None),
        ("a int, b text UNIQUE", "23505", None),
        ("a int NOT NULL, b text", "23502", "a"),
        ("a int CHECK (a > 5), b text", "23514", None),
        ("a int REFERENCES p (id), b text", "23503", None),
    ],
)
def test_a_constraint_has_its_sqlstate_and_no_values(apply, target, ddl, sqlstate, column):
    """C22, names_are_data"""
    create(target, "CREATE TABLE p (id int PRIMARY KEY)", f"CREATE TABLE t ({ddl})")
    changes = [insert(None if column else "1", SECRET), insert(None if column else "1", SECRET)]
    with pytest.raises(ConflictError) as raised:
        apply([T], *transaction(200, *changes))
    assert (raised.value.sqlstate, raised.value.column) == (sqlstate, column)
    assert SECRET not in "".join(traceback.format_exception(raised.value)) + raised.value.report()


def test_a_refused_statement_is_an_error_without_its_text(target):
    """names_are_data"""
    with pytest.raises(TargetError, match=r"ParserException") as raised, target.begin() as connection:
        connection.exec_driver_sql(f"SELEKT '{SECRET}'")
    assert SECRET not in "".join(traceback.format_exception(raised.value)) + raised.value.report()


# Loading ------------------------------------------------------------------------------------------


def test_names_that_differ_by_case_alone_are_said_to_be_taken(target):
    create(target, 'CREATE TABLE "T" (a int)')
    with pytest.raises(TargetError, match="already") as raised:
        create(target, 'CREATE TABLE "t" (a int)')
    assert raised.value.sqlstate == "42P07"
    assert 'Option "map"' in str(raised.value.hint)


def test_a_load_that_fails_leaves_nothing(target):
    """any_crash, D3: rows that were there before stay"""
    create(target, "CREATE TABLE t (a int PRIMARY KEY)", "INSERT INTO t VALUES (3)")
    table = reflected(target, "t")
    with pytest.raises(ConflictError) as raised:
        loaded(
            target, table, {"a": 23}, *(pa.record_batch([pa.array(a, pa.int32())], names=["a"]) for a in ([1, 2], [3]))
        )
    assert raised.value.sqlstate == "23505"
    assert rows(target, "SELECT a FROM t") == [(3,)]


def test_a_table_of_the_block_s_name_is_not_loaded_in_its_place(target):
    """What the block had would be lost without a word"""
    create(target, "CREATE TABLE t (a int)", "CREATE TABLE Subscriber_Block (c0 int)")
    batch = pa.record_batch([pa.array([1], pa.int32())], names=["a"])
    with pytest.raises(TargetRelationError, match='"subscriber_block" is already in use'):
        loaded(target, reflected(target, "t"), {"a": 23}, batch)


def test_columns_that_are_not_loaded_get_their_defaults(target):
    create(target, "CREATE TABLE t (own int DEFAULT 7, b text, a int)")
    table = reflected(target, "t")
    batch = pa.record_batch([pa.array([1], pa.int32()), pa.array(["x"])], names=["a", "b"])
    loaded(target, table, {"a": 23, "b": 25}, batch)
    assert rows(target, "SELECT own, b, a FROM t") == [(7, "x", 1)]


# TRUNCATE and sequences ---------------------------------------------------------------------------


def test_truncate_is_restricted(target):
    """C29, C30"""
    create(target, "CREATE TABLE p (a int PRIMARY KEY)", "CREATE TABLE c (a int REFERENCES p (a))")
    parent, child = reflected(target, "p"), reflected(target, "c")
    with pytest.raises(ConflictError, match="cannot truncate") as raised, target.begin() as connection:
        target.writing.truncate(connection, [parent], restart_identity=False)
    assert raised.value.detail == 'Table "c" references "p".'
    with target.begin() as connection:
        target.writing.truncate(connection, [parent, child], restart_identity=False)


def test_truncate_restarts_the_sequences_of_its_columns(target):
    """C29"""
    create(
        target,
        "CREATE SCHEMA s",
        "CREATE SEQUENCE s.q MINVALUE 5",
        "CREATE SEQUENCE other",
        "CREATE TABLE t (a int DEFAULT nextval('s.q'), b int DEFAULT nextval('other'), c int)",
        "CREATE TABLE o (b int DEFAULT nextval('other'))",
        "INSERT INTO t (c) VALUES (1), (2)",
    )
    with target.begin() as connection:
        target.writing.truncate(connection, [reflected(target, "t")], restart_identity=False)
        target.writing.truncate(connection, [reflected(target, "o")], restart_identity=True)
    create(target, "INSERT INTO t (c) VALUES (3)")
    assert rows(target, "SELECT * FROM t") == [(7, 1, 3)]
    with target.begin() as connection:
        target.writing.truncate(connection, [reflected(target, "t")], restart_identity=True)
    create(target, "INSERT INTO t (c) VALUES (4)")
    assert rows(target, "SELECT * FROM t") == [(5, 1, 4)]


@pytest.mark.parametrize(
    ("position", "following"),
    [
        (SequencePosition(last_value=41, is_called=True), 42),
        (SequencePosition(last_value=41, is_called=False), 41),
    ],
)
def test_a_sequence_goes_on_as_the_publishers(target, position, following):
    """D14"""
    create(target, 'CREATE SEQUENCE "q ""q"', """CREATE TABLE t (a int DEFAULT nextval('"q ""q"'), b int)""")
    table = reflected(target, "t")
    with target.begin() as connection:
        assert set_sequence(target, connection, table, "a", position)
        assert not set_sequence(target, connection, table, "b", position)
        assert not set_sequence(target, connection, table, "absent", position)
    create(target, "INSERT INTO t (b) VALUES (1)")
    assert rows(target, "SELECT a FROM t") == [(following,)]


def test_a_block_that_is_loaded_is_not_kept_until_the_commit(target):
    """bounded_memory: what is registered under a name, DuckDB keeps as long as the transaction
    lasts.
    """
    create(target, "CREATE TABLE t (a VARCHAR)")
    table = reflected(target, "t")
    block = write_block(pa.RecordBatch.from_pydict({"a": pa.array(["x" * 1000] * 1000)}))
    columns = [LoadColumn(table.columns[0], OIDS["text"])]
    with target.begin() as connection, target.loading.loader(connection, table, columns) as load:
        load(block)
        held = pa.total_allocated_bytes()
        for _ in range(20):
            load(block)
        assert pa.total_allocated_bytes() - held < 2 * 1000 * 1000
    assert rows(target, "SELECT count(*) FROM t") == [(21_000,)]
