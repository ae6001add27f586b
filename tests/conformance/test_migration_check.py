"""The check of a migration against real servers: each problem is found, and nothing is changed."""

from __future__ import annotations

import os

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

from subscriber.base.settings import Settings
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.cli import cli
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import CreateSubscription, parse
from subscriber.migrate.check_migration import Migration, check_migration, warn_at_creation
from subscriber.migrate.findings import Finding
from subscriber.postgres.schema.value_rules import parse_value_rules
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.copy_out import sample_reading
from subscriber.targets import open_target
from tests.conftest import Database
from tests.target_databases import KINDS, opened

pytestmark = pytest.mark.server

CREATED = SubscriptionOptions(create_tables=True)


def checked(database, folder, *publications, options=CREATED, url=None, user=None, scan=False) -> list[Finding]:
    conninfo = database.conninfo if user is None else make_conninfo(database.conninfo, user=user)
    with open_target(url or f"sqlite:///{folder / 'new.db'}") as target:
        migration = Migration(conninfo, publications, options)
        return list(check_migration(target, migration, Settings(str(folder / "journal")), scan=scan))


def of(findings, *severities) -> set[tuple[str, str]]:
    return {(one.area, one.object) for one in findings if one.severity in severities}


def test_a_migration_without_problems_has_only_facts_to_know(database, tmp_path):
    database.execute("CREATE TABLE good (id int PRIMARY KEY, v text)")
    database.execute("INSERT INTO good SELECT i, 'x' FROM generate_series(1, 1000) i")
    database.execute("ANALYZE good")
    database.execute("CREATE VIEW seen AS SELECT * FROM good")
    database.execute("CREATE PUBLICATION p FOR TABLE good")
    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    found = checked(database, tmp_path, "p")
    assert of(found, "FAIL") == set()
    assert ("not replicated", "views") in of(found, "INFO")
    messages = {one.object: one.message for one in found}
    assert messages["create_tables"] == "1 table will be created"
    assert messages["views"] == "1 is not replicated: public.seen"
    assert messages["size"].startswith("1 table with about 1,000 rows")
    assert messages["duration of the copy"] == "about 1 s for one connection"
    assert database.execute(slots) == [(0,)]
    assert list(tmp_path.iterdir()) == []


def test_a_sample_that_ends_before_the_table_leaves_the_connection_usable(database):
    database.execute("CREATE TABLE large AS SELECT repeat('x', 1000) FROM generate_series(1, 50000)")
    with connect_publisher(database.conninfo, "tests") as connection:
        sample = sample_reading(connection, "public", "large", seconds=0)
        assert 0 < sample.rows < 50_000
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_each_problem_of_a_table_is_a_fail_with_a_statement_that_puts_it_right(database, tmp_path):
    role = f"{database.name}_poor"
    for statement in (
        'CREATE TABLE "no ""key" (a int)',
        "CREATE TABLE hidden (id int PRIMARY KEY)",
        "ALTER TABLE hidden ENABLE ROW LEVEL SECURITY",
        "CREATE TABLE closed (id int PRIMARY KEY)",
        "CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY)",
        f"CREATE ROLE {role} LOGIN",
        f'GRANT SELECT ON hidden, "no ""key" TO {role}',
        'CREATE PUBLICATION p FOR TABLE "no ""key", hidden, closed',
    ):
        database.execute(statement)
    try:
        found = checked(database, tmp_path, "p", "absent", user=role)
        assert of(found, "FAIL") == {
            ("publisher", f"role {role}"),
            ("publisher", "publication absent"),
            ("tables", 'public.no "key'),
            ("tables", "public.hidden"),
            ("tables", "public.closed"),
        }
        assert [one.reason for one in found if one.object == "publication absent"] == ["The publisher has: p."]
        assert ("not replicated", "unlogged tables") in of(found, "WARN")
        for finding in found:
            if finding.severity == "FAIL" and finding.object != "publication absent":
                database.execute(str(finding.remedy))
        after = checked(database, tmp_path, "p", user=role)
        assert of(after, "FAIL") == set()
    finally:
        database.execute(f"DROP OWNED BY {role}")
        database.execute(f"DROP ROLE {role}")


