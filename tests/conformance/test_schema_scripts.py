"""The script of ``subscriber schema diff --ddl`` runs as it is printed, on every target and for
every model, and builds what ``subscriber schema apply`` builds. Its comments are statements of
PostgreSQL.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import Any

import duckdb
import psycopg
import pymysql
import pytest
from click.testing import CliRunner
from pymysql.constants import CLIENT

from subscriber.cli import cli
from subscriber.migrate.schema.apply_schema import apply_schema
from subscriber.migrate.schema.schema_difference import schema_difference
from subscriber.targets import Target
from tests.application import MODELS, PUBLICATION, load_model
from tests.subscribing import Session
from tests.target_databases import KINDS, opened

pytestmark = pytest.mark.server

CREATE = f"CREATE SUBSCRIPTION s CONNECTION '$pub' PUBLICATION {PUBLICATION} WITH (create_tables, enabled = false, create_slot = false, slot_name = none)"
VIEWS = """
CREATE FUNCTION f(n bigint) RETURNS bigint LANGUAGE sql AS 'SELECT n';
CREATE FUNCTION e(n bigint) RETURNS bigint LANGUAGE sql AS 'SELECT public.f(n)';
CREATE TABLE t (id int PRIMARY KEY, note text);
CREATE VIEW c AS SELECT id, public.f(id) AS n FROM t;
CREATE MATERIALIZED VIEW b AS SELECT id FROM c;
CREATE UNIQUE INDEX b_id ON b (id);
CREATE VIEW a AS SELECT b.id, c.n FROM b JOIN c ON b.id = c.id;
COMMENT ON VIEW a IS 'it''s -- a; comment';
CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN

  RETURN NEW; -- a comment
