"""A subscriber node whose target is PostgreSQL: statements run in the target itself, before
anything is replicated.
"""

from __future__ import annotations

import contextlib
import os
from itertools import count

import pytest
import sqlalchemy as sa

from subscriber.base.settings import Settings
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.targets import open_target
from subscriber.testing.nodes.session_database import SCHEMA
from subscriber.testing.nodes.target_node import TargetNode
from subscriber.testing.servers.open_servers import TargetServers, fresh_target
from subscriber.testing.session.psql import PsqlSession

PATIENCE = 60.0
SUBSCRIPTION = "CREATE SUBSCRIPTION s CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false)"
_numbers = count(1)


def no_query(*_, **__):
    raise AssertionError("nothing is subscribed to")


@pytest.fixture
def fresh(postgresql18, tmp_path):
    name = f"own_{os.getpid()}_{next(_numbers)}"
    with fresh_target("postgresql", name, tmp_path, TargetServers(lambda: postgresql18, no_query)) as opened:
        yield name, opened


@pytest.fixture
def node(fresh, postgresql18, tmp_path):
    name, target = fresh
    with open_node(name, target, postgresql18, tmp_path) as opened:
        yield opened


def open_node(name, target, server, folder):
    settings = Settings.from_environment({"SUBSCRIBER_JOURNAL": str(folder / "journal")})
    pipeline = SparkFunctions(no_query, no_query)
    return contextlib.closing(TargetNode(name, target, server, str, pipeline, settings, PATIENCE))


def value(printed):
    return printed.splitlines()[2].strip()


def test_statements_run_in_the_database_that_apply_writes_to(node, postgresql18):
    """It has the node's name, as the database of a native subscriber has"""
    node.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    assert value(node.run("SELECT current_database()")) == node.name
    assert postgresql18.execute("SELECT a FROM t", node.name) == [(1,)]
    postgresql18.execute("INSERT INTO t VALUES (2)", node.name)
    assert value(node.run("SELECT count(*) FROM t")) == "2"


def test_the_catalogs_tables_stand_in_no_listing(node, publisher_database):
    node.run(SUBSCRIPTION)
    oracle = PsqlSession(publisher_database.conninfo, lambda: publisher_database.server.psql, PATIENCE)
    assert node.run(r"\d") == oracle.run(r"\d")
    assert node.run("SHOW search_path") == oracle.run("SHOW search_path")
    oracle.close()
    assert " s  " in node.run(r"\dRs")
    assert value(node.run("SELECT subname FROM pg_catalog.pg_subscription")) == "s"
    with open_target(node._target.url) as target:
        assert "subscriber_subscription" in sa.inspect(target.engine).get_table_names(SCHEMA)


def test_what_fires_for_replicated_rows_is_the_targets_own(node, postgresql18):
    """C23"""
    node.run(
        "CREATE TABLE t (a int); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.a := NEW.a * 10; RETURN NEW; END $$;"
        "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"
    )
    assert node.run("ALTER TABLE t ENABLE REPLICA TRIGGER f") == "ALTER TABLE"
    with node._target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO public.t VALUES (4)")
    assert value(node.run("SELECT a FROM t")) == "40"


def test_prepared_transactions_are_the_targets_own(node):
    """C49"""
    node.run("CREATE TABLE t (a int); BEGIN; INSERT INTO t VALUES (1)")
    assert node.run(f"PREPARE TRANSACTION '{node.name}'") == "PREPARE TRANSACTION"
    asked = f"SELECT gid FROM pg_prepared_xacts WHERE database = '{node.name}'"
    assert value(node.run(asked)) == node.name
    assert node.run(f"COMMIT PREPARED '{node.name}'") == "COMMIT PREPARED"
    assert "(0 rows)" in node.run(asked)
    assert value(node.run("SELECT a FROM t")) == "1"


def test_what_is_left_prepared_ends_with_the_node(fresh, postgresql18, tmp_path):
    """Its locks would keep the catalog's tables from being dropped"""
    name, target = fresh
    with open_node(name, target, postgresql18, tmp_path) as node:
        node.run(f"BEGIN; LOCK TABLE {SCHEMA}.subscriber_subscription; PREPARE TRANSACTION '{name}'")
        left = f"SELECT gid FROM pg_prepared_xacts WHERE database = '{name}'"
        assert postgresql18.execute(left) == [(name,)]
    assert postgresql18.execute(left) == []


def test_a_transaction_may_stay_open_beside_others_and_beside_apply(node):
    """Apply may be waiting for its locks"""
    node.run("CREATE TABLE t (a int); BEGIN; INSERT INTO t VALUES (1)")
    with node.at_rest(PATIENCE):
        assert value(node.run("SELECT count(*) FROM t", "other")) == "0"
        assert node.run("COMMIT") == "COMMIT"
    assert value(node.run("SELECT count(*) FROM t", "other")) == "1"


def test_a_subscription_command_cannot_be_prepared(node):
    node.run(f"{SUBSCRIPTION}; BEGIN; ALTER SUBSCRIPTION s RENAME TO t")
    assert "PREPARE TRANSACTION after a subscription command is not supported" in node.run("PREPARE TRANSACTION 'x'")
    node.run("ROLLBACK")
    assert value(node.run("SELECT subname FROM pg_subscription")) == "s"


@pytest.mark.parametrize("query", ["SELECT * FROM pg_publication", "SELECT * FROM pg_stat_replication", r"\dRp"])
def test_what_the_target_knows_nothing_of_is_refused(node, query):
    """refuse_not_guess: a node's publications are emulated, and its workers are not PostgreSQL's
    walreceivers
    """
    assert "is not supported on this subscriber" in node.run(query)


def test_a_transaction_that_was_committed_lets_what_could_not_be_applied_be_tried_again(node):
    """Whichever session it was, and when it began"""
    node.run("CREATE TABLE t (a int); BEGIN; INSERT INTO t VALUES (1)")
    node.run("SELECT 1", "other")
    before = node._engine._changed
    node.run("COMMIT")
    assert node._engine._changed > before
