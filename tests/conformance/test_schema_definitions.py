"""What differs in its definition between publisher and target: listed as different, with the
statements that put it right; what the target only writes in another way is the same.
"""

from __future__ import annotations

import json

import psycopg
import pytest
from click.testing import CliRunner

from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.cli import cli
from subscriber.migrate.check_migration import Migration, check_migration
from subscriber.migrate.schema.apply_schema import apply_schema
from subscriber.migrate.schema.schema_difference import schema_difference
from subscriber.migrate.schema.schema_object import Phase, SchemaComparison, SchemaObject
from subscriber.publisher.fence.reverse_replication import target_obstacles
from subscriber.targets import open_target
from tests.crash.harness import Runner, wait_until
from tests.subscribing import Session
from tests.target_databases import KINDS, opened

pytestmark = pytest.mark.server

CREATE = "CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION p WITH (create_tables, enabled = false, create_slot = false, slot_name = none)"


@pytest.fixture(params=KINDS)
def subscribed(request, publisher_database, tmp_path):
    """Creates a subscription to a publisher with a schema; each target is one of the four."""
    with opened(request.param, request, tmp_path) as target:
        session = Session(target, publisher_database, str(tmp_path / "journal"))

        def subscribe(schema: str) -> Session:
            publisher_database.execute(schema)
            session.run(CREATE)
            return session

        yield subscribe


@pytest.fixture
def postgresql(request, publisher_database, tmp_path):
    with opened("postgresql", request, tmp_path) as target:
        yield Session(target, publisher_database, str(tmp_path / "journal"))


def kind_of(session: Session) -> str:
    return session.target.capabilities.database.lower()


def difference(session: Session) -> SchemaComparison:
    return schema_difference(session.target, "s")


def listed(session: Session) -> dict[str, SchemaObject]:
    """The objects that are missing or different, by their names."""
    return {one.name.removeprefix("public."): one for one in difference(session).objects}


def build(session: Session, *phases: Phase) -> None:
    for phase in phases:
        outcomes = apply_schema(session.target, difference(session), phase)
        assert [(one.object.name, one.refusal) for one in outcomes if one.refusal] == []


def run_statements(session, statements: str) -> None:
    """Run statements that the step names, as a user of the target."""
    with session.target.objects.building() as connection:
        raw = connection.execution_options(no_parameters=True)
        for statement in statements.split(";\n"):
            raw.exec_driver_sql(statement)


SCHEMA = """
CREATE TYPE mood AS ENUM ('ok', 'bad');
CREATE DOMAIN low AS int CHECK (VALUE < 9);
CREATE TABLE t (
  id int PRIMARY KEY, n int DEFAULT -5, big bigint DEFAULT 7, text text DEFAULT 'it''s ( 5', name varchar(20) DEFAULT 'x',
  flag boolean DEFAULT true, amount numeric(10,2) DEFAULT 1.5, day date DEFAULT '2020-01-31', at timestamptz DEFAULT now(),
  real double precision DEFAULT 0.5, sum int DEFAULT (1 + 2), mood mood DEFAULT 'ok', low low DEFAULT 3, id2 uuid DEFAULT
  '00000000-0000-0000-0000-000000000001', bytes bytea DEFAULT '\\x00ff', tags text[] DEFAULT '{}', doc jsonb DEFAULT '{"a": 1}',
  twice int GENERATED ALWAYS AS (n * 2) STORED,
  CONSTRAINT positive CHECK (n > -100 AND (text <> '' OR n = 3)), CONSTRAINT named CHECK (name IN ('x', 'y z', ''''))
);
CREATE INDEX plain ON t (n, big); CREATE INDEX down ON t (n DESC, id); CREATE UNIQUE INDEX once ON t (big, id);
CREATE INDEX summed ON t ((n + 1), id); CREATE INDEX partly ON t (n) WHERE big > 0;
CREATE PUBLICATION p FOR TABLE t;
"""
CHANGED = """
ALTER TABLE t ALTER n SET DEFAULT 6, ALTER text SET DEFAULT 'it''s (  5', ALTER amount SET DEFAULT 1.51, ALTER flag SET DEFAULT false,
 ALTER at SET DEFAULT '2020-01-01 00:00:00+00', ALTER sum SET DEFAULT (1 + 3),
 DROP CONSTRAINT named, ADD CONSTRAINT named CHECK (name IN ('x', 'yz', '''')), DROP COLUMN twice;
ALTER TABLE t ADD twice int GENERATED ALWAYS AS (n * 3) STORED;
ALTER TYPE mood ADD VALUE 'new';
DROP INDEX plain, down, summed, partly;
CREATE INDEX plain ON t (n, real); CREATE INDEX down ON t (n, id); CREATE INDEX summed ON t ((n + 2), id);
CREATE INDEX partly ON t (n) WHERE big > 1;
"""
DEFAULTS = {"t.n", "t.text", "t.amount", "t.flag", "t.at", "t.sum"}
DIFFERENT = {
    "sqlite": {"t.named", "t.mood_mood", "t.twice", "t.plain", "t.down", "t.summed", "t.partly"},
    # DuckDB has neither names of CHECK constraints, nor the order of keys, nor partial indexes.
    "duckdb": {"t.twice", "t.plain", "t.summed"},
    # MariaDB does not say how keys are sorted.
    "mariadb": {"t.named", "t.mood_mood", "t.twice", "t.plain"},
    "postgresql": {"t.named", "t.twice", "t.plain", "t.down", "t.summed", "t.partly"},
}
BY_HAND = {"sqlite": {"t.named", "t.mood_mood"}, "duckdb": {"t.twice"}}
"""What the target cannot replace."""


