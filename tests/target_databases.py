"""A database of each of the four kinds of target."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.apply.applier import ApplyResult
from subscriber.apply.exact import ExactApplier
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.targets import Target, TargetTable, open_target
from subscriber.testing.servers.open_servers import MariaDB, PostgreSQL
from tests.frames import frame

KINDS = ("sqlite", "duckdb", "mariadb", "postgresql")

_numbers = count(1)


class AppliedTo:
    """A target with the catalog that apply needs. Its progress is 100."""

    def __init__(self, kind: str, target: Target) -> None:
        self.kind = kind
        self.target = target
        self._applier = ExactApplier(target, subscription="sub", subid=1)
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(100))

    def apply(self, relations: Sequence[m.Relation], *messages: m.Message, end: int = 1000) -> ApplyResult:
        """Apply one batch."""
        text = self.target.capabilities.postgresql_text
        with self.target.begin() as connection:
            start = OriginProgress(1).read(connection)
        return self._applier.apply([frame(relations, messages, text=text)], start=start, end=LSN(end))

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run SQL as a user of the target. Returns the rows of the last statement."""
        rows: list[tuple[Any, ...]] = []
        with self.target.engine.begin() as connection:
            for statement in statements:
                result = connection.execution_options(no_parameters=True).exec_driver_sql(statement)
                rows = [tuple(row) for row in result] if result.returns_rows else []
        return rows


def set_sequence(
    target: Target, connection: sa.Connection, table: TargetTable, column: str, position: SequencePosition
) -> bool:
    """Set what generates the values of a column. Returns False if nothing generates them, or if it
    cannot take this position.
    """
    found = target.sequences.of_column(connection, table, column)
    if found is None or found.obstacle(position) is not None:
        return False
    target.sequences.set(connection, found, position)
    return True


@contextmanager
def opened(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Target]:
    """An empty database of this kind. Without a server for it, the test is skipped."""
    if kind in ("sqlite", "duckdb", "turso"):
        scheme = "sqlite+turso" if kind == "turso" else kind
        with open_target(f"{scheme}:///{folder / f'target.{kind}'}") as target:
            yield target
        return
    server: MariaDB | PostgreSQL = request.getfixturevalue({"postgresql": "postgresql18"}.get(kind, kind))
    name = f"test_{os.getpid()}_on_{next(_numbers)}"
    server.create_database(name)
    try:
        with open_target(server.url(name)) as target:
            yield target
    finally:
        server.drop_database(name)


@contextmanager
def applied_to(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[AppliedTo]:
    """The same database, with the catalog that apply needs."""
    with opened(kind, request, folder) as target:
        yield AppliedTo(kind, target)
