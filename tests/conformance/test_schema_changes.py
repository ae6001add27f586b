"""The options ``schema_changes`` and ``map`` on every target, and the errors without them (rules
C1-C4).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

import psycopg
import pytest
import sqlalchemy as sa

from subscriber.apply.applier import Rules
from subscriber.apply.apply_batch import apply_batch, retry_with_column_defaults
from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import ConflictError, TargetRelationError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.relation_names import parse_names
from subscriber.postgres.types.oids import declared_type
from subscriber.targets import open_target
from tests.appliers import obeying
from tests.crash.harness import Runner, wait_until
from tests.frames import finishes_of, frame, prepared, relation, transaction, values
from tests.journals import commit_prepared, prepare
from tests.target_databases import KINDS, AppliedTo, applied_to

pytestmark = pytest.mark.server

ONE = relation("public.t", {"a": "int4"}, ["a"])
TWO = relation("public.t", {"a": "int4", "b": "text"}, ["a"], oid=2)
MOOD = 16400
"""The OID of a user-defined type of the publisher."""


@pytest.fixture(params=KINDS)
def database(request, tmp_path):
    with applied_to(request.param, request, tmp_path) as opened:
        yield opened


class Subscriber:
    """Applies batches as the pipeline does, with rules that a test can change."""

    def __init__(self, database: AppliedTo) -> None:
        self.database = database
        self.rules = obeying(schema_changes="add_columns")
        self._applier = ExactApplier(database.target, subscription="sub", subid=1, read_rules=lambda _: self.rules)

    def apply(
        self,
        relations: Iterable[m.Relation],
        *messages: m.Message,
        start: int = 100,
        end: int,
        finishes: Mapping[int, LSN] | None = None,
    ) -> None:
        shapes = list(relations)
        text = self.database.target.capabilities.postgresql_text

        def attempt():
            return apply_batch(
                self._applier, lambda: [frame(shapes, messages, text=text, finishes=finishes)], LSN(start), LSN(end)
            )

        retry_with_column_defaults(self._applier, attempt)

    def execute(self, *statements: str) -> list[tuple[object, ...]]:
        return self.database.execute(*statements)


@pytest.fixture
def subscriber(database):
    return Subscriber(database)


def insert(*texts: str | None, into: int = 16384) -> m.Insert:
    return m.Insert(into, values(*texts))


# schema_changes = add_columns ---------------------------------------------------------------------


def test_a_column_comes_at_its_place_in_the_stream(subscriber):
    """One batch: the row before the publisher's ALTER TABLE has NULL there, and the rows after it
    have the value; rows are found by their keys as before.
    """
    subscriber.execute("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (0)")
    first = transaction(200, insert("1"), insert("2"))
    second = transaction(
        300,
        insert("3", "x", into=2),
        m.Update(2, None, None, values("2", "y")),
        m.Delete(2, "K", values("1", None)),
        xid=732,
    )
    subscriber.apply([ONE, TWO], *first, *second, end=300)
    assert subscriber.execute("SELECT a, b FROM t ORDER BY a") == [(0, None), (2, "y"), (3, "x")]


def test_every_type_gets_a_column_that_holds_it(subscriber):
    """The column is declared by type and modifier of the relation message; a user-defined type is
    stored as text.
    """
    subscriber.execute("CREATE TABLE t (a INT PRIMARY KEY)")
    types = {
        "n": "numeric",
        "v": "varchar",
        "j": "jsonb",
        "ts": "timestamptz",
        "l": "int4[]",
        "f": "float8",
        "y": "bytea",
    }
    shape = relation("public.t", {"a": "int4", **types, "mood": "text"}, ["a"])
    columns = {column.name: column for column in shape.columns}
    columns["n"] = replace(columns["n"], type_modifier=(10 << 16 | 2) + 4)
    columns["v"] = replace(columns["v"], type_modifier=3 + 4)
    columns["mood"] = replace(columns["mood"], type_oid=MOOD)
    shape = replace(shape, columns=tuple(columns.values()))
    row = ("1", "1.50", "abc", '{"k": 1}', "2020-02-02 00:00:00+00", "{1,2}", "0.5", "\\x00ff", "ok")
    subscriber.apply([shape], *transaction(200, insert(*row)), end=200)
    subscriber.apply([shape], *transaction(300, insert("2", *[None] * 8)), start=200, end=300)
    found = subscriber.execute("SELECT v, j, l, mood FROM t ORDER BY a")
    # Drivers return documents and lists as Python values.
    shown = [str(value).replace(" ", "").replace("'", '"').strip("[]{}") for value in found[0]]
    assert shown == ["abc", '"k":1', "1,2", "ok"]
    assert (len(found), set(found[1])) == (2, {None})
    ((number,),) = subscriber.execute("SELECT CAST(n AS CHAR(9)) FROM t WHERE a = 1")
    assert number.strip() == "1.50"


def test_a_batch_that_fails_later_takes_the_column_back_where_it_can(subscriber):
    """The column is added once: the transactions before the one that fails are applied, and the
    rest after the cause is removed.
    """
    subscriber.execute("CREATE TABLE t (a INT PRIMARY KEY)")
    good = transaction(200, insert("1"))
    bad = transaction(300, insert("2", "x", into=2), insert("1", "y", into=2), xid=732)
    with pytest.raises(ConflictError):
        subscriber.apply([ONE, TWO], *good, *bad, end=300)
    with subscriber.database.target.engine.connect() as connection:
        table = subscriber.database.target.shapes.reflect(connection, "public", "t")
    transactional = subscriber.database.target.capabilities.transactional_ddl
    assert [column.name for column in table.columns] == (["a"] if transactional else ["a", "b"])
    subscriber.execute("DELETE FROM t WHERE a = 1")
    subscriber.apply([ONE, TWO], *good, *bad, start=200, end=300)
    assert subscriber.execute("SELECT a, b FROM t ORDER BY a") == [(1, "y"), (2, "x")]


def test_a_prepared_transaction_brings_its_column(subscriber):
    """C49-C51: where the target prepares it too, and DDL commits (MariaDB), the table is altered
    before it begins
    """
    subscriber.execute("CREATE TABLE t (a INT PRIMARY KEY)")
    subscriber.apply([ONE, TWO], *transaction(200, insert("1")), *prepared(400, insert("2", "x", into=2)), end=400)
    assert subscriber.execute("SELECT a, b FROM t ORDER BY a") == [(1, None), (2, "x")]


def test_a_prepared_transaction_does_not_keep_the_lock_of_its_column(subscriber):
    """The publisher's ALTER TABLE was committed before the prepared transaction: other sessions
    write to the table before COMMIT PREPARED, so the target must allow it, too
    """
    if subscriber.database.target.prepared is None:
        pytest.skip("it prepares none")
    subscriber.execute("CREATE TABLE t (a INT PRIMARY KEY)")
    messages = [
        *transaction(200, insert("1")),
        *prepare(300, insert("2", "x", into=2), xid=740),
        *transaction(400, insert("3", "y", into=2), xid=741),
        *commit_prepared(500, xid=740),
    ]
    subscriber.apply([ONE, TWO], *messages, end=500, finishes=finishes_of(messages, two_phase=True))
    assert subscriber.execute("SELECT a, b FROM t ORDER BY a") == [(1, None), (2, "x"), (3, "y")]


def test_a_column_that_vanished_at_the_publisher_needs_no_change(subscriber):
    """C2, C7: PostgreSQL's worker continues, too, and the subscriber's column gets its default"""
    subscriber.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(9) DEFAULT 'mine')")
    subscriber.apply([TWO, ONE], *transaction(200, insert("1", "x", into=2), insert("2")), end=200)
    assert subscriber.execute("SELECT a, b FROM t ORDER BY a") == [(1, "x"), (2, "mine")]


def test_a_type_that_the_column_cannot_hold_stops_with_both_shapes(subscriber):
    """The PostgreSQL target converts as PostgreSQL does (C5); there the value is what may
    not fit.
    """
    if subscriber.database.target.capabilities.postgresql_text:
        pytest.skip("the server parses the value itself")
    subscriber.execute("CREATE TABLE t (a INT PRIMARY KEY, b DOUBLE)")
    shape = relation("public.t", {"a": "int4", "b": "json"}, ["a"])
    with pytest.raises(TargetRelationError) as raised:
        subscriber.apply([shape], *transaction(200, insert("1", "1")), end=200)
    assert "The publisher has (a integer, b json), the target (a " in str(raised.value.detail)


def test_a_column_of_the_targets_own_that_takes_no_null_stops_with_both_shapes(subscriber):
    """C7: it has no default, so PostgreSQL's worker stops too"""
    subscriber.execute("CREATE TABLE t (a INT PRIMARY KEY, own INT NOT NULL)")
    subscriber.apply([ONE], *transaction(150, m.Delete(16384, "K", values("9"))), end=150)
    with pytest.raises(ConflictError) as raised:
        subscriber.apply([TWO], *transaction(200, insert("1", "x", into=2)), start=150, end=200)
    assert (raised.value.sqlstate, raised.value.relation) == ("23502", "public.t")
    detail = str(raised.value.detail).lower()
    assert "the publisher has (a integer, b text), the target (a " in detail
    assert ", own " in detail


