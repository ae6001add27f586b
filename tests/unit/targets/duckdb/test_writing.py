"""TRUNCATE in DuckDB."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.base.errors import ConflictError, TargetRelationError, UnsupportedValue
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.types.oids import type_name
from subscriber.postgres.types.registry import family_of
from subscriber.targets import Target, TargetColumn, TargetTable, open_target
from subscriber.targets.base.loading import BulkColumn, LoadColumn, write_block
from subscriber.targets.duckdb import writing as duckdb_bulk
from subscriber.targets.duckdb.values import declaration, storage
from tests.frames import OIDS, relation, transaction, values
from tests.unit.targets.duckdb.test_values import VALUES
from tests.unit.targets.tables import execute, load, reflected, rows


def test_truncate_is_restricted(target):
    """C29, C30"""
    execute(target, "CREATE TABLE p (a int PRIMARY KEY)", "CREATE TABLE c (a int REFERENCES p (a))")
    parent, child = reflected(target, "p"), reflected(target, "c")
    with pytest.raises(ConflictError, match="cannot truncate") as raised, target.begin() as connection:
        target.writing.truncate(connection, [parent], restart_identity=False)
    assert raised.value.detail == 'Table "c" references "p".'
    with target.begin() as connection:
        target.writing.truncate(connection, [parent, child], restart_identity=False)


def test_truncate_restarts_the_sequences_of_its_columns(target):
    """C29"""
    execute(
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
    execute(target, "INSERT INTO t (c) VALUES (3)")
    assert rows(target, "SELECT * FROM t") == [{"a": 7, "b": 1, "c": 3}]
    with target.begin() as connection:
        target.writing.truncate(connection, [reflected(target, "t")], restart_identity=True)
    execute(target, "INSERT INTO t (c) VALUES (4)")
    assert rows(target, "SELECT * FROM t") == [{"a": 5, "b": 1, "c": 4}]


@pytest.mark.parametrize(
    ("options", "first"),
    [("START 7 MINVALUE 5", 5), ("INCREMENT -2 MINVALUE -9 MAXVALUE -3 START -5", -3)],
    ids=["up", "down"],
)
def test_a_sequence_restarts_from_the_end_at_which_it_begins(target, options, first):
    """C29: DuckDB loses START when it opens the file again."""
    execute(target, f"CREATE SEQUENCE q {options}", "CREATE TABLE t (a int DEFAULT nextval('q'), b int)")
    execute(target, "INSERT INTO t (b) VALUES (1), (2)")
    with target.begin() as connection:
        target.writing.truncate(connection, [reflected(target, "t")], restart_identity=True)
    execute(target, "INSERT INTO t (b) VALUES (3)")
    assert rows(target, "SELECT * FROM t") == [{"a": first, "b": 3}]


def test_a_table_is_truncated_if_it_references_itself(target):
    """C30"""
    execute(target, "CREATE TABLE t (a int PRIMARY KEY, b int REFERENCES t (a))", "INSERT INTO t VALUES (1, NULL)")
    with target.begin() as connection:
        target.writing.truncate(connection, [reflected(target, "t")], restart_identity=False)
    assert rows(target, "SELECT * FROM t") == []


# Bulk writes to DuckDB: they store and find what the statements for one row store and find.


STORABLE = VALUES | {
    "numeric": ["1.50", "-0.01"],
    "varchar": ["x", "x "],
    "int4": ["-2147483648", "7"],
}
KEYS = ("bool", "bytea", "date", "int2", "int4", "int8", "numeric", "text", "time", "timestamp", "timestamptz", "uuid", "varchar")  # fmt: skip


def sent(table: TargetTable, name: str, type_name: str, *texts: str | None) -> BulkColumn:
    """A column of changes, decoded from PostgreSQL's texts."""
    column = table.column(name)
    assert column is not None
    raw = pa.array([None if text is None else text.encode() for text in texts], pa.binary())
    return BulkColumn(column, OIDS[type_name], family_of(OIDS[type_name]).decode_text(raw))


def declared(name: str) -> str:
    return declaration(OIDS[name], "numeric(10,2)" if name == "numeric" else type_name(OIDS[name]))


