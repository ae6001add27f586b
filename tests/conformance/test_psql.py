"""scenario.psql and scenario.aligned print what psql prints, byte for byte."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from contextlib import contextmanager

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from subscriber.base.errors import NotSupportedError, SQLSyntaxError, StatementTimeout
from subscriber.testing.session.psql import NO_INPUT, PsqlSession
from tests.conftest import fresh_database

PATIENCE = 30.0


@pytest.fixture
def session(publisher_database):
    opened = PsqlSession(publisher_database.conninfo, lambda: publisher_database.server.psql, PATIENCE)
    yield opened
    opened.close()


@pytest.fixture
def impatient(publisher_database):
    opened = PsqlSession(publisher_database.conninfo, None, 0.3)
    yield opened
    opened.close()


def real_psql(database, text: str) -> str:
    """The output of psql for text that is typed into it."""
    answer = subprocess.run(
        [database.server.psql, "-X", "-d", database.conninfo],
        input=text.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PGCLIENTENCODING": "UTF8", "LC_ALL": "C"},
        check=False,
    )
    return answer.stdout.decode()


# Against psql, on every version -------------------------------------------------------------------

NASTY = r"""
CREATE TABLE nasty (n int, "two
lines" text, "漢字 name" text, c char(5), num numeric(8,3), b bool, bin bytea, j jsonb, a text[], ts timestamptz, f float8);
INSERT INTO nasty VALUES
 (1, 'plain', 'x', 'ab', 1, true, '\x00ff', '{"a": [1, null]}', '{a,"b,c",NULL}', '2026-01-02 03:04:05+00', 'NaN'),
 (-20, E'a\nb\n\nlong line', E'tab\tand\rreturn', '', -1234.5, false, '', '"\n"', '{}', 'infinity', 1e-300),
 (NULL, NULL, '', NULL, NULL, NULL, NULL, 'null', NULL, NULL, '-0'),
 (2147483647, E'\x01\x1f\x7f', E'\u0085\u009f', 'abcde', 0, true, '\x5c', '[]', '{{1,2},{3,4}}', '294276-12-31 00:00:00+00', 0.1),
 (5, '漢字', E'e\u0301 😀 и א का', 'é', 1.1, false, NULL, '{}', '{"\"","\\"}', '4713-01-01 00:00:00+00 BC', 'Infinity'),
 (6, E'\n', E'\n\n', E'a\nb', 99999.999, true, NULL, '1', E'{"a\nb"}', NULL, 1.7976931348623157e308),
 (7, ' leading and trailing ', '+', '+', 1, true, NULL, '1', NULL, NULL, 0),
 (8, E'x\n', E'\ty\t', ' ', 1, true, NULL, '1', NULL, NULL, 0);
"""

SESSIONS = [
    "SELECT * FROM nasty ORDER BY n;",
    'SELECT n, "two\nlines" FROM nasty ORDER BY n;',
    'SELECT "漢字 name" FROM nasty ORDER BY n; SELECT "two\nlines" AS t FROM nasty ORDER BY n DESC;',
    "SELECT * FROM nasty WHERE false;",
    "SELECT; SELECT FROM nasty; SELECT FROM nasty WHERE false;",
    "SELECT 1::int2, 1::int8, 1::oid, 'x'::name, '1'::xid, '1'::cid, '1'::xid8, 1::money, 1::float4, 1::bit, '1'::\"char\";",
    "SELECT ARRAY[1,2] AS ints, ROW(1,'x') AS r, int4range(1,5) AS g, '1 day'::interval AS i, B'01' AS b, pg_lsn '0/1' AS l;",
    "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x'), (2, 'y') RETURNING a; TABLE t;",
    "UPDATE t SET b = 'z' WHERE a = 2 RETURNING *; DELETE FROM t WHERE a = 9 RETURNING *; DELETE FROM t WHERE a = 2;",
    "SELEC 1; SELECT\n  nope\nFROM t; SELECT 'é漢' = nope; SELECT 1;",
    "INSERT INTO t VALUES (1, 'again'); INSERT INTO t VALUES (NULL, 'x');",
    "DROP TABLE IF EXISTS nope; DROP VIEW IF EXISTS nope;",
    "DO $$ BEGIN RAISE NOTICE 'one' USING DETAIL = 'two', HINT = 'three'; RAISE WARNING E'a\\nb'; END $$;",
    "DO $$ BEGIN PERFORM 1 / 0; END $$;",
    "BEGIN; INSERT INTO t VALUES (3, 'z'); SAVEPOINT s; SELEC; SELECT 1; ROLLBACK TO s; SELECT * FROM t ORDER BY a; ROLLBACK;",
    "COMMIT; ROLLBACK;",
    "COPY nasty TO STDOUT;",
    "COPY (SELECT 1 WHERE false) TO STDOUT; COPY (SELECT 1 / 0) TO STDOUT; COPY t TO STDOUT (FORMAT csv, HEADER);",
    r"SELECT 1 AS a\; SELECT 2 AS b\; CREATE TABLE joined (a int)\; SELECT 3 AS c; SELECT count(*) FROM joined;",
    r"SELECT 1 AS a\; SELECT 1 / 0\; SELECT 2; COPY t TO STDOUT\; SELECT 4 AS d;",
    ";;; SELECT 1;;",
    "SHOW server_encoding; SET application_name = 'x'; SHOW application_name; RESET application_name;",
    "PREPARE p AS SELECT $1::int + 1 AS n; EXECUTE p(1); DEALLOCATE p; EXPLAIN (COSTS OFF) SELECT * FROM t WHERE a = 1;",
    "CREATE RULE r AS ON DELETE TO t DO ALSO (SELECT 1 AS one; SELECT 2 AS two); DELETE FROM t; DROP RULE r ON t;",
    "CREATE FUNCTION f(a int) RETURNS int BEGIN ATOMIC SELECT a; SELECT CASE WHEN a > 1 THEN 2 END; END; SELECT f(2);",
    "BEGIN; DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 3) i; FETCH 2 FROM c; MOVE c; CLOSE c; END;",
    "SELECT format('SELECT %s AS n', i), NULL, CASE i WHEN 2 THEN 'SELEC' END FROM generate_series(1, 3) i\n\\gexec\nSELECT 9;",
    r"SELECT 1 / 0 \gexec",
    "CREATE TABLE made (a int) \\gexec\nINSERT INTO made VALUES (1) RETURNING 'TABLE made; TABLE t;' \\gexec",
    "VACUUM t; CREATE DATABASE postgres; LISTEN x; CHECKPOINT; ANALYZE t;",
]  # fmt: skip


def test_a_session_prints_what_psql_prints(database):
    """Tables, tags, notices, errors with their caret, data that is copied out, joined statements:
    on each version.
    """
    database.execute(NASTY)
    ours = PsqlSession(database.conninfo, None, PATIENCE)
    with contextmanager(fresh_database)(database.server) as copy:
        copy.execute(NASTY)
        for text in SESSIONS:
            expected = real_psql(copy, f"{text}\n")
            assert ours.run(text) == expected.rstrip("\n"), text
    ours.close()


LETTERS = st.sampled_from([*"ab+|- \n\t\r\x01\x7f\x85\xa0", "é", "\u0301", "漢", "😀", "\u200b", "א", "ा"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.text(LETTERS, min_size=1, max_size=5), min_size=1, max_size=4, unique=True),
    cells=st.lists(st.none() | st.text(LETTERS, max_size=8) | st.integers(-99, 99), min_size=4, max_size=12),
)
def test_any_table_is_drawn_as_psql_draws_it(publisher_database, session, names, cells):
    width = len(names)
    rows = [cells[start : start + width] for start in range(0, len(cells) - width + 1, width)]
    numeric = [all(isinstance(row[index], int) for row in rows) for index in range(width)]
    tuples = sql.SQL(", ").join(
        sql.SQL("({})").format(
            sql.SQL(", ").join(
                sql.SQL("{}::{}").format(
                    sql.Literal(None if cell is None else str(cell)), sql.SQL("int" if is_number else "text")
                )
                for cell, is_number in zip(row, numeric, strict=True)
            )
        )
        for row in rows
    )
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    query = sql.SQL("SELECT * FROM (VALUES {}) AS t({});").format(tuples, columns).as_string(None)
    assert session.run(query) == real_psql(publisher_database, query).rstrip("\n")


def test_backslash_commands_are_psqls_own(publisher_database, session):
    session.run("CREATE TABLE t1 (a int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t1 WHERE (a > 5);")
    for command in (r"\d t1", r"\dRp+", r"\dt", r"\d nope", r"\sf nope", r"\d a b"):
        printed = session.run(command)
        assert printed == real_psql(publisher_database, f"{command}\n").rstrip("\n"), command
        assert printed, command
    assert "WHERE (a > 5)" in session.run(r"\dRp+")


# What a session is --------------------------------------------------------------------------------


def test_a_session_keeps_its_state_and_says_whether_a_transaction_is_open(session):
    assert not session.in_transaction
    session.run("SET search_path = pg_catalog; CREATE TEMPORARY TABLE mine (a int);")
    assert session.run("SHOW search_path;").splitlines()[2] == " pg_catalog"
    assert not session.in_transaction
    session.run("BEGIN;")
    assert session.in_transaction
    session.run("SELEC;")
    assert session.in_transaction
    assert session.run("COMMIT; SELECT count(*) FROM mine;").startswith("ROLLBACK\n")
    assert not session.in_transaction


def test_an_open_transaction_is_rolled_back_at_the_end_of_the_session(publisher_database, session):
    publisher_database.execute("CREATE TABLE t (a int)")
    session.run("BEGIN; INSERT INTO t VALUES (1);")
    session.close()
    assert not session.in_transaction
    assert publisher_database.execute("SELECT * FROM t") == []
    session.close()
    assert session.run("SELECT 1 AS a;") == " a \n---\n 1\n(1 row)"


def test_nothing_runs_of_a_text_that_does_not_end(publisher_database, session):
    with pytest.raises(SQLSyntaxError, match="unterminated"):
        session.run("CREATE TABLE t (a int); SELECT '")
    assert publisher_database.execute("SELECT to_regclass('t')") == [(None,)]


def test_copy_from_stdin_is_answered_and_changes_nothing(publisher_database, session):
    publisher_database.execute("CREATE TABLE t (a int)")
    printed = session.run("COPY t FROM STDIN; SELECT count(*) FROM t;")
    assert printed.splitlines()[0] == f"ERROR:  COPY from stdin failed: {NO_INPUT}"
    assert printed.endswith("     0\n(1 row)")


def test_values_of_an_encoding_that_is_not_utf8_arrive_whole(postgresql18):
    postgresql18.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    latin = PsqlSession(postgresql18.conninfo("latin", client_encoding="LATIN1"), None, PATIENCE)
    try:
        assert latin.run("SELECT 'é' AS a, octet_length('é') AS n;").splitlines()[2] == " é | 1"
    finally:
        latin.close()
        postgresql18.drop_database("latin")


# Time ---------------------------------------------------------------------------------------------


def test_a_statement_that_takes_too_long_is_cancelled_and_the_session_goes_on(publisher_database, impatient):
    impatient.run("SET search_path = pg_catalog;")
    with pytest.raises(StatementTimeout) as caught:
        impatient.run("SELECT 1;\nSELECT 'the first line',\n pg_sleep(60);")
    assert publisher_database.name in caught.value.message
    assert caught.value.message.endswith("within 0.3 s: SELECT 'the first line',")
    assert impatient.run("SHOW search_path;").splitlines()[2] == " pg_catalog"
    assert publisher_database.execute("SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT .the first'") == [
        (0,)
    ]


def test_a_cancelled_statement_fails_its_transaction(impatient):
    impatient.run("BEGIN;")
    with pytest.raises(StatementTimeout):
        impatient.run("SELECT pg_sleep(60);")
    assert impatient.in_transaction
    assert impatient.run("SELECT 1;").startswith("ERROR:  current transaction is aborted")


def test_a_copy_that_takes_too_long_is_cancelled_amid_its_data(impatient):
    with pytest.raises(StatementTimeout):
        impatient.run("COPY (SELECT repeat('x', 100), pg_sleep(0.05) FROM generate_series(1, 1000)) TO STDOUT;")
    assert impatient.run("SELECT 1 AS a;").endswith("(1 row)")


def test_every_statement_has_the_whole_patience(impatient):
    assert impatient.run("SELECT pg_sleep(0.2); SELECT pg_sleep(0.2); SELECT pg_sleep(0.2);").count("(1 row)") == 3


def test_a_statement_that_will_not_be_cancelled_costs_the_connection(impatient, monkeypatch):
    monkeypatch.setattr("subscriber.testing.session.psql._CANCEL_SECONDS", 0.3)
    before = impatient.run("SELECT pg_backend_pid();")
    with pytest.raises(StatementTimeout):
        impatient.run(
            "DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN END; END LOOP; END $$;"
        )
    after = impatient.run("SELECT pg_backend_pid();")
    assert after.endswith("(1 row)")
    assert after != before


def test_a_backslash_command_that_takes_too_long_is_ended(publisher_database):
    waiting = PsqlSession(publisher_database.conninfo, lambda: publisher_database.server.psql, 1)
    with psycopg.connect(publisher_database.conninfo) as other:
        other.execute("LOCK TABLE pg_catalog.pg_publication IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StatementTimeout, match=r"\\dRp"):
            waiting.run(r"\dRp")
    assert waiting.run(r"\dRp").endswith("(0 rows)")


# Connections --------------------------------------------------------------------------------------


def test_a_lost_connection_prints_the_servers_message_once_and_the_next_statement_has_another(session):
    printed = session.run(
        "SET search_path = pg_catalog; SELECT pg_terminate_backend(pg_backend_pid()); SHOW search_path;"
    )
    assert printed.startswith(
        "SET\nFATAL:  terminating connection due to administrator command\n"
        "server closed the connection unexpectedly\n"
        "\tThis probably means the server terminated abnormally\n"
        "\tbefore or while processing the request.\n"
        "   search_path   \n"
    )
    assert ' "$user", public\n' in printed


def test_a_connection_that_was_lost_between_two_statements_is_reported_at_the_second(publisher_database, session):
    (backend,) = re.findall(r" (\d+)\n", session.run("SELECT pg_backend_pid();"))
    publisher_database.execute(f"SELECT pg_terminate_backend({backend}, 10000)")
    assert session.run("SELECT 1;").startswith("FATAL:  terminating connection due to administrator command\n")
    assert session.run("SELECT 1;").endswith("(1 row)")


def test_a_database_that_cannot_be_reached_prints_libpqs_message_for_every_statement(publisher_database):
    nowhere = PsqlSession(publisher_database.server.conninfo("nowhere"), None, PATIENCE)
    printed = nowhere.run("SELECT 1; SELECT 2;")
    assert printed.count('FATAL:  database "nowhere" does not exist') == 2
    assert not nowhere.in_transaction


def test_two_sessions_wait_for_each_others_locks(publisher_database, session):
    publisher_database.execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    other = PsqlSession(publisher_database.conninfo, None, PATIENCE)
    session.run("BEGIN; UPDATE t SET a = 2;")
    printed: list[str] = []
    waiting = threading.Thread(target=lambda: printed.append(other.run("UPDATE t SET a = a + 1 RETURNING a;")))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    session.run("COMMIT;")
    waiting.join(PATIENCE)
    assert printed == [" a \n---\n 3\n(1 row)\n\nUPDATE 1"]
    other.close()


# Backslash commands -------------------------------------------------------------------------------


def test_a_backslash_command_in_a_transaction_is_refused_because_it_would_not_see_it(session):
    session.run("BEGIN; CREATE TABLE t (a int);")
    with pytest.raises(NotSupportedError, match="transaction block"):
        session.run(r"\d t")
    session.run("COMMIT;")
    assert 'Table "public.t"' in session.run(r"\d t")


def test_a_backslash_command_that_does_more_than_describe_is_refused(session):
    with pytest.raises(NotSupportedError, match=r"\\! is not supported"):
        session.run(r"\! touch /tmp/x")
