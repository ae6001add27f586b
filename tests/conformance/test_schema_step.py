"""The schema step of a migration against real servers: what is missing is listed, built before and
after the copy, and is not missing any more; and applications can insert.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import psycopg
import pyarrow as pa
import pytest
from click.testing import CliRunner
from sqlalchemy import exc

from subscriber.base.errors import SubscriberError, UsageError
from subscriber.cli import cli
from subscriber.migrate.schema.apply_schema import apply_schema, ddl_script
from subscriber.migrate.schema.schema_difference import schema_difference
from subscriber.migrate.schema.schema_object import SchemaComparison
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.postgres.types.registry import decode_column
from subscriber.targets.base.loading import LoadColumn
from subscriber.targets.postgresql.writing import copying
from tests.subscribing import Session
from tests.target_databases import opened, set_sequence
from tests.unit.targets.tables import load, reflected

pytestmark = pytest.mark.server

SCHEMA = """
CREATE TYPE mood AS ENUM ('ok', 'it''s bad');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN code AS varchar(10) NOT NULL CHECK (VALUE <> '');
CREATE SEQUENCE "free Seq" START 100 INCREMENT 5;
CREATE FUNCTION helper(int) RETURNS int LANGUAGE sql AS 'SELECT $1';
CREATE TABLE customer (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  email varchar(100) NOT NULL, name text, mood mood DEFAULT 'ok', score positive, code code DEFAULT 'new',
  amount numeric(10,2) DEFAULT 1.5 CHECK (amount >= 0), limits numeric(10,2),
  active boolean NOT NULL DEFAULT true, created timestamptz NOT NULL DEFAULT now(), day date,
  twice bigint GENERATED ALWAYS AS (score_raw * 2) STORED, score_raw int DEFAULT 3,
  CONSTRAINT customer_name CHECK (name <> '' AND score_raw > 0), CONSTRAINT within CHECK (limits IS NULL OR amount <= limits)
);
CREATE UNIQUE INDEX customer_email ON customer (email);
CREATE UNIQUE INDEX customer_lower ON customer (lower(email));
CREATE INDEX customer_name_index ON customer (name DESC, id);
CREATE INDEX customer_search ON customer (upper(name));
CREATE INDEX customer_active ON customer (created) INCLUDE (email) WHERE active;
CREATE INDEX customer_hash ON customer USING hash (email);
CREATE INDEX customer_brin ON customer USING brin (id);
COMMENT ON TABLE customer IS 'who buys; it''s "us" \\ 100%';
COMMENT ON COLUMN customer.name IS 'the name';
CREATE TABLE "Order" (
  id serial PRIMARY KEY, customer_id bigint NOT NULL, parent int, number text UNIQUE, tags text[],
  CONSTRAINT to_customer FOREIGN KEY (customer_id) REFERENCES customer (id) ON DELETE CASCADE,
  CONSTRAINT to_parent FOREIGN KEY (parent) REFERENCES "Order" (id) ON DELETE SET NULL
);
CREATE TABLE line (order_id int, no int, customer_id bigint, period int4range, PRIMARY KEY (order_id, no),
  CONSTRAINT to_customer FOREIGN KEY (customer_id) REFERENCES customer (id) DEFERRABLE INITIALLY DEFERRED,
  EXCLUDE USING gist (period WITH &&));
