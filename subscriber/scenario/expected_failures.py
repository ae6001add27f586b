"""Scenarios that are known to fail, each with a reason and, if there is one, an issue.

A library may have a file ``expected_failures.toml`` beside its scenarios::

    [[expected]]
    subscriber = "sqlite"
    issue = 4
    reason = "ALTER SUBSCRIPTION is not there yet"
    scenarios = ["601_refresh", "602_rename"]

    [[expected]]
    subscriber = ["sqlite", "duckdb"]
    reason = "The database has no triggers that fire for replicated rows."
    scenarios = ["059_triggers"]

An entry without an issue names a property of the target, which will not change. An entry is valid
for server publications and for emulated publications. With ``publications = "emulated"`` or
``publications = "server"`` it is valid only for those.

If a listed scenario fails, the run does not fail. If a listed scenario passes, the run fails and
the entry must be removed. So the list is always correct, and a scenario that has passed once cannot
break again unnoticed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

from subscriber.errors import ScenarioError
from subscriber.scenario.library import SUFFIX
from subscriber.scenario.run_session import Result
from subscriber.scenario.stage import Publications

FILE_NAME: Final = "expected_failures.toml"
_KEYS: Final = {"subscriber", "reason", "scenarios"}
_OPTIONAL: Final = {"issue", "publications"}
_PUBLICATIONS: Final[tuple[Publications, ...]] = ("server", "emulated")

Verdict = Literal["passed", "failed", "skipped", "failed as expected", "passed unexpectedly"]

FAILURES: Final[frozenset[Verdict]] = frozenset({"failed", "passed unexpectedly"})
"""The verdicts that make a run fail."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Why a scenario fails with a subscriber.

    Attributes:
        reason: a sentence.
        issue: the number of the issue that will fix the failure. None: the cause is a property of
            the target.
    """

    reason: str
    issue: int | None = None

    @property
    def until(self) -> str:
        """When the scenario will pass, as words that follow "expected to fail"."""
        return "by the target's nature" if self.issue is None else f"until issue {self.issue} is done"


ExpectedFailures = Mapping[tuple[str, str, Publications], Expected]
"""(scenario, subscriber, server or emulated publications) → the reason for the failure."""


def read_expected_failures(folder: Path) -> ExpectedFailures:
    """Read the list of a library. The result is empty if the library has no list.

    Args:
        folder: the library.

    Raises:
        ScenarioError: the file cannot be parsed, has unknown keys, names a scenario that does not
            exist, or lists a scenario twice.
    """
    path = folder / FILE_NAME
    if not path.exists():
        return {}
    try:
        entries = tomllib.loads(path.read_text()).get("expected", [])
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{FILE_NAME} does not parse: {error}", context=str(path)) from error
    found: dict[tuple[str, str, Publications], Expected] = {}
    for entry in entries:
        _check_keys(entry, path)
        where = [one for one in _PUBLICATIONS if entry.get("publications", one) == one]
        given = entry["subscriber"]
        subscribers = [given] if isinstance(given, str) else given
        for name, subscriber, publications in product(entry["scenarios"], subscribers, where):
            key = (name, subscriber, publications)
            if not (folder / f"{name}{SUFFIX}").exists():
                raise ScenarioError(f'there is no scenario "{name}"', context=str(path), hint="Remove the name.")
            if key in found:
                raise ScenarioError(f'scenario "{name}" is listed twice for "{key[1]}"', context=str(path))
            found[key] = Expected(entry["reason"], entry.get("issue"))
    return found


def expected_key(result: Result) -> tuple[str, str, Publications]:
    """The key of a result in :data:`ExpectedFailures`."""
    return result.scenario.name, result.setup.subscriber, result.setup.publications


def judge(result: Result, expected: ExpectedFailures) -> Verdict:
    """The verdict for a result, given the expected failures."""
    listed = expected_key(result) in expected
    if not listed or result.outcome == "skipped":
        return result.outcome
    return "failed as expected" if result.outcome == "failed" else "passed unexpectedly"


def _check_keys(entry: Any, path: Path) -> None:
    if set(entry) - _OPTIONAL != _KEYS:
        wanted, optional = ", ".join(sorted(_KEYS)), ", ".join(sorted(_OPTIONAL))
        raise ScenarioError(
            f"an [[expected]] of {FILE_NAME} must have exactly {wanted}, and may have {optional}", context=str(path)
        )
    if entry.get("publications", _PUBLICATIONS[0]) not in _PUBLICATIONS:
        raise ScenarioError(f"publications is one of {', '.join(_PUBLICATIONS)}", context=str(path))