def test_what_is_built_is_the_same_and_what_is_changed_then_is_different(subscribed):
    session = subscribed(SCHEMA)
    build(session, "before", "after")
    found = listed(session).values()
    assert [one.name for one in found if one.phase != "manual" or one.kind.startswith(("different", "surplus"))] == []

    session.publisher.execute(CHANGED)
    different = {name: one for name, one in listed(session).items() if "different" in one.kind}
    assert {name for name, one in different.items() if one.kind == "different default"} == DEFAULTS
    assert set(different) - DEFAULTS == DIFFERENT[kind_of(session)]
    assert all(one.reason.startswith("the target has ") for one in different.values())
    by_hand = {name for name, one in different.items() if not one.ddl}
    assert by_hand == BY_HAND.get(kind_of(session), set())
    assert {one.phase for name, one in different.items() if name not in DEFAULTS} == {"manual"}

    for name, one in different.items():
        if name not in DEFAULTS | by_hand:
            run_statements(session, one.ddl)
    build(session, "before", "after")
    left = {name for name, one in listed(session).items() if one.phase != "manual" or "different" in one.kind}
    assert left == by_hand
    session.execute("INSERT INTO t (id) VALUES (1)")
    ((number, text, amount, flag, total),) = session.rows("SELECT n, text, amount, flag, sum FROM t")
    assert (number, text, float(amount), bool(flag), total) == (6, "it's (  5", 1.51, False, 4)


def test_a_default_of_the_user_is_the_same_if_it_has_the_same_value(subscribed):
    session = subscribed(
        "CREATE TABLE t (id int PRIMARY KEY, n int DEFAULT 5, a varchar(9) DEFAULT 'x'); CREATE PUBLICATION p FOR TABLE t"
    )
    assert listed(session) == {}
    if kind_of(session) == "sqlite":
        session.execute("DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, n INT DEFAULT '5', a TEXT DEFAULT ('x'))")
    else:
        session.execute(
            "ALTER TABLE t ALTER COLUMN n SET DEFAULT '5'", "ALTER TABLE t ALTER COLUMN a SET DEFAULT ('x')"
        )
    assert listed(session) == {}
    session.publisher.execute("ALTER TABLE t ALTER n SET DEFAULT 50")
    assert [one.kind for one in listed(session).values()] == ["different default"]


