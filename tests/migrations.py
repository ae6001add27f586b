"""A migration as a user carries it out: commands of ``subscriber``, each in a process of its own,
and ``subscriber run`` beside them.

::

    tests/data/<model>.sql ──▶ publisher ◀── Application
                                   │
                           subscriber run ◀── subscriber sql, schema, verify, cutover
                                   ▼
                                target ──▶ comparison by tests' own judge (compare_tables)
"""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from subscriber.base.lsn import parse_lsn
from subscriber.targets import Target, open_target
from subscriber.verify.compare_tables import compare_tables, published_tables
from tests.application import PUBLICATION, load_model
from tests.conftest import Database
from tests.crash.harness import PATIENCE, Runner
from tests.target_databases import KINDS, opened

__all__ = ["KINDS", "Migration", "accepted", "migrating"]

SUBSCRIPTION = "s"


def accepted(kind: str) -> list[str]:
    """The options of a cutover for what a user builds by hand in the target, and these tests do
    not.

    Each model has a number that is only a part of a key, for which other targets than PostgreSQL
    generate no values; and SQLite declares later defaults only while no run writes.
    """
    kinds = ["view", "materialized view", "trigger", "function", "inheritance"]
    kinds += [] if kind == "postgresql" else ["sequence", "default"]
    return [word for one in kinds for word in ("--accept-missing", one)]


@dataclass
class Migration:
    """A publisher with a model, and a target that is to take its place.

    Attributes:
        model: the name of the model.
        publisher: the database that is migrated.
        kind: the kind of the target.
        runner: runs commands, and ``subscriber run``.
    """

    model: str
    publisher: Database
    kind: str
    runner: Runner

    def call(self, *arguments: str, code: int = 0) -> str:
        """Run one command, which must end with this exit code; returns its standard output."""
        answer = self._called(*arguments)
        assert answer.returncode == code, f"{arguments}: {answer.returncode}\n{answer.stdout}\n{answer.stderr}"
        return answer.stdout

    def answer(self, *arguments: str) -> tuple[int, Any]:
        """Run one command with ``--json``; returns its exit code and what it printed, read."""
        answer = self._called(*arguments, "--json")
        assert answer.stdout, answer.stderr
        return answer.returncode, json.loads(answer.stdout)

    def _called(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.runner.call(*arguments, timeout=300)

    def create(self, options: str) -> str:
        """Create the subscription; returns the command's notices."""
        statement = (
            f"CREATE SUBSCRIPTION {SUBSCRIPTION} CONNECTION '{self.publisher.conninfo}' PUBLICATION {PUBLICATION}"
        )
        answer = self._called("sql", "-c", f"{statement} WITH ({options})")
        assert answer.returncode == 0, answer.stderr
        return answer.stderr

    def status(self) -> dict[str, Any]:
        return self.runner.status()[SUBSCRIPTION]

    def wait_until_ready(self) -> None:
        """Wait until every table is ready."""
        self._wait(lambda found: set(found["tables"]) == {"r"}, "the tables to be ready")

    def wait_until_applied(self) -> None:
        """Wait until the target has everything that is committed now. The application has ended."""
        ((text,),) = self.publisher.execute("SELECT pg_current_wal_insert_lsn()::text")
        self.publisher.execute("SELECT pg_logical_emit_message(true, 'tests', 'flushed with its commit')")
        mark = parse_lsn(text)

        def passed(found: dict[str, Any]) -> bool:
            if found["last_error"] is not None and found["last_error_resolved_at"] is None:
                return False
            received = found["received_lsn"]
            return received is not None and parse_lsn(received) > mark and found["lag_seconds"] == 0

        self._wait(passed, f"the target to have all up to {mark:X}")

    def _wait(self, condition: Callable[[dict[str, Any]], bool], what: str) -> None:
        """Wait until the status is as wanted, as long as tables make progress. An error that is
        tried again may occur meanwhile, but ``status`` itself must never fail.
        """
        states: dict[str, int] = {}
        deadline = math.inf
        while True:
            answer = self._called("status", "--json")
            assert answer.returncode == 0, answer.stderr
            found = {one["name"]: one for one in json.loads(answer.stdout)}[SUBSCRIPTION]
            if condition(found):
                return
            if found["tables"] != states:
                states, deadline = found["tables"], time.monotonic() + 2 * PATIENCE
            shown = f"{answer.stdout[:2000]}{answer.stderr}\n{self.runner.said()[-3000:]}"
            assert time.monotonic() < deadline, f"waited for {what}\n{shown}"
            time.sleep(1 if self.kind == "duckdb" else 0.2)  # each look takes the file away from the run

    @contextmanager
    def target(self) -> Iterator[Target]:
        """The target, opened by this process."""
        with open_target(self.runner.target) as target:
            yield target

    def differences(self) -> list[str]:
        """The tables that differ, by the tests' own judge. Neither side may be written."""
        with self.target() as target:
            tables = published_tables(self.publisher.conninfo, [PUBLICATION])
            found = compare_tables(self.publisher.conninfo, target, tables)
        return [str(one) for one in found if not one.is_equal]


@contextmanager
def migrating(
    model: str, kind: str, publisher: Database, request: pytest.FixtureRequest, folder: Path, *, tables: int = 500
) -> Iterator[Migration]:
    """A migration at its beginning: the publisher has the model, the target has nothing; ``tables``
    is the number of tables of the model "large".
    """
    publisher.execute(load_model(model, tables))
    with opened(kind, request, folder) as target:
        target.engine.dispose()
        runner = Runner(target.engine.url.render_as_string(hide_password=False), folder / "runner")
        try:
            yield Migration(model, publisher, kind, runner)
        finally:
            runner.close()
