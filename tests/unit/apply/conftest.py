from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from subscriber.apply.exact import ExactApplier
from subscriber.catalog import CATALOG, OriginProgress
from subscriber.lsn import LSN
from subscriber.targets import Target, open_target


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
def stored(target) -> Callable[[], int]:
    """The applied LSN in the target."""

    def read() -> int:
        with target.begin() as connection:
            return OriginProgress(1).read(connection)

    return read