def test_checks_that_duckdb_has_are_not_listed_and_others_are_built_while_the_table_is_empty(
    request, publisher_database, tmp_path
):
    publisher_database.execute(
        "CREATE TYPE mood AS ENUM ('ok', 'bad'); CREATE TABLE t (id int PRIMARY KEY, mood mood, amount numeric(10,2),"
        " CHECK (id > 0 AND id <> 13), CHECK (amount >= 0.5)); CREATE PUBLICATION p FOR TABLE t"
    )
    with opened("duckdb", request, tmp_path) as target:
        session = Session(target, publisher_database, str(tmp_path / "journal"))
        session.run(CREATE)
        # create_tables has declared the CHECK of integers, which DuckDB writes in its own way.
        assert {(name, one.phase) for name, one in listed(session).items()} == {
            ("t.mood_mood", "before"),
            ("t.t_amount_check", "before"),
        }
        build(session, "before")
        assert listed(session) == {}
        session.execute("INSERT INTO t VALUES (1, 'ok', 1)")
        for row in ("(0, 'ok', 1)", "(2, 'new', 1)", "(3, 'ok', 0.4)"):
            with pytest.raises(Exception, match="violates check constraint"):
                session.execute(f"INSERT INTO t VALUES {row}")
        publisher_database.execute("ALTER TABLE t ADD CHECK (id <> 14)")
        (one,) = listed(session).values()
        assert (one.phase, one.reason) == ("manual", "the table has rows, and would have to be replaced")


VIRTUAL = """
CREATE TABLE v (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) VIRTUAL, again int GENERATED ALWAYS AS (a * 3) STORED);
CREATE PUBLICATION p FOR TABLE v;
"""
STORAGE = {
    "sqlite": "SELECT name, hidden = 2 FROM pragma_table_xinfo('v') WHERE hidden IN (2, 3)",
    "duckdb": "SELECT column_name, true FROM duckdb_columns() WHERE table_name = 'v' AND column_name IN ('twice', 'again')",
    "mariadb": "SELECT column_name, extra LIKE '%%VIRTUAL%%' FROM information_schema.columns WHERE table_name = 'v'"
    " AND extra LIKE '%%GENERATED%%'",
    "postgresql": "SELECT attname::text, attgenerated = 'v' FROM pg_attribute WHERE attrelid = 'v'::regclass AND attgenerated <> ''",
}
"""The generated columns of a target's table, and whether each is VIRTUAL."""


def test_a_virtual_column_is_virtual_in_the_target_and_a_stored_one_there_is_different(subscribed):
    session = subscribed(VIRTUAL)
    kind = kind_of(session)
    assert all("VIRTUAL" in one.ddl for one in listed(session).values() if one.name == "public.v.twice")
    build(session, "before")
    storage = dict(session.rows(STORAGE[kind]))
    assert {name: bool(virtual) for name, virtual in storage.items()} == {
        "twice": True,
        "again": kind in ("sqlite", "duckdb"),  # where a column that is added is VIRTUAL
    }
    assert listed(session) == {}
    if kind == "duckdb":
        return  # it has no other columns
    column = "twice int GENERATED ALWAYS AS (a * 2) STORED"
    if kind == "sqlite":
        session.execute(
            "DROP TABLE v",
            f"CREATE TABLE v (id INTEGER PRIMARY KEY, a INT, {column}, again INT GENERATED ALWAYS AS (a * 3))",
        )
    else:
        session.execute("ALTER TABLE v DROP COLUMN twice", f"ALTER TABLE v ADD COLUMN {column}")
    (one,) = listed(session).values()
    assert (one.kind, one.phase, one.name) == ("different generated column", "manual", "public.v.twice")
    assert one.reason.endswith("STORED")
    assert one.publisher_ddl == "GENERATED ALWAYS AS ((a * 2)) VIRTUAL"
    if one.ddl:
        run_statements(session, one.ddl)
        assert listed(session) == {}


