"""The order in which a scenario's statements run and settle, and that nothing is left behind."""

from __future__ import annotations

import pytest

from subscriber.base.errors import PublisherUnavailable, StatementTimeout
from subscriber.testing.nodes.node import SessionNode
from subscriber.testing.run_session import Runner
from subscriber.testing.session.session_file import parse_scenario
from subscriber.testing.stage import Setup

SESSION = """-- t
test_pub=# INSERT INTO t VALUES (1);
INSERT 0 1
test_sub=# SELECT 1;
 1
test_sub=# CREATE SUBSCRIPTION s CONNECTION 'dbname=test_pub' PUBLICATION p;
CREATE SUBSCRIPTION
test_pub=# SELECT 2;
 2
test_sub=# SELECT 3;
 3
test_sub=# CREATE TABLE u (a int);
CREATE TABLE
"""
PRINTED: dict[str, str | Exception] = {
    "INSERT INTO t VALUES (1);": "INSERT 0 1",
    "SELECT 1;": " 1",
    "CREATE SUBSCRIPTION s CONNECTION 'dbname=test_pub' PUBLICATION p;": "NOTICE:  made a slot\nCREATE SUBSCRIPTION",
    "SELECT 2;": " 2",
    "SELECT 3;": " 3",
    "CREATE TABLE u (a int);": "CREATE TABLE",
}


class FakeNode(SessionNode):
    def __init__(self, name, log):
        self.name = name
        self.log = log

    def run(self, text, session=""):
        self.log.append((self.name, text.split()[0]))
        printed = PRINTED[text]
        if isinstance(printed, Exception):
            raise printed
        return printed

    def settle(self, patience):
        self.log.append((self.name, "settles"))

    def state(self):
        return ""

    def close(self):
        self.log.append((self.name, "closes"))


class FakeStage:
    def __init__(self):
        self.log = []

    def features(self, setup):
        return frozenset()

    def open_nodes(self, names, setup, patience, nodes):
        for name in names:
            nodes[name] = FakeNode(name, self.log)

    def tidy(self):
        self.log.append("tidy")


@pytest.fixture
def stage():
    return FakeStage()


def play(stage, text=SESSION):
    return Runner(stage).run(parse_scenario(text, "t"), Setup())


def test_subscriptions_settle_after_they_are_made_and_before_their_node_reads_never_in_between(stage):
    assert play(stage).outcome == "passed"
    assert stage.log == [
        ("test_pub", "INSERT"),
        ("test_sub", "SELECT"),
        ("test_sub", "CREATE"),
        ("test_sub", "settles"),
        ("test_pub", "SELECT"),
        ("test_sub", "settles"),
        ("test_sub", "SELECT"),
        ("test_sub", "CREATE"),
        ("test_sub", "closes"),
        ("test_pub", "closes"),
        "tidy",
    ]


def test_in_a_transaction_block_nothing_settles(stage, monkeypatch):
    """The block's locks may be what the subscription waits for."""
    monkeypatch.setattr(FakeNode, "in_transaction", lambda self, session: True)
    play(stage)
    assert ("test_sub", "settles") not in stage.log


def test_a_chain_settles_as_many_rounds_as_it_has_links(stage, monkeypatch):
    create = "CREATE SUBSCRIPTION s CONNECTION 'dbname=test_pub' PUBLICATION p;"
    play(stage, f"-- t\nb_pub=# {create}\ntest_sub=# {create}\ntest_sub=# SELECT 3;\n 3\n")
    rounds = [("b_pub", "settles"), ("test_sub", "settles")]
    assert stage.log[stage.log.index(("test_sub", "SELECT")) - 4 :][:4] == rounds * 2


def test_every_statement_runs_also_after_a_difference(stage, monkeypatch):
    monkeypatch.setitem(PRINTED, "SELECT 1;", " 7")
    result = play(stage)
    assert result.outcome == "failed"
    assert [failure.statement.line for failure in result.failures] == [4]
    assert all(exchange.printed is not None for exchange in result.exchanges)


@pytest.mark.parametrize("error", [StatementTimeout("it hangs"), PublisherUnavailable("it is gone")])
def test_a_statement_that_does_not_end_ends_the_scenario(stage, monkeypatch, error):
    monkeypatch.setitem(PRINTED, "SELECT 2;", error)
    result = play(stage)
    assert [failure.error for failure in result.failures] == [error.report()]
    assert [exchange.printed for exchange in result.exchanges][3:] == [None, None, None]
    assert stage.log[-3:] == [("test_sub", "closes"), ("test_pub", "closes"), "tidy"]


def test_what_cannot_be_cleared_away_fails_the_scenario_and_the_rest_is_cleared(stage, monkeypatch):
    def close(self):
        raise PublisherUnavailable(f"{self.name} cannot be dropped")

    monkeypatch.setattr(FakeNode, "close", close)
    result = play(stage)
    assert result.outcome == "failed"
    assert result.leftover == "ERROR:  test_sub cannot be dropped\nERROR:  test_pub cannot be dropped"
    assert stage.log[-1] == "tidy"


def test_a_bug_of_ours_is_raised_after_clearing_away(stage, monkeypatch):
    monkeypatch.setitem(PRINTED, "SELECT 2;", ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        play(stage)
    assert stage.log[-1] == "tidy"


def test_a_scenario_whose_requirements_are_not_met_is_skipped_with_the_reason(stage):
    result = play(stage, SESSION.replace("-- t\n", "-- t\n-- requires: pg>=19\n"))
    assert result.outcome == "skipped"
    assert result.skipped == "needs PostgreSQL 19 or newer, and this is 18"
    assert stage.log == []
