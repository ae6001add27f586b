"""A subscriber node with a target, before anything is replicated: it prints what PostgreSQL prints.

Every session is typed into a node and into a database of PostgreSQL, and must print the same: once
as the node's mirror has the rows, and once after the mirror has got them back from the target.
"""

from __future__ import annotations

import contextlib
import os
from itertools import count

import pytest
import sqlalchemy as sa

from subscriber.base.errors import StatementTimeout, TargetError, UsageError
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog import own_tables
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import insert_subscription
from subscriber.catalog.table_states import RelationState
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.stream.journal.segment import EntryKind, Segment
from subscriber.targets import open_target
from subscriber.testing.nodes.target_node import TargetNode
from subscriber.testing.servers.open_servers import FreshTarget, TargetServers, fresh_target
from subscriber.testing.session.expect import compared_lines
from subscriber.testing.session.psql import PsqlSession
from tests.subscriptions import create_subscription, set_state

PATIENCE = 60.0
_numbers = count(1)


def no_query(*_, **__):
    raise AssertionError("nothing is subscribed to")


@contextlib.contextmanager
def open_node(kind, server, folder, patience=PATIENCE, mariadb=None):
    name = f"node_{os.getpid()}_{next(_numbers)}"
    servers = TargetServers(lambda: server, lambda: mariadb)
    settings = Settings.from_environment({"SUBSCRIBER_JOURNAL": str(folder / "journal")})
    with fresh_target(kind, f"{name}_target", folder, servers) as fresh:
        # The database counts as the user's, so that PostgreSQL has a mirror, too; test_own_database
        # tests the other case.
        target = FreshTarget(fresh.url, disposable=False)
        node = TargetNode(name, target, server, str, SparkFunctions(no_query, no_query), settings, patience)
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
    """Make the next statement read every row from the target."""
    node._database._in_target = {}


def in_target(node, query):
    """The rows in the target, whatever the mirror has."""
    with open_target(node._target.url) as target, target.transactions.write_engine().begin() as connection:
        result = connection.exec_driver_sql(query)
        return [tuple(row) for row in result] if result.returns_rows else []


def assert_same(node, oracle, *statements):
    for statement in statements:
        expected = oracle.run(statement)
        assert node.run(statement) == expected, statement
        forget_rows(node)


# What is printed ----------------------------------------------------------------------------------

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
    """C5: numeric scale, NULL, bytea, arrays, time zones, infinities and user-defined types; also
    sums, order and casts
    """
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
    """The table is recreated in the target from the mirror's catalog"""
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
    """Values that it cannot store exactly are refused"""
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


# What is in the target ----------------------------------------------------------------------------


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
    """As replication writes them"""
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
    """SQLite has no such CHECK: the rows could not exist on a native subscriber"""
    sqlite_node.run("CREATE TABLE t (n numeric CONSTRAINT positive CHECK (n > 0))")
    in_target(sqlite_node, "INSERT INTO t VALUES ('-77')")
    with pytest.raises(TargetError) as raised:
        sqlite_node.run("SELECT * FROM t")
    assert raised.value.detail == 'new row for relation "t" violates check constraint "positive"'


def test_the_target_knows_of_views(node):
    """C3, D13: nothing can be replicated into a view"""
    node.run("CREATE SCHEMA s; CREATE VIEW v AS SELECT 1 AS a; CREATE VIEW s.v AS SELECT * FROM v")

    def kinds():
        with node._target.begin() as connection:
            found = [node._target.shapes.reflect(connection, schema, "v") for schema in ("public", "s")]
            return [None if table is None else table.kind for table in found]

    assert kinds() == ["view", "view"]
    node.run("DROP VIEW s.v; CREATE TABLE s.v (a int)")
    assert kinds() == ["view", "table"]
    node.run("DROP VIEW v")
    assert kinds() == [None, "table"]


# Partitions ---------------------------------------------------------------------------------------


@pytest.fixture
def partitioned(node):
    """Rows that were replicated through the root are in the root's table, rows that came through
    the partition in the partition's.
    """
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


def replicate(node, table):
    """A subscription of the node replicates the table."""
    subscription = create_subscription(node._target, enabled=False)
    set_state(node._target, table, RelationState.READY, subid=subscription.subid)


