"""How a session's connection string becomes the real one, and how a server's subscriptions are
read.
"""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from subscriber.testing.nodes.node import _subscriptions, _Watch, node_conninfo
from subscriber.testing.servers.postgresql_server import PostgreSQL
from tests.scripted_server import VERSIONS, Row, ScriptedServer

ONE = PostgreSQL("host=127.0.0.1 port=7001 user=postgres", 18)
TWO = PostgreSQL("host=127.0.0.1 port=7002 user=postgres", 18)
SERVERS = {"test_pub": ONE, "other_pub": TWO}


def resolved(session):
    return conninfo_to_dict(node_conninfo(session, SERVERS, ONE))


def test_the_database_names_the_node_and_the_rest_is_kept():
    assert resolved("host=localhost dbname=other_pub application_name=s1") == {
        "host": "127.0.0.1",
        "port": "7002",
        "user": "postgres",
        "dbname": "other_pub",
        "application_name": "s1",
    }


def test_a_user_that_the_session_gives_is_kept():
    assert resolved("dbname=test_pub user=somebody")["user"] == "somebody"


def test_a_database_of_no_node_is_looked_for_at_a_publisher():
    """So that the error is PostgreSQL's: there is no such database."""
    assert resolved("dbname=nowhere")["port"] == "7001"


@pytest.mark.parametrize("session", ["", "foobar", "dbname"])
def test_what_is_no_connection_string_is_the_command_s_to_refuse(session):
    assert node_conninfo(session, SERVERS, ONE) == session


# A subscriber's state -----------------------------------------------------------------------------


def row(**values: object) -> Row:
    return {
        "subname": "s", "subenabled": True, "subslotname": "s", "subconninfo": "dbname=test_pub",
        "waiting": ["q i"], "errors": 2, "worker": 7, **values,
    }  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_are_counted_under_the_names_of_the_server_s_version(version):
    """From 19 on, synchronization errors of tables and of sequences have counters of their own."""
    server = ScriptedServer({"FROM pg_subscription s": [row()]}, version=version)
    (found,) = _subscriptions(server.connection)
    assert (found.errors, found.waiting) == (2, ("q i",))
    assert ("sync_seq_error_count" in server.asked[0].sql) is (version >= 190000)


def test_a_subscription_with_a_server_has_no_connection_string_to_write_a_barrier_by(monkeypatch):
    """PostgreSQL 19: ``subconninfo`` is NULL."""
    server = ScriptedServer({"FROM pg_subscription s": [row(subconninfo=None, waiting=[])]}, version=190000)
    (found,) = _subscriptions(server.connection)
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: pytest.fail("no other database is written to"))
    watch = _Watch(found)
    watch.write_barrier()
    assert not watch.has_settled(found)
    assert watch.has_settled(replace(found, enabled=False, worker=None))