@pytest.mark.parametrize("name", sorted(STORABLE))
def test_inserts_and_updates_store_what_single_statements_store(apply, target, name):
    """C5, absence_is_typed"""
    texts = [None, *STORABLE[name]]
    others = texts[1:] + texts[:1]
    keys, more = ([str(first + number) for number in range(len(texts))] for first in (0, 100))
    for made in ("v", "w"):
        execute(target, f"CREATE TABLE {made} (k INTEGER PRIMARY KEY, v {declared(name)})")
    apply(
        [relation("public.v", {"k": "int4", "v": name}, ["k"])],
        *transaction(
            200,
            *(m.Insert(16384, values(*one)) for one in zip(keys + more, texts * 2, strict=True)),
            *(m.Update(16384, None, None, values(*one)) for one in zip(keys, others, strict=True)),
        ),
    )
    table = reflected(target, "w")
    written = [sent(table, "k", "int4", *keys, *more), sent(table, "v", name, *texts * 2)]
    changed = sent(table, "k", "int4", *keys), sent(table, "v", name, *others)
    with target.begin() as connection:
        assert target.bulk.insert(connection, table, written) == 2 * len(keys)
        assert target.bulk.update(connection, table, [changed[0]], [changed[1]]) == len(keys)
    stored = [rows(target, f"SELECT k, v::TEXT AS v FROM {made} ORDER BY k") for made in ("v", "w")]
    assert stored[0] == stored[1]
    assert [row["v"] is None for row in stored[1]] == [text is None for text in others + texts]


@pytest.mark.parametrize("name", KEYS)
def test_rows_are_found_by_keys_of_each_type(target, name):
    texts = STORABLE[name]
    execute(target, f"CREATE TABLE v (k {declared(name)} PRIMARY KEY, n INTEGER)")
    table = reflected(target, "v")
    key, numbers = sent(table, "k", name, *texts), [str(number) for number in range(len(texts))]
    with target.begin() as connection:
        target.bulk.insert(connection, table, [key])
        assert target.bulk.update(connection, table, [key], [sent(table, "n", "int4", *numbers)]) == len(texts)
        first = sent(table, "k", name, texts[0])
        assert target.bulk.delete(connection, table, [first]) == 1
    assert {row["n"] for row in rows(target, "SELECT n FROM v")} == set(range(1, len(texts)))


def test_columns_that_are_not_inserted_get_their_defaults(target):
    """C7"""
    execute(target, "CREATE TABLE t (b text, a int PRIMARY KEY, own int DEFAULT 7)")
    table = reflected(target, "t")
    with target.begin() as connection:
        written = [sent(table, "a", "int4", "1", "2"), sent(table, "b", "text", "x", None)]
        assert target.bulk.insert(connection, table, written) == 2
    assert rows(target, "SELECT a, b, own FROM t ORDER BY a") == [
        {"a": 1, "b": "x", "own": 7},
        {"a": 2, "b": None, "own": 7},
    ]


def test_an_update_leaves_other_columns_alone_and_does_not_count_missing_rows(target):
    """C9, C18"""
    execute(target, "CREATE TABLE t (a int PRIMARY KEY, b text, c text)", "INSERT INTO t VALUES (1, 'b', 'c')")
    table = reflected(target, "t")
    with target.begin() as connection:
        key = sent(table, "a", "int4", "1", "2", None)
        assert target.bulk.update(connection, table, [key], [sent(table, "b", "text", None, "x", "y")]) == 1
    assert rows(target, "FROM t") == [{"a": 1, "b": None, "c": "c"}]


