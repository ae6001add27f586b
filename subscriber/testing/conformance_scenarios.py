"""The scenarios of the conformance kit: sessions of psql with a target as the subscriber.

They are those of the library in which databases differ: names, keys, equal rows, values,
identities, conflicts, TRUNCATE, streams, copies, and tables with a history. Each has one
subscriber, since there is one database.
"""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import Final, Literal, Self

import sqlalchemy as sa

from subscriber.base.errors import UsageError
from subscriber.testing.library import LIBRARY, find_scenarios, read_expected_failures, read_scenario
from subscriber.testing.run_session import Exchange, Result, Runner
from subscriber.testing.session.session_file import Scenario
from subscriber.testing.stage import Setup, Stage, is_publisher

NAMES: Final = (
    "001", "015", "021", "051", "085", "101", "114", "401", "501", "643", "651", "665", "669", "700", "710", "718", "722",
    "724", "728", "740", "742", "746", "748", "752", "802", "806", "816", "854", "856", "903", "96", "97",
)  # fmt: skip
"""How the names of the scenarios begin."""


class ScenarioChecks:
    """Runs scenarios on one stage, whose servers are started for the first one. ``database`` is the
    name of the target's database, such as ``OceanBase seekdb``: its last word is that of
    ``expected_failures.toml``.
    """

    def __init__(self, url: sa.URL, database: str) -> None:
        self._setup = Setup(url.render_as_string(hide_password=False))
        self._kind = database.rpartition(" ")[2].lower()
        self._resources = contextlib.ExitStack()
        self._unavailable = ""
        found = (read_scenario(path) for path in find_scenarios([LIBRARY]) if path.name.startswith(NAMES))
        self._scenarios = {scenario.name: scenario for scenario in found if _has_one_subscriber(scenario)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._resources.close()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._scenarios)

    @cached_property
    def _runner(self) -> Runner:
        return Runner(self._resources.enter_context(Stage()))

    def run(self, name: str, _target: object = None) -> tuple[Literal["holds", "refused", "fails", "skipped"], str]:
        """The verdict on a scenario, and why it does not hold."""
        if self._unavailable:
            return "skipped", self._unavailable
        try:
            result = self._runner.run(self._scenarios[name], self._setup)
        except UsageError as error:  # no server, and there will be none
            self._unavailable = error.message
            return "skipped", error.message
        if result.outcome == "passed":
            return "holds", ""
        if result.outcome == "skipped":
            return "skipped", result.skipped
        expected = read_expected_failures(LIBRARY).get((name, self._kind, "server"))
        if expected is not None:
            return "refused", expected.reason
        return _why(result)


def _has_one_subscriber(scenario: Scenario) -> bool:
    return sum(not is_publisher(node) for node in scenario.nodes) == 1


def _why(result: Result) -> tuple[Literal["refused", "fails"], str]:
    """The first statement that printed something else: an ERROR, or something wrong."""
    if not result.failures:
        return "fails", result.leftover.partition("\n")[0]
    first = result.failures[0]
    refused = _error_of(first)
    where = f"line {first.statement.line}: "
    return ("refused", where + refused) if refused else ("fails", where + "the session prints something else")


def _error_of(exchange: Exchange) -> str:
    """The error that a statement printed in place of its output; empty without one."""
    expected = {line for line in exchange.statement.expected if line.startswith("ERROR:")}
    printed = (line for line in (exchange.printed or "").splitlines() if line.startswith("ERROR:"))
    return next((line for line in printed if line not in expected), "").removeprefix("ERROR:").strip()
