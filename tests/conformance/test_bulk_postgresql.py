"""Bulk writes into a real PostgreSQL: what they store and find is what single statements do."""

from __future__ import annotations

from collections import Counter
from functools import partial

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.apply import reorder
from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import BulkApplier, ExactApplier
from subscriber.base.errors import ConflictError, SubscriberError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target, TargetTable, open_target
from subscriber.targets.base.loading import BulkColumn, LoadColumn
from subscriber.targets.postgresql.writing import PostgreSQLBulk
from tests.changes import T, delete, insert, update
from tests.conftest import fresh_database
from tests.failures import applied_before
from tests.frames import frame, transaction

TEXT, INTEGER = 25, 23


@pytest.fixture
def database(postgresql18):
    yield from fresh_database(postgresql18)


@pytest.fixture
def target(database):
    with open_target(database.url) as opened:
        yield opened


@pytest.fixture
def bulk(target) -> PostgreSQLBulk:
    found = target.bulk
    assert isinstance(found, PostgreSQLBulk)
    return found


@pytest.fixture
def used(monkeypatch) -> Counter[str]:
    """How many rows each method of the role has written."""
    counted: Counter[str] = Counter()
    for name in ("insert", "update", "delete"):
        method = getattr(PostgreSQLBulk, name)

        def call(*arguments, name=name, method=method):
            found = method(*arguments)
            counted[name] += found
            return found

        monkeypatch.setattr(PostgreSQLBulk, name, call)
    return counted


def reflected(target: Target, connection: sa.Connection, name: str = "t") -> TargetTable:
    table = target.shapes.reflect(connection, "public", name)
    assert table is not None
    return table


def texts(table: TargetTable, name: str, *values: str | None, type_oid: int = TEXT) -> BulkColumn:
    column = table.column(name)
    assert column is not None
    return BulkColumn(column, type_oid, pa.array(values, pa.string()))


STORED = {
    "varchar(3)": ["abc", "", " "],
    "varchar(3)[]": ["{abc,NULL}", "{}", '{"a,b"}'],
    "char(3)": ["ab", "abc"],
    "bit(3)": ["101"],
    "varbit(3)": ["1", ""],
    "numeric(5,2)": ["1.005", "-999.99", "NaN"],
    "numeric(5,2)[]": ["{1.005,NULL}"],
    "timestamp(0)": ["2026-11-21 01:02:03.6", "infinity"],
    "interval(0)": ["1 day 00:00:00.6"],
    "interval year to month": ["1 year 2 mons"],
    "box": ["(1,1),(0,0)"],
    "box[]": ["{(1,1),(0,0);(3,3),(2,2)}"],
    "point": ["(1,2)"],
    "int4range": ["[1,3)", "empty"],
    "int4multirange": ["{[1,3),[5,7)}"],
    '"char"': ["a", "\\351", ""],
    "name": ['q"\\'],
    "jsonb": ['{"a": "b,c\\n\\""}', "[]"],
    "tsvector": ["'a' 'b':2"],
    "short": ["abc"],
    "shorts": ["{abc,d}"],
    "mood": ["sad", "very glad, (really)"],
    "pair": ['(1,"a\\"b,c")', "(,)"],
    "pair[]": ['{"(1,\\"a,b\\")",NULL}'],
    "int4": ["-2147483648"],
}
_TYPES = (
    "CREATE DOMAIN short AS varchar(3) CHECK (VALUE <> 'no')",
    "CREATE DOMAIN shorts AS varchar(3)[]",
    "CREATE TYPE mood AS ENUM ('sad', 'very glad, (really)')",
    "CREATE TYPE pair AS (a int, b text)",
)