END $$;
CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION g();
CREATE RULE r AS ON DELETE TO t DO INSTEAD NOTHING;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY p1 ON t USING (id > 0);
CREATE SEQUENCE lone;
CREATE PUBLICATION app FOR TABLE t;
"""
STATEMENT = re.compile(r"CREATE |ALTER |COMMENT ")


def printed(target: Target) -> str:
    """What ``subscriber schema diff --ddl`` prints."""
    url = target.url.render_as_string(hide_password=False)
    ended = CliRunner().invoke(cli, ["schema", "diff", "--ddl", "s", "--target", url])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def piped(target: Target, script: str) -> None:
    """Run the whole text of a script in the target, as its own shell does."""
    url = target.url
    if url.drivername.startswith("sqlite"):
        with closing(sqlite3.connect(str(url.database))) as sqlite:
            sqlite.executescript(script)
    elif url.drivername.startswith("duckdb"):
        target.engine.dispose()
        with duckdb.connect(str(url.database)) as file:
            file.execute(script)
    elif url.drivername.startswith("postgresql"):
        conninfo = url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(conninfo, autocommit=True) as server:
            server.execute(script.encode())
    else:
        with (
            pymysql.connect(
                host=url.host or "",
                port=url.port or 0,
                user=url.username,
                password=url.password or "",
                database=url.database,
                unix_socket=url.query.get("unix_socket"),
                client_flag=CLIENT.MULTI_STATEMENTS,
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(script)
            while cursor.nextset():
                pass


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "model", [pytest.param(one, marks=() if one == "shop" else pytest.mark.long) for one in MODELS]
)
def test_the_script_of_a_model_runs_as_it_is_printed(model, kind, request, publisher_database, tmp_path):
    publisher_database.execute(load_model(model))
    with opened(kind, request, tmp_path) as target:
        session = Session(target, publisher_database, str(tmp_path / "journal"))
        session.run(CREATE)
        script = printed(target)
        assert all(line.startswith("-- ") or line == "--" for line in script.splitlines() if line[:1] == "-")
        piped(target, script)
        left = schema_difference(target, "s").objects
        waiting = {one.name for one in left if one.waits_for and one.phase != "manual"}
        assert [one.name for one in left if one.phase != "manual" and one.name not in waiting] == []
        assert [one.name for one in left if "different" in one.kind] == []
        assert waiting == set()  # the script creates the functions
        again = printed(target)
        piped(target, again)  # there is nothing to do
        assert printed(target) == again


FIRST = """
CREATE SCHEMA tools;
CREATE TYPE tools.mood AS ENUM ('ok', 'bad');
CREATE TYPE pair AS (a int, b tools.mood);
CREATE FUNCTION tools."Z last"(text) RETURNS bool LANGUAGE sql IMMUTABLE AS $$ SELECT $1 <> '' $$;
CREATE FUNCTION tools.a_first(text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN tools."Z last" ($1); END $$;
CREATE DOMAIN code AS text CHECK (tools.a_first(VALUE));
CREATE FUNCTION of_code(code) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
CREATE FUNCTION worth(tools.mood[], pair) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT cardinality($1) + $2.a';
CREATE FUNCTION atomic(int) RETURNS int IMMUTABLE BEGIN ATOMIC SELECT public.worth(ARRAY['ok'::tools.mood], ROW($1, 'ok')::pair); END;
CREATE FUNCTION again(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE FUNCTION and_again(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT CASE WHEN $1 > 0 THEN again($1 - 1) ELSE 0 END';
CREATE OR REPLACE FUNCTION again(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT and_again($1)';
CREATE FUNCTION unneeded() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE COLLATION tools."Bytes" (provider = libc, locale = 'C');
CREATE COLLATION unneeded_too (provider = libc, locale = 'C');
CREATE TEXT SEARCH DICTIONARY tools.plain (TEMPLATE = simple, STOPWORDS = english);
CREATE TEXT SEARCH CONFIGURATION tools.words (COPY = simple);
ALTER TEXT SEARCH CONFIGURATION tools.words ALTER MAPPING FOR asciiword, word WITH tools.plain, simple;
CREATE TABLE t (id int PRIMARY KEY DEFAULT atomic(3), code code, text text, n int DEFAULT and_again(2),
  words tsvector GENERATED ALWAYS AS (to_tsvector('tools.words', text)) STORED);
CREATE INDEX by_bytes ON t (text COLLATE tools."Bytes");
CREATE INDEX by_words ON t USING gin (to_tsvector('tools.words', text));
CREATE INDEX by_code ON t (of_code(code));
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := atomic(NEW.n); RETURN NEW; END $$;
CREATE TRIGGER stamped BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE PUBLICATION app FOR TABLE t;
"""


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole script", "first part"])
def test_what_objects_call_is_created_first_and_in_order_by_the_script_as_it_is_printed(
    is_whole, request, publisher_database, tmp_path
):
    publisher_database.execute(FIRST)
    with opened("postgresql", request, tmp_path) as target:
        session = Session(target, publisher_database, str(tmp_path / "journal"))
        session.run(CREATE)
        script = printed(target)
        first, found, _ = script.partition("\n-- Before the copy")
        assert found
        assert "unneeded" not in first
        piped(target, script if is_whole else first)
        for phase in ("before", "after"):
            outcomes = apply_schema(target, schema_difference(target, "s"), phase)
            assert [(one.object.name, one.refusal) for one in outcomes if one.refusal] == []
            assert not (is_whole and outcomes)
        left = {(one.kind, one.name) for one in schema_difference(target, "s").objects}
        assert left == {("function", "public.unneeded()"), ("trigger", "public.t.stamped")}
        session.execute("INSERT INTO t (id, code, text) VALUES (1, 'A', 'the words')")
        assert session.rows("SELECT n, words::text FROM t") == [(0, "'words':2")]


def comments(script: str) -> str:
    """The statements in the comments of a script."""
    blocks: list[list[str]] = []
    for line in script.splitlines():
        if line.startswith("--     ") or (line == "--" and blocks):
            blocks[-1].append(line[7:])
        else:
            blocks.append([])
    return "\n".join(text for block in blocks if STATEMENT.match(text := "\n".join(block)))


def test_the_comments_are_statements_in_an_order_in_which_they_run(request, publisher_database, tmp_path):
    publisher_database.execute(VIEWS)
    with opened("postgresql", request, tmp_path) as target:
        Session(target, publisher_database, str(tmp_path / "journal")).run(CREATE)
        script = printed(target)
        assert re.findall(r"^-- (\w[\w ]*) public\.([\w.]+)", script, re.MULTILINE) == [
            ("function", "g"),
            ("function", "f"),
            ("function", "e"),
            ("view", "c"),
            ("materialized view", "b"),
            ("view", "a"),
            ("trigger", "t.tr"),
            ("rule", "t.r"),
            ("policy", "t.p1"),
        ]
        piped(target, script)
        piped(target, comments(script))
        with target.engine.connect() as connection:
            found = connection.exec_driver_sql("SELECT obj_description('public.a'::regclass)").scalar_one()
            assert found == "it's -- a; comment"
            assert (
                connection.exec_driver_sql("SELECT count(*) FROM pg_indexes WHERE indexname = 'b_id'").scalar_one() == 1
            )
            assert connection.exec_driver_sql("SELECT count(*) FROM pg_trigger WHERE tgname = 'tr'").scalar_one() == 1


@pytest.mark.parametrize("kind", ["duckdb", "postgresql"])
def test_a_script_does_not_replace_a_table_that_has_got_rows(kind, request, publisher_database, tmp_path):
    publisher_database.execute(
        "CREATE TABLE t (id int NOT NULL, n numeric(9,2)) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF t DEFAULT;"
        f" ALTER TABLE t ADD CONSTRAINT c CHECK (n > 0.5); CREATE PUBLICATION {PUBLICATION} FOR TABLE t"
        " WITH (publish_via_partition_root)"
    )
    with opened(kind, request, tmp_path) as target:
        session = Session(target, publisher_database, str(tmp_path / "journal"))
        session.run(CREATE)
        script = printed(target)
        session.execute("INSERT INTO t VALUES (1, 7)")
        # A shell goes on after an error; the transaction does not.
        statements = [line for line in script.splitlines() if line and not line.startswith("--")]
        assert statements[0] == "BEGIN TRANSACTION;"
        assert statements[-1] == "COMMIT;"
        failed = 0
        target.engine.dispose()
        with target.engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            cursor = driver.cursor()
            for statement in statements:
                try:
                    cursor.execute(statement)
                except (psycopg.Error, duckdb.Error):
                    failed += 1
            cursor.close()
            connection.invalidate()
        assert failed > 1
        target.engine.dispose()
        assert session.rows("SELECT id FROM t") == [(1,)]


def test_a_comment_of_a_column_keeps_the_default_that_the_script_has_set(request, publisher_database, tmp_path):
    publisher_database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, at timestamptz DEFAULT now(), n int DEFAULT 5);"
        " COMMENT ON COLUMN t.at IS 'DEFAULT 1'; COMMENT ON COLUMN t.n IS 'it''s';"
        f" CREATE PUBLICATION {PUBLICATION} FOR TABLE t"
    )
    with opened("mariadb", request, tmp_path) as target:
        session = Session(target, publisher_database, str(tmp_path / "journal"))
        session.run(CREATE)
        piped(target, printed(target))
        assert schema_difference(target, "s").objects == ()
