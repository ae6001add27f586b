"""A subscriber node on a target of ours, before anything is replicated: what it prints is what PostgreSQL prints.

Every session is typed into a node and into a database of PostgreSQL, and must print the same: once as the node's mirror has
the rows, and once after the mirror has got them back from the target.
"""

from __future__ import annotations

import contextlib
import os
from itertools import count

import pytest
import sqlalchemy as sa

from subscriber.errors import StatementTimeout, TargetError, UsageError
from subscriber.scenario.fresh import TargetServers, fresh_target
from subscriber.scenario.psql import PsqlSession
from subscriber.scenario.target_node import TargetNode
from subscriber.settings import Settings
from subscriber.subscription import catalog
from subscriber.subscription.options import SubscriptionOptions
from subscriber.target import open_target

PATIENCE = 60.0
_numbers = count(1)


def no_query(*_, **__):
    raise AssertionError("nothing is subscribed to")


@contextlib.contextmanager
def open_node(kind, server, folder, patience=PATIENCE, mariadb=None):
    name = f"node_{os.getpid()}_{next(_numbers)}"
    servers = TargetServers(lambda: server, lambda: mariadb)
    settings = Settings.from_environment({"SUBSCRIBER_JOURNAL": str(folder / "journal")})
    with fresh_target(kind, name, folder, servers) as url:
        node = TargetNode(name, url, server, str, no_query, settings, patience)
        try:
            yield node
        finally:
            node.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def node(request, postgresql18, tmp_path):
    with open_node(request.param, postgresql18, tmp_path) as opened:
        yield opened


@pytest.fixture
def sqlite_node(postgresql18, tmp_path):
    with open_node("sqlite", postgresql18, tmp_path) as opened:
        yield opened


@pytest.fixture
def oracle(publisher_database):
    session = PsqlSession(publisher_database.conninfo, lambda: publisher_database.server.psql, PATIENCE)
    yield session
    session.close()


def forget_rows(node):
    """Let the next statement get every row from the target."""
    node._mirror._in_target = {}


def in_target(node, query):
    """Rows of the target's own, whatever the mirror has."""
    with open_target(node._target.url) as target, target.begin() as connection:
        result = connection.exec_driver_sql(query)
        return [tuple(row) for row in result] if result.returns_rows else []


def assert_same(node, oracle, *statements):
    for statement in statements:
        expected = oracle.run(statement)
        assert node.run(statement) == expected, statement
        forget_rows(node)


# What is printed --------------------------------------------------------------------------------------

TYPES = """
a smallint, b integer, c bigint, d numeric(10,2), e numeric, f real, g double precision, h boolean, i text, j varchar(5), k char(4),
l bytea, m date, n time, o timetz, p timestamp, q timestamptz, r interval, s uuid, t json, u jsonb, v int[], w text[], x mood, y inet,
z int4range, aa bit(3), ab money, ac point, ad oid, ae percent, af timestamptz[]
"""
VALUES = (
    """1, 2, 3, 4.5, 6.70, 0.1, 1e100, true, 'text', 'v', 'c', '\\x00ff', '2026-01-31', '24:00', '01:02:03+02', '2026-01-01 00:00:00.5',
    '2026-01-01 00:00+02', '1 year -2 days 03:04', '12345678-1234-1234-1234-123456789012', '{"a":  1}', '{"a":  1}', '{1,NULL,3}',
    '{"a,b","",NULL}', 'happy', '10.0.0.1/8', '[1,5)', '101', '12.50', '(1,2)', 4294967295, 50, '{"2026-01-01 00:00+02"}'""",
    """-32768, 2147483647, -9223372036854775808, 0, 'NaN', 'NaN', '-Infinity', false, '', '', '', '', 'infinity', '00:00', '00:00-15',
    '-infinity', '0044-03-15 BC', '0', '00000000-0000-0000-0000-000000000000', 'null', '[]', '{}', '{}', 'sad', '::1', 'empty', '000',
    '-0.01', '(0,0)', 0, 0, '{}'""",
    "0, 0, 0, 0.10, 1e40, 3.4e38, 5e-324, NULL, E'a\\nb\\t\\\\', 'é', 'ab', '\\x', '294276-01-01', NULL, NULL, NULL, 'infinity'",
    "NULL",
)