@pytest.mark.parametrize("declared", STORED)
def test_a_value_of_any_type_is_stored_as_a_single_statement_stores_it(database, target, bulk, declared):
    """C5"""
    values = [None, *STORED[declared]]
    others = values[1:] + values[:1]
    for statement in _TYPES:
        database.execute(statement)
    with psycopg.connect(database.conninfo) as own:
        for name in ("t", "u"):
            own.execute(f"CREATE TABLE {name} (gone int, k int PRIMARY KEY, v {declared}, w {declared})".encode())
            own.execute(f"ALTER TABLE {name} DROP COLUMN gone".encode())
        for number, (one, other) in enumerate(zip(values, others, strict=True)):
            own.execute("INSERT INTO t (k, v) VALUES (%s, %s)", (number, one))
            own.execute("UPDATE t SET w = %s WHERE k = %s", (other, number))
    with target.begin() as connection:
        table = reflected(target, connection, "u")
        key = texts(table, "k", *map(str, range(len(values))), type_oid=INTEGER)
        assert bulk.insert(connection, table, [key, texts(table, "v", *values)]) == len(values)
        assert bulk.update(connection, table, [key], [texts(table, "w", *others)]) == len(values)
    query = "SELECT k, v::text, w::text FROM {} ORDER BY k"
    assert database.execute(query.format("u")) == database.execute(query.format("t"))


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("varchar(3)", "secret"),
        ("varchar(3)[]", "{secret}"),
        ("char(3)", "secret"),
        ("bit(3)", "1010"),
        ("bit(3)", "10"),
        ("varbit(3)", "1010"),
        ("short", "secret"),
        ("short", "no"),
        ("shorts", "{secret}"),
        ("numeric(5,2)", "1000"),
        ("int4", "secret"),
    ],
)
def test_a_value_that_a_single_statement_refuses_is_refused(database, target, bulk, declared, value):
    """A cast would cut most of these values."""
    for statement in (*_TYPES, f"CREATE TABLE t (k int PRIMARY KEY, v {declared})", "INSERT INTO t VALUES (1)"):
        database.execute(statement)
    for write, number in ((bulk.insert, "2"), (bulk.update, "1")):
        with pytest.raises(SubscriberError) as raised, target.begin() as connection:
            table = reflected(target, connection)
            key, written = texts(table, "k", number, type_oid=INTEGER), texts(table, "v", value)
            if write == bulk.insert:
                bulk.insert(connection, table, [key, written])
            else:
                bulk.update(connection, table, [key], [written])
        assert (raised.value.sqlstate or "")[:2] in ("22", "23")
        assert "secret" not in raised.value.report()
    assert database.execute("SELECT * FROM t") == [(1, None)]


@settings(max_examples=25)
@given(st.data())
def test_any_text_reaches_the_server_as_it_is(anything, data):
    texts_of = st.lists(
        st.none() | st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=8, max_size=8
    )
    special = st.lists(st.text('\\",(){}N\t\n\r x'), min_size=8, max_size=8)
    target, key = anything
    first, then = data.draw(texts_of | special), data.draw(texts_of | special)
    with target.begin() as connection:
        table = reflected(target, connection)
        keys = texts(table, "k", *key, type_oid=INTEGER)
        target.bulk.delete(connection, table, [keys])
        target.bulk.insert(connection, table, [keys, texts(table, "v", *first)])
        target.bulk.update(connection, table, [keys], [texts(table, "w", *then)])
        found = connection.exec_driver_sql("SELECT v, w FROM public.t ORDER BY k").all()
    assert [tuple(row) for row in found] == list(zip(first, then, strict=True))


@pytest.fixture(scope="module")
def anything(postgresql18):
    """A target with a table, and the keys of its rows."""
    for database in fresh_database(postgresql18):
        database.execute("CREATE TABLE t (k int PRIMARY KEY, v text, w text)")
        with open_target(database.url) as opened:
            yield opened, list("12345678")


