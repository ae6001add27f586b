"""The exact path and the loader into a real MariaDB."""

from __future__ import annotations

import os
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
import sqlalchemy as sa

from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import (
    ConflictError,
    TargetError,
    TargetRelationError,
    TargetUnavailable,
    UnsupportedValue,
)
from subscriber.base.lsn import LSN
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.own_tables import CATALOG, SUBSCRIPTION_STATS
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.postgres.types.oids import type_name
from subscriber.targets import TargetTable, open_target
from subscriber.targets.base.loading import LoadColumn
from subscriber.targets.mariadb.values import INEXACT_KEY
from subscriber.verify.table_sides import target_texts
from tests.crash.harness import wait_until
from tests.frames import OIDS, frame, relation, transaction, values
from tests.target_databases import set_sequence

SECRET = "sec" + "ret"  # tracebacks quote source lines
T = relation("public.t", {"a": "int4", "b": "text"}, ["a"])
_numbers = count(1)


@pytest.fixture
def target(mariadb):
    name = f"test_{os.getpid()}_{next(_numbers)}"
    mariadb.create_database(name)
    try:
        with open_target(mariadb.url(name)) as opened:
            yield opened
    finally:
        mariadb.drop_database(name)


@pytest.fixture
def apply(target):
    with target.begin() as connection:
        CATALOG.create_all(connection)
        OriginProgress(1).create(connection, LSN(100))
    applier = ExactApplier(target, subscription="sub", subid=1)

    def call(relations, *messages, start=100):
        return applier.apply([frame(relations, messages)], start=LSN(start), end=LSN(1000))

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


def insert(*texts: str | m.Absence | None) -> m.Insert:
    return m.Insert(16384, values(*texts))


def load(target, table: TargetTable, types: dict[str, int], *blocks: bytes) -> None:
    columns = [LoadColumn(next(one for one in table.columns if one.name == name), oid) for name, oid in types.items()]
    with target.begin() as connection, target.loading.loader(connection, table, columns) as load_block:
        for block in blocks:
            load_block(block)


@pytest.fixture(params=["local data", "no local data"])
def local_infile(mariadb, request):
    """Both ways to load; the second is for servers that forbid the first."""
    if request.param == "no local data":
        mariadb.execute("SET GLOBAL local_infile = 0")
    yield
    mariadb.execute("SET GLOBAL local_infile = 1")


# Sessions -----------------------------------------------------------------------------------------


def test_a_row_that_stays_locked_is_said_to_be_so(target):
    """C49: a prepared transaction keeps its locks, and the search for a row without a key waits for
    all of them.
    """
    create(target, "CREATE TABLE bag (a int)", "INSERT INTO bag VALUES (1), (2)")
    with target.begin() as holder:
        holder.exec_driver_sql("DELETE FROM bag WHERE a = 1")
        with pytest.raises(TargetUnavailable) as raised, target.begin() as connection:
            connection.exec_driver_sql("SET innodb_lock_wait_timeout = 1")
            connection.exec_driver_sql("DELETE FROM bag WHERE a = 2")
    assert "COMMIT PREPARED" in str(raised.value.hint)


