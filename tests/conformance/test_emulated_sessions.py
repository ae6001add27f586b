"""``--publications emulated``: what a session says to the publisher about publications, a target of
ours is told too.

Nothing is replicated here; that the rows are the same is for tests/conformance/test_scenarios.py.
"""

from __future__ import annotations

import dataclasses
import os
from itertools import count

import psycopg
import pytest

from subscriber.base.errors import UsageError
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import list_subscriptions
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.publisher.server_publications import read_publications
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.targets import open_target
from subscriber.testing.nodes.emulated_publications import CARRIER, Emulation
from subscriber.testing.nodes.node import PostgreSQLNode
from subscriber.testing.nodes.target_node import TargetNode
from subscriber.testing.servers.open_servers import TargetServers, fresh_target

pytestmark = pytest.mark.server

PATIENCE = 60.0
_numbers = count(1)


def no_query(*_, **__):
    raise AssertionError("nothing is replicated")


class Session:
    def __init__(self, publisher, target, url):
        self.publisher = publisher
        self.target = target
        self.url = url
        self.settled = 0
        self._emulation = Emulation({one.name: one for one in (publisher, target)}, PATIENCE)

    def type(self, *statements, at=None):
        """Run statements, none of which may print an error; returns what the last one printed."""
        for statement in statements:
            told = self.tell(statement, at=at)
            assert "ERROR" not in told.printed, told.printed
            assert told.disagreement == ""
        return told.printed

    def tell(self, statement, *, at=None, session=""):
        return self._emulation.run(at or self.publisher, statement, session, self._settle)

    def _settle(self):
        self.settled += 1

    def on_server(self, *names):
        with psycopg.connect(self.publisher.conninfo, autocommit=True) as connection:
            return {one.name: one for one in read_publications(connection, names)}


@pytest.fixture
def session(postgresql18, tmp_path):
    name = f"emulated_{os.getpid()}_{next(_numbers)}"
    servers = TargetServers(lambda: postgresql18, no_query)
    settings = Settings.from_environment({"SUBSCRIBER_JOURNAL": str(tmp_path / "journal")})
    publisher = PostgreSQLNode(f"{name}_pub", postgresql18, str, PATIENCE)
    with fresh_target("sqlite", name, tmp_path, servers) as fresh:
        target = TargetNode(
            name,
            fresh,
            postgresql18,
            lambda _: publisher.conninfo,
            SparkFunctions(no_query, no_query),
            settings,
            PATIENCE,
            CARRIER,
        )
        try:
            opened = Session(publisher, target, fresh.url)
            opened.type("CREATE TABLE t (a int PRIMARY KEY, b text)")
            yield opened
        finally:
            target.close()
            publisher.close()


def test_a_command_that_the_server_accepts_is_carried_out_at_the_target(session):
    session.type("CREATE PUBLICATION p FOR TABLE t (a) WHERE (a > 5) WITH (publish = 'insert')")
    entry = TableEntry("public", "t", ("a",), "(a > 5)")
    made = Publication("p", tables=(entry,), publish=frozenset({"insert"}))
    assert session.target.publications() == {"p": made}
    session.type("ALTER PUBLICATION p RENAME TO q", "DROP PUBLICATION q")
    assert session.target.publications() == {}


def test_a_filter_by_a_virtual_column_that_is_kept_as_it_was_written_is_no_disagreement(session):
    """Rule B29: the server shows what the column is generated from."""
    session.type("ALTER TABLE t ADD twice int GENERATED ALWAYS AS (a * 2) VIRTUAL")
    session.type("CREATE PUBLICATION p FOR TABLE t WHERE (twice > 5)", "ALTER TABLE t ADD c int")
    assert session.on_server("p")["p"].tables[0].where == "((a * 2) > 5)"
    assert session.target.publications()["p"].tables[0].where == "twice > 5"


def test_a_command_that_both_refuse_alike_is_no_disagreement(session):
    told = session.tell("CREATE PUBLICATION p FOR TABLE missing")
    assert (told.printed, told.disagreement) == ('ERROR:  relation "missing" does not exist', "")


def test_a_target_that_refuses_what_the_server_accepts_is_told_of_and_gets_the_server_s_definition(
    session, monkeypatch
):
    refused = UsageError("no such thing", sqlstate="42704", detail="Ours.")
    monkeypatch.setattr(session.target, "run_publication_command", lambda *_: refused)
    told = session.tell("CREATE PUBLICATION p FOR TABLE t WHERE (a > 5)")
    assert told.disagreement == (
        f'node "{session.target.name}" was given the same command and refused it: ERROR:  42704: no such thing\n'
        "DETAIL:  Ours.;\nthe server accepted it"
    )
    assert session.target.publications() == session.on_server("p")


