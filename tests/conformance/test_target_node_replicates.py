"""A subscriber node that replicates: a publisher, Spark, a target, and a session that waits like a
user.
"""

from __future__ import annotations

import contextlib
import os
import threading
from itertools import count

import pytest
import sqlalchemy as sa

from subscriber.base.errors import AlreadyRunning, StatementTimeout
from subscriber.base.settings import Settings
from subscriber.spark.session import starting_spark
from subscriber.spark.spark_functions import functions_on
from subscriber.targets import open_target
from subscriber.testing.nodes.target_node import TargetNode
from subscriber.testing.servers.open_servers import TargetServers, fresh_target

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

PATIENCE = 120.0
_numbers = count(1)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    with starting_spark("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as spark:
        yield functions_on(spark)


@pytest.fixture
def journal(tmp_path, monkeypatch):
    # The walreceiver reads its settings from the environment.
    monkeypatch.setenv("SUBSCRIBER_JOURNAL", str(tmp_path / "journal"))
    monkeypatch.setenv("SUBSCRIBER_WAL_RETRIEVE_RETRY_INTERVAL", "100ms")
    return tmp_path / "journal"


@contextlib.contextmanager
def open_node(kind, publisher, pipeline, folder):
    name = f"replica_{os.getpid()}_{next(_numbers)}"
    servers = TargetServers(lambda: publisher.server, lambda: pytest.fail("no MariaDB is asked for"))
    with fresh_target(kind, name, folder, servers) as fresh:
        settings = Settings.from_environment()
        node = TargetNode(name, fresh, publisher.server, lambda _: publisher.conninfo, pipeline, settings, PATIENCE)
        try:
            yield node
        finally:
            node.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def node(request, publisher_database, pipeline, journal, tmp_path):
    with open_node(request.param, publisher_database, pipeline, tmp_path) as opened:
        yield opened


TABLE = "CREATE TABLE t (id int PRIMARY KEY, n numeric(6,2), b bool, y bytea, a int[], at timestamptz);"


def subscribe(node, publisher):
    publisher.execute(f"{TABLE} CREATE PUBLICATION p FOR TABLE t")
    node.run(TABLE)
    slot = node.name
    printed = node.run(
        f"CREATE SUBSCRIPTION s CONNECTION 'dbname=pub' PUBLICATION p WITH (copy_data = false, slot_name = '{slot}')"
    )
    assert printed == f'NOTICE:  created replication slot "{slot}" on publisher\nCREATE SUBSCRIPTION'
    node.settle(PATIENCE)


def settled(node, query):
    node.settle(PATIENCE)
    return node.run(query)


def ids(node):
    return settled(node, "SELECT id FROM t ORDER BY id").split()[2:-2]


def test_what_the_publisher_does_is_what_the_session_sees(node, publisher_database):
    """C7-C9, C29, D1: one row at a time and many, with local changes between them"""
    subscribe(node, publisher_database)
    publisher_database.execute(
        "INSERT INTO t VALUES (1, 1.5, true, '\\x00ff', '{1,NULL}', '2026-01-01 00:00+02'), (2, 0, NULL, NULL, NULL, NULL)"
    )
    assert settled(node, "SELECT * FROM t ORDER BY id").splitlines()[2:4] == [
        "  1 | 1.50 | t | \\x00ff | {1,NULL} | 2025-12-31 22:00:00+00",
        "  2 | 0.00 |   |        |          | ",
    ]
    publisher_database.execute("UPDATE t SET n = n + 1 WHERE id = 1; DELETE FROM t WHERE id = 2")
    assert settled(node, "SELECT n FROM t").split()[2] == "2.50"
    node.run("INSERT INTO t (id, b) VALUES (50, true); UPDATE t SET b = false")
    publisher_database.execute("UPDATE t SET n = 7 WHERE id = 1; INSERT INTO t (id) SELECT generate_series(100, 1100)")
    # The publisher sends every column of the row, so the local change of b in row 1 is overwritten.
    printed = settled(node, "SELECT count(*), sum(n), bool_or(b), bool_and(b) FROM t").splitlines()[2]
    assert printed.replace(" ", "") == "1003|7.00|t|f"
    publisher_database.execute("TRUNCATE t")
    assert ids(node) == []


def test_a_table_that_is_made_anew_goes_on_to_be_replicated(node, publisher_database):
    """C1: the table is read again"""
    subscribe(node, publisher_database)
    publisher_database.execute("INSERT INTO t (id) VALUES (1)")
    assert ids(node) == ["1"]
    node.run("ALTER TABLE t ADD COLUMN own text DEFAULT 'mine'")
    publisher_database.execute("INSERT INTO t (id) VALUES (2)")
    assert settled(node, "SELECT id, own FROM t ORDER BY id").split()[4:-2] == ["1", "|", "mine", "2", "|", "mine"]


def test_a_conflict_is_waited_for_once_and_goes_when_its_cause_goes(node, publisher_database):
    """C22, C35: the transactions before it are applied, and none after it"""
    subscribe(node, publisher_database)
    node.run("INSERT INTO t (id) VALUES (7)")
    for number in (6, 7, 8):
        publisher_database.execute(f"INSERT INTO t (id, n) VALUES ({number}, 1)")
    assert ids(node) == ["6", "7"]
    assert 'conflict detected on relation "public.t": conflict=insert_exists' in node.state()
    assert ids(node) == ["6", "7"]
    node.run("DELETE FROM t WHERE id = 7")
    assert settled(node, "SELECT id, n FROM t ORDER BY id").split()[4:-2] == [
        "6",
        "|",
        "1.00",
        "7",
        "|",
        "1.00",
        "8",
        "|",
        "1.00",
    ]
    assert "conflict" not in node.state()


def test_the_catalogs_tell_of_the_worker_and_show_the_connection_as_it_was_typed(node, publisher_database):
    subscribe(node, publisher_database)
    publisher_database.execute("INSERT INTO t (id) VALUES (1)")
    node.settle(PATIENCE)
    workers = (
        "SELECT subconninfo, pid IS NOT NULL AS runs, received_lsn >= remote_lsn AS received FROM pg_subscription"
        " JOIN pg_stat_subscription ON subid = oid JOIN pg_replication_origin_status ON external_id = 'pg_' || oid"
    )
    assert node.run(workers).splitlines()[2] == " dbname=pub  | t    | t"
    node.run("ALTER SUBSCRIPTION s DISABLE")
    node.settle(PATIENCE)
    assert node.run(workers).splitlines()[2] == " dbname=pub  | f    | "


def test_a_subscription_that_is_dropped_leaves_nothing(node, publisher_database, journal):
    subscribe(node, publisher_database)
    publisher_database.execute("INSERT INTO t (id) VALUES (1)")
    assert ids(node) == ["1"]
    slot = node.name
    assert node.run("DROP SUBSCRIPTION s") == (
        f'NOTICE:  dropped replication slot "{slot}" on publisher\nDROP SUBSCRIPTION'
    )
    publisher_database.execute("INSERT INTO t (id) VALUES (2)")
    assert ids(node) == ["1"]
    assert node.state() == "no subscription"
    assert [file for file in journal.rglob("*") if file.is_file()] == []


@pytest.mark.parametrize("gone", ["nothing", "slot", "publisher"])
def test_what_is_left_is_removed_at_the_end(publisher_database, pipeline, journal, tmp_path, gone):
    """Slots, tables, the catalog, threads and journals; also if the slot or the publisher no longer
    exists
    """
    target = open_target(f"sqlite:///{tmp_path / 'users.db'}")
    with target, open_node(str(target.url), publisher_database, pipeline, tmp_path) as node:
        subscribe(node, publisher_database)
        assert [file for file in journal.rglob("*") if file.is_file()]
        if gone == "slot":
            of_it = f"FROM pg_replication_slots WHERE slot_name = '{node.name}'"
            publisher_database.execute(f"SELECT pg_terminate_backend(active_pid) {of_it}")
            publisher_database.execute(f"SELECT pg_drop_replication_slot(slot_name) {of_it} AND NOT active")
        elif gone == "publisher":
            publisher_database.server.drop_database(publisher_database.name)
        node.settle(PATIENCE)
        state = {"nothing": "streaming", "slot": "stopped", "publisher": "retrying"}[gone]
        assert f": {state}, " in node.state()
    slots = f"SELECT slot_name FROM pg_replication_slots WHERE database = '{publisher_database.name}'"
    assert publisher_database.server.execute(slots) == []
    assert sa.inspect(target.engine).get_table_names() == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("engine of")]
    assert [file for file in journal.rglob("*") if file.is_file()] == []