def test_a_filter_that_the_identity_does_not_cover_is_found(publisher_database, tmp_path):
    publisher_database.execute("CREATE TABLE t (id int PRIMARY KEY, c int)")
    publisher_database.execute("CREATE PUBLICATION p FOR TABLE t WHERE (c > 1)")
    found = [one for one in checked(publisher_database, tmp_path, "p") if one.severity == "FAIL"]
    assert [one.message for one in found] == [
        'the publisher refuses the statement: cannot update table "t"',
        'the publisher refuses the statement: cannot delete from table "t"',
    ]
    publisher_database.execute(str(found[0].remedy))
    assert of(checked(publisher_database, tmp_path, "p"), "FAIL") == set()


def test_the_tables_of_an_existing_target_are_compared(publisher_database, tmp_path):
    publisher_database.execute("CREATE TABLE rows (id int PRIMARY KEY)")
    publisher_database.execute("CREATE TABLE narrow (id int PRIMARY KEY, v text)")
    publisher_database.execute("CREATE TABLE absent (id int PRIMARY KEY)")
    publisher_database.execute("CREATE PUBLICATION p FOR ALL TABLES")
    url = f"sqlite:///{tmp_path / 'old.db'}"
    with open_target(url) as target, target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE rows (id INTEGER PRIMARY KEY)")
        connection.exec_driver_sql("INSERT INTO rows VALUES (1)")
        connection.exec_driver_sql("CREATE TABLE narrow (id INTEGER PRIMARY KEY)")
    found = checked(publisher_database, tmp_path, "p", options=SubscriptionOptions(), url=url)
    assert of(found, "FAIL") == {("target", "public.narrow"), ("target", "public.absent")}
    assert ("target", "public.rows") in of(found, "WARN")
    with open_target(url) as target:
        assert target.query("SELECT name FROM sqlite_schema ORDER BY 1").rows == [("narrow",), ("rows",)]


def test_a_table_that_an_existing_subscription_lacks_is_not_said_to_be_created(publisher_database, tmp_path):
    publisher_database.execute("CREATE TABLE good (id int PRIMARY KEY)")
    publisher_database.execute("CREATE PUBLICATION p FOR TABLE good")
    migration = Migration(publisher_database.conninfo, ("p",), CREATED, "s")
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        found = list(check_migration(target, migration, Settings(journal=str(tmp_path / "journal"))))
    assert ("target", "public.good") in of(found, "FAIL")
    assert [one for one in found if one.object == "create_tables"] == []


def test_options_that_the_command_or_the_copy_would_refuse_are_found(publisher_database, tmp_path):
    publisher_database.execute("CREATE TABLE t (id int PRIMARY KEY, needed int NOT NULL, free int)")
    publisher_database.execute("CREATE TABLE old (LIKE t INCLUDING ALL); CREATE PUBLICATION p FOR ALL TABLES")
    url = f"sqlite:///{tmp_path / 'old.db'}"
    with open_target(url) as target, target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE old (id INTEGER PRIMARY KEY, needed INTEGER NOT NULL, free INTEGER)")
    rules = "public.old.needed = null, public.old.free = null, public.t.id = null, public.t.needed = null, public.t.free = null"
    options = SubscriptionOptions(
        create_tables=True, unrepresentable_values=parse_value_rules(f"{rules}, x.y.z = null")
    )
    found = checked(publisher_database, tmp_path, "p", "p", options=options, url=url)
    said = [one.message for one in found if one.severity == "FAIL"]
    assert said == [
        'publication name "p" used more than once',
        'values of column "needed" of table "public.old" cannot be replaced by NULL, because it does not allow NULL in the target',
        'values of column "id" of table "public.t" cannot be replaced by NULL, because rows are found by it',
        'values of column "needed" of table "public.t" cannot be replaced by NULL, because it does not allow NULL in the target',
    ]
    assert ("target", "options") in of(found, "WARN"), "no table x.y is published"