def test_a_partition_that_is_replicated_by_its_name_is_shown_as_the_target_has_it(partitioned):
    """Rows that came through the root earlier are left in its table."""
    assert "(2 rows)" in partitioned.run("SELECT * FROM low")
    replicate(partitioned, "low")
    assert partitioned.run("SELECT a, b FROM low").splitlines()[2:] == [" 2 | own", "(1 row)"]
    assert "(3 rows)" in partitioned.run("SELECT * FROM parent")
    assert "(2 rows)" in partitioned.run("SELECT low.a FROM low, (SELECT count(*) FROM parent) AS n")
    assert rows_of(partitioned) == {"parent": [(1, "root"), (11, "root")], "low": [(2, "own")], "high": []}


def test_rows_of_a_table_that_is_attached_become_those_of_the_root_that_is_replicated(partitioned):
    partitioned.run("ALTER TABLE parent DETACH PARTITION high")
    assert rows_of(partitioned)["high"] == [(11, "root")]
    replicate(partitioned, "parent")
    partitioned.run("ALTER TABLE parent ATTACH PARTITION high DEFAULT")
    assert rows_of(partitioned) == {"parent": [(1, "root"), (11, "root")], "low": [(2, "own")], "high": []}


# Subscriptions and their catalogs -----------------------------------------------------------------

SUBSCRIPTION = "CREATE SUBSCRIPTION s CONNECTION 'dbname=nowhere' PUBLICATION p, \"P q\" WITH (connect = false"
"""The subscription is stored, and nothing connects."""


@pytest.fixture
def with_subscription(sqlite_node, oracle):
    command = f"{SUBSCRIPTION}, slot_name = x, streaming = on, origin = none);"
    assert "ERROR" not in oracle.run(command)
    assert "ERROR" not in sqlite_node.run(command)
    yield sqlite_node
    oracle.run("ROLLBACK; ALTER SUBSCRIPTION s SET (slot_name = NONE); DROP SUBSCRIPTION s;")


def test_the_catalogs_of_subscriptions_tell_of_the_target_s(with_subscription, oracle):
    """Columns, types and formats are PostgreSQL's; DML, joins, DO and COPY read them too"""
    assert_same(
        with_subscription,
        oracle,
        "SELECT subname, subenabled, substream, subtwophasestate, suborigin, subskiplsn, subslotname, subpublications,"
        " subconninfo, subowner, subfailover FROM pg_subscription;",
        "SELECT d.datname = current_database(), pg_typeof(s.oid) FROM pg_catalog.pg_subscription s"
        ' JOIN pg_database d ON d.oid = s.subdbid WHERE "s"."subname" = \'s\';',
        "SELECT pg_subscription.subname, srsubstate FROM pg_subscription LEFT JOIN pg_subscription_rel ON srsubid = oid;",
        "SELECT subname, apply_error_count, confl_insert_exists, stats_reset FROM pg_stat_subscription_stats;",
        "SELECT subname, worker_type, pid, received_lsn FROM pg_stat_subscription;",
        "SELECT roname = 'pg_' || s.oid FROM pg_replication_origin, pg_subscription AS s;",
        "CREATE TABLE t (name text); INSERT INTO t SELECT subname FROM pg_subscription; TABLE t;",
        "DO $$ BEGIN IF EXISTS (SELECT FROM PG_SUBSCRIPTION) THEN RAISE NOTICE 'there'; END IF; END $$;",
        "COPY (SELECT subname FROM pg_subscription) TO STDOUT;",
        "SELECT pg_stat_clear_snapshot();",
        "SELECT nope FROM pg_subscription;",
        "BEGIN; SELECT subname FROM pg_subscription; SELECT 1 / 0; SELECT subname FROM pg_subscription; ROLLBACK;",
        "SELECT relname FROM pg_class WHERE relname LIKE 'pg\\_subscription' AND relnamespace <> 'pg_catalog'::regnamespace;",
    )