def test_two_nodes_may_have_subscriptions_of_one_name(publisher_database, pipeline, journal, tmp_path):
    """One Spark session, in which the names of queries must differ"""
    with (
        open_node("sqlite", publisher_database, pipeline, tmp_path) as one,
        open_node("sqlite", publisher_database, pipeline, tmp_path) as other,
    ):
        subscribe(one, publisher_database)
        other.run(TABLE)
        other.run(
            f"CREATE SUBSCRIPTION s CONNECTION 'dbname=pub' PUBLICATION p WITH (copy_data = false, slot_name = '{other.name}')"
        )
        other.settle(PATIENCE)
        publisher_database.execute("INSERT INTO t (id) VALUES (1)")
        assert (ids(one), ids(other)) == (["1"], ["1"])


def test_settling_has_an_end_and_says_how_things_are(publisher_database, pipeline, journal, tmp_path):
    with open_node("sqlite", publisher_database, pipeline, tmp_path) as node:
        subscribe(node, publisher_database)
        with node._engine.at_rest(PATIENCE):
            publisher_database.execute("INSERT INTO t (id) VALUES (1)")
            with pytest.raises(StatementTimeout, match="did not settle within 1 s") as raised:
                node.settle(1)
            assert str(raised.value.detail).startswith('subscription "s": streaming, received ')
            with pytest.raises(StatementTimeout, match="a batch of changes"), node._engine.at_rest(0.1):
                pass
        assert ids(node) == ["1"]


def test_replication_waits_for_a_lock_of_the_session_and_not_the_session_for_replication(
    publisher_database, pipeline, journal, tmp_path
):
    """As PostgreSQL's worker does, where the session is in the target itself"""
    with open_node("postgresql", publisher_database, pipeline, tmp_path) as node:
        subscribe(node, publisher_database)
        publisher_database.execute("INSERT INTO t (id) VALUES (1)")
        assert ids(node) == ["1"]
        node.run("BEGIN; UPDATE t SET n = 5")
        publisher_database.execute("UPDATE t SET n = 7")
        with pytest.raises(StatementTimeout, match="did not settle within 3 s"):
            node.settle(3)
        assert node.run("SELECT n FROM t").split()[2] == "5.00"
        assert node.run("COMMIT") == "COMMIT"
        assert settled(node, "SELECT n FROM t").split()[2] == "7.00"


def test_a_supervisor_that_cannot_work_is_no_silence(publisher_database, pipeline, journal, tmp_path):
    """Another run holds the target's lock"""
    with open_node("sqlite", publisher_database, pipeline, tmp_path) as node:
        with node._target.running(), pytest.raises(AlreadyRunning):
            subscribe(node, publisher_database)
        node.run("DROP SUBSCRIPTION s")
        node.settle(PATIENCE)