def test_an_open_transaction_that_holds_up_the_slot_is_named(publisher_database, tmp_path):
    publisher_database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    publisher_database.execute("CREATE PUBLICATION p FOR TABLE t")
    publisher_database.execute("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'held up'")
    try:
        found = checked(publisher_database, tmp_path, "p")
        assert any("held up" in one.message for one in found if one.object == "open transaction")
    finally:
        publisher_database.execute("ROLLBACK PREPARED 'held up'")


def test_a_file_that_cannot_be_created_is_a_fail(publisher_database, tmp_path):
    publisher_database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    publisher_database.execute("CREATE PUBLICATION p FOR TABLE t")
    found = checked(publisher_database, tmp_path, "p", url=f"duckdb:///{tmp_path / 'no' / 'x.duckdb'}")
    assert of(found, "FAIL") == {("target", "file")}


# Names and encodings ------------------------------------------------------------------------------


def test_a_table_with_a_text_that_is_no_utf8_is_named(postgresql18, tmp_path):
    name = f"ascii_{os.getpid()}"
    create = f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    postgresql18.execute(create, "postgres")
    try:
        database = Database(postgresql18, name, postgresql18.conninfo(name))
        for statement in (
            "CREATE TABLE good (id int PRIMARY KEY, v text); INSERT INTO good SELECT i, 'x' FROM generate_series(1, 9999) i",
            "CREATE TABLE bad (id int PRIMARY KEY, v text); INSERT INTO bad VALUES (1, 'x'), (2, E'\\xe4')",
            "CREATE PUBLICATION p FOR ALL TABLES",
        ):
            database.execute(statement)
        found = checked(database, tmp_path, "p")
        assert ("publisher", "server_encoding") in of(found, "WARN")
        assert of(found, "FAIL") == set(), "only the largest table is sampled"
        found = checked(database, tmp_path, "p", scan=True)
        assert of(found, "FAIL") == {("tables", "public.bad")}
        database.execute("DROP TABLE good")
        found = checked(database, tmp_path, "p")
        assert of(found, "FAIL") == {("tables", "public.bad")}
        assert any(one.message == "a text of the publisher cannot be read as UTF8" for one in found)
    finally:
        postgresql18.drop_database(name)


def test_a_type_that_a_user_has_made_is_named(publisher_database, tmp_path):
    publisher_database.execute("CREATE TYPE mood AS ENUM ('ok'); CREATE TABLE t (id int PRIMARY KEY, m mood, n mood[])")
    publisher_database.execute("CREATE PUBLICATION p FOR TABLE t")
    url = f"sqlite:///{tmp_path / 'old.db'}"
    with open_target(url) as target, target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (id INTEGER PRIMARY KEY, m NUMERIC, n TEXT)")
    found = checked(publisher_database, tmp_path, "p", options=SubscriptionOptions(), url=url)
    (failed,) = (one for one in found if one.severity == "FAIL")
    assert 'column "m" declared "NUMERIC" cannot hold type mood exactly' in failed.message
    assert failed.remedy == "Declare the column as TEXT to keep every value of type mood."


@pytest.mark.parametrize("create_tables", [True, False])
def test_a_table_without_columns_is_refused_with_that_reason(publisher_database, tmp_path, create_tables):
    publisher_database.execute("CREATE TABLE empty (); CREATE PUBLICATION p FOR TABLE empty WITH (publish = 'insert')")
    options = SubscriptionOptions(create_tables=create_tables)
    found = checked(publisher_database, tmp_path, "p", options=options)
    (failed,) = (one for one in found if one.severity == "FAIL")
    assert failed.message == 'table "public.empty" has no columns, and SQLite has no such tables'
    assert failed.remedy == 'Leave "public.empty" out of the publication.'


def test_names_with_line_breaks_have_remedies_that_run(publisher_database, tmp_path, capsys):
    publisher_database.execute('CREATE TABLE "a\nb" (id int); CREATE UNLOGGED TABLE "c\nd" (id int)')
    publisher_database.execute("CREATE PUBLICATION p FOR ALL TABLES")
    called = CliRunner().invoke(
        cli,
        ["check", "--target", f"sqlite:///{tmp_path / 'new.db'}", publisher_database.conninfo, "p"],
        env={"SUBSCRIBER_JOURNAL": str(tmp_path / "journal")},
    )
    lines = called.stdout.splitlines()
    assert any(line.startswith("FAIL  public.a\\nb: ") for line in lines)
    remedies = [line.partition("→ ")[2] for line in lines if "→ ALTER TABLE" in line]
    assert len(remedies) == 2
    for remedy in remedies:
        publisher_database.execute(remedy)
    assert of(checked(publisher_database, tmp_path, "p"), "FAIL") == {("tables", "public.c\nd")}


