"""The library of scenarios, with the subscribers of the matrix; `make scenarios` runs every file
with each of them.

The native column is the oracle: what PostgreSQL's own subscriber prints is what the files expect. A
scenario that another subscriber does not pass is in scenarios/expected_failures.toml with the
reason, and fails here once it passes. `make scenarios` runs the older servers too.

A scenario that is about publications also passes with publications that the subscriber evaluates:
the publisher sends every row, and what becomes of it must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from subscriber.testing.library import find_scenarios, judge, read_expected_failures, read_scenario
from subscriber.testing.run_session import Runner
from subscriber.testing.session.session_file import FEATURES, Scenario
from subscriber.testing.stage import NATIVE, Setup, Stage
from tests.conftest import server_or_skip
from tests.random_seed import IN_CI

LIBRARY = Path(__file__).resolve().parents[2] / "scenarios"
EVERYTHING = ("",)
ABOUT_APPLY = ("0", "4", "5", "7")
"""What the apply worker does: changes, streams, prepared transactions, identities and conflicts.
The commands, types, filters and partitions of the other hundreds have tests of their own beside
this one; `make scenarios` runs all."""
ABOUT_PUBLICATIONS = ("11", "12", "14", "33")
"""The heart of what is about publications; `make scenarios` runs 1xx to 3xx with the subscriber's
own.
"""
ABOUT_TARGETS = (
    "001", "015", "021", "051", "085", "101", "114", "401", "501", "673", "746", "806", "856", "960", "970",
)  # fmt: skip
"""Names, keys, equal rows, values, truncates, streams, prepared transactions, conflicts, histories:
where databases differ; `make scenarios` runs the whole library."""
HISTORIES = ("96", "97")
"""Tables with a history, on every target; `make long` runs most of them on those but SQLite."""
LONG = ("0", "5")
"""Of SQLite's, those that `make long` runs and `make test` does not, but for what is about targets.
"""
STEPS = {Setup(NATIVE, 18): 8, Setup("sqlite", 18, "emulated"): 2}
"""Of PostgreSQL's own subscriber, which is the oracle, `make test` runs every eighth file, and of
evaluated publications every second; `make long` runs the others.
"""
PUBLICATIONS_OF_19 = ("941", "943", "944", "946", "947", "953")
SUBSCRIPTIONS_OF_19 = ("949", "950", "951", "954", "955", "957", "958")
"""Recorded on PostgreSQL 19 at both ends. Until there is a server, they run with a publisher of 18,
and publications of 19 are those that the subscriber emulates.
"""
OF_POSTGRESQL = ("061", "233", "303", "736", "838")
"""Triggers, identity columns, partitions, temporal keys and enums are the target's own."""
MATRIX = {
    Setup(NATIVE, 18): EVERYTHING,
    Setup("sqlite", 18): (*ABOUT_APPLY, *HISTORIES),
    Setup("sqlite", 18, "emulated"): ABOUT_PUBLICATIONS,
    Setup("duckdb", 18): (*ABOUT_TARGETS, *HISTORIES),
    Setup("mariadb", 18): (*ABOUT_TARGETS, *HISTORIES),
    Setup("postgresql", 18): (*ABOUT_TARGETS, *HISTORIES, *OF_POSTGRESQL),
    **{Setup(one, 18, "emulated", 19): PUBLICATIONS_OF_19 for one in ("sqlite", "postgresql")},
    **{Setup(one, 18, "server", 19): SUBSCRIPTIONS_OF_19 for one in ("sqlite", "postgresql")},
}
"""The subscribers, and how the names of the scenarios begin that run with each."""
EMULATED = {"server": (), "emulated": ("emulated",)}


def _marks(setup: Setup, place: int, scenario: Scenario) -> list[str]:
    is_long = place % STEPS.get(setup, 1) > 0 or (setup == Setup("sqlite", 18) and scenario.name.startswith(LONG))
    is_long |= setup.subscriber != "sqlite" and scenario.name.startswith(HISTORIES)
    is_long = is_long and not scenario.name.startswith(ABOUT_TARGETS)
    return [*sorted(scenario.requires.features), *(["long"] if is_long else [])]


SCENARIOS = [read_scenario(path) for path in find_scenarios([LIBRARY])]
CELLS = [
    pytest.param(
        setup,
        scenario,
        id="-".join((setup.subscriber, f"pg{setup.session_version}", *EMULATED[setup.publications], scenario.name)),
        marks=[getattr(pytest.mark, mark) for mark in _marks(setup, place, scenario)],
    )
    for setup, names in MATRIX.items()
    for place, scenario in enumerate(SCENARIOS)
    if scenario.requires.missing(setup.session_version, frozenset(FEATURES)) is None and scenario.name.startswith(names)
]
EXPECTED = read_expected_failures(LIBRARY)

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Stage() as stage:
        # Twice the timeout of the command, because three processes share the machine.
        yield Runner(stage, 120.0)


@pytest.mark.parametrize(("setup", "scenario"), CELLS)
def test_scenario(runner: Runner, setup: Setup, scenario: Scenario) -> None:
    result = server_or_skip(lambda: runner.run(scenario, setup))
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