def test_a_target_that_accepts_what_the_server_refuses_is_told_of_and_loses_it_again(session, monkeypatch):
    def accept(*_):
        session.target.store_publications({"p": Publication("p")}, "somebody")

    monkeypatch.setattr(session.target, "run_publication_command", accept)
    told = session.tell("CREATE PUBLICATION p FOR TABLE missing")
    assert told.disagreement.endswith('the server refused it: ERROR:  42P01: relation "missing" does not exist')
    assert session.target.publications() == {}


def test_a_target_that_has_stored_something_else_is_told_of(session, monkeypatch):
    def accept(*_):
        session.target.store_publications({"p": Publication("p", all_tables=True)}, "somebody")

    monkeypatch.setattr(session.target, "run_publication_command", accept)
    told = session.tell("CREATE PUBLICATION p FOR TABLE t")
    assert "was given the same command and has Publication(name='p', all_tables=True" in told.disagreement
    assert session.target.publications() == session.on_server("p")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t RENAME COLUMN b TO c",
        "ALTER TABLE t RENAME TO u",
        "DROP TABLE t",
        "DO $$ BEGIN ALTER PUBLICATION p SET (publish = 'update'); END $$",
        "ALTER PUBLICATION p DROP TABLE t; CREATE PUBLICATION q;",
        r"SELECT 'DROP PUBLICATION p' \gexec",
    ],
)
def test_what_changes_publications_otherwise_is_taken_over_from_the_server(session, statement):
    session.type("CREATE PUBLICATION p FOR TABLE t (a, b) WHERE (b = 'x')", statement)
    assert session.target.publications() == session.on_server("p", "q")


def test_what_a_transaction_has_made_of_publications_is_taken_over_when_it_is_committed(session):
    session.type("BEGIN", "CREATE PUBLICATION p FOR TABLE t", "ALTER PUBLICATION p SET (publish = 'delete')")
    assert session.target.publications() == {}
    session.type("COMMIT")
    assert session.target.publications() == session.on_server("p")
    session.type("BEGIN", "DROP PUBLICATION p", "ROLLBACK")
    assert session.target.publications() == session.on_server("p")


def test_what_was_written_before_is_settled_before_definitions_change(session):
    """Emulated definitions are not in the WAL (rule B12b)."""
    session.type("INSERT INTO t VALUES (1)", "CREATE TABLE u (a int)")
    assert session.settled == 0
    session.type("CREATE PUBLICATION p FOR TABLE t")
    assert session.settled == 1
    session.type("BEGIN", "INSERT INTO t VALUES (2)", "DROP PUBLICATION p")
    assert session.settled == 1
    session.type("COMMIT")
    assert session.settled == 2


SUBSCRIBE = "CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p WITH (enabled = false, copy_data = false)"


@pytest.fixture
def subscribed(session):
    session.type("CREATE TABLE t (a int PRIMARY KEY, b text)", at=session.target)
    session.type("CREATE PUBLICATION p FOR TABLE t WHERE (a > 5)")
    session.type(SUBSCRIBE, at=session.target)
    return session


def test_a_subscription_gets_the_carrier_and_the_carrier_follows_the_publications(subscribed):
    with open_target(subscribed.url) as target, target.begin() as connection:
        (made,) = list_subscriptions(connection)
    assert (made.publications, made.options.carrier) == (("p",), CARRIER)
    (carrier,) = subscribed.on_server(CARRIER).values()
    assert carrier == Publication(CARRIER, tables=(TableEntry("public", "t"),), generated_columns="stored")

    subscribed.type("CREATE TABLE u (a int PRIMARY KEY)", "ALTER PUBLICATION p SET TABLE u")
    (moved,) = subscribed.on_server(CARRIER).values()
    assert moved == dataclasses.replace(carrier, tables=(TableEntry("public", "u"),))


def test_a_session_does_not_see_the_carrier(subscribed):
    query = "SELECT pubname FROM pg_publication"
    alone = " pubname \n---------\n p\n(1 row)"
    assert subscribed.tell(query).printed == alone
    subscribed.type("BEGIN", "INSERT INTO t VALUES (7)")
    assert subscribed.tell(query).printed == alone
    assert "does not exist" in subscribed.tell("SELECT missing FROM pg_publication").printed
    assert "aborted" in subscribed.tell(query).printed
    subscribed.tell("ROLLBACK")
    assert len(subscribed.on_server(CARRIER)) == 1