def test_a_few_tables_of_one_row_are_copied_in_a_second(publisher_database, tmp_path):
    for number in range(17):
        publisher_database.execute(f"CREATE TABLE t{number} (id int PRIMARY KEY, v text)")
        publisher_database.execute(f"INSERT INTO t{number} VALUES (1, 'x')")
    publisher_database.execute("CREATE PUBLICATION p FOR ALL TABLES")
    messages = {one.object: one.message for one in checked(publisher_database, tmp_path, "p")}
    assert messages["duration of the copy"] == "about 1 s for one connection"


# --scan -------------------------------------------------------------------------------------------


def scanned(database, target, options=CREATED) -> dict[str, tuple[str, str]]:
    migration = Migration(database.conninfo, ("p",), options)
    found = check_migration(target, migration, Settings("journal"), scan=True)
    return {one.object: (one.severity, one.message) for one in found if "target cannot hold" in one.message}


VALUES_TABLE = (
    'CREATE TABLE "T" (k int PRIMARY KEY, x float8, n numeric(5,2), wide numeric, d date, at timestamptz, "V" text, i bigint);'
    "INSERT INTO \"T\" SELECT n, CASE n % 10 WHEN 0 THEN 'NaN'::float8 WHEN 1 THEN 'Infinity' ELSE n END,"
    " CASE n % 5 WHEN 0 THEN 'NaN'::numeric ELSE 1.5 END, CASE n WHEN 7 THEN 1e60::numeric ELSE n END,"
    " CASE n WHEN 8 THEN 'infinity'::date WHEN 9 THEN '0044-03-15 BC'::date ELSE '2026-01-01' END,"
    " CASE n WHEN 8 THEN 'infinity'::timestamptz ELSE now() END, repeat('x', n), n::int8 * 100000000 FROM generate_series(1, 100) n;"
    'CREATE PUBLICATION p FOR TABLE "T" WHERE (k <= 50)'
)


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_the_target_cannot_hold_are_counted_before_the_copy(kind, request, publisher_database, tmp_path):
    publisher_database.execute(VALUES_TABLE)
    with opened(kind, request, tmp_path) as target:
        before = set(sa.inspect(target.engine).get_table_names()) if kind != "duckdb" else set()
        new = scanned(publisher_database, target)
        expected = {
            "mariadb": {"x": 10, "n": 10, "d": 2},
            "duckdb": {"n": 10},
        }.get(kind, {})
        rows = {
            f"public.T.{name}": ("FAIL", f"{count} rows have values that the target cannot hold")
            for name, count in expected.items()
        }
        assert new == (rows or {"values": ("INFO", "no value was found that the target cannot hold")})
        if kind != "duckdb":
            assert set(sa.inspect(target.engine).get_table_names()) == before


