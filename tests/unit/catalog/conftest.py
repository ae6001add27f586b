"""A target with an empty catalog, in a SQLite file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.targets import Target, open_target


@pytest.fixture(scope="session")
def empty_catalog(tmp_path_factory) -> Path:
    """A SQLite file with an empty catalog. Tests use copies, because creating it takes long."""
    file: Path = tmp_path_factory.mktemp("catalog") / "target.db"
    with open_target(f"sqlite:///{file}") as opened:
        ensure_catalog(opened.engine)
    return file


@pytest.fixture
def target(empty_catalog, tmp_path) -> Iterator[Target]:
    file = shutil.copy(empty_catalog, tmp_path / "target.db")
    with open_target(f"sqlite:///{file}") as opened:
        yield opened


@pytest.fixture
def connection(target) -> Iterator[sa.Connection]:
    """A transaction of the target."""
    with target.begin() as opened:
        yield opened
