"""How MariaDB records deleted rows: by triggers that run in the sessions of others, where InnoDB
locks every row that a statement reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from subscriber.apply.applier import Rules
from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import NotSupportedError
from subscriber.base.lsn import LSN
from subscriber.catalog import deleted_rows
from subscriber.catalog.own_tables import DELETED_ROW
from subscriber.postgres.protocol import messages as m
from tests.changes import update
from tests.frames import frame, relation, transaction
from tests.target_databases import AppliedTo, applied_to

pytestmark = pytest.mark.server

EXACT = "COLLATE utf8mb4_nopad_bin"
RULES = Rules(retains=True, records=True)


@pytest.fixture
def on(request, tmp_path) -> Iterator[AppliedTo]:
    with applied_to("mariadb", request, tmp_path) as on:
        yield on


def record(on: AppliedTo, *tables: str) -> None:
    with on.target.begin() as connection:
        for name in tables:
            table = on.target.shapes.reflect(connection, "public", name)
            assert table is not None
            deleted_rows.record_deleted_rows(connection, on.target, table)


def recorded(on: AppliedTo) -> int:
    with on.target.engine.connect() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(DELETED_ROW)).scalar_one())


def kinds(
    on: AppliedTo, of: m.Relation, *changes: m.Message, read_rules: Callable[..., Rules] | None = None
) -> list[str]:
    """The conflicts of the first transaction that a subscription applies."""
    applier = ExactApplier(on.target, subscription="s", subid=1, read_rules=read_rules or (lambda _: RULES))
    applied = applier.apply([frame([of], transaction(1000, *changes))], start=LSN(100), end=LSN(1000))
    return sorted(map(str, applied.conflicts))


KEYS = [
    ("varchar(40) " + EXACT, "text", "'a''b\"\\\\ \U0001f600 null'", "a'b\"\\ \U0001f600 null"),
    ("varchar(40) " + EXACT, "text", "''", ""),
    ("varchar(40) CHARACTER SET latin1 COLLATE latin1_bin", "text", "'\u00e9'", "\u00e9"),
    ("varbinary(40)", "bytea", "X'00ff'", "\\x00ff"),
    ("bigint", "int8", "-9007199254740993", "-9007199254740993"),
    ("bigint unsigned", "int8", "9007199254740993", "9007199254740993"),
    ("decimal(20,2) unsigned", "numeric", "1.50", "1.50"),
    ("double", "float8", "0.1", "0.1"),
    ("double", "float8", "1.7976931348623157e308", "1.7976931348623157e308"),
    ("date", "date", "'2024-02-29'", "2024-02-29"),
    ("datetime(6)", "timestamp", "'2024-02-29 01:02:03.000004'", "2024-02-29 01:02:03.000004"),
    ("timestamp(6)", "timestamptz", "'2024-02-29 01:02:03.000004'", "2024-02-29 00:02:03.000004+00"),
    ("time(6)", "time", "'01:02:03.000004'", "01:02:03.000004"),
    ("uuid", "uuid", "'6ccd780c-baba-1026-9564-5b8c656024db'", "6ccd780c-baba-1026-9564-5b8c656024db"),
]


@pytest.mark.parametrize(("declared", "type_name", "literal", "text"), KEYS, ids=[f"{key[0]} {key[2]}" for key in KEYS])
def test_a_key_is_found_among_the_recorded_rows_as_in_its_table(on, declared, type_name, literal, text):
    """Whatever the time zone of the session that deletes the row, here an hour before UTC."""
    on.execute(
        f"CREATE TABLE t (k {declared} NOT NULL PRIMARY KEY, v integer)", f"CREATE TABLE u (k {declared}, v integer)"
    )
    record(on, "t", "u")
    for name in "tu":
        on.execute(
            "SET SESSION time_zone = '+01:00'", f"INSERT INTO {name} VALUES ({literal}, 1)", f"DELETE FROM {name}"
        )
    on.target.engine.dispose()  # the sessions with the other time zone
    assert recorded(on) == 2
    t = relation("public.t", {"k": type_name, "v": "int4"}, ["k"])
    u = relation("public.u", {"k": type_name, "v": "int4"}, identity="f", oid=2)
    assert kinds(on, t, update((text, "2"))) == ["update_deleted"]
    on.execute("UPDATE subscriber_replication_origin_status SET remote_lsn = '0/64'")
    assert kinds(on, u, update((text, "2"), old=(text, "1"), of=2)) == ["update_deleted"]
    on.execute("UPDATE subscriber_replication_origin_status SET remote_lsn = '0/64'")
    assert kinds(on, u, update((text, "2"), old=(text, "3"), of=2)) == ["update_missing"]


def test_null_is_found_where_the_whole_row_is_compared(on):
    on.execute("CREATE TABLE u (k text, v integer)", "INSERT INTO u VALUES (NULL, 1)")
    record(on, "u")
    on.execute("DELETE FROM u")
    u = relation("public.u", {"k": "text", "v": "int4"}, identity="f", oid=2)
    assert kinds(on, u, update((None, "2"), old=(None, "1"), of=2)) == ["update_deleted"]


def test_a_transaction_that_has_deleted_rows_and_is_open_keeps_nobody_waiting(on):
    """Neither a batch that deletes others, nor a round, nor the end of one."""
    on.execute("CREATE TABLE t (a integer PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'x'), (2, 'x'), (3, 'x')")
    record(on, "t")
    on.execute("DELETE FROM t WHERE a = 3")
    with on.target.engine.connect() as user:
        user.exec_driver_sql("DELETE FROM t WHERE a = 1")
        with on.target.begin() as connection:
            connection.exec_driver_sql("SET SESSION innodb_lock_wait_timeout = 1")
            with deleted_rows.deleted_by(connection, on.target, "pg_1"):
                connection.exec_driver_sql("DELETE FROM t WHERE a = 2")
        with on.target.begin() as connection:
            connection.exec_driver_sql("SET SESSION innodb_lock_wait_timeout = 1")
            assert deleted_rows.mark(connection, on.target) == 1
        with on.target.begin() as connection:
            deleted_rows.delete_passed(connection, on.target)  # nobody retains them
        assert recorded(on) == 0
        user.commit()
    assert recorded(on) == 1, "it was committed after that"


def test_a_prepared_transaction_keeps_nobody_waiting_and_its_rows_have_its_origin(on):
    on.execute("CREATE TABLE t (a integer PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'x'), (2, 'x')")
    record(on, "t")
    assert on.target.prepared is not None
    with on.target.prepared.begin("g") as connection, deleted_rows.deleted_by(connection, on.target, "pg_1"):
        connection.exec_driver_sql("DELETE FROM t WHERE a = 1")
    on.execute("SET SESSION innodb_lock_wait_timeout = 1", "DELETE FROM t WHERE a = 2")
    with on.target.begin() as connection:
        deleted_rows.mark(connection, on.target)
    on.target.prepared.finish("g", commit=True)
    assert on.execute("SELECT origin, round FROM subscriber_deleted_row ORDER BY deletedid") == [
        ("pg_1", -1),
        (None, 1),
    ]


def test_the_origin_of_a_batch_does_not_stay_in_its_session(on):
    on.execute("CREATE TABLE t (a integer PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'x'), (2, 'x'), (3, 'x')")
    record(on, "t")
    with on.target.engine.connect() as connection:
        with deleted_rows.deleted_by(connection, on.target, "pg_1"):
            connection.exec_driver_sql("DELETE FROM t WHERE a = 1")
        with pytest.raises(ZeroDivisionError), deleted_rows.deleted_by(connection, on.target, None):
            connection.exec_driver_sql("DELETE FROM t WHERE a = 2")
            raise ZeroDivisionError
        connection.exec_driver_sql("DELETE FROM t WHERE a = 3")
        connection.commit()
    assert on.execute("SELECT origin FROM subscriber_deleted_row ORDER BY deletedid") == [("pg_1",), (None,)]


def test_a_row_that_is_deleted_while_a_batch_runs_is_found(on):
    """The transaction of the batch sees what was there when it began (REPEATABLE READ)."""
    on.execute("CREATE TABLE t (a integer PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'x')")
    record(on, "t")

    def read_rules(connection: sa.Connection) -> Rules:
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar_one() == 1
        on.execute("DELETE FROM t")
        return RULES

    t = relation("public.t", {"a": "int4", "v": "text"}, ["a"])
    assert kinds(on, t, update(("1", "y")), read_rules=read_rules) == ["update_deleted"]


def test_more_rows_than_one_statement_changes_are_moved(on):
    on.execute("CREATE TABLE t (a integer PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_2500")
    record(on, "t")
    on.execute("DELETE FROM t")
    with on.target.begin() as connection:
        deleted_rows.mark(connection, on.target)
    assert on.execute("SELECT round, count(*) FROM subscriber_deleted_row GROUP BY 1") == [(1, 2500)]


def test_a_trigger_follows_the_key_of_its_table(on):
    long = "t" * 64
    on.execute(f"CREATE TABLE {long} (a integer PRIMARY KEY, b integer NOT NULL)", f"INSERT INTO {long} VALUES (1, 10)")
    record(on, long)
    on.execute(f"ALTER TABLE {long} RENAME COLUMN a TO c, DROP PRIMARY KEY, ADD PRIMARY KEY (b)")
    record(on, long)
    on.execute(f"UPDATE {long} SET c = 2", f"DELETE FROM {long}")
    assert on.execute("SELECT deletedrow FROM subscriber_deleted_row") == [('["10"]',)]
    with on.target.begin() as connection:
        table = on.target.shapes.reflect(connection, "public", long)
        assert table is not None
        assert on.target.deleted_rows is not None
        on.target.deleted_rows.forget(connection, table)
    assert on.execute("SELECT count(*) FROM information_schema.triggers WHERE trigger_schema = database()") == [(0,)]


def test_a_row_without_a_key_and_with_a_long_value_is_deleted_and_not_recorded(on):
    on.execute("CREATE TABLE u (k longtext)", "INSERT INTO u VALUES (repeat('x', 65535)), (repeat('x', 65536))")
    record(on, "u")
    on.execute("DELETE FROM u")
    assert recorded(on) == 1


@pytest.mark.parametrize("action", ["ON DELETE CASCADE", "ON UPDATE CASCADE"])
def test_a_table_whose_rows_a_foreign_key_deletes_or_changes_is_refused(on, action):
    """MariaDB executes no trigger for these rows."""
    on.execute(
        "CREATE TABLE r (a integer PRIMARY KEY)",
        f"CREATE TABLE t (a integer PRIMARY KEY, FOREIGN KEY (a) REFERENCES r (a) {action})",
        "CREATE TABLE u (a integer PRIMARY KEY, b integer, FOREIGN KEY (b) REFERENCES r (a) ON UPDATE CASCADE)",
    )
    with pytest.raises(NotSupportedError, match='not supported for table "t"') as refused:
        record(on, "t")
    assert refused.value.detail is not None
    assert "CASCADE" in refused.value.detail
    record(on, "u")