@pytest.mark.parametrize("kind", KINDS)
def test_the_columns_of_an_existing_table_decide_and_replaced_values_are_a_warning(
    kind, request, publisher_database, tmp_path
):
    publisher_database.execute(VALUES_TABLE)
    number = {"sqlite": "NUMERIC_TEXT(5,2)", "postgresql": "numeric(5,2)"}.get(kind, "DECIMAL(5,2)")
    text = {"sqlite": "CHARACTER VARYING(48)", "duckdb": "INTEGER"}.get(
        kind, "varchar(48)" if kind == "postgresql" else "VARCHAR(48) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    )
    integer = {"sqlite": "INT"}.get(kind, "integer")
    with opened(kind, request, tmp_path) as target:
        quote = target.engine.dialect.identifier_preparer.quote
        with target.begin() as connection:
            if kind == "postgresql":
                connection.exec_driver_sql("SET LOCAL search_path = public")
            connection.exec_driver_sql(
                f"CREATE TABLE {quote('T')} (k integer PRIMARY KEY, x double precision, n {number}, wide {number},"
                f" d date{'_text' if kind == 'sqlite' else ''}, {quote('V')} {text} NOT NULL, i {integer})"
            )
        publisher_database.execute('ALTER TABLE "T" DROP COLUMN at')
        options = SubscriptionOptions(unrepresentable_values=parse_value_rules("null"))
        found = scanned(publisher_database, target, options)
        assert found["public.T.wide"] == ("WARN", "1 row has a value that the target cannot hold")
        assert found["public.T.i"] == ("WARN", "29 rows have values that the target cannot hold")
        expected = 50 if kind == "duckdb" else 2
        assert found["public.T.V"] == ("FAIL", f"{expected} rows have values that the target cannot hold"), (
            "it is NOT NULL"
        )


def test_a_table_that_is_to_be_created_is_judged_by_its_own_keys_and_not_null(request, publisher_database, tmp_path):
    """A column of REPLICA IDENTITY FULL is no key, and another column may be NOT NULL."""
    publisher_database.execute(
        """CREATE TABLE "T's" (k int PRIMARY KEY, needed float8 NOT NULL, "Free" float8, v text);
        ALTER TABLE "T's" REPLICA IDENTITY FULL;
        INSERT INTO "T's" VALUES (1, 'NaN', 'NaN', repeat('x', 5000)); CREATE PUBLICATION p FOR ALL TABLES"""
    )
    with opened("mariadb", request, tmp_path) as target:
        found = check_migration(
            target, Migration(publisher_database.conninfo, ("p",), CREATED), Settings("j"), scan=True
        )
        remedies = {one.object: str(one.remedy) for one in found if "target cannot hold" in one.message}
        assert set(remedies) == {"public.T's.needed", "public.T's.Free"}
        assert "unrepresentable_values" not in remedies["public.T's.needed"]
        assert """WITH (unrepresentable_values = 'public."T''s"."Free" = null')""" in remedies["public.T's.Free"]
        everywhere = SubscriptionOptions(create_tables=True, unrepresentable_values=parse_value_rules("null"))
        assert {name: severity for name, (severity, _) in scanned(publisher_database, target, everywhere).items()} == {
            "public.T's.needed": "FAIL",
            "public.T's.Free": "WARN",
        }


def test_a_table_that_cannot_be_read_does_not_end_the_scan(publisher_database, tmp_path):
    role = f"{publisher_database.name}_poor"
    publisher_database.execute(
        f"CREATE TABLE a (k name PRIMARY KEY); CREATE TABLE b (k name PRIMARY KEY); CREATE PUBLICATION p FOR TABLE a, b;"
        f"CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON b TO {role}"
    )
    url = f"sqlite:///{tmp_path / 'old.db'}"
    try:
        with open_target(url) as target:
            with target.begin() as connection:
                for name in ("a", "b"):
                    connection.exec_driver_sql(f"CREATE TABLE {name} (k CHARACTER VARYING(3) PRIMARY KEY)")
            migration = Migration(make_conninfo(publisher_database.conninfo, user=role), ("p",), SubscriptionOptions())
            found = list(check_migration(target, migration, Settings("journal"), scan=True))
    finally:
        publisher_database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    said = {(one.object, one.message) for one in found if one.severity == "FAIL"}
    assert ("public.a", "permission denied for table a") in said
    assert found[-1].object == "size", "the checks after the scan were made, too"


LIMITED = {
    "b": ("bytea", "decode(repeat('ff', 5000000), 'hex')", "MEDIUMBLOB", "TINYBLOB"),
    "j": ("jsonb", "to_jsonb(repeat('x', 300))", "LONGTEXT", "TINYTEXT"),
    "m": ("text", "repeat('x', 16777216)", "LONGTEXT", "MEDIUMTEXT"),
    "n": ("name", "repeat('x', 60)::name", "VARCHAR(63)", "VARCHAR(10)"),
    "a": ("int[]", "ARRAY[1, 2, 3]", "VARCHAR(100)", "VARCHAR(5)"),
    "i": ("interval", "interval '1 year 2 days 03:04:05.678'", "VARCHAR(100)", "VARCHAR(8)"),
    "t": ("time", "time '12:34:56.789'", "VARCHAR(15)", "VARCHAR(8)"),
    "u": ("uuid", "gen_random_uuid()", "CHAR(36)", "VARCHAR(32)"),
    "v": ("bit varying", "repeat('1', 300)::bit varying", "TEXT", "TINYTEXT"),
    "e": ("mood", "'delighted'::mood", "VARCHAR(20)", "VARCHAR(5)"),
}
"""For each column: the publisher's type, a value, and a column of MariaDB that holds it and one
that does not.
"""


@pytest.mark.parametrize(("place", "expected"), [(2, set()), (3, {f"public.long.{name}" for name in LIMITED})])
def test_values_of_any_type_that_are_too_long_are_found(place, expected, request, publisher_database, tmp_path):
    columns = ", ".join(f"{name} {declared}" for name, (declared, *_) in LIMITED.items())
    publisher_database.execute(
        f"CREATE TYPE mood AS ENUM ('delighted'); CREATE TABLE long (k int PRIMARY KEY, {columns});"
        f"INSERT INTO long VALUES (1, {', '.join(value for _, value, *_ in LIMITED.values())});"
        "CREATE PUBLICATION p FOR TABLE long"
    )
    with opened("mariadb", request, tmp_path) as target:
        with target.begin() as connection:
            columns = ", ".join(f"{name} {declared[place]}" for name, declared in LIMITED.items())
            connection.exec_driver_sql(
                f"CREATE TABLE `long` (k int PRIMARY KEY, {columns}) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
            )
        assert set(scanned(publisher_database, target)) - {"values"} == expected


def test_create_subscription_warns_of_what_it_does_not_see_itself(database, tmp_path):
    role = f"{database.name}_poor"
    for statement in (
        "CREATE TABLE good (id int PRIMARY KEY)",
        "CREATE TABLE hidden (id int PRIMARY KEY)",
        "ALTER TABLE hidden ENABLE ROW LEVEL SECURITY",
        "CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY)",
        f"CREATE ROLE {role} LOGIN REPLICATION",
        f"GRANT SELECT ON good, hidden TO {role}",
        "CREATE PUBLICATION p FOR TABLE good, hidden",
    ):
        database.execute(statement)
    try:
        said = created(tmp_path, make_conninfo(database.conninfo, user=role), "p")
    finally:
        database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert [line for line in said if not line.startswith("NOTICE")] == [
        (
            f'WARNING:  public.hidden: row security hides rows of the table from role "{role}"\n'
            "DETAIL:  The initial copy would leave them out, without an error.\n"
            f"HINT:  ALTER ROLE {role} BYPASSRLS;"
        ),
        (
            "WARNING:  unlogged tables: 1 is not replicated: public.unlogged\n"
            "HINT:  ALTER TABLE public.unlogged SET LOGGED;"
        ),
    ]
    assert said[-1] == "NOTICE:  `subscriber check --subscription made` checks everything."


def test_create_subscription_says_nothing_if_there_is_nothing_to_say(database, tmp_path):
    database.execute("CREATE TABLE good (id int PRIMARY KEY)")
    database.execute("CREATE PUBLICATION p FOR TABLE good")
    assert created(tmp_path, database.conninfo, "p") == []


def created(folder, conninfo: str, publication: str) -> list[str]:
    """What is said after CREATE SUBSCRIPTION, beside what the command says itself."""
    settings = Settings(str(folder / "journal"))
    said: list[str] = []
    with open_target(f"sqlite:///{folder / 'made.db'}") as target:
        command = parse(
            f"CREATE SUBSCRIPTION made CONNECTION '{conninfo}' PUBLICATION {publication}"
            " WITH (create_tables = true, create_slot = false, slot_name = NONE, enabled = false)"
        )
        assert isinstance(command, CreateSubscription)
        run_command(target, command, settings, lambda _said: None)
        warn_at_creation(target, command, settings, said.append)
    return said
