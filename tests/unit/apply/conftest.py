"""A target in a SQLite file, and an applier of batches to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from subscriber.apply.applier import ApplyResult
from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import ConflictError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG, CONFLICT
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target, open_target
from tests import conflicts
from tests.appliers import obeying
from tests.changes import T, U
from tests.frames import frame, transaction
from tests.subscriptions import as_stored


@pytest.fixture
def target(tmp_path) -> Iterator[Target]:
    """A SQLite file with the state tables and origin pg_1 at LSN 100."""
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        with opened.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(100))
        yield opened


@pytest.fixture
def execute(target) -> Callable[[str], list[tuple[Any, ...]]]:
    def run(sql: str) -> list[tuple[Any, ...]]:
        with target.begin() as connection:
            result = connection.exec_driver_sql(sql)
            return [tuple(row) for row in result] if result.returns_rows else []

    return run


@pytest.fixture
def applier(target) -> ExactApplier:
    return ExactApplier(target, subscription="sub", subid=1)


@pytest.fixture
def tables(execute) -> None:
    """The tables of the relations T and U, with the target's own columns."""
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY, c TEXT, b TEXT, own TEXT DEFAULT 'mine')")
    execute("CREATE TABLE u (b TEXT, a INTEGER, own TEXT)")


@pytest.fixture
def run(applier) -> Callable[..., ApplyResult]:
    """Applies messages about T and U as one batch."""

    def call(*messages: m.Message, end: int = 1000, before: int | None = None, start: int = 100) -> ApplyResult:
        limit = None if before is None else LSN(before)
        result: ApplyResult = applier.apply([frame([T, U], messages)], start=LSN(start), end=LSN(end), before=limit)
        return result

    return call


@pytest.fixture
def rows(target) -> Callable[..., list[dict[str, Any]]]:
    """The rows of a table by column name, in the order in which they were inserted."""

    def read(table: str = "t") -> list[dict[str, Any]]:
        with target.begin() as connection:
            result = connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY rowid")
            return [dict(row) for row in result.mappings()]

    return read


@pytest.fixture
def conflict_tables(execute) -> None:
    """The tables of the relations of tests/conflicts.py; t has two keys and a column of its own."""
    execute("CREATE TABLE t (own TEXT DEFAULT 'mine', c INTEGER UNIQUE, a INTEGER PRIMARY KEY, b TEXT)")
    execute("CREATE TABLE f (a INTEGER, b TEXT)")


@pytest.fixture
def apply_changes(target, conflict_tables) -> Callable[..., ApplyResult]:
    """Applies messages about the conflict tables as the sink does; ``show`` is the option
    log_conflict_values.
    """

    def call(*messages: m.Message, show: bool = False) -> ApplyResult:
        rules = obeying(log_conflict_values=show)
        applier = ExactApplier(target, subscription="sub", subid=1, read_rules=lambda _: rules)
        return apply_batch(applier, lambda: [frame([conflicts.T, conflicts.F], messages)], LSN(100), LSN(1000))

    return call


@pytest.fixture
def stopped(apply_changes) -> Callable[..., ConflictError]:
    """Applies one transaction that must stop with a conflict."""

    def call(*changes: m.Message, show: bool = False) -> ConflictError:
        with pytest.raises(ConflictError) as raised:
            apply_changes(*transaction(200, *changes), show=show)
        return raised.value

    return call


@pytest.fixture
def kept(target) -> Callable[..., list[dict[str, Any]]]:
    """These columns of the stored conflicts (by default all), in the order of their numbers."""

    def read(*columns: str) -> list[dict[str, Any]]:
        wanted = [CONFLICT.c[name] for name in columns or CONFLICT.c.keys()]
        query = as_stored(*wanted).order_by(CONFLICT.c.conflictid)
        with target.begin() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    return read


@pytest.fixture
def stored(target) -> Callable[[], int]:
    """The applied LSN in the target."""

    def read() -> int:
        with target.begin() as connection:
            return OriginProgress(1).read(connection)

    return read