def test_every_type_prints_as_postgresql_prints_it(node, oracle):
    """C5: numeric scale, NULL, bytea, arrays, time zones, infinities, and types that somebody made; sums, order and casts too"""
    assert_same(
        node,
        oracle,
        "CREATE TYPE mood AS ENUM ('happy', 'sad'); CREATE DOMAIN percent AS int CHECK (value <= 100);",
        f"CREATE TABLE t ({TYPES});",
        *(f"INSERT INTO t VALUES ({values});" for values in VALUES),
        "SELECT * FROM t ORDER BY a, b;",
        "SELECT sum(d), avg(d), sum(e) FILTER (WHERE e <> 'NaN'), sum(c), max(q), min(m), bool_or(h) FROM t;",
        "SELECT a, x FROM t WHERE x < 'sad' OR d = 0.1 ORDER BY x NULLS FIRST;",
        "SELECT v[1], q AT TIME ZONE 'Asia/Tokyo', r * 2, u -> 'a' FROM t ORDER BY a;",
    )


def test_changes_of_rows_print_what_they_did(node, oracle):
    assert_same(
        node,
        oracle,
        "CREATE TABLE t (id int PRIMARY KEY, n numeric(6,2) DEFAULT 1.5, made timestamptz DEFAULT '2026-01-01+00');",
        "INSERT INTO t (id) VALUES (1), (2) RETURNING *;",
        "INSERT INTO t VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n RETURNING n;",
        "INSERT INTO t VALUES (1);",
        "INSERT INTO t VALUES (3, 'abc');",
        "INSERT INTO t VALUES (3, 99999);",
        "UPDATE t SET n = n * 2, id = id + 10 WHERE id = 2; DELETE FROM t WHERE n > 100; SELECT * FROM t ORDER BY id;",
        "WITH gone AS (DELETE FROM t WHERE id = 1 RETURNING *) INSERT INTO t SELECT 5, n FROM gone RETURNING id;",
        "MERGE INTO t USING (VALUES (5), (6)) AS s (id) ON t.id = s.id"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id);",
        "COPY t TO STDOUT;",
        "TABLE t;",
        "TRUNCATE t;",
        "SELECT count(*) FROM t;",
        "DO $$ BEGIN INSERT INTO t VALUES (7); RAISE NOTICE 'done'; END $$;",
        "SELECT id FROM t;",
    )


def test_changes_of_tables_keep_their_rows(node, oracle):
    """Made anew in the target, from the mirror's catalog"""
    assert_same(
        node,
        oracle,
        "CREATE TABLE t (id int PRIMARY KEY, a text); INSERT INTO t VALUES (1, '5'), (2, NULL);",
        "ALTER TABLE t ADD COLUMN b numeric(4,1) DEFAULT 2;",
        "SELECT * FROM t ORDER BY id;",
        "ALTER TABLE t ALTER a TYPE int USING a::int, ADD g int GENERATED ALWAYS AS (id * 10) STORED;",
        "SELECT * FROM t ORDER BY id;",
        "ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME COLUMN a TO z;",
        "SELECT * FROM t;",
        "INSERT INTO u (id, z) VALUES (3, 4); SELECT * FROM u ORDER BY id;",
        "ALTER TABLE u DROP COLUMN b; CREATE SCHEMA s; ALTER TABLE u SET SCHEMA s;",
        "SELECT * FROM s.u ORDER BY id;",
        "CREATE TABLE copied AS SELECT * FROM s.u WHERE id > 1; DROP TABLE s.u; SELECT * FROM copied ORDER BY id;",
        "\\d copied",
        "CREATE TABLE (a int);",
        "CREATE TABLE without ();",
        "SELECT * FROM without;",
    )


def test_tables_swap_their_names(node, oracle):
    assert_same(
        node,
        oracle,
        "CREATE TABLE a (x int); CREATE TABLE b (y text); INSERT INTO a VALUES (1); INSERT INTO b VALUES ('b');",
        "BEGIN; ALTER TABLE a RENAME TO c; ALTER TABLE b RENAME TO a; ALTER TABLE c RENAME TO b; COMMIT;",
        "SELECT * FROM a; SELECT * FROM b;",
    )