def test_a_virtual_column_is_stored_in_a_postgresql_that_has_none(publisher_database, postgresql16, tmp_path):
    publisher_database.execute(VIRTUAL)
    postgresql16.create_database("before_virtual")
    try:
        with open_target(postgresql16.url("before_virtual")) as target:
            session = Session(target, publisher_database, str(tmp_path / "journal"))
            session.run(CREATE)
            one = listed(session)["v.twice"]
            assert one.reason == "the column is STORED: PostgreSQL has no VIRTUAL columns before version 18"
            build(session, "before")
            assert listed(session) == {}
    finally:
        postgresql16.drop_database("before_virtual")


FUNCTIONS = """
CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n * 2';
CREATE FUNCTION "A b"(text) RETURNS bool LANGUAGE sql IMMUTABLE AS $$SELECT $1 <> ''$$;
CREATE FUNCTION unused() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE AGGREGATE total (int) (SFUNC = int4pl, STYPE = int);
CREATE DOMAIN code AS text CHECK ("A b"(VALUE));
CREATE TABLE t (id int PRIMARY KEY, n int DEFAULT twice(4), g int GENERATED ALWAYS AS (twice(id)) STORED, a text, code code,
  CONSTRAINT filled CHECK ("A b"(a)));
CREATE INDEX doubled ON t (twice(n)); CREATE INDEX plain ON t (n);
CREATE PUBLICATION p FOR TABLE t;
"""
TWICE, A_B = "public.twice(integer)", 'public."A b"(text)'


def test_what_calls_a_function_waits_for_it_and_the_function_is_shown(postgresql):
    session = postgresql
    session.publisher.execute(FUNCTIONS)
    session.run(CREATE.replace("create_tables", "create_tables, copy_data = false"))
    found = listed(session)
    waits = {name: one.waits_for for name, one in found.items() if one.waits_for}
    assert waits == {
        "t.n": (TWICE,), "t.g": (TWICE,), "t.doubled": (TWICE,), "t.filled": (A_B,), "code": (A_B,), "t.code": (A_B,)
    }  # fmt: skip
    assert found["t.n"].reason == f"it calls function {TWICE}, which the target lacks: create it first"
    assert found["t.plain"].waits_for == ()
    functions = {one.name: one for one in found.values() if one.kind == "function"}
    assert set(functions) == {TWICE, A_B, "public.unused()", "public.total(integer)"}
    assert functions["public.unused()"].needed_by == ()
    assert functions[TWICE].needed_by == ("default public.t.n", "generated column public.t.g", "index public.t.doubled")

    url = session.target.url.render_as_string(False)
    ended = CliRunner().invoke(cli, ["schema", "apply", "--after", "s", "--target", url])
    assert (ended.exit_code, ended.stdout) == (
        1,
        (
            f"left out: index public.t.doubled: it calls function {TWICE}, which the target lacks: create it first\n"
            "1 built, 0 refused, 1 left out\n"
        ),
    )
    for one in (functions[TWICE], functions[A_B]):
        run_statements(session, one.publisher_ddl)
    build(session, "before", "after")
    left = json.loads(CliRunner().invoke(cli, ["schema", "diff", "--json", "s", "--target", url]).stdout)
    assert {one["name"] for one in left} == {"public.unused()", "public.total(integer)"}
    session.execute("INSERT INTO t (id, a, code) VALUES (3, 'x', 'y')")
    assert session.rows("SELECT n, g FROM t") == [(8, 6)]
    session.execute(
        "CREATE OR REPLACE FUNCTION public.twice(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n * 3'"
    )
    assert listed(session)[TWICE.removeprefix("public.")].reason == "the target has another definition of it"


def without_identity(session: Session) -> list[bool]:
    """The tables for which the way back of a cutover would refuse."""
    url = session.target.url.set(drivername="postgresql").render_as_string(False)
    with psycopg.connect(url) as connection:
        found = target_obstacles(
            connection, [("public", name) for name in ("full_rows", "no_key", "by_index", "nothing")]
        )
    return ['"public.no_key"' in one.message for one in found if "no replica identity" in one.message]


