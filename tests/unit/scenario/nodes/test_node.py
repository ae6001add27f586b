"""How a session's connection string becomes the real one."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from subscriber.scenario.nodes.node import node_conninfo
from subscriber.scenario.servers.postgresql_server import PostgreSQL

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