@pytest.mark.parametrize("name", ["b", 'B%%d `x` "y"'])
def test_with_stop_the_worker_waits_for_the_column_and_sees_it_when_it_tries_again(subscriber, name):
    """C1, C3: PostgreSQL's text, with the statement to run; the same applier reads the new shape;
    names_are_data
    """
    subscriber.execute("CREATE TABLE t (a INT PRIMARY KEY)")
    subscriber.rules = Rules()
    shape = relation("public.t", {"a": "int4", name: "text"}, ["a"])
    changes = transaction(200, insert("1", "x"))
    with pytest.raises(TargetRelationError) as raised:
        subscriber.apply([shape], *changes, end=200)
    error = raised.value
    assert error.message == f'logical replication target relation "public.t" is missing replicated column: "{name}"'
    statement, _, rest = str(error.hint).removeprefix("Use ").partition(" in the target, or ")
    assert rest == "ALTER SUBSCRIPTION ... SET (schema_changes = 'add_columns')."
    subscriber.execute(statement)
    subscriber.apply([shape], *changes, end=200)
    assert subscriber.execute("SELECT * FROM t") == [(1, "x")]


@pytest.mark.parametrize("add_columns", [False, True])
def test_a_column_that_differs_in_case_is_missing_and_no_addition_is_advised_that_would_fail(subscriber, add_columns):
    """C2: PostgreSQL's names distinguish upper and lower case. If the target's names do not, the
    column must be renamed.
    """
    if subscriber.database.target.capabilities.column_case:
        pytest.skip("it has a place for both")
    subscriber.execute("CREATE TABLE t (a INT PRIMARY KEY, B VARCHAR(9))")
    subscriber.rules = obeying(schema_changes="add_columns" if add_columns else "stop")
    changes = transaction(200, insert("1", "x", into=2))
    with pytest.raises(TargetRelationError, match=r'is missing replicated column: "b"$') as raised:
        subscriber.apply([TWO], *changes, end=200)
    database = subscriber.database.target.capabilities.database
    assert raised.value.hint == (
        f'{database} treats "b" and "B" as the same name, and PostgreSQL does not: rename the target\'s column to "b",'
        " or publish the table without one of them."
    )
    subscriber.execute("ALTER TABLE t RENAME COLUMN B TO c", "ALTER TABLE t RENAME COLUMN c TO b")
    subscriber.apply([TWO], *changes, end=200)
    assert subscriber.execute("SELECT a, b FROM t") == [(1, "x")]