def least_rows(target: Target, bulk: PostgreSQLBulk) -> tuple[bool, bool]:
    """Whether many rows may be inserted, and whether many may be found by the key."""
    with target.begin() as connection:
        table = reflected(target, connection)
        key = [LoadColumn(table.columns[0], INTEGER)]
        return (
            bulk.least_rows(connection, table, ()) is not None,
            bulk.least_rows(connection, table, key) is not None,
        )


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["CREATE TABLE t (a int PRIMARY KEY, b text)"], (True, True)),
        (["CREATE TABLE t (a int PRIMARY KEY) PARTITION BY RANGE (a)"], (True, True)),
        (
            [
                "CREATE TABLE t (a int, b int) PARTITION BY RANGE (b)",
                "CREATE TABLE p PARTITION OF t (PRIMARY KEY (a)) DEFAULT",
            ],
            (True, False),
        ),
        (["CREATE TABLE t (a bigint PRIMARY KEY)"], (True, False)),
        (["CREATE DOMAIN d AS int NOT NULL", "CREATE TABLE t (a int PRIMARY KEY, b d)"], (True, False)),
        (["CREATE DOMAIN c AS int NOT NULL", "CREATE DOMAIN d AS c", "CREATE TABLE t (a int, b d)"], (True, False)),
        (["CREATE TABLE t (a int PRIMARY KEY)", "CREATE TRIGGER g AFTER INSERT ON t EXECUTE FUNCTION f()"], (True, True)),
        (
            [
                "CREATE TABLE t (a int PRIMARY KEY)",
                "CREATE TRIGGER g AFTER INSERT ON t EXECUTE FUNCTION f()",
                "ALTER TABLE t ENABLE ALWAYS TRIGGER g",
            ],
            (False, False),
        ),
        (
            [
                "CREATE TABLE t (a int PRIMARY KEY) PARTITION BY RANGE (a)",
                "CREATE TABLE p PARTITION OF t DEFAULT",
                "CREATE TRIGGER g AFTER INSERT ON p FOR EACH ROW EXECUTE FUNCTION f()",
                "ALTER TABLE p ENABLE REPLICA TRIGGER g",
            ],
            (False, False),
        ),
    ],
    ids=["plain", "partitions", "keys of partitions", "another type", "domain", "domain of a domain", "silent trigger", "trigger", "trigger of a partition"],
)  # fmt: skip
def test_only_tables_where_it_makes_no_difference_are_written_in_bulk(database, target, bulk, statements, expected):
    database.execute("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    for statement in statements:
        database.execute(statement)
    assert least_rows(target, bulk) == expected


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([], False),
        (["ALTER TABLE t ADD UNIQUE (a, b)"], True),
        (["CREATE UNIQUE INDEX ON p (b)"], True),
        (["ALTER TABLE p ADD EXCLUDE USING btree (b WITH =)"], True),
        (
            [
                "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
                "CREATE TRIGGER g AFTER INSERT ON p EXECUTE FUNCTION f()",
                "ALTER TABLE p ENABLE REPLICA TRIGGER g",
            ],
            True,
        ),
        (["ALTER TABLE t DROP CONSTRAINT t_pkey"], False),
        (["ALTER TABLE t DROP CONSTRAINT t_pkey", "ALTER TABLE p ADD PRIMARY KEY (a)"], True),
    ],
    ids=["key", "second key", "key of a partition", "exclusion", "trigger", "no key", "only partitions have keys"],
)
def test_the_order_of_rows_of_partitions_matters_where_something_connects_them(database, target, statements, expected):
    for statement in (
        "CREATE TABLE t (a int PRIMARY KEY, b int) PARTITION BY RANGE (a)",
        "CREATE TABLE p PARTITION OF t DEFAULT",
        *statements,
    ):
        database.execute(statement)
    with target.begin() as connection:
        assert target.shapes.order_matters(connection, reflected(target, connection)) is expected


def test_rows_are_copied_into_partitions_and_identity_columns(database, target, bulk):
    for statement in (
        "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY, b int, g int GENERATED ALWAYS AS (b * 2) STORED) PARTITION BY RANGE (b)",
        "CREATE TABLE p PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE q PARTITION OF t DEFAULT",
    ):
        database.execute(statement)
    with target.begin() as connection:
        table = reflected(target, connection)
        written = [texts(table, "a", "7", "8", type_oid=INTEGER), texts(table, "b", "5", "50", type_oid=INTEGER)]
        assert bulk.insert(connection, table, written) == 2
    assert database.execute("SELECT * FROM p") == [(7, 5, 10)]
    assert database.execute("SELECT * FROM q") == [(8, 50, 100)]