def test_prepared_transactions_are_those_that_apply_has_come_past_and_not_their_verdict(
    with_subscription, oracle, tmp_path
):
    """C49, C50: prepared in the target, or kept in the journal until COMMIT PREPARED"""
    in_target(with_subscription, "UPDATE subscriber_subscription SET systemidentifier = '7', subslotname = 'x'")
    journal = tmp_path / "journal" / "7_x"
    journal.mkdir(parents=True)
    ends = (0x100, 0x200, 0x300, 0x400)
    kinds = (
        (EntryKind.PREPARED, 731),
        (EntryKind.PREPARED, 740),
        (EntryKind.COMMIT_PREPARED, 731),
        (EntryKind.PREPARED, 750),
    )
    for end, (kind, xid) in zip(ends, kinds, strict=True):
        (journal / Segment(LSN(end - 0x100), LSN(end), kind, xid).name).touch()
    asked = "SELECT gid FROM pg_prepared_xacts ORDER BY gid;"
    for applied, gids in (("0/0", []), ("0/200", ["731", "740"]), ("0/300", ["740"]), ("0/400", ["740", "750"])):
        in_target(with_subscription, f"UPDATE subscriber_replication_origin_status SET remote_lsn = '{applied}'")
        assert with_subscription.run(asked).splitlines()[2:-1] == [f" pg_gid_1_{gid}" for gid in gids]
    in_target(with_subscription, "UPDATE subscriber_replication_origin_status SET remote_lsn = '0/0'")
    assert_same(
        with_subscription,
        oracle,
        "SELECT * FROM pg_prepared_xacts WHERE owner = current_user AND database = current_database();",
    )


def test_tables_of_a_subscription_are_those_of_the_session(with_subscription):
    """srrelid is the oid that regclass knows"""
    with_subscription.run('CREATE SCHEMA "S"; CREATE TABLE "S".t (a int)')
    in_target(
        with_subscription,
        "INSERT INTO subscriber_subscription_rel (srsubid, srschema, srrelname, srsubstate, srsublsn) VALUES (1, 'S', 't', 's', '0/1')",
    )
    printed = with_subscription.run("SELECT srrelid::regclass, srsubstate, srsublsn FROM pg_subscription_rel")
    assert printed.splitlines()[2] == ' "S".t   | s          | 0/1'


def test_subscriptions_look_as_in_every_version(postgresql, database, tmp_path):
    r"""``\dRs``, and columns that a version has in another type, or not at all"""
    native = PsqlSession(database.conninfo, lambda: postgresql.psql, PATIENCE)
    command = f"{SUBSCRIPTION}, slot_name = x, streaming = on);"
    with open_node("sqlite", postgresql, tmp_path) as node:
        native.run(command)
        node.run(command)
        assert_same(
            node, native, r"\dRs", r"\dRs+", "SELECT substream, subskiplsn, subdisableonerr FROM pg_subscription;"
        )
    native.run("ALTER SUBSCRIPTION s SET (slot_name = NONE); DROP SUBSCRIPTION s;")
    native.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE pg_subscription SET subenabled = true",
        "DELETE FROM pg_catalog.pg_subscription_rel",
        "INSERT INTO pg_replication_origin VALUES (1, 'x')",
    ],
)
def test_the_catalogs_can_only_be_read(with_subscription, statement):
    assert with_subscription.run(statement).startswith("ERROR:  cannot ")


def test_statistics_are_reset_one_by_one_or_all(with_subscription):
    with_subscription.run(SUBSCRIPTION.replace("SUBSCRIPTION s", "SUBSCRIPTION other") + ")")
    in_target(
        with_subscription,
        "UPDATE subscriber_stat_subscription_stats SET apply_error_count = 2, confl_delete_missing = 3",
    )
    counted = (
        "SELECT subname FROM pg_stat_subscription_stats WHERE apply_error_count + confl_delete_missing > 0 ORDER BY 1"
    )
    with_subscription.run(
        "BEGIN; SELECT pg_catalog.pg_stat_reset_subscription_stats(oid) FROM pg_subscription WHERE subname = 's'"
    )
    with_subscription.run("ROLLBACK")
    assert with_subscription.run(counted).splitlines()[2:] == [" other", "(1 row)"]
    with_subscription.run("SELECT pg_stat_reset_subscription_stats(NULL)")
    assert "(0 rows)" in with_subscription.run(counted)