def test_the_replica_identity_of_the_publisher_is_carried_over(postgresql):
    session = postgresql
    session.publisher.execute(
        """
        CREATE TABLE full_rows (id int PRIMARY KEY); ALTER TABLE full_rows REPLICA IDENTITY FULL;
        CREATE TABLE no_key (id int); ALTER TABLE no_key REPLICA IDENTITY FULL;
        CREATE TABLE by_index (id int PRIMARY KEY, n int NOT NULL); CREATE UNIQUE INDEX by_n ON by_index (n);
        ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_n;
        CREATE TABLE nothing (id int PRIMARY KEY); ALTER TABLE nothing REPLICA IDENTITY NOTHING;
        CREATE PUBLICATION p FOR TABLE full_rows, no_key, by_index, nothing
        """
    )
    session.run(CREATE)
    assert without_identity(session) == [True]  # `cutover --reverse` would refuse no_key
    build(session, "before", "after")
    assert without_identity(session) == []
    assert listed(session) == {}
    identities = "SELECT relname::text, relreplident::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
    found = dict(session.rows(identities))
    # The primary key of by_index has the columns of the publisher's index.
    assert {name: found[name] for name in ("full_rows", "no_key", "by_index", "nothing")} == {
        "full_rows": "f", "no_key": "f", "by_index": "d", "nothing": "d",
    }  # fmt: skip
    session.execute(
        "ALTER TABLE no_key REPLICA IDENTITY NOTHING",
        "DROP TABLE by_index",
        "CREATE TABLE by_index (id int PRIMARY KEY, n int NOT NULL)",
    )
    (full, index, identity) = sorted(difference(session).objects, key=lambda one: one.kind != "replica identity")[:3]
    assert [full.ddl, index.ddl] == [
        "ALTER TABLE public.by_index REPLICA IDENTITY USING INDEX by_n", "ALTER TABLE public.no_key REPLICA IDENTITY FULL"
    ]  # fmt: skip
    assert identity.kind == "unique index"
    build(session, "before", "after")
    assert listed(session) == {}
    assert dict(session.rows(identities))["by_index"] == "i"


def test_the_casts_that_the_targets_types_need_make_no_difference(postgresql):
    session = postgresql
    session.publisher.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a varchar(9) DEFAULT 'x', CONSTRAINT c CHECK (a <> ''), g text GENERATED ALWAYS AS (a || 'y') STORED);"
        " CREATE INDEX i ON t (lower(a)) WHERE a <> 'z'; CREATE PUBLICATION p FOR TABLE t"
    )
    session.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a text DEFAULT 'x', CONSTRAINT c CHECK (a <> ''), g text GENERATED ALWAYS AS (a || 'y') STORED)",
        "CREATE INDEX i ON t (lower(a)) WHERE a <> 'z'",
    )
    session.run(CREATE.replace("create_tables, ", ""))
    assert listed(session) == {}
    with psycopg.connect(session.target.url.set(drivername="postgresql").render_as_string(False)) as connection:
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relname ~ 'probe'").fetchone() == (0,)


# A column that the publisher has got since --------------------------------------------------------


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["sqlite", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("duckdb", "mariadb", "postgresql"))]
)
def test_a_column_of_a_quiet_table_is_added_with_its_values_by_the_two_statements(
    kind, request, publisher_database, tmp_path
):
    publisher_database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;"
        " CREATE PUBLICATION p FOR TABLE t"
    )
    with opened(kind, request, tmp_path) as target:
        session = Session(target, publisher_database, str(tmp_path / "journal"))
        target.engine.dispose()
        runner = Runner(target.url.render_as_string(hide_password=False), tmp_path / "runner")
        try:
            runner.sql(
                f"CREATE SUBSCRIPTION s CONNECTION '{publisher_database.conninfo}' PUBLICATION p"
                " WITH (create_tables, schema_changes = add_columns)"
            )
            runner.start()
            ready(runner)
            publisher_database.execute(
                "ALTER TABLE t ADD late numeric(6,2) DEFAULT 1.5 NOT NULL; ALTER TABLE t ADD more text"
            )
            found = json.loads(runner.call("schema", "diff", "--json", "s").stdout)
            assert [(one["kind"], one["name"]) for one in found] == [
                ("missing column", "public.t.late"),
                ("missing column", "public.t.more"),
            ]
            refresh = "ALTER SUBSCRIPTION s REFRESH TABLE public.t"
            if kind == "duckdb":  # the run has the file
                assert runner.interrupt() == 0
            for one in found:
                assert one["reason"] == (
                    f"the column is new at the publisher. Run in the target: {one['ddl']}; then `subscriber sql`:"
                    f" {refresh}, which copies its values"
                )
                run_statements(session, one["ddl"])
            target.engine.dispose()
            if kind == "duckdb":
                runner.start()
            runner.sql(refresh)
            ready(runner)
            left = json.loads(runner.call("schema", "diff", "--json", "s").stdout)
            assert [(one["kind"], one["name"]) for one in left] == [("default", "public.t.late")]
            equal(runner)
            publisher_database.execute("INSERT INTO t (id, more) VALUES (101, 'x')")
            equal(runner)
            assert runner.interrupt() == 0
        finally:
            runner.close()