def test_an_odd_name_is_a_name(subscriber):
    """names_are_data"""
    subscriber.execute("CREATE TABLE t (a INT PRIMARY KEY)")
    shape = relation("public.t", {"a": "int4", '5%% `x` "y"; --': "text"}, ["a"])
    subscriber.apply([shape], *transaction(200, insert("1", "x")), end=200)
    assert subscriber.execute("SELECT * FROM t") == [(1, "x")]


# map ----------------------------------------------------------------------------------------------


def test_changes_go_to_the_table_that_the_map_names(subscriber):
    """INSERT, UPDATE, DELETE and TRUNCATE; the table with the publisher's name is another table
    here, which is not changed
    """
    place = subscriber.database.target.ddl.qualified("new", "u")
    name = subscriber.database.target.engine.dialect.identifier_preparer.quote
    mapped = ".".join(name(part) for part in place if part)
    if place[0] is not None:
        subscriber.execute("CREATE SCHEMA new")
    for table in ("t", mapped):
        subscriber.execute(
            f"CREATE TABLE {table} (a INT PRIMARY KEY, b VARCHAR(9))", f"INSERT INTO {table} VALUES (9, 'z')"
        )
    subscriber.rules = obeying(map=parse_names("public.t => new.u"))
    changes = (insert("1", "x", into=2), m.Update(2, None, None, values("9", "y")))
    subscriber.apply([TWO], *transaction(200, *changes), end=200)
    assert subscriber.execute(f"SELECT a, b FROM {mapped} ORDER BY a") == [(1, "x"), (9, "y")]
    with pytest.raises(ConflictError) as raised:
        subscriber.apply([TWO], *transaction(300, insert("1", "x", into=2)), start=200, end=300)
    assert (raised.value.relation, 'target relation "new.u"' in str(raised.value.context)) == ("new.u", True)
    rest = (m.Delete(2, "K", values("1", None)), m.Truncate((2,), False, False), insert("3", None, into=2))
    subscriber.apply([TWO], *transaction(300, *rest), start=200, end=300)
    assert subscriber.execute(f"SELECT a, b FROM {mapped}") == [(3, None)]
    assert subscriber.execute("SELECT a, b FROM t") == [(9, "z")]


# types --------------------------------------------------------------------------------------------

