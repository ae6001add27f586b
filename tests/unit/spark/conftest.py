"""A target for the tests of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.targets import Target, open_target


@pytest.fixture
def target(tmp_path) -> Iterator[Target]:
    """A SQLite file with table t and the progress of origin pg_1 at 0/100."""
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        with opened.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(0x100))
            connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        yield opened
