"""The verdicts of the conformance kit on scenarios, without a server."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.base.errors import UsageError
from subscriber.testing import conformance_scenarios
from subscriber.testing.conformance_scenarios import ScenarioChecks
from subscriber.testing.run_session import Exchange, Result
from subscriber.testing.session.session_file import Scenario
from subscriber.testing.stage import Setup, is_publisher

NAME = "806_text"


class StubRunner:
    """Prints what it is told as the output of the scenario's last statement."""

    def __init__(self, printed: str | None = None, *, error: UsageError | None = None) -> None:
        self.printed = printed
        self.error = error
        self.runs = 0

    def run(self, scenario: Scenario, setup: Setup) -> Result:
        self.runs += 1
        if self.error is not None:
            raise self.error
        last = scenario.statements[-1]
        differs = "" if self.printed is None else "+ it"
        return Result(scenario, setup, (Exchange(last, self.printed, differs),), 0.0)


@pytest.fixture
def checks():
    """Checks whose runner is a stub."""

    def make(runner: StubRunner, database: str = "SQLite") -> ScenarioChecks:
        made = ScenarioChecks(sa.make_url("sqlite:///t.db"), database)
        vars(made)["_runner"] = runner
        return made

    return make


def test_each_scenario_of_the_kit_has_one_subscriber_and_each_prefix_finds_one(checks):
    found = checks(StubRunner())
    assert NAME in found.names
    for prefix in conformance_scenarios.NAMES:
        assert any(name.startswith(prefix) for name in found.names), prefix
    for scenario in found._scenarios.values():
        assert [is_publisher(node) for node in scenario.nodes].count(False) == 1


@pytest.mark.parametrize(
    ("printed", "verdict", "detail"),
    [
        (None, "holds", ""),
        ("ERROR:  there is no such type\nHINT:  x", "refused", "there is no such type"),
        (" a \n---\n(0 rows)", "fails", "the session prints something else"),
    ],
)
def test_a_scenario_that_prints_an_error_is_refused_and_one_that_prints_other_rows_fails(
    checks, printed, verdict, detail
):
    found, why = checks(StubRunner(printed)).run(NAME)
    assert found == verdict
    assert why.endswith(detail)


@pytest.mark.parametrize("database", ["MariaDB", "OceanBase seekdb"])
def test_what_is_known_of_a_database_is_refused_with_its_reason(checks, database):
    other_rows = StubRunner(" a \n---\n(0 rows)")
    verdict, why = checks(other_rows, database).run("802_numeric")
    assert (verdict, "docs/types.md" in why) == ("refused", True)
    assert checks(other_rows, "Acme").run("802_numeric")[0] == "fails"


def test_without_a_server_scenarios_are_skipped_and_not_tried_again(checks):
    runner = StubRunner(error=UsageError("no PostgreSQL 18 was found"))
    made = checks(runner)
    assert [made.run(name) for name in (NAME, "802_numeric")] == [("skipped", "no PostgreSQL 18 was found")] * 2
    assert runner.runs == 1