def test_rows_of_tables_that_inherit_are_not_touched(database, target, bulk):
    for statement in (
        "CREATE TABLE t (a int PRIMARY KEY, b int)",
        "CREATE TABLE child () INHERITS (t)",
        "INSERT INTO child VALUES (1, 1)",
        "INSERT INTO t VALUES (2, 2)",
    ):
        database.execute(statement)
    with target.begin() as connection:
        table = reflected(target, connection)
        key = texts(table, "a", "1", "2", type_oid=INTEGER)
        assert bulk.update(connection, table, [key], [texts(table, "b", "7", "7", type_oid=INTEGER)]) == 1
        assert bulk.delete(connection, table, [key]) == 1
    assert database.execute("SELECT * FROM t") == [(1, 1)]


def test_a_transaction_with_bulk_writes_can_be_prepared(database, target, bulk):
    """C50: a temporary table would prevent that"""
    database.execute("CREATE TABLE t (a int PRIMARY KEY)")
    with target.engine.connect() as connection:
        table = reflected(target, connection)
        key = texts(table, "a", "1", "2", "3", type_oid=INTEGER)
        bulk.insert(connection, table, [key])
        assert bulk.update(connection, table, [key], []) == 3
        assert bulk.delete(connection, table, [texts(table, "a", "1", type_oid=INTEGER)]) == 1
        connection.exec_driver_sql("PREPARE TRANSACTION 'bulk'")
    database.execute("COMMIT PREPARED 'bulk'")
    assert database.execute("SELECT a FROM t ORDER BY a") == [(2,), (3,)]


def test_long_values_are_sent_in_parts(database, target, bulk, used):
    """bounded_memory"""
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    long = ["x" * 3_000_000 + str(number) for number in range(5)]
    with target.begin() as connection:
        table = reflected(target, connection)
        key, written = texts(table, "a", *"01234", type_oid=INTEGER), texts(table, "b", *long)
        assert bulk.insert(connection, table, [key, written]) == 5
        assert bulk.update(connection, table, [key], [texts(table, "b", *reversed(long))]) == 5
    assert database.execute("SELECT a, length(b), right(b, 1) FROM t ORDER BY a") == [
        (number, 3_000_001, str(4 - number)) for number in range(5)
    ]


# Through apply ------------------------------------------------------------------------------------


@pytest.fixture
def applied(database, target):
    """The table of T, and the catalog that apply needs."""
    database.execute("CREATE TABLE t (a int PRIMARY KEY, c text, b text)")
    with target.begin() as connection:
        CATALOG.create_all(connection)
        OriginProgress(1).create(connection, LSN(100))
    return database


@pytest.fixture
def partitioned(applied, monkeypatch):
    """The same table with partitions; its shape and two of its rows are known."""
    monkeypatch.setattr(reorder, "_LEAST_RUNS", 0)
    for statement in (
        "DROP TABLE t",
        "CREATE TABLE t (a int PRIMARY KEY, c text, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE p PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE q PARTITION OF t FOR VALUES FROM (10) TO (1000)",
    ):
        applied.execute(statement)
    return applied


def small(*changes: m.Message) -> list[m.Message]:
    """Transactions of one change each."""
    return [one for at, change in enumerate(changes) for one in transaction(300 + 10 * at, change, xid=at)]


def test_rows_of_partitions_are_written_together(partitioned, target, used):
    applier = BulkApplier(target, subscription="sub", subid=1)
    first = transaction(200, *(insert(str(key), "x", "x") for key in range(20)))
    apply_batch(applier, partial(iter, [frame([T], first)]), LSN(100), LSN(200))
    used.clear()
    changes: list[m.Message] = [update((str(key), "y", m.UNCHANGED)) for key in range(20)]
    changes += [
        change for key in range(20, 30) for change in (insert(str(key), "z", "z"), delete(str(key - 12), None, None))
    ]
    apply_batch(applier, partial(iter, [frame([T], small(*changes))]), LSN(200), LSN(9000))
    assert used == {"update": 20, "insert": 10, "delete": 10}
    rows = [(key, "y", "x") for key in range(8)] + [(key, "y", "x") for key in range(18, 20)]
    assert partitioned.execute("SELECT a, b, c FROM t ORDER BY a") == rows + [(key, "z", "z") for key in range(20, 30)]


