"""Scenario files: found, read and begun from a template; and those that are known to fail.

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

An entry without an issue names a property of the target, which will not change. The key
``publications`` (``"emulated"`` or ``"server"``) limits an entry to those.

If a listed scenario fails, the run does not fail. If it passes, the run fails and the entry must be
removed. So the list is always correct, and a scenario that has passed once cannot break again
unnoticed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

from subscriber.base.errors import ScenarioError, UsageError
from subscriber.base.utf8 import decode_utf8
from subscriber.testing.run_session import Result
from subscriber.testing.session.session_file import Scenario, parse_scenario
from subscriber.testing.stage import Publications

SUFFIX: Final = ".psql"

_HERE: Final = Path(__file__).resolve()
LIBRARY: Final = next(
    (one for one in (_HERE.with_name("scenarios"), _HERE.parents[2] / "scenarios") if one.is_dir()), Path("scenarios")
)
"""The library: in the package where it is installed, beside it in the repository."""


def find_scenarios(paths: Iterable[Path]) -> list[Path]:
    """The scenario files of these paths, each once and sorted in a folder; UsageError if none."""
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder", hint=f"A scenario is a file NAME{SUFFIX}.")
        files = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not files:
            raise UsageError(f"{path}: there is no scenario in this folder", hint=f"Scenarios are files *{SUFFIX}.")
        found |= dict.fromkeys(files)
    return list(found)


def read_scenario(path: Path) -> Scenario:
    """Parse a scenario file; the context of a ScenarioError is the file and the line."""
    try:
        return parse_scenario(decode_utf8(path.read_bytes(), str(path), ScenarioError), path.stem)
    except ScenarioError as error:
        raise error.replace(context=f"{path}:{str(error.context).rpartition(':')[2]}") from None


_TEMPLATE: Final = """\
-- {title}
-- A scenario is a psql session: what is typed at each prompt, and below it what psql prints. The first line is its title;
-- lines that start with two dashes and a blank are comments. scenarios/README.md explains the format.
-- If it cannot run everywhere, a line "-- requires: two_phase, psql, pg>=15, pg<18" above the first prompt says what it needs.

-- A node whose name holds _pub is a publisher: a database of a real PostgreSQL server.
test_pub=# CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE TABLE
test_pub=# CREATE PUBLICATION p FOR TABLE t;
CREATE PUBLICATION

-- Any other is a subscriber. A connection string names a publisher by dbname; host, port and user are filled in.
test_sub=# CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE TABLE
test_sub=# CREATE SUBSCRIPTION s CONNECTION 'dbname=test_pub' PUBLICATION p
test_sub-# WITH (copy_data = false);
CREATE SUBSCRIPTION

test_pub=# INSERT INTO t VALUES (1, 'one'), (2, 'two');
INSERT 0 2

-- Before a statement that reads or writes rows on a subscriber, its subscriptions have caught up, or stopped on an error.
-- Rows are compared in order only where the statement has ORDER BY.
test_sub=# SELECT * FROM t ORDER BY a;
 a |  b
---+-----
 1 | one
 2 | two
(2 rows)

-- `subscriber scenario record` writes what PostgreSQL's own subscriber prints below each prompt.
"""


def scenario_template(name: str) -> str:
    """A commented scenario that parses and passes; its title consists of the words of ``name``."""
    words = name.replace("-", "_").split("_")
    title = " ".join(word for word in words if not word.isdigit()) or name
    return _TEMPLATE.format(title=title[:1].upper() + title[1:])


FILE_NAME: Final = "expected_failures.toml"
_KEYS: Final = {"subscriber", "reason", "scenarios"}
_OPTIONAL: Final = {"issue", "publications"}
_PUBLICATIONS: Final[tuple[Publications, ...]] = ("server", "emulated")

Verdict = Literal["passed", "failed", "skipped", "failed as expected", "passed unexpectedly"]

FAILURES: Final[frozenset[Verdict]] = frozenset({"failed", "passed unexpectedly"})
"""The verdicts that make a run fail."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Why a scenario fails, and the issue that will fix it; None: a property of the target."""

    reason: str
    issue: int | None = None

    @property
    def until(self) -> str:
        """When the scenario will pass, as words that follow "expected to fail"."""
        return "by the target's nature" if self.issue is None else f"until issue {self.issue} is done"


ExpectedFailures = Mapping[tuple[str, str, Publications], Expected]
"""(scenario, subscriber, server or emulated publications) → the reason for the failure."""


def read_expected_failures(folder: Path) -> ExpectedFailures:
    """ScenarioError: unreadable, an unknown key or scenario, or a scenario that is listed twice."""
    path = folder / FILE_NAME
    if not path.exists():
        return {}
    try:
        entries = tomllib.loads(decode_utf8(path.read_bytes(), str(path), ScenarioError)).get("expected", [])
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
    return result.scenario.name, result.setup.subscriber, result.setup.publications


def judge(result: Result, expected: ExpectedFailures) -> Verdict:
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
