"""The library of scenarios: every file with every subscriber of the matrix.

The native column is the oracle: what PostgreSQL's own subscriber prints is what the files expect. A scenario that another
subscriber does not pass yet is in scenarios/expected_failures.toml with the issue that it waits for, and fails here
once it passes. `make scenarios` runs the older servers too: two more minutes each.

A scenario that is about publications also passes with publications that the subscriber evaluates: the publisher sends every row, and
what becomes of it must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from subscriber.scenario.expected import judge, read_expected_failures
from subscriber.scenario.library import find_scenarios, read_scenario
from subscriber.scenario.parse import FEATURES, Scenario
from subscriber.scenario.run import Runner
from subscriber.scenario.stage import NATIVE, Setup, Stage
from tests.conftest import IN_CI

LIBRARY = Path(__file__).resolve().parents[2] / "scenarios"
MATRIX = (Setup(NATIVE, 18), Setup("sqlite", 18), Setup("sqlite", 18, "emulated"))
ABOUT_PUBLICATIONS = ("11", "12", "14")
"""With publications of the subscriber's own only the heart of what is about publications runs here; `make scenarios` runs 1xx to 3xx."""
EMULATED = {"server": (), "emulated": ("emulated",)}
SCENARIOS = [read_scenario(path) for path in find_scenarios([LIBRARY])]
CELLS = [
    pytest.param(
        setup,
        scenario,
        id="-".join((setup.subscriber, f"pg{setup.major}", *EMULATED[setup.publications], scenario.name)),
        marks=[getattr(pytest.mark, feature) for feature in sorted(scenario.requires.features)],
    )
    for setup in MATRIX
    for scenario in SCENARIOS
    if scenario.requires.missing(setup.major, frozenset(FEATURES)) is None
    and (setup.publications == "server" or scenario.name.startswith(ABOUT_PUBLICATIONS))
]
EXPECTED = read_expected_failures(LIBRARY)

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Stage() as stage:
        # Twice the patience of the command: three processes share the machine.
        yield Runner(stage, 120.0)


@pytest.mark.parametrize(("setup", "scenario"), CELLS)
def test_scenario(runner: Runner, setup: Setup, scenario: Scenario) -> None:
    result = runner.run(scenario, setup)
    if result.skipped and not IN_CI:
        pytest.skip(result.skipped)
    verdict = judge(result, EXPECTED)
    if verdict == "failed as expected":
        return
    story = "\n".join(
        f"line {exchange.statement.line}, {exchange.statement.node}: {exchange.statement.text}\n"
        f"{exchange.error or exchange.difference}"
        for exchange in result.failures
    )
    assert verdict == "passed", f"{scenario.title}\n{result.skipped}{result.leftover}\n{story}"