def test_a_value_that_a_partition_refuses_stops_the_transaction_although_it_is_overwritten(partitioned, target):
    """fast_equals_exact: whether changes of a row are coalesced or not"""
    partitioned.execute("ALTER TABLE p ADD CHECK (b <> 'no')")
    applier = BulkApplier(target, subscription="sub", subid=1)
    first = transaction(200, *(insert(str(key), "x", "x") for key in range(8)))
    apply_batch(applier, partial(iter, [frame([T], first)]), LSN(100), LSN(200))
    changes = [update((str(key), text, "x")) for text in ("no", "yes") for key in range(8)]
    with pytest.raises(ConflictError) as raised:
        apply_batch(applier, partial(iter, [frame([T], small(*changes))]), LSN(200), LSN(9000))
    assert raised.value.sqlstate == "23514"
    assert partitioned.execute("SELECT DISTINCT b FROM t") == [("x",)]


def test_a_long_run_of_inserts_is_copied_in_the_exact_path(applied, target, used):
    messages = transaction(200, *(insert(str(key), None, "\\N") for key in range(100)))
    ExactApplier(target, subscription="sub", subid=1).apply([frame([T], messages)], start=LSN(100), end=LSN(300))
    assert used == {"insert": 100}
    assert applied.execute("SELECT count(*), min(c), count(b) FROM t") == [(100, "\\N", 0)]


def test_a_run_that_cannot_be_copied_fails_as_single_statements_do(applied, target, monkeypatch):
    """C35, C37: the rows before it stay out, the transactions before it are committed"""
    applied.execute("INSERT INTO t VALUES (150, 'own', 'own')")
    first = transaction(200, *(insert(str(key), "x", "x") for key in range(100)), xid=7)
    second = transaction(400, *(insert(str(key), "x", "x") for key in range(100, 200)), xid=8)
    reports = []
    for name, lowest in (("single", 1_000_000), ("copied", 8)):
        monkeypatch.setattr("subscriber.apply.writing.bulk_writer.LEAST_IN_BULK", lowest)
        applied.execute("DELETE FROM t WHERE a <> 150")
        applied.execute("UPDATE subscriber_replication_origin_status SET remote_lsn = '0/64'")
        applier = ExactApplier(target, subscription="sub", subid=1)
        with pytest.raises(ConflictError) as raised:
            apply_batch(applier, partial(iter, [frame([T], [*first, *second])]), LSN(100), LSN(500))
        assert applied_before(raised.value) == LSN(200), name
        assert applied.execute("SELECT count(*), max(a) FROM t") == [(101, 150)]
        reports.append(raised.value.report())
    assert reports[0] == reports[1]


def test_rows_of_another_origin_are_changed_and_recorded_by_the_exact_path(applied, target, used, monkeypatch):
    """C19, fast_equals_exact: the server tracks commit timestamps"""
    monkeypatch.setattr(reorder, "_LEAST_RUNS", 0)
    monkeypatch.setattr(reorder, "_LEAST_SAVED", 0)
    applier = BulkApplier(target, subscription="sub", subid=1)
    for end, others in ((1000, 0), (2000, 0), (3000, 2)):
        if others:
            applied.execute(f"UPDATE t SET c = 'own' WHERE a < {others}")
        inserts = [insert(str(key), "x", "x") for key in range(20)] if end == 1000 else []
        changes = [update((str(key), str(end), m.UNCHANGED)) for key in range(20)] if end > 1000 else []
        removed = [delete(str(key), None, None) for key in range(0, 20, 2)] if end == 3000 else []
        messages = transaction(end, *inserts, *changes, *removed)
        used.clear()
        result = apply_batch(applier, partial(iter, [frame([T], messages)]), LSN(end - 1000 or 100), LSN(end))
        if end == 2000:
            assert used == {"update": 20}, "rows of this origin are updated at once"
        assert result.conflicts == ({"update_origin_differs": others} if others else {})
    assert applied.execute("SELECT count(*), min(b) FROM t") == [(10, "3000")]