CREATE TABLE measure (at date NOT NULL, id int NOT NULL, mood mood, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);
CREATE TABLE measure_old PARTITION OF measure FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
CREATE TABLE measure_rest PARTITION OF measure DEFAULT;
CREATE INDEX measure_mood ON measure (mood);
CREATE VIEW names AS SELECT name FROM customer;
INSERT INTO customer (email, name, score) VALUES ('a@b', 'Ann', 1), ('c@d', NULL, 2);
INSERT INTO "Order" (customer_id, number) VALUES (1, 'n1'), (1, NULL);
INSERT INTO line VALUES (1, 1, 1, '[1,5)'), (1, 2, 1, '[5,9)');
INSERT INTO measure VALUES ('2020-05-05', 1, 'ok'), ('2024-01-01', 2, NULL);
CREATE PUBLICATION p FOR TABLE customer, "Order", line, measure WITH (publish_via_partition_root);
"""

KINDS = [
    "sqlite",
    "postgresql",
    pytest.param("duckdb", marks=pytest.mark.long),
    pytest.param("mariadb", marks=pytest.mark.long),
]
CREATE = "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION p WITH (create_tables, enabled = false, create_slot = false, slot_name = none{})"
MANUAL = {
    "sqlite": {
        "public.free Seq",
        "public.customer.customer_amount_check",
        "public.customer.within",
        "public.customer.customer_lower",
        "public.line.line_period_excl",
        "public.customer",
        "public.customer.name",
    },
    "postgresql": set(),
    "duckdb": {
        "public.free Seq",
        "public.customer.customer_lower",
        "public.customer.customer_active",
        "public.line.line_period_excl",
        "public.Order.to_customer",
        "public.Order.to_parent",
        "public.line.to_customer",
    },
    "mariadb": {
        "public.free Seq",
        "public.customer.customer_lower",
        "public.customer.customer_search",
        "public.customer.customer_active",
        "public.line.line_period_excl",
        "public.line.to_customer",
    },
}
"""What each target cannot have, beside the view and the function."""


def subscribed(kind, request, database, folder, more="", schema=SCHEMA):
    database.execute(schema)
    with opened(kind, request, folder) as target:
        session = Session(target, database, str(folder / "journal"))
        session.run(CREATE.format(more))
        yield session


@pytest.fixture(params=KINDS)
def session(request, publisher_database, tmp_path):
    for session in subscribed(request.param, request, publisher_database, tmp_path):
        session.kind = request.param
        yield session


@pytest.fixture(params=["sqlite", "postgresql"])
def mapped(request, publisher_database, tmp_path):
    more = ", map = 'public.customer => archive.client, public.\"Order\" => public.orders'"
    yield from subscribed(request.param, request, publisher_database, tmp_path, more)


def difference(session):
    return schema_difference(session.target, "s")


def built(session, phase) -> list[str]:
    """Builds a phase, of which nothing may be refused."""
    outcomes = apply_schema(session.target, difference(session), phase)
    assert [(one.object.name, one.refusal) for one in outcomes if one.refusal] == []
    return [one.object.name for one in outcomes]


def copied(session, *names: str) -> None:
    """Copies tables as the initial copy loads them."""
    with psycopg.connect(session.publisher.conninfo, autocommit=True) as publisher:
        publisher.execute("SET TimeZone = 'UTC'")
        for name in names:
            columns = publisher.execute(
                "SELECT attname::text, atttypid::int8 FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
                " AND attgenerated = '' ORDER BY attnum",
                (name,),
            ).fetchall()
            listed = ", ".join(f'"{column}"' for column, _ in columns)
            with (
                publisher.cursor() as cursor,
                cursor.copy(f"COPY (SELECT {listed} FROM {name}) TO STDOUT".encode()) as out,
            ):
                if session.kind in ("postgresql", "mariadb"):
                    _load_text(session, name, columns, b"".join(bytes(part) for part in out))
                else:
                    _load_rows(session, name, columns, list(out.rows()))


def _load_text(session, name: str, columns, data: bytes) -> None:
    with session.target.begin() as connection:
        table = session.target.shapes.reflect(connection, "public", name.strip('"'))
        if session.kind == "postgresql":
            with copying(connection, table, [column for column, _ in columns]) as write:
                write(data)
        else:
            loaded = [LoadColumn(table.column(column), oid) for column, oid in columns]
            with session.target.loading.loader(connection, table, loaded) as load_block:
                load_block(data)


def _load_rows(session, name: str, columns, rows) -> None:
    arrays = []
    for place, (_, oid) in enumerate(columns):
        texts = pa.array([None if row[place] is None else row[place].encode() for row in rows], pa.binary())
        arrays.append(decode_column(oid, texts, binary=False, column=1))
    batch = pa.RecordBatch.from_arrays(arrays, [column for column, _ in columns])
    load(session.target, reflected(session.target, name.strip('"')), dict(columns), batch)


def count_on(session, table: str, column: str = "id") -> None:
    """Sets a counter, as a cutover does."""
    with session.target.begin() as connection:
        found = session.target.shapes.reflect(connection, "public", table)
        set_sequence(session.target, connection, found, column, SequencePosition(last_value=100, is_called=True))


def used(session, *statements: str) -> list[tuple]:
    """Runs statements as an application, with foreign keys. Returns the rows of the last one."""
    enforced = {"sqlite": "PRAGMA foreign_keys = ON", "mariadb": "SET foreign_key_checks = 1"}.get(session.kind)
    relaxed = {"sqlite": "PRAGMA foreign_keys = OFF", "mariadb": "SET foreign_key_checks = 0"}.get(session.kind)
    quoting = '"' if session.kind != "mariadb" else "`"
    with session.target.engine.connect() as connection:
        driver = connection.connection.driver_connection
        cursor = driver.cursor()
        try:
            if enforced:
                cursor.execute(enforced)
            for statement in statements:
                cursor.execute(statement.replace('"', quoting))
            rows = [tuple(row) for row in cursor.fetchall()] if statements[-1].startswith("SELECT") else []
            if session.kind != "sqlite":
                driver.commit()
            return rows
        finally:
            if session.kind == "postgresql":
                driver.rollback()
            if relaxed:
                cursor.execute(relaxed)


def test_what_is_missing_is_built_before_and_after_the_copy_and_then_an_application_can_insert(session):
    before = difference(session)
    assert {one.phase for one in before.objects} == {"before", "after", "manual"} or session.kind == "duckdb"
    built(session, "before")
    assert difference(session).missing("before") == []
    copied(session, "customer", '"Order"', "line", "measure")
    built(session, "after")
    left = difference(session)
    assert [one.name for one in left.objects if one.phase != "manual"] == []
    assert {one.name for one in left.objects if one.kind not in ("view", "function")} == MANUAL[session.kind]
    assert all(one.reason for one in left.objects)
    assert built(session, "before") == built(session, "after") == []

    count_on(session, "customer")
    count_on(session, "Order")
    used(session, "INSERT INTO customer (email) VALUES ('new@x')")
    ((number, mood, code, active, created),) = used(
        session, "SELECT id, mood, code, active, created FROM customer WHERE email = 'new@x'"
    )
    assert number > 2
    assert (mood, code, bool(active), created is not None) == ("ok", "new", True, True)
    used(session, f"INSERT INTO \"Order\" (customer_id, number) VALUES ({number}, 'n9')")
    assert used(session, "SELECT count(*) FROM \"Order\" WHERE number = 'n9' AND id > 2") == [(1,)]
    assert used(session, "SELECT count(*) FROM measure WHERE mood = 'ok'") == [(1,)]


REFUSED = {
    "email": "INSERT INTO customer (email) VALUES ('a@b')",
    "mood": "INSERT INTO customer (email, mood) VALUES ('m@x', 'nope')",
    "score": "INSERT INTO customer (email, score) VALUES ('s@x', '0')",
    "code": "INSERT INTO customer (email, code) VALUES ('c@x', '')",
    "name": "INSERT INTO customer (email, name) VALUES ('n@x', '')",
    "reference": 'INSERT INTO "Order" (customer_id) VALUES (999)',
}
ACCEPTED = {"duckdb": {"reference"}}
"""What a target does not refuse, because the constraint is left out."""


def test_what_is_built_refuses_what_the_publisher_refuses_and_references_act(session):
    built(session, "before")
    copied(session, "customer", '"Order"', "line")
    built(session, "after")
    for table in ("customer", "Order"):
        count_on(session, table)
    driver_errors = (exc.SQLAlchemyError, *session.target.engine.dialect.dbapi.Error.__mro__[:1])
    for name, statement in REFUSED.items():
        with pytest.raises(psycopg.Error), psycopg.connect(session.publisher.conninfo) as connection:
            connection.execute(statement.encode())
        if name in ACCEPTED.get(session.kind, ()):
            continue
        with pytest.raises(driver_errors):
            used(session, statement)
    if session.kind != "duckdb":
        assert used(session, "SELECT twice FROM customer WHERE email = 'a@b'") == [(6,)]
        used(session, "DELETE FROM line", "DELETE FROM customer WHERE email = 'a@b'")
        assert used(session, 'SELECT count(*) FROM "Order"') == [(0,)]


def test_a_map_names_the_targets_tables(mapped):
    built(mapped, "before")
    built(mapped, "after")
    left = difference(mapped)
    assert [one.name for one in left.objects if one.phase != "manual"] == []
    assert not any("no table" in one.reason for one in left.objects)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_script_builds_the_same(kind, request, publisher_database, tmp_path):
    for session in subscribed(kind, request, publisher_database, tmp_path):
        script = ddl_script(difference(session))
        if kind == "sqlite":
            with closing(sqlite3.connect(session.target.file)) as connection:
                connection.executescript(script)
        else:
            with psycopg.connect(session.target.url.set(drivername="postgresql").render_as_string(False)) as connection:
                connection.execute(script.encode())
        left = difference(session)
        assert [one.name for one in left.objects if one.phase != "manual"] == []
        assert {one.name for one in left.objects if one.kind not in ("view", "function")} == MANUAL[kind]


def test_what_the_target_refuses_is_listed_without_values_and_the_exit_code_is_1(
    request, publisher_database, tmp_path, monkeypatch
):
    schema = "CREATE TABLE t (id int PRIMARY KEY, secret text); CREATE PUBLICATION p FOR TABLE t"
    copied = ", copy_data = false"
    for session in subscribed("sqlite", request, publisher_database, tmp_path, copied, schema=schema):
        session.execute("INSERT INTO t VALUES (1, 'hush'), (2, 'hush')")
        publisher_database.execute("CREATE UNIQUE INDEX once ON t (secret); CREATE INDEX often ON t (secret, id)")
        url = session.target.url.render_as_string(False)
        ended = CliRunner().invoke(cli, ["schema", "apply", "--after", "s", "--target", url])
        assert ended.exit_code == 1
        assert ended.stdout == (
            "refused: unique index public.t.once: duplicate key value violates unique constraint Key (secret) already exists.\n"
            "1 built, 1 refused\n"
        )
        shown = CliRunner().invoke(cli, ["schema", "diff", "--json", "s", "--target", url])
        assert [(one["phase"], one["name"]) for one in json.loads(shown.stdout)] == [("after", "public.t.once")]
        table = CliRunner().invoke(cli, ["schema", "diff", "s", "--target", url])
        assert table.stdout.endswith("0 before, 1 after, 0 manual\n")


def test_what_is_built_after_the_copy_is_refused_during_it_with_the_tables_that_are_not_ready(
    request, publisher_database, tmp_path
):
    schema = (
        "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY REFERENCES t);"
        " CREATE PUBLICATION p FOR TABLE t, u"
    )
    for session in subscribed("postgresql", request, publisher_database, tmp_path, schema=schema):
        session.execute("INSERT INTO u VALUES (1)")  # the copy of t is not there yet
        url = session.target.url.render_as_string(False)
        ended = CliRunner().invoke(cli, ["schema", "apply", "--after", "s", "--target", url])
        assert isinstance(ended.exception, UsageError)
        assert (ended.exception.sqlstate, ended.exception.message) == (
            "55000",
            '2 tables are not ready: "public.t", "public.u"',
        )
        assert "`subscriber status` shows only ready tables" in str(ended.exception.hint)
        assert CliRunner().invoke(cli, ["schema", "apply", "--before", "s", "--target", url]).exit_code == 0


def test_a_table_of_sqlite_with_rows_is_made_again_only_while_no_run_writes_to_it(
    request, publisher_database, tmp_path
):
    schema = "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE PUBLICATION p FOR TABLE t"
    for session in subscribed("sqlite", request, publisher_database, tmp_path, schema=schema):
        session.execute("INSERT INTO t VALUES (1, 5)", "CREATE VIEW v AS SELECT n FROM t")
        publisher_database.execute("ALTER TABLE t ADD CHECK (n > 0), ALTER n SET DEFAULT 7")
        with session.target.running():
            found = difference(session)
            assert [one.phase for one in found.objects] == ["manual", "manual"]
            assert "stop `subscriber run` first" in found.objects[0].reason
        stopped = difference(session)
        assert [one.phase for one in stopped.objects] == ["before", "before"]
        with session.target.running():
            assert all(one.refusal for one in apply_schema(session.target, stopped, "before"))
        built(session, "before")
        session.execute("INSERT INTO t (id) VALUES (2)")
        assert session.rows("SELECT n FROM v ORDER BY n") == [(5,), (7,)]


def test_a_table_that_has_got_rows_is_not_replaced_by_a_partitioned_one(request, publisher_database, tmp_path):
    schema = (
        """CREATE TABLE "t'x" (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF "t'x" DEFAULT;"""
        """ CREATE PUBLICATION p FOR TABLE "t'x" WITH (publish_via_partition_root)"""
    )
    for session in subscribed("postgresql", request, publisher_database, tmp_path, schema=schema):
        (one,) = difference(session).objects
        statements = one.ddl.split(";\n")
        assert (one.kind, one.phase) == ("partitions", "before")
        session.execute("""INSERT INTO "t'x" VALUES (1)""")
        with pytest.raises(SubscriberError), session.target.objects.building() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        (outcome,) = apply_schema(session.target, SchemaComparison("s", "PostgreSQL", (one,)), "before")
        assert outcome.refusal == "the table has rows"
        assert difference(session).objects[0].phase == "manual"
        assert session.rows("""SELECT id FROM "t'x\"""") == [(1,)]
        session.execute("""DELETE FROM "t'x\"""")
        built(session, "before")
        assert session.rows("SELECT relkind::text FROM pg_class WHERE relname = 't''x'") == [("p",)]