MODIFIED = (
    *(
        "numeric",
        "numeric(10,2)",
        "numeric(5)",
        "numeric(3,-2)",
        "numeric(2,5)",
        "numeric(1000,1000)",
        "numeric(7,2)[]",
    ),
    *("char", "char(3)", "bpchar", "varchar", "varchar(20)", "varchar(5)[]", '"char"', "name"),
    *("bit", "bit(7)", "bit varying", "bit varying(9)", "bit(2)[]"),
    *(
        "time",
        "time(3)",
        "timetz",
        "timetz(0)",
        "timestamp",
        "timestamp(6)",
        "timestamptz",
        "timestamptz(2)",
        "timestamptz(1)[]",
    ),
    *("interval", "interval(4)", "interval year", "interval month", "interval day", "interval hour", "interval minute"),
    *(
        "interval second",
        "interval second(2)",
        "interval year to month",
        "interval day to hour",
        "interval day to minute",
    ),
    *("interval day to second", "interval day to second(3)", "interval hour to minute", "interval hour to second(1)"),
    *("interval minute to second", "int", "bigint[]", "float4", "double precision", "oid", "jsonb", "int4range"),
)


def test_a_type_with_its_modifier_is_declared_as_the_server_says(postgresql18):
    """A14: format_type of what the relation message has"""
    columns = ", ".join(f"c{number} {declared}" for number, declared in enumerate(MODIFIED))
    with psycopg.connect(postgresql18.conninfo("postgres")) as connection:
        connection.execute(f"CREATE TEMPORARY TABLE t ({columns})".encode())
        rows = connection.execute(
            "SELECT atttypid::int, atttypmod, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = 't'::regclass AND attnum > 0"
        ).fetchall()
    assert len(rows) == len(MODIFIED)
    assert [declared_type(oid, modifier) for oid, modifier, _ in rows] == [declared for _, _, declared in rows]


# From a publisher, by `subscriber run` ------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.slow
def test_copy_stream_and_truncate_go_where_the_map_says_with_the_columns_that_came(
    publisher_database, mariadb, tmp_path
):
    """One run: the copy adds a column, the stream another; then the map changes, and holds from the
    next batch on
    """
    name = f"{publisher_database.name}_mapped"
    mariadb.create_database(name)
    try:
        with (
            open_target(mariadb.url(name)) as target,
            contextlib.closing(Runner(mariadb.url(name), tmp_path)) as runner,
        ):
            _evolve(publisher_database, target, runner)
            assert runner.interrupt() == 0
            assert "Traceback" not in runner.said()
            assert "ERROR" not in runner.said()
    finally:
        mariadb.drop_database(name)


def _evolve(publisher, target, runner):
    def rows(query):
        with target.engine.connect() as connection:
            try:
                return [tuple(row) for row in connection.exec_driver_sql(query)]
            except sa.exc.SQLAlchemyError:
                return None  # the column is not there yet

    def wait_for(query, expected):
        wait_until(lambda: rows(query) == expected, f"{query} to give {expected}")

    publisher.execute(
        "CREATE TABLE t (a int PRIMARY KEY, b varchar(5)); INSERT INTO t VALUES (1, 'x'); CREATE PUBLICATION p FOR TABLE t"
    )
    with target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE `new.u` (a INT PRIMARY KEY)")
    runner.sql(
        f"CREATE SUBSCRIPTION {publisher.name} CONNECTION '{publisher.conninfo}' PUBLICATION p"
        " WITH (map = 'public.t => new.u', schema_changes = add_columns)"
    )
    runner.start()
    wait_for("SELECT a, b FROM `new.u`", [(1, "x")])
    publisher.execute(
        "BEGIN; INSERT INTO t VALUES (2, 'y'); ALTER TABLE t ADD c numeric(10,2); INSERT INTO t VALUES (3, 'z', 1.5); COMMIT"
    )
    wait_for("SELECT a, b, CAST(c AS CHAR) FROM `new.u` ORDER BY a", [(1, "x", None), (2, "y", None), (3, "z", "1.50")])
    with target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t LIKE `new.u`")
    runner.sql(f"ALTER SUBSCRIPTION {publisher.name} SET (map = '')")
    publisher.execute("INSERT INTO t VALUES (4, 'w', 2)")
    wait_for("SELECT a FROM t", [(4,)])
    publisher.execute("TRUNCATE t; INSERT INTO t VALUES (5)")
    wait_for("SELECT a FROM t", [(5,)])
    assert rows("SELECT a FROM `new.u` ORDER BY a") == [(1,), (2,), (3,)]
    assert rows("SELECT srschema, srrelname, srsubstate FROM subscriber_subscription_rel") == [("public", "t", "r")]