def ready(runner: Runner) -> None:
    wait_until(lambda: runner.status()["s"]["tables"] == {"r": 1}, "the table to be ready\n" + runner.said())


def equal(runner: Runner) -> None:
    verified = runner.call("verify", "s", timeout=120)
    assert verified.returncode == 0, verified.stdout + verified.stderr


TYPES = {
    "sqlite": ("TEXT", "TEXT"),
    "duckdb": ("TEXT", "JSON"),
    "mariadb": ("VARCHAR(20) COLLATE utf8mb4_nopad_bin", "JSON"),
    "postgresql": ("varchar(20)", "jsonb"),
}
"""How each target declares a text and a document."""


def test_constraints_that_only_the_target_has_are_listed_by_the_schema_step_and_by_check(subscribed):
    """What the publisher accepts may violate them. Those of both are not listed."""
    session = subscribed(
        "CREATE TABLE t (id int PRIMARY KEY, n int, name varchar(20), doc jsonb, CONSTRAINT small CHECK (n < 100));"
        "CREATE PUBLICATION p FOR TABLE t"
    )
    kind = kind_of(session)
    text, document = TYPES[kind]
    session.execute(
        "DROP TABLE t",
        f"CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, name {text}, doc {document},"
        " CONSTRAINT small CHECK (n < 100), CONSTRAINT short CHECK (n < 9))",
        "CREATE UNIQUE INDEX by_name ON t (name)",
        "CREATE UNIQUE INDEX by_both ON t (id, name)",
    )
    found = {one.kind: one for one in difference(session).objects}
    assert set(found) == {"surplus not null", "surplus unique key", "surplus check"}
    assert {one.phase for one in found.values()} == {"manual"}
    check = "CHECK ((n < 9))" if kind == "duckdb" else "short"
    assert {one.name for one in found.values()} == {"public.t.n", "public.t.by_name", f"public.t.{check}"}

    migration = Migration(session.publisher.conninfo, ("p",), SubscriptionOptions())
    findings = [
        one for one in check_migration(session.target, migration, session.settings) if "only the" in one.message
    ]
    assert {(one.severity, one.object) for one in findings} == {("WARN", one.name) for one in found.values()}

    for one in findings:
        if one.remedy:
            run_statements(session, one.remedy.removesuffix(";"))
    left = {one.kind for one in difference(session).objects}
    assert left == {"surplus not null", *({"surplus check"} if kind in ("sqlite", "duckdb") else set())}


def test_a_unique_key_of_texts_whose_collation_ignores_case_is_listed(request, publisher_database, tmp_path):
    """'Ann' and 'ann' are two rows at the publisher."""
    publisher_database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, name text UNIQUE); CREATE PUBLICATION p FOR TABLE t"
    )
    with opened("mariadb", request, tmp_path) as target:
        session = Session(target, publisher_database, str(tmp_path / "journal"))
        session.run(CREATE)
        assert [one.kind for one in difference(session).objects] == []
        session.execute("ALTER TABLE t MODIFY name VARCHAR(50) COLLATE utf8mb4_general_ci")
        (one,) = difference(session).objects
        assert (one.kind, one.ddl) == ("inexact unique key", "DROP INDEX `name` ON `t`")