def test_a_unique_value_that_is_given_back_waits_for_a_neighbour_that_is_prepared(target):
    """C49: InnoDB also locks the next value, and PostgreSQL does not
    (docs/prepared-transactions.md).
    """
    create(target, "CREATE TABLE t (a int PRIMARY KEY, b varchar(9) UNIQUE)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    with target.prepared.begin("pg_gid_1_1") as connection:
        connection.exec_driver_sql("UPDATE t SET b = 'z' WHERE a = 2")
    with pytest.raises(TargetUnavailable) as raised, target.begin() as connection:
        connection.exec_driver_sql("SET innodb_lock_wait_timeout = 1")
        connection.exec_driver_sql("UPDATE t SET b = 'y' WHERE a = 1")
        connection.exec_driver_sql("UPDATE t SET b = 'a' WHERE a = 1")
    assert "run XA COMMIT or XA ROLLBACK in the target" in str(raised.value.hint)
    target.prepared.finish("pg_gid_1_1", commit=False)


def test_a_table_that_somebody_alters_is_neither_missing_nor_without_columns(target):
    """C3: information_schema omits the table if it is queried in a transaction during ALTER TABLE,
    which must neither stop nor disable the subscription
    """
    create(
        target,
        "CREATE TABLE t (a int AUTO_INCREMENT PRIMARY KEY, b int)",
        "INSERT INTO t VALUES (1, 1)",
        "CREATE TABLE o (a int)",
    )
    with target.prepared.begin("pg_gid_1_1") as connection:
        connection.exec_driver_sql("UPDATE t SET b = 2")
    with ThreadPoolExecutor() as pool, target.begin() as connection:
        # The ALTER TABLE holds the table's lock, and waits for the lock of the row.
        altering = pool.submit(create, target, "ALTER TABLE t AUTO_INCREMENT = 50")
        altered = "SELECT 1 FROM information_schema.processlist WHERE state LIKE 'Committing alter%%'"
        wait_until(lambda: rows(target, altered), "ALTER TABLE to wait")
        connection.exec_driver_sql("INSERT INTO o VALUES (1)")
        with pytest.raises(TargetUnavailable, match="is being altered"):
            target.shapes.reflect(connection, "public", "t")
        target.prepared.finish("pg_gid_1_1", commit=True)
        altering.result()
        assert target.shapes.reflect(connection, "public", "t") is not None


def test_a_server_that_is_not_there_is_unavailable():
    target = open_target(f"mysql://user:{SECRET}@127.0.0.1:1/db")
    with pytest.raises(TargetUnavailable) as raised, target.begin():
        pass
    assert SECRET not in "".join(traceback.format_exception(raised.value)) + raised.value.report()


# Shapes -------------------------------------------------------------------------------------------


def test_a_tables_shape(target):
    create(
        target,
        "CREATE TABLE `T ``1``` (a INT AUTO_INCREMENT UNIQUE, `b.c` VARCHAR(9) COLLATE utf8mb4_bin, d DECIMAL(5,2) NOT NULL,"
        " x VARCHAR(3), y TIMESTAMP(6) NOT NULL, g INT AS (length(x)) STORED, PRIMARY KEY (`b.c`, x))",
        "CREATE VIEW v AS SELECT 1 AS a",
    )
    table = reflected(target, "T `1`")
    assert (table.key, table.kind, table.locators) == (("b.c", "x"), "table", ())
    assert [(c.name, c.declared_type, c.storage, c.nullable, c.generated, c.null_is_generated) for c in table.columns] == [
        ("a", "int(11)", "int", False, False, True),
        ("b.c", "varchar(9)", "varchar", False, False, False),
        ("d", "decimal(5,2)", "decimal", False, False, False),
        ("x", "varchar(3)", f"varchar{INEXACT_KEY}", False, False, False),
        ("y", "timestamp(6)", "timestamp", False, False, True),
        ("g", "int(11)", "int", True, True, False),
    ]  # fmt: skip
    assert reflected(target, "v").kind == "view"
    with target.engine.connect() as connection:
        assert target.shapes.reflect(connection, "public", "absent") is None


def test_an_engine_without_transactions_is_refused(apply, target):
    """C1, progress_with_data: a rollback would not remove its rows"""
    create(target, "CREATE TABLE t (a INT PRIMARY KEY, b TEXT) ENGINE = MyISAM")
    with pytest.raises(TargetRelationError, match="cannot use relation") as raised:
        apply([T], *transaction(200, insert("1", "x")))
    assert raised.value.detail == "This operation is not supported for non-transactional tables."


@pytest.mark.parametrize(
    "period", ["", ", s TIMESTAMP(6) AS ROW START, e TIMESTAMP(6) AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)"]
)
def test_a_table_with_versions_of_its_rows_is_a_table(apply, target, period):
    """C11: the end of a row's period is a part of every key, and no statement sets it"""
    create(
        target,
        f"CREATE TABLE t (a INT PRIMARY KEY, b TEXT{period.replace('AS', 'GENERATED ALWAYS AS')}) WITH SYSTEM VERSIONING",
    )
    update, delete = m.Update(16384, "K", values("1", None), values("3", "y")), m.Delete(16384, "K", values("2", None))
    apply([T], *transaction(200, insert("1", "x"), insert("2", "x"), update, delete))
    assert rows(target, "SELECT a, b FROM t") == [(3, "y")]


def test_a_schema_is_part_of_the_tables_name_or_a_database(apply, target, mariadb):
    """C1"""
    other = f"{target.url.database}_other"
    remote = relation(f"{other}.t", {"a": "int4", "b": "text"}, ["a"])
    mariadb.create_database(other)
    try:
        create(target, f"CREATE TABLE `{other}`.t (a INT PRIMARY KEY, b TEXT)")
        assert reflected(target, "t", other).schema == other
        create(target, f"CREATE TABLE `{other}.t` (a INT PRIMARY KEY, b TEXT)")
        apply([remote], *transaction(200, insert("1", "x")))
        assert rows(target, f"SELECT * FROM `{other}.t`") == [(1, "x")]
        assert rows(target, f"SELECT * FROM `{other}`.t") == []
    finally:
        mariadb.drop_database(other)


# Values -------------------------------------------------------------------------------------------

VALUES = {
    "bool": ["t", "f"],
    "int2": ["-32768"],
    "int4": ["0"],
    "int8": ["9223372036854775807"],
    "float4": ["0.1", "1e-45", "3.4028235e+38"],
    "float8": ["5e-324", "1.7976931348623157e+308", "0.30000000000000004"],
    "numeric": ["NaN", "Infinity", "1.50", "123456789012345678901234567890.123456789"],
    "text": ["", "007", "é%s:x\\N", "'", "\b\f\n\r\t\v\\", "a ", "\\N", "😀"],
    "varchar": ["x"],
    "bytea": ["\\x", "\\x00ff275c"],
    "date": ["2026-11-21", "0001-01-01", "9999-12-31"],
    "time": ["24:00:00", "00:00:00.000001"],
    "timestamp": ["-infinity", "4713-01-01 00:00:00 BC", "2026-11-21 01:02:03.5"],
    "timestamptz": ["infinity", "2026-11-21 01:02:03+00"],
    "interval": ["-1 days +02:03:00", "1 year 2 mons -3 days"],
    "uuid": ["12345678-1234-1234-1234-123456789012"],
    "json": ['{"a":  1}', "7"],
    "jsonb": ['{"a": 1}'],
    "int4[]": ["{}", "{1,NULL}", "[0:1]={1,2}"],
}
_ESCAPED = str.maketrans({"\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"})


def copied(*texts: str | None) -> bytes:
    """A line of COPY data, as PostgreSQL escapes it."""
    return "\t".join("\\N" if text is None else text.translate(_ESCAPED) for text in texts).encode() + b"\n"


def stored(target, type_oid: int) -> dict[int, str | None]:
    table = reflected(target, "v")
    with target.engine.connect() as connection:
        return {int(k or ""): text for k, text in target_texts(target, connection, table, {"k": 23, "v": type_oid})}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_value_comes_back_as_it_was(apply, target, name, local_infile):
    """C5: replicated into the column that is declared for its type, and loaded by a copy"""
    declared = target.ddl.column_type(OIDS[name], type_name(OIDS[name]))
    create(target, f"CREATE TABLE v (k INT PRIMARY KEY, v {declared})")
    numbered = [(str(k), v) for k, v in enumerate(VALUES[name])]
    expected = {-1: None, **dict(enumerate(VALUES[name]))}
    remote = relation("public.v", {"k": "int4", "v": name}, ["k"])
    apply([remote], *transaction(200, *(insert(k, v) for k, v in numbered), insert("-1", None)))
    assert stored(target, OIDS[name]) == expected
    create(target, "DELETE FROM v")
    load(
        target,
        reflected(target, "v"),
        {"k": 23, "v": OIDS[name]},
        *(copied(k, v) for k, v in numbered),
        copied("-1", None),
    )
    assert stored(target, OIDS[name]) == expected


NATIVE = {
    ("bool", "INT"): "t", ("bool", "TEXT"): "f", ("int4", "DOUBLE"): "-2147483648", ("numeric", "DECIMAL(30,10)"): "1.5",
    ("time", "TIME(6)"): "24:00:00", ("timestamp", "DATETIME(6)"): "2026-11-21 01:02:03.5", ("uuid", "CHAR(36)"):
    "12345678-1234-1234-1234-123456789012", ("uuid", "UUID"): "12345678-1234-1234-1234-123456789012",
    ("json", "JSON"): '{"a":  1}', ("date", "CHAR(20)"): "infinity",
}  # fmt: skip


@pytest.mark.parametrize(("name", "declared"), sorted(NATIVE))
def test_a_column_that_its_owner_declared_keeps_a_value(apply, target, name, declared, local_infile):
    """C5: types that create_tables does not declare, and that can store the values"""
    create(target, f"CREATE TABLE v (k INT PRIMARY KEY, v {declared})")
    value = NATIVE[name, declared]
    apply([relation("public.v", {"k": "int4", "v": name}, ["k"])], *transaction(200, insert("1", value)))
    load(target, reflected(target, "v"), {"k": 23, "v": OIDS[name]}, copied("2", value))
    found = stored(target, OIDS[name])
    assert found[1] == found[2]
    assert (found[1] or "").rstrip("0" if name == "numeric" else "") == value


@pytest.mark.parametrize("declared", ["DATETIME(6)", "TIMESTAMP(6)"])
def test_a_moment_is_kept_in_utc(apply, target, declared, local_infile):
    create(target, f"CREATE TABLE v (k INT PRIMARY KEY, v {declared})")
    value = "2026-03-29 01:30:00.25+00"  # an hour that some time zones skip
    apply([relation("public.v", {"k": "int4", "v": "timestamptz"}, ["k"])], *transaction(200, insert("1", value)))
    load(target, reflected(target, "v"), {"k": 23, "v": OIDS["timestamptz"]}, copied("2", value))
    assert rows(target, "SELECT k, CAST(v AS CHAR) FROM v ORDER BY k") == [
        (1, "2026-03-29 01:30:00.250000"),
        (2, "2026-03-29 01:30:00.250000"),
    ]


@pytest.mark.parametrize(
    ("name", "declared", "value"),
    [
        ("numeric", "DECIMAL(6,2)", "1.505"), ("numeric", "DECIMAL(6,2)", "NaN"), ("numeric", "DECIMAL(4,2)", "12345"),
        ("float8", "DOUBLE", "NaN"), ("float8", "DOUBLE", "-Infinity"), ("date", "DATE", "infinity"),
        ("date", "DATE", "0044-03-15 BC"), ("timestamp", "DATETIME(6)", "10000-01-01 00:00:00"), ("int4", "TINYINT", "300"),
        ("varchar", "VARCHAR(3)", "abcd"), ("varchar", "VARCHAR(3)", "abc "), ("text", "TEXT CHARACTER SET latin1", "😀"),
        ("timestamptz", "TIMESTAMP(6)", "1812-01-01 00:00:00+00"), ("json", "JSON", "{1234"),
        ("text", "TINYTEXT", "é" * 127 + "  "), ("text", "TEXT", "x" * 65_535 + " "),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(apply, target, name, declared, value, local_infile):
    """refuse_not_guess, names_are_data: replicated or loaded, and the message does not contain the
    value
    """
    create(target, f"CREATE TABLE v (k INT PRIMARY KEY, v {declared})")
    remote = relation("public.v", {"k": "int4", "v": name}, ["k"])
    with pytest.raises((UnsupportedValue, ConflictError)) as raised:
        apply([remote], *transaction(200, insert("1", value)))
    with pytest.raises((UnsupportedValue, ConflictError)) as loading:
        load(target, reflected(target, "v"), {"k": 23, "v": OIDS[name]}, copied("1", value))
    for error in (raised.value, loading.value):
        assert value not in "".join(traceback.format_exception(error)) + error.report()
        assert error.column in ("v", None)
    assert rows(target, "SELECT * FROM v") == []


def test_values_of_another_type_are_loaded_as_postgresql_reads_them(target, local_infile):
    """C5, D7: MariaDB itself would read 0x10 as 0, and 1e+15 as a number"""
    create(target, "CREATE TABLE t (a INT, b DOUBLE, c TEXT)")
    table = reflected(target, "t")
    load(target, table, {"a": 25, "b": 1700, "c": 701}, copied(" 0x10 ", "1.50", "1e+15") + copied(None, None, None))
    assert rows(target, "SELECT a, b, c FROM t ORDER BY a DESC") == [(16, 1.5, "1e+15"), (None, None, None)]
    with pytest.raises(UnsupportedValue) as raised:
        load(target, table, {"a": 25, "b": 1700, "c": 701}, copied(SECRET, "1.50", "1"))
    assert (raised.value.sqlstate, raised.value.column) == ("22P02", "a")
    assert SECRET not in raised.value.report()


# Applying -----------------------------------------------------------------------------------------


def test_changes_reach_the_table(apply, target):
    """C7-C9, C18: executemany counts the rows it found, changed or not"""
    create(target, "CREATE TABLE t (b TEXT, a INT PRIMARY KEY, own VARCHAR(9) DEFAULT 'mine')")
    result = apply(
        [T],
        *transaction(
            200,
            *(insert(str(number), "x") for number in range(5)),
            m.Update(16384, None, None, values("0", m.UNCHANGED)),
            m.Update(16384, None, None, values("1", None)),
            m.Update(16384, None, None, values("4", "x")),
            m.Update(16384, None, None, values("77", None)),
            m.Update(16384, "K", values("2", None), values("20", "moved")),
            *(m.Delete(16384, "K", values(key, None)) for key in ("3", "88", "99")),
        ),
    )
    assert rows(target, "SELECT a, b, own FROM t ORDER BY a") == [
        (0, "x", "mine"), (1, None, "mine"), (4, "x", "mine"), (20, "moved", "mine"),
    ]  # fmt: skip
    assert result.conflicts == {"update_missing": 1, "delete_missing": 2}


def test_keys_are_compared_as_postgresql_compares_them(apply, target):
    """C14: upper and lower case differ, and blanks at the end count"""
    declared = target.ddl.column_type(25, "text", key=True)
    create(target, f"CREATE TABLE t (a {declared} PRIMARY KEY, b TEXT)")
    remote = relation("public.t", {"a": "text", "b": "text"}, ["a"])
    keys = ["a", "A", "a ", "á"]
    apply(
        [remote],
        *transaction(200, *(insert(key, "x") for key in keys), m.Delete(16384, "K", values("a", None))),
    )
    assert {key for (key,) in rows(target, "SELECT a FROM t")} == set(keys[1:])


def test_a_key_is_found_with_the_blanks_at_its_end(apply, target):
    """C8, C14: most collations, also utf8mb4_bin, ignore blanks at the end"""
    create(target, "CREATE TABLE t (a VARCHAR(20) COLLATE utf8mb4_bin PRIMARY KEY, b TEXT)")
    remote = relation("public.t", {"a": "text", "b": "text"}, ["a"])
    update, delete = m.Update(16384, None, None, values("a ", "y")), m.Delete(16384, "K", values("a ", None))
    result = apply([remote], *transaction(200, insert("a", "x"), update, delete))
    assert result.conflicts == {"update_missing": 1, "delete_missing": 1}
    assert rows(target, "SELECT * FROM t") == [("a", "x")]


def test_a_char_is_found_by_its_letters_and_without_its_blanks(apply, target):
    """C14, C16: the server's default collation ignores case, and PostgreSQL's character(n) is
    padded
    """
    create(target, "CREATE TABLE t (a CHAR(3), b INT)")
    remote = relation("public.t", {"a": "bpchar", "b": "int4"}, identity="f")
    letters = [insert(letter, "1") for letter in ("a  ", "A  ", "á  ")]
    apply([remote], *transaction(200, *letters, m.Delete(16384, "O", values("A  ", "1"))))
    assert rows(target, "SELECT a FROM t ORDER BY BINARY a") == [("a",), ("á",)]


def test_zero_is_no_auto_increment_and_null_is_refused(apply, target, local_infile):
    """absence_is_typed"""
    create(target, "CREATE TABLE t (a INT AUTO_INCREMENT UNIQUE, b TEXT)")
    with pytest.raises(ConflictError, match='null value in column "a"'):
        apply([T], *transaction(200, insert(None, "x")))
    apply([T], *transaction(200, insert("0", "x")))
    table = reflected(target, "t")
    load(target, table, {"b": 25, "a": 23}, copied("\\N", "-1"))
    assert rows(target, "SELECT a, b FROM t ORDER BY a") == [(-1, "\\N"), (0, "x")]
    with pytest.raises(ConflictError, match='null value in column "a"'):
        load(target, table, {"b": 25, "a": 23}, copied("\t\n", "5") + copied(None, None))


def test_foreign_keys_are_not_enforced_and_restrict_truncate(apply, target):
    """C23, C30"""
    create(
        target,
        "CREATE TABLE p (a INT PRIMARY KEY)",
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, FOREIGN KEY (a) REFERENCES p (a))",
    )
    apply([T], *transaction(200, insert("1", "x")))
    parent, child = reflected(target, "p"), reflected(target, "t")
    with pytest.raises(ConflictError, match="cannot truncate") as raised, target.begin() as connection:
        target.writing.truncate(connection, [parent], restart_identity=False)
    assert raised.value.detail == 'Table "t" references "p".'
    with target.begin() as connection:
        target.writing.truncate(connection, [parent, child], restart_identity=True)  # they have none
    assert rows(target, "SELECT * FROM t") == []


def test_an_auto_increment_is_set_back_when_the_truncate_has_committed(apply, target):
    """C29: only DDL can do this, and it commits; rows that were inserted after the TRUNCATE
    count
    """
    create(
        target,
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, n INT AUTO_INCREMENT UNIQUE)",
        "INSERT INTO t (a) VALUES (1), (2), (3)",
    )
    truncate = m.Truncate((16384,), cascade=False, restart_identity=True)
    apply([T], *transaction(200, truncate, insert("1", "x")))
    assert rows(target, "SELECT * FROM t") == [(1, "x", 4)]
    create(target, "INSERT INTO t (a) VALUES (5)", "DELETE FROM t")
    with pytest.raises(ConflictError), target.begin() as connection:
        target.writing.truncate(connection, [reflected(target, "t")], restart_identity=True)
        raise ConflictError("rolled back")
    create(target, "INSERT INTO t (a) VALUES (1)")
    assert rows(target, "SELECT n FROM t") == [(6,)]
    with target.begin() as connection:
        target.writing.truncate(connection, [reflected(target, "t")], restart_identity=True)
    create(target, "INSERT INTO t (a) VALUES (1)")
    assert rows(target, "SELECT n FROM t") == [(1,)]


def test_a_counter_that_cannot_be_set_back_is_said_and_does_not_stop_anything(apply, target, monkeypatch, caplog):
    """C29: the TRUNCATE has been committed by then"""
    monkeypatch.setattr("subscriber.targets.mariadb.transactions._COUNTER_WAIT", 1)
    create(target, "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, n INT AUTO_INCREMENT UNIQUE)")
    apply([T], *transaction(200, insert("1", "x")))
    table = reflected(target, "t")
    other = target.engine.connect()
    restart = target.transactions._counters.restart

    def restart_late(tables) -> None:
        # Between the transaction and the ALTER TABLE another session begins to use the table.
        other.exec_driver_sql("SELECT * FROM t").all()
        restart(tables)

    monkeypatch.setattr(target.transactions._counters, "restart", restart_late)
    with target.begin() as connection:
        target.writing.truncate(connection, [table], restart_identity=True)
    other.close()
    assert "could not set AUTO_INCREMENT back" in caplog.text
    create(target, "INSERT INTO t (a) VALUES (1)")
    assert rows(target, "SELECT n FROM t") == [(2,)]


def test_a_prepared_transaction_leaves_the_counter_and_says_so(target, caplog):
    """C29"""
    create(target, "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY)", "INSERT INTO t VALUES (NULL)")
    with target.prepared.begin("pg_gid_1_1") as connection:
        target.writing.truncate(connection, [reflected(target, "t")], restart_identity=True)
    target.prepared.finish("pg_gid_1_1", commit=True)
    assert "cannot set AUTO_INCREMENT back" in caplog.text
    create(target, "INSERT INTO t VALUES (NULL)")
    assert rows(target, "SELECT a FROM t") == [(2,)]


def test_a_name_that_the_server_has_none_for_is_said_to_be_missing(apply, target):
    """C1, C3: a table of this name does not exist, and cannot be created"""
    remote = relation("public.t 😀", {"a": "int4"}, ["a"])
    with pytest.raises(TargetRelationError, match="does not exist"):
        apply([remote], *transaction(200, insert("1")))
    with pytest.raises(TargetError, match="INVALID_CHARACTER_STRING") as raised:
        create(target, "CREATE TABLE `t 😀` (a INT)")
    assert "option map" in str(raised.value.hint)


def test_any_name_is_only_a_name(apply, target, local_infile):
    """names_are_data"""
    names = ["portion", "%s", ":p0", "q`q", ") VALUES (", "p0", "%(x)s", "select", 'd"d', "@c0"]
    quoted = ", ".join("`" + name.replace("`", "``").replace("%", "%%") + "` TEXT" for name in names)
    create(target, f"CREATE TABLE `s.%%(x)s.t;--` (id INT PRIMARY KEY, {quoted})")
    remote = relation("s.%(x)s.t;--", {"id": "int4", **dict.fromkeys(names, "text")}, ["id"])
    apply([remote], *transaction(200, insert("1", *names), m.Update(16384, None, None, values("1", *names))))
    table = reflected(target, "t;--", "s.%(x)s")
    load(target, table, {"id": 23, **dict.fromkeys(names, 25)}, copied("2", *names))
    with target.engine.connect() as connection:
        assert sorted(map(tuple, connection.execute(sa.select(table.clause())))) == [(1, *names), (2, *names)]


@pytest.mark.parametrize(
    ("ddl", "sqlstate", "column"),
    [
        ("a INT, b VARCHAR(20) PRIMARY KEY", "23505", None),
        ("a INT, b VARCHAR(20), UNIQUE KEY the_key (b)", "23505", None),
        ("a INT NOT NULL, b TEXT", "23502", "a"),
        ("a INT CHECK (a > 5), b TEXT", "23514", None),
    ],
)
def test_a_constraint_has_its_sqlstate_and_no_values(apply, target, ddl, sqlstate, column, local_infile):
    """C22, names_are_data: replicated or loaded"""
    create(target, f"CREATE TABLE t ({ddl}) COLLATE utf8mb4_bin")
    row = (None if column else "1", SECRET)
    with pytest.raises(ConflictError) as raised:
        apply([T], *transaction(200, insert(*row), insert(*row)))
    with pytest.raises(ConflictError) as loading:
        load(target, reflected(target, "t"), {"a": 23, "b": 25}, copied(*row) * 2)
    for error in (raised.value, loading.value):
        assert (error.sqlstate, error.column or column) == (sqlstate, column)
        assert ("the_key" in error.report()) == ("the_key" in ddl)
        assert SECRET not in "".join(traceback.format_exception(error)) + error.report()


def test_a_load_that_fails_leaves_nothing(target, local_infile):
    """any_crash, D3: the previous rows remain"""
    create(target, "CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (3)")
    with pytest.raises(ConflictError):
        load(target, reflected(target, "t"), {"a": 23}, copied("1") + copied("2"), copied("3") + copied("4"))
    assert rows(target, "SELECT a FROM t") == [(3,)]


def test_a_refused_statement_is_an_error_without_its_text(target):
    """names_are_data"""
    with pytest.raises(TargetError, match=r"error 1064") as raised, target.begin() as connection:
        connection.exec_driver_sql(f"SELEKT '{SECRET}'")
    assert SECRET not in "".join(traceback.format_exception(raised.value)) + raised.value.report()


def test_a_row_that_another_transaction_holds_is_tried_again(target):
    create(target, "CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (3)")
    with target.begin() as first:
        first.exec_driver_sql("UPDATE t SET a = 4")
        with pytest.raises(TargetUnavailable) as raised, target.begin() as second:
            second.exec_driver_sql("SET SESSION innodb_lock_wait_timeout = 1")
            second.exec_driver_sql("UPDATE t SET a = 5")
    assert raised.value.transient


def test_a_query_that_somebody_has_killed_is_tried_again(target):
    create(target, "CREATE TABLE t (a INT)")
    with pytest.raises(TargetUnavailable, match="QUERY_INTERRUPTED") as raised, target.begin() as connection:
        number = connection.exec_driver_sql("SELECT connection_id()").scalar_one()
        killer = threading.Timer(0.2, create, (target, f"KILL QUERY {number}"))
        killer.start()
        connection.exec_driver_sql("INSERT INTO t SELECT sleep(10) FROM information_schema.columns")
    killer.join()
    assert raised.value.transient


def test_a_deadlock_of_several_changes_is_tried_again(apply, target):
    """C35: the deadlock has removed the savepoint; the error must report the deadlock"""
    declared = target.ddl.column_type(1700, "numeric", key=True)
    create(target, f"CREATE TABLE t (a {declared} PRIMARY KEY, b INT)", "CREATE TABLE much (a INT)")
    create(target, "INSERT INTO t VALUES ('1', 1), ('2', 1)")
    remote = relation("public.t", {"a": "numeric", "b": "int4"}, ["a"])
    changes = [m.Update(16384, None, None, values(key, "2")) for key in ("1", "2")]
    # The server's answer may be a tenth of a second old: it repeats an answer that is younger.
    waiting = "SELECT sleep(0.15), count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    with target.engine.connect() as other, ThreadPoolExecutor() as pool:
        # The server ends the transaction that has written less.
        other.exec_driver_sql("INSERT INTO much SELECT 1 FROM information_schema.columns")
        other.exec_driver_sql("UPDATE t SET b = 3 WHERE a = '2'")
        applied = pool.submit(apply, [remote], *transaction(200, *changes))
        while rows(target, waiting)[0][1] == 0:
            assert not applied.done()
        other.exec_driver_sql("UPDATE t SET b = 3 WHERE a = '1'")
        with pytest.raises(TargetUnavailable, match="LOCK_DEADLOCK"):
            applied.result()


def test_a_user_without_rights_is_told_to_have_them_granted(target, mariadb):
    """names_are_data: the server's message contains the table and the user"""
    create(target, "CREATE TABLE t (a INT)", f"CREATE USER lowly IDENTIFIED BY '{SECRET}'")
    try:
        create(target, f"GRANT SELECT ON `{target.url.database}`.t TO lowly")
        lowly = sa.make_url(mariadb.url(target.url.database)).set(username="lowly", password=SECRET)
        with (
            open_target(lowly.render_as_string(hide_password=False)) as opened,
            pytest.raises(TargetError) as raised,
            opened.begin() as connection,
        ):
            connection.exec_driver_sql("DELETE FROM t")
    finally:
        create(target, "DROP USER lowly")
    assert raised.value.sqlstate == "42501"
    assert "GRANT" in str(raised.value.hint)
    assert not raised.value.transient


def test_a_row_that_is_larger_than_a_packet_is_said_to_be_so(apply, target):
    """The server would close the connection. That looks like any other lost connection, and would
    be retried for ever.
    """
    create(target, "CREATE TABLE t (a INT PRIMARY KEY, b LONGTEXT)")
    largest = int(str(rows(target, "SELECT @@max_allowed_packet")[0][0]))
    with pytest.raises(UnsupportedValue, match="max_allowed_packet") as raised:
        apply([T], *transaction(200, insert("1", "x" * largest)))
    assert (raised.value.sqlstate, raised.value.transient) == ("54000", False)
    apply([T], *transaction(200, insert("1", "x" * (largest - 100))))


@pytest.mark.parametrize("way", ["committed", "prepared"])
def test_a_row_fits_once_somebody_has_raised_the_packet(target, mariadb, way):
    """As the hint says, and without a restart of the program: a session keeps the limit that the
    server had when the session began.
    """
    create(target, "CREATE TABLE t (a INT PRIMARY KEY, b LONGTEXT)")
    largest = int(str(rows(target, "SELECT @@max_allowed_packet")[0][0]))
    change = ("INSERT INTO t VALUES (1, %s)", ("x" * largest,))
    with target.begin(), target.begin():
        pass  # so that the pool has more than one session
    transaction_of = {"committed": target.begin, "prepared": lambda: target.prepared.begin("g")}[way]
    with pytest.raises(UnsupportedValue, match="max_allowed_packet"), transaction_of() as connection:
        connection.exec_driver_sql(*change)
    mariadb.execute(f"SET GLOBAL max_allowed_packet = {2 * largest}")
    try:
        with target.begin() as connection:
            connection.exec_driver_sql(*change)
    finally:
        mariadb.execute(f"SET GLOBAL max_allowed_packet = {largest}")
    assert rows(target, "SELECT a, length(b) FROM t") == [(1, largest)]


CARELESS = {
    "autocommit": "0", "sql_notes": "0", "max_error_count": "0", "sql_safe_updates": "1", "check_constraint_checks": "0",
    "default_storage_engine": "Aria", "sql_select_limit": "1", "sql_mode": "''",
}  # fmt: skip


@pytest.fixture
def careless(mariadb):
    """A server whose configuration is the opposite of everything that the program needs."""
    before = {name: mariadb.execute(f"SELECT @@GLOBAL.{name}")[0][0] for name in CARELESS}
    for name, value in CARELESS.items():
        mariadb.execute(f"SET GLOBAL {name} = {value}")
    name = f"test_{os.getpid()}_careless"
    mariadb.execute(f"CREATE DATABASE {name} CHARACTER SET latin1")
    try:
        # The URL, too, can request autocommit.
        with open_target(mariadb.url(name) + "&autocommit=true") as target:
            yield target
    finally:
        mariadb.drop_database(name)
        for name, value in before.items():
            mariadb.execute(f"SET GLOBAL {name} = {value if isinstance(value, int) else repr(value)}")


def test_the_servers_configuration_changes_nothing(careless):
    """progress_with_data, refuse_not_guess: no value is rounded, every CHECK is enforced, and
    everything is one transaction
    """
    with careless.begin() as connection:
        CATALOG.create_all(connection)
        OriginProgress(1).create(connection, LSN(100))
    create(careless, "CREATE TABLE t (a INT PRIMARY KEY, b DECIMAL(3,1) CHECK (b > 0))")
    applier = ExactApplier(careless, subscription="sub", subid=1)
    remote = relation("public.t", {"a": "int4", "b": "numeric"}, ["a"])
    first = transaction(200, insert("1", "1"), insert("2", "2"))
    for wrong in (insert("3", "-1"), insert("3", "1.55")):
        with pytest.raises((ConflictError, UnsupportedValue)):
            applier.apply([frame([remote], [*first, *transaction(300, wrong)])], start=LSN(100), end=LSN(1000))
        assert rows(careless, "SELECT a FROM t") == []
    with pytest.raises(UnsupportedValue):
        load(careless, reflected(careless, "t"), {"a": 23, "b": 1700}, copied("4", "1.55"))
    assert rows(careless, "SELECT remote_lsn FROM subscriber_replication_origin_status") == [("0/64",)]
    assert len(reflected(careless, "t").columns) == 2
    truncate = [*first, m.Truncate((16384,), cascade=False, restart_identity=False)]
    applier.apply([frame([remote], [*truncate[:-2], truncate[-1], truncate[-2]])], start=LSN(100), end=LSN(1000))
    assert rows(careless, "SELECT a FROM t") == []


def test_an_error_of_any_length_and_language_is_kept(careless):
    """C35: the catalog's texts do not depend on the database's character set, and may be longer
    than MySQL's TEXT
    """
    ensure_catalog(careless.engine)
    report = "таблица 😀" * 10_000
    with careless.begin() as connection:
        statistics = SUBSCRIPTION_STATS
        connection.execute(sa.insert(statistics).values(subid=1, subname="s", last_error=report))
        assert connection.execute(sa.select(statistics.c.last_error)).scalar_one() == report


def test_a_lost_connection_is_unavailable(target):
    with pytest.raises(TargetUnavailable) as raised, target.begin() as connection:
        number = connection.exec_driver_sql("SELECT connection_id()").scalar_one()
        create(target, f"KILL {number}")
        connection.exec_driver_sql("SELECT 1")
    assert raised.value.transient
    assert rows(target, "SELECT 1") == [(1,)]


def test_a_run_that_has_lost_its_lock_ends_in_order(target):
    """The server was restarted, or the session was killed, which released the lock."""
    with target.running():
        others = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> connection_id()"
        for (number,) in rows(target, others):
            create(target, f"KILL {number}")
    with target.running():
        pass


def test_an_auto_increment_goes_on_as_the_publishers_sequence(target):
    """D14: the value is never below the largest value in the table, which the server ensures"""
    create(
        target,
        "CREATE TABLE `s%%.t` (a INT AUTO_INCREMENT PRIMARY KEY, b INT, c TIMESTAMP NOT NULL DEFAULT current_timestamp)",
    )
    table = reflected(target, "t", "s%")

    def next_value(position: SequencePosition) -> object:
        with target.begin() as connection:
            assert set_sequence(target, connection, table, "a", position)
            assert not set_sequence(target, connection, table, "b", position)
            assert not set_sequence(target, connection, table, "c", position)
        create(target, "INSERT INTO `s%%.t` (b) VALUES (1)")
        return rows(target, "SELECT max(a) FROM `s%%.t`")[0][0]

    assert next_value(SequencePosition(last_value=41, is_called=True, increment=10)) == 51
    assert next_value(SequencePosition(last_value=5, is_called=True)) == 52
    with target.begin() as connection:
        assert not set_sequence(target, connection, table, "a", SequencePosition(last_value=-5, is_called=False))
