"""Finds and reads scenario files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from subscriber.errors import ScenarioError, UsageError
from subscriber.scenario.session.session_file import Scenario, parse_scenario

SUFFIX: Final = ".psql"


def find_scenarios(paths: Iterable[Path]) -> list[Path]:
    """The scenario files in the given files and folders, each once. The files of a folder are
    sorted.

    Raises:
        UsageError: a path does not exist, or a folder contains no scenario.
    """
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
    """Parse a scenario file.

    Raises:
        ScenarioError: the file is not a session, or not UTF-8. The context is the file and the
            line.
    """
    try:
        return parse_scenario(path.read_text(), path.stem)
    except ScenarioError as error:
        raise error.replace(context=f"{path}:{str(error.context).rpartition(':')[2]}") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path} is not UTF-8", context=str(path)) from error