def test_a_transaction_reaches_the_target_when_it_is_committed(node, oracle):
    assert_same(node, oracle, "CREATE TABLE t (a int PRIMARY KEY);")
    for statement in ("BEGIN;", "INSERT INTO t VALUES (1);", "SELECT * FROM t;"):
        assert node.run(statement) == oracle.run(statement)
    assert node.in_transaction("")
    assert in_target(node, "SELECT * FROM t") == []
    assert node.run("SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT;") == "SAVEPOINT\nDELETE 1\nROLLBACK\nCOMMIT"
    assert in_target(node, "SELECT * FROM t") == [(1,)]
    oracle.run("COMMIT")
    assert_same(
        node,
        oracle,
        "BEGIN; DELETE FROM t; ROLLBACK;",
        "SELECT * FROM t;",
        "BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); COMMIT;",
        "SELECT * FROM t;",
        "BEGIN; TRUNCATE t; INSERT INTO t VALUES (3); COMMIT; SELECT * FROM t;",
    )


def test_objects_that_no_target_has_work_all_the_same(node, oracle):
    assert_same(
        node,
        oracle,
        "CREATE TABLE t (id serial PRIMARY KEY, note text); CREATE VIEW v AS SELECT upper(note) AS loud FROM t;",
        "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := NEW.note || '!'; RETURN NEW; END $$;",
        "CREATE TRIGGER shout BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION shout();",
        "INSERT INTO t (note) VALUES ('a'), ('b');",
        "SELECT * FROM v ORDER BY 1;",
        "SELECT nextval('t_id_seq');",
        "CREATE TEMPORARY TABLE own (a int); INSERT INTO own VALUES (1); SELECT * FROM own;",
        "EXPLAIN (COSTS OFF) SELECT * FROM t;",
        "SHOW server_encoding;",
    )


def test_a_database_that_only_sqlalchemy_knows_holds_the_common_types(postgresql18, mariadb, oracle, tmp_path):
    """What it cannot hold exactly, it is not given"""
    with open_node("mariadb", postgresql18, tmp_path, mariadb=mariadb) as node:
        assert_same(
            node,
            oracle,
            "CREATE SCHEMA s; CREATE TABLE s.t (id int PRIMARY KEY, n numeric(10,2) DEFAULT 0.5, b bool, y bytea, d date, r real,"
            " at timestamptz, a int[], v varchar(5) UNIQUE, u text DEFAULT 'it''s');",
            "INSERT INTO s.t VALUES (1, 10, true, '\\x00ff', '2026-01-31', 0.1, '2026-01-01 00:00:00.123456+02', '{1,NULL}', 'é', ''),"
            " (2, -0.05, false, '', NULL, 1e30, 'infinity', '{}', NULL, NULL); INSERT INTO s.t (id) VALUES (3);",
            "SELECT * FROM s.t ORDER BY id;",
            "ALTER TABLE s.t ADD COLUMN more bigint DEFAULT 9007199254740993; UPDATE s.t SET n = n * 3;",
            "SELECT sum(n), max(more), max(at) FROM s.t;",
        )
        node.run("ALTER TABLE s.t ADD COLUMN f float8")
        printed = node.run("UPDATE s.t SET f = 'NaN'")
        assert printed.startswith("ERROR:  ")
        assert "(0 rows)" in node.run("SELECT * FROM s.t WHERE f IS NOT NULL")


# What is in the target ----------------------------------------------------------------------------------


def test_rows_are_stored_as_replication_would_store_them(sqlite_node):
    """C5, numeric as exact text, truth as a number"""
    sqlite_node.run("CREATE TABLE t (a int PRIMARY KEY, n numeric(10,2), b bool, y bytea, at timestamptz, g int)")
    sqlite_node.run("INSERT INTO t VALUES (1, 10, true, '\\x00', '2026-01-01 00:00+00'), (2, NULL, NULL, NULL, NULL)")
    assert in_target(sqlite_node, "SELECT * FROM t ORDER BY a") == [
        (1, "10.00", 1, b"\x00", "2026-01-01 00:00:00+00:00", None),
        (2, None, None, None, None, None),
    ]