def test_an_update_that_sets_nothing_counts_the_rows_that_exist(target):
    """C18: every column is unchanged"""
    execute(target, "CREATE TABLE t (a int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    table = reflected(target, "t")
    with target.begin() as connection:
        assert target.bulk.update(connection, table, [sent(table, "a", "int4", "1", "2", "3")], []) == 2
    assert rows(target, "FROM t") == [{"a": 1}, {"a": 2}]


def test_a_composite_key_finds_a_row_by_all_its_columns(target):
    execute(
        target,
        "CREATE TABLE t (a int, v text, b text, PRIMARY KEY (b, a))",
        "INSERT INTO t VALUES (1, '', 'x'), (1, '', 'y'), (2, '', 'x'), (2, '', 'y')",
    )
    table = reflected(target, "t")
    key = [sent(table, "b", "text", "x", "y", "z"), sent(table, "a", "int4", "1", "2", "1")]
    with target.begin() as connection:
        assert target.bulk.update(connection, table, key, [sent(table, "v", "text", "p", "q", "r")]) == 2
        assert (
            target.bulk.delete(connection, table, [sent(table, "b", "text", "y"), sent(table, "a", "int4", "1")]) == 1
        )
    assert rows(target, "SELECT a, b, v FROM t ORDER BY a, b") == [
        {"a": 1, "b": "x", "v": "p"},
        {"a": 2, "b": "x", "v": ""},
        {"a": 2, "b": "y", "v": "q"},
    ]


def test_texts_are_compared_by_their_bytes(tmp_path):
    """C8, C14: whatever the collation of the column or the database is"""
    with open_target(f"duckdb:///{tmp_path / 'target.duckdb'}?default_collation=nocase") as target:
        execute(target, "CREATE TABLE t (a text PRIMARY KEY)", "INSERT INTO t VALUES ('a'), ('A'), ('é')")
        bulk, table = target.bulk, reflected(target, "t")
        with target.begin() as connection:
            assert bulk is not None
            assert bulk.delete(connection, table, [sent(table, "a", "text", "A", "e")]) == 1
        assert {row["a"] for row in rows(target, "FROM t")} == {"a", "é"}


def test_any_name_is_only_a_name(target):
    """names_are_data; the names of the block's columns are free, too"""
    names = ["%s", ":p0", "$1", 'q"q', "c0", "c1", "rowid%", "select"]
    quoted = ", ".join('"' + name.replace('"', '""') + '" text' for name in names)
    execute(target, 'CREATE SCHEMA "s.%(x)s"', f'CREATE TABLE "s.%(x)s"."t;--" ("c 0" int PRIMARY KEY, {quoted})')
    table = reflected(target, "t;--", "s.%(x)s")
    key, written = sent(table, "c 0", "int4", "1"), [sent(table, name, "text", name) for name in names]
    with target.begin() as connection:
        assert target.bulk.insert(connection, table, [key]) == 1
        assert target.bulk.update(connection, table, [key], written) == 1
    assert rows(target, 'SELECT * FROM "s.%(x)s"."t;--"') == [{"c 0": 1} | {name: name for name in names}]
    with target.begin() as connection:
        assert target.bulk.delete(connection, table, [key]) == 1


@pytest.mark.parametrize(
    ("action", "columns", "sqlstate"),
    [
        ("insert", {"a": "5", "b": "secret"}, "23505"),
        ("insert", {"a": "6", "b": None}, "23502"),
        ("insert", {"a": "6", "b": "never"}, "23514"),
        ("update", {"a": "5", "b": None}, "23502"),
        ("update", {"a": "5", "b": "never"}, "23514"),
        ("delete", {"a": "5"}, "23503"),
    ],
)
def test_an_error_has_its_sqlstate_and_no_values(target, action, columns, sqlstate):
    """names_are_data"""
    execute(
        target,
        "CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL CHECK (b <> 'never'))",
        "CREATE TABLE u (a int REFERENCES t)",
        "INSERT INTO t VALUES (5, 'secret')",
        "INSERT INTO u VALUES (5)",
    )
    table = reflected(target, "t")
    key, *written = (sent(table, name, "int4" if name == "a" else "text", text) for name, text in columns.items())
    with pytest.raises(ConflictError) as raised, target.begin() as connection:
        if action == "insert":
            target.bulk.insert(connection, table, [key, *written])
        elif action == "update":
            target.bulk.update(connection, table, [key], written)
        else:
            target.bulk.delete(connection, table, [key])
    assert raised.value.sqlstate == sqlstate
    assert "secret" not in raised.value.report()
    assert "never" not in raised.value.report()
    assert raised.value.__cause__ is None
    assert rows(target, "FROM t") == [{"a": 5, "b": "secret"}]


def test_a_value_that_the_column_cannot_store_is_refused(target):
    execute(target, "CREATE TABLE t (a int PRIMARY KEY, b DECIMAL(4,1))", "INSERT INTO t VALUES (1, 1)")
    table = reflected(target, "t")
    with pytest.raises(UnsupportedValue, match='"b"'), target.begin() as connection:
        written = [sent(table, "b", "numeric", "1.25")]
        target.bulk.update(connection, table, [sent(table, "a", "int4", "1")], written)


# From how many rows on ----------------------------------------------------------------------------


def least_rows(target: Target, *key: LoadColumn) -> int | None:
    with target.begin() as connection:
        assert target.bulk is not None
        return target.bulk.least_rows(connection, reflected(target, "t"), key)


@pytest.mark.parametrize(
    ("name", "stored", "found"),
    [
        ("int4", "BIGINT", True),
        ("text", "VARCHAR", True),
        ("float8", "DOUBLE", False),  # 0 finds -0
        ("int4", "VARCHAR", False),  # 1 finds 01
        ("text", "INTEGER", False),  # 1 and 01 are one row
        ("jsonb", "JSON", False),
    ],
)
def test_rows_are_found_only_by_a_key_of_the_columns_own_type(target, name, stored, found):
    execute(target, f"CREATE TABLE t (k {stored}, n int)")
    key = LoadColumn(TargetColumn("k", stored, storage(stored)), OIDS[name])
    assert (least_rows(target, key) is not None) is found


def test_the_larger_a_table_the_more_of_its_rows_must_change(target, monkeypatch):
    """An INSERT does not read the table."""
    monkeypatch.setattr(duckdb_bulk, "_ROWS_READ", 2)
    execute(target, "CREATE TABLE t (a int)")
    key = LoadColumn(reflected(target, "t").columns[0], OIDS["int4"])
    assert least_rows(target, key) == duckdb_bulk._LEAST_ROWS
    execute(target, "INSERT INTO t SELECT * FROM range(200)")
    assert (least_rows(target, key), least_rows(target)) == (100, duckdb_bulk._LEAST_ROWS)


@pytest.mark.parametrize("made", ["TABLE main.Subscriber_Block (c0 int)", "VIEW s.subscriber_block AS SELECT 1 AS c0"])
def test_nothing_is_written_if_the_name_of_the_block_is_in_use(target, made):
    """What the block had would be lost without a word"""
    execute(target, "CREATE TABLE t (a int)", "CREATE SCHEMA s", f"CREATE {made}")
    assert least_rows(target) is None


# Loading into DuckDB from Arrow's memory.


def test_a_load_that_fails_leaves_nothing(target):
    """any_crash, D3: rows that were there before stay"""
    execute(target, "CREATE TABLE t (a int PRIMARY KEY)", "INSERT INTO t VALUES (3)")
    table = reflected(target, "t")
    with pytest.raises(ConflictError) as raised:
        load(
            target,
            table,
            {"a": 23},
            *(pa.record_batch([pa.array(a, pa.int32())], names=["a"]) for a in ([1, 2], [3])),
        )
    assert raised.value.sqlstate == "23505"
    assert rows(target, "SELECT a FROM t") == [{"a": 3}]


def test_a_table_of_the_block_s_name_is_not_loaded_in_its_place(target):
    """What the block had would be lost without a word"""
    execute(target, "CREATE TABLE t (a int)", "CREATE TABLE Subscriber_Block (c0 int)")
    batch = pa.record_batch([pa.array([1], pa.int32())], names=["a"])
    with pytest.raises(TargetRelationError, match='"subscriber_block" is already in use'):
        load(target, reflected(target, "t"), {"a": 23}, batch)


def test_columns_that_are_not_loaded_get_their_defaults(target):
    execute(target, "CREATE TABLE t (own int DEFAULT 7, b text, a int)")
    table = reflected(target, "t")
    batch = pa.record_batch([pa.array([1], pa.int32()), pa.array(["x"])], names=["a", "b"])
    load(target, table, {"a": 23, "b": 25}, batch)
    assert rows(target, "SELECT own, b, a FROM t") == [{"own": 7, "b": "x", "a": 1}]


def test_a_block_that_is_loaded_is_not_kept_until_the_commit(target):
    """bounded_memory: what is registered under a name, DuckDB keeps as long as the transaction
    lasts.
    """
    execute(target, "CREATE TABLE t (a VARCHAR)")
    table = reflected(target, "t")
    block = write_block(pa.RecordBatch.from_pydict({"a": pa.array(["x" * 1000] * 1000)}))
    columns = [LoadColumn(table.columns[0], OIDS["text"])]
    with target.begin() as connection, target.loading.loader(connection, table, columns) as load:
        load(block)
        held = pa.total_allocated_bytes()
        for _ in range(20):
            load(block)
        assert pa.total_allocated_bytes() - held < 2 * 1000 * 1000
    assert rows(target, "SELECT count(*) AS loaded FROM t") == [{"loaded": 21_000}]