def test_gexec_runs_what_a_query_generates_on_subscriptions_too(with_subscription):
    generated = with_subscription.run(
        "SELECT format('ALTER SUBSCRIPTION %I RENAME TO %I', subname, 'S'), 'SELECT 1 AS a', 'SELEC' FROM pg_subscription\n\\gexec"
    )
    assert generated.startswith("ALTER SUBSCRIPTION\n a \n---\n 1\n(1 row)\n\nERROR:  syntax error")
    assert " S\n" in with_subscription.run("SELECT subname FROM pg_subscription")


def test_gexec_leaves_what_cannot_be_read_to_the_server(sqlite_node, oracle):
    assert_same(sqlite_node, oracle, "SELECT 'SELECT ''x', 'SELECT 1; SELECT 2' \\gexec")


def test_commands_in_a_transaction_block_take_effect_when_it_is_committed(with_subscription, oracle):
    """C54: a rollback undoes them; a command that connects to the publisher gives PostgreSQL's
    error
    """
    for statement in (
        "BEGIN;",
        "ALTER SUBSCRIPTION s RENAME TO t; ALTER SUBSCRIPTION t ENABLE;",
        "SELECT subname, subenabled FROM pg_subscription;",
        "ALTER SUBSCRIPTION t SET PUBLICATION p;",
        "ROLLBACK;",
        "BEGIN; DROP SUBSCRIPTION nope; COMMIT;",
        "BEGIN; DROP SUBSCRIPTION s; COMMIT;",
        "BEGIN; ALTER SUBSCRIPTION s REFRESH PUBLICATION; COMMIT;",
        "BEGIN; ALTER SUBSCRIPTION s SET (failover); COMMIT;",
        "BEGIN; ALTER SUBSCRIPTION s SET (two_phase = false); COMMIT;",
        "BEGIN; ALTER SUBSCRIPTION s ENABLE; ALTER SUBSCRIPTION s ADD PUBLICATION p; COMMIT;",
        "BEGIN; ALTER SUBSCRIPTION s ENABLE; ALTER SUBSCRIPTION s REFRESH PUBLICATION; COMMIT;",
        "BEGIN; CREATE SUBSCRIPTION u CONNECTION 'dbname=nowhere' PUBLICATION p; COMMIT;",
        "SELECT subname, subenabled FROM pg_subscription;",
        "BEGIN; ALTER SUBSCRIPTION s SET (slot_name = NONE); ALTER SUBSCRIPTION s ADD PUBLICATION r WITH (refresh = false); COMMIT;",
        "SELECT subname, subslotname, subpublications FROM pg_subscription;",
        "BEGIN; DROP SUBSCRIPTION s; SELECT count(*) FROM pg_subscription; COMMIT;",
        f"{SUBSCRIPTION});",
        "SELECT subname FROM pg_subscription;",
        "ALTER SUBSCRIPTION s SET (slot_name = NONE);",
    ):  # fmt: skip
        expected = compared_lines(statement, oracle.run(statement).splitlines())
        assert compared_lines(statement, with_subscription.run(statement).splitlines()) == expected, statement


def test_a_savepoint_cannot_take_a_subscription_command_back(with_subscription):
    with_subscription.run("BEGIN; SAVEPOINT p; ALTER SUBSCRIPTION s RENAME TO t")
    assert "ROLLBACK TO P after a subscription command is not supported" in with_subscription.run("ROLLBACK TO p")
    with_subscription.run("COMMIT")
    assert " s\n" in with_subscription.run("SELECT subname FROM pg_subscription")


def test_a_savepoint_takes_a_failed_subscription_command_back(with_subscription):
    with_subscription.run("BEGIN; SAVEPOINT p; ALTER SUBSCRIPTION nope ENABLE; ROLLBACK TO p")
    assert with_subscription.run("ALTER SUBSCRIPTION s RENAME TO t; COMMIT") == "ALTER SUBSCRIPTION\nCOMMIT"
    assert " t\n" in with_subscription.run("SELECT subname FROM pg_subscription")


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW v AS SELECT * FROM pg_subscription",
        "PREPARE p AS SELECT * FROM pg_subscription_rel",
        "SELECT 'pg_catalog.pg_subscription'::regclass",
        "DO $$ BEGIN PERFORM pg_stat_reset_subscription_stats(NULL); END $$",
        "SELECT count(*) FROM pg_replication_slots, pg_subscription",
        "SELECT pg_replication_origin_progress('x', true)",
        "SELECT * FROM pg_publication_tables",
        "SELECT pg_current_wal_lsn()",
        "\\dRs s",
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