def test_a_generated_column_that_sqlite_lacks_has_postgresqls_values(sqlite_node):
    sqlite_node.run("CREATE TABLE t (n numeric(4,1), twice numeric GENERATED ALWAYS AS (n * 2) STORED)")
    sqlite_node.run("INSERT INTO t VALUES (1.5)")
    assert in_target(sqlite_node, "SELECT * FROM t") == [("1.5", "3.0")]
    forget_rows(sqlite_node)
    assert "3.0" in sqlite_node.run("SELECT twice FROM t")


def test_rows_that_others_write_into_the_target_are_seen(sqlite_node):
    """What replication does"""
    sqlite_node.run("CREATE TABLE t (a int PRIMARY KEY, n numeric(4,2))")
    in_target(sqlite_node, "INSERT INTO t VALUES (1, '1.50')")
    assert "1 | 1.50" in sqlite_node.run("SELECT * FROM t")
    in_target(sqlite_node, "UPDATE t SET n = '2.50'")
    assert sqlite_node.run("UPDATE t SET a = 2 RETURNING n").splitlines()[2] == " 2.50"
    assert in_target(sqlite_node, "SELECT * FROM t") == [(2, "2.50")]


def test_a_change_that_the_target_refuses_is_undone(sqlite_node):
    """The session and the target never differ"""
    sqlite_node.run("CREATE TABLE t (a int); CREATE TABLE u (a int); INSERT INTO t VALUES (1)")
    in_target(sqlite_node, "CREATE TRIGGER no BEFORE INSERT ON t BEGIN SELECT RAISE(ABORT, 'secret'); END")
    printed = sqlite_node.run("WITH x AS (INSERT INTO u VALUES (1)) INSERT INTO t VALUES (2)")
    assert printed == "ERROR:  a trigger of the target refused the change"
    assert "(1 row)" in sqlite_node.run("SELECT * FROM t")
    assert "(0 rows)" in sqlite_node.run("SELECT * FROM u")


def test_rows_that_postgresql_would_have_refused_end_the_session(sqlite_node):
    """SQLite has no such CHECK: what is there now would not be on a native subscriber"""
    sqlite_node.run("CREATE TABLE t (n numeric CONSTRAINT positive CHECK (n > 0))")
    in_target(sqlite_node, "INSERT INTO t VALUES ('-77')")
    with pytest.raises(TargetError) as raised:
        sqlite_node.run("SELECT * FROM t")
    assert raised.value.detail == 'new row for relation "t" violates check constraint "positive"'


# Partitions -----------------------------------------------------------------------------------------


@pytest.fixture
def partitioned(node):
    """What was replicated through the root is in the root's table, what came through the partition in the partition's."""
    node.run(
        "CREATE TABLE parent (a int, b text, PRIMARY KEY (a)) PARTITION BY RANGE (a);"
        "CREATE TABLE low PARTITION OF parent FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE high (b text, a int PRIMARY KEY); ALTER TABLE parent ATTACH PARTITION high DEFAULT"
    )
    in_target(node, "INSERT INTO parent VALUES (1, 'root'), (11, 'root')")
    in_target(node, "INSERT INTO low VALUES (2, 'own')")
    return node


def rows_of(node):
    return {name: sorted(in_target(node, f"SELECT a, b FROM {name}")) for name in ("parent", "low", "high")}


def test_rows_of_a_root_find_their_partitions(partitioned):
    """C26"""
    printed = partitioned.run("SELECT tableoid::regclass, a, b FROM parent ORDER BY a")
    assert [line.split() for line in printed.splitlines()[2:5]] == [
        ["low", "|", "1", "|", "root"],
        ["low", "|", "2", "|", "own"],
        ["high", "|", "11", "|", "root"],
    ]


def test_truncate_and_ddl_of_partitioned_tables_work(partitioned):
    """C29"""
    partitioned.run("ALTER TABLE parent ADD COLUMN c int DEFAULT 3")
    assert rows_of(partitioned) == {"parent": [(1, "root"), (11, "root")], "low": [(2, "own")], "high": []}
    assert in_target(partitioned, "SELECT c FROM low") == [(3,)]
    partitioned.run("ALTER TABLE parent DETACH PARTITION high")
    assert rows_of(partitioned) == {"parent": [(1, "root")], "low": [(2, "own")], "high": [(11, "root")]}
    partitioned.run("TRUNCATE low")
    assert rows_of(partitioned) == {"parent": [], "low": [], "high": [(11, "root")]}
    partitioned.run("DROP TABLE parent")
    assert in_target(partitioned, "SELECT a FROM high") == [(11,)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO parent VALUES (3)",
        "INSERT INTO low VALUES (3)",
        "UPDATE parent SET b = 'x'",
        "DELETE FROM low",
        "WITH gone AS (DELETE FROM parent RETURNING a) SELECT count(*) FROM gone",
        "DO $$ BEGIN TRUNCATE parent; END $$",
        "BEGIN; TRUNCATE low; INSERT INTO low VALUES (4); COMMIT",
    ],
)
def test_other_changes_of_partitioned_tables_are_refused_and_undone(partitioned, statement):
    before = rows_of(partitioned)
    assert "is not supported on this subscriber" in partitioned.run(statement)
    assert rows_of(partitioned) == before
    assert "(3 rows)" in partitioned.run("SELECT * FROM parent")


# What is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM pg_subscription",
        "SELECT count(*) FROM pg_catalog.pg_stat_subscription_stats",
        'SELECT * FROM "pg_replication_origin_status"',
        "SELECT pg_replication_origin_progress('x', true)",
        "SELECT * FROM pg_publication_tables",
        "SELECT pg_current_wal_lsn()",
        "DO $$ BEGIN PERFORM FROM PG_SUBSCRIPTION_REL; END $$",
        "\\dRs+",
        "\\dRp",
        "COMMENT ON SUBSCRIPTION s IS 'x'",
        "PREPARE TRANSACTION 'x'",
        "COMMIT PREPARED 'x'",
        "ALTER TABLE t ENABLE REPLICA TRIGGER x",
        "ALTER TABLE t ENABLE ALWAYS RULE x",
    ],
)
def test_what_the_mirror_would_answer_wrongly_is_refused(sqlite_node, statement):
    """refuse_not_guess"""
    printed = sqlite_node.run(statement)
    assert printed.startswith("ERROR:  ")
    assert "is not supported on this subscriber" in printed


def test_names_that_only_look_like_the_engines_are_not_refused(sqlite_node):
    assert "is not supported" not in sqlite_node.run("SELECT my_pg_subscription, pg_subscriber, pg_get_userbyid(10)")


def test_what_the_commands_do_not_do_yet_is_their_own_error(sqlite_node):
    assert sqlite_node.run("ALTER SUBSCRIPTION s REFRESH PUBLICATION").startswith(
        "ERROR:  ALTER SUBSCRIPTION … REFRESH PUBLICATION is not supported yet"
    )
    assert sqlite_node.run("CREATE SUBSCRIPTION s").startswith("ERROR:  syntax error at end of input")
    assert sqlite_node.run("DROP SUBSCRIPTION s") == 'ERROR:  subscription "s" does not exist'
    assert sqlite_node.run("DROP SUBSCRIPTION IF EXISTS s; SELECT 1 AS a").startswith(
        'NOTICE:  subscription "s" does not exist, skipping\nDROP SUBSCRIPTION\n a \n'
    )


def test_a_refusal_ends_the_transaction_as_an_error_does(sqlite_node):
    aborted = "ERROR:  current transaction is aborted, commands ignored until end of transaction block"
    sqlite_node.run("CREATE TABLE t (a int)")
    for refused in (
        "SELECT * FROM pg_subscription",
        "DROP SUBSCRIPTION s",
        "CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p",
    ):
        sqlite_node.run("BEGIN; INSERT INTO t VALUES (1)")
        assert sqlite_node.run(refused).startswith("ERROR:  ")
        assert sqlite_node.run("SELECT 1") == aborted
        assert sqlite_node.run("COMMIT") == "ROLLBACK"
    assert in_target(sqlite_node, "SELECT * FROM t") == []


def test_subscription_commands_in_a_transaction_have_postgresqls_error(sqlite_node):
    sqlite_node.run("BEGIN")
    assert sqlite_node.run("DROP SUBSCRIPTION s") == "ERROR:  DROP SUBSCRIPTION cannot run inside a transaction block"