def test_errors_of_commands_are_printed_as_psql_prints_them(sqlite_node):
    assert sqlite_node.run("CREATE SUBSCRIPTION s").startswith("ERROR:  syntax error at end of input")
    assert sqlite_node.run("DROP SUBSCRIPTION s") == 'ERROR:  subscription "s" does not exist'
    assert sqlite_node.run("DROP SUBSCRIPTION IF EXISTS s; SELECT 1 AS a").startswith(
        'NOTICE:  subscription "s" does not exist, skipping\nDROP SUBSCRIPTION\n a \n'
    )


def test_a_refusal_ends_the_transaction_as_an_error_does(sqlite_node):
    aborted = "ERROR:  current transaction is aborted, commands ignored until end of transaction block"
    sqlite_node.run("CREATE TABLE t (a int)")
    for refused in (
        "SELECT * FROM pg_publication_tables",
        "DROP SUBSCRIPTION s",
        "CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p",
    ):
        sqlite_node.run("BEGIN; INSERT INTO t VALUES (1)")
        assert sqlite_node.run(refused).startswith("ERROR:  ")
        assert sqlite_node.run("SELECT 1") == aborted
        assert sqlite_node.run("COMMIT") == "ROLLBACK"
    assert in_target(sqlite_node, "SELECT * FROM t") == []


def test_a_second_session_has_its_own_settings_and_waits_for_no_transaction(sqlite_node):
    sqlite_node.run("CREATE TABLE t (a int); SET application_name = 'one'")
    assert "one" not in sqlite_node.run("SHOW application_name", "2")
    sqlite_node.run("BEGIN; INSERT INTO t VALUES (1)", "2")
    assert (sqlite_node.in_transaction("2"), sqlite_node.in_transaction("")) == (True, False)
    assert "beside another session's open transaction is not supported" in sqlite_node.run("SELECT * FROM t")
    sqlite_node.run("COMMIT", "2")
    assert "(1 row)" in sqlite_node.run("SELECT * FROM t")


def test_rows_that_arrive_during_a_transaction_are_not_hidden(sqlite_node):
    """READ COMMITTED would show them, and the mirror could not"""
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


# Beginning and end --------------------------------------------------------------------------------


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
    """The session would run these subscriptions, too"""
    url = f"sqlite:///{tmp_path / 'target.db'}"
    with open_target(url) as target:
        ensure_catalog(target.engine)
        with target.begin() as connection:
            insert_subscription(connection, "s", "dbname=x", ["p"], SubscriptionOptions(slot_name="s"))
    with (
        pytest.raises(UsageError, match="the target has subscriptions already"),
        open_node(url, postgresql18, tmp_path),
    ):
        pass


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_nothing_is_left_in_a_target_that_is_the_users_own(postgresql18, tmp_path, kind):
    """No tables, schemas, catalog or mirror database remain"""
    servers = TargetServers(lambda: postgresql18, lambda: pytest.fail("no MariaDB is asked for"))
    with fresh_target(kind, f"users_{os.getpid()}", tmp_path, servers) as fresh:
        with open_node(fresh.url, postgresql18, tmp_path) as node:
            node.run("CREATE SCHEMA s; CREATE TABLE s.t (a int); CREATE TABLE u (a int)")
            name = node.name
        with open_target(fresh.url) as target:
            inspector = sa.inspect(target.engine)
            assert inspector.get_table_names() == []
            assert "s" not in inspector.get_schema_names()
    assert postgresql18.execute(f"SELECT 1 FROM pg_database WHERE datname = '{name}'") == []


def test_a_catalog_that_was_there_stays(postgresql18, tmp_path):
    url = f"sqlite:///{tmp_path / 'target.db'}"
    with open_target(url) as target:
        ensure_catalog(target.engine)
        with open_node(url, postgresql18, tmp_path):
            pass
        assert own_tables.SUBSCRIPTION.name in sa.inspect(target.engine).get_table_names()