def test_a_second_session_has_its_own_settings_and_waits_for_no_transaction(sqlite_node):
    sqlite_node.run("CREATE TABLE t (a int); SET application_name = 'one'")
    assert "one" not in sqlite_node.run("SHOW application_name", "2")
    sqlite_node.run("BEGIN; INSERT INTO t VALUES (1)", "2")
    assert (sqlite_node.in_transaction("2"), sqlite_node.in_transaction("")) == (True, False)
    assert "beside another session's open transaction is not supported" in sqlite_node.run("SELECT * FROM t")
    sqlite_node.run("COMMIT", "2")
    assert "(1 row)" in sqlite_node.run("SELECT * FROM t")


def test_rows_that_arrive_during_a_transaction_are_not_hidden(sqlite_node):
    """READ COMMITTED would show them, the mirror could not"""
    sqlite_node.run("CREATE TABLE t (a int); BEGIN; SELECT * FROM t")
    in_target(sqlite_node, "INSERT INTO t VALUES (1)")
    assert "during which rows have been replicated is not supported" in sqlite_node.run("SELECT * FROM t")
    assert sqlite_node.run("ROLLBACK") == "ROLLBACK"
    sqlite_node.run("BEGIN; INSERT INTO t VALUES (2)")
    in_target(sqlite_node, "INSERT INTO t VALUES (3)")
    assert "have been replicated while they were changed here" in sqlite_node.run("COMMIT")
    assert sorted(in_target(sqlite_node, "SELECT * FROM t")) == [(1,), (3,)]
    assert "(2 rows)" in sqlite_node.run("SELECT * FROM t")


def test_a_statement_that_does_not_end_is_cancelled_and_the_session_goes_on(postgresql18, tmp_path):
    with open_node("sqlite", postgresql18, tmp_path, patience=0.5) as node:
        node.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
        with pytest.raises(StatementTimeout):
            node.run("SELECT pg_sleep(60)")
        assert "(1 row)" in node.run("SELECT * FROM t")


# Beginning and end ------------------------------------------------------------------------------------


def test_a_table_that_is_in_the_target_already_is_not_touched(postgresql18, tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        with target.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE t AS SELECT 'kept' AS mine")
        refused = pytest.raises(UsageError, match=r'the target has a table "public\.t" already')
        with open_node(str(target.url), postgresql18, tmp_path) as node, refused:
            node.run("CREATE TABLE t (a int)")
        with target.begin() as connection:
            assert connection.exec_driver_sql("SELECT * FROM t").all() == [("kept",)]


def test_a_target_with_subscriptions_is_refused(postgresql18, tmp_path):
    """They would run too"""
    url = f"sqlite:///{tmp_path / 'target.db'}"
    with open_target(url) as target:
        catalog.ensure_catalog(target.engine)
        with target.begin() as connection:
            catalog.insert_subscription(connection, "s", "dbname=x", ["p"], SubscriptionOptions(slot_name="s"))
    with (
        pytest.raises(UsageError, match="the target has subscriptions already"),
        open_node(url, postgresql18, tmp_path),
    ):
        pass


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_nothing_is_left_in_a_target_that_is_the_users_own(postgresql18, tmp_path, kind):
    """Tables, schemas, the catalog; and the mirror's database"""
    servers = TargetServers(lambda: postgresql18, lambda: pytest.fail("no MariaDB is asked for"))
    with fresh_target(kind, f"users_{os.getpid()}", tmp_path, servers) as url:
        with open_node(url, postgresql18, tmp_path) as node:
            node.run("CREATE SCHEMA s; CREATE TABLE s.t (a int); CREATE TABLE u (a int)")
            name = node.name
        with open_target(url) as target:
            inspector = sa.inspect(target.engine)
            assert inspector.get_table_names() == []
            assert "s" not in inspector.get_schema_names()
    assert postgresql18.execute(f"SELECT 1 FROM pg_database WHERE datname = '{name}'") == []


def test_a_catalog_that_was_there_stays(postgresql18, tmp_path):
    url = f"sqlite:///{tmp_path / 'target.db'}"
    with open_target(url) as target:
        catalog.ensure_catalog(target.engine)
        with open_node(url, postgresql18, tmp_path):
            pass
        assert catalog.SUBSCRIPTION.name in sa.inspect(target.engine).get_table_names()
