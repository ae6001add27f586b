from __future__ import annotations

import pytest

from subscriber.apply.exact import ExactApplier
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.targets import open_target
from tests.frames import frame


@pytest.fixture
def target(tmp_path):
    with open_target(f"duckdb:///{tmp_path / 'target.duckdb'}") as opened:
        yield opened


@pytest.fixture
def apply(target):
    with target.begin() as connection:
        CATALOG.create_all(connection)
        OriginProgress(1).create(connection, LSN(100))
    applier = ExactApplier(target, subscription="sub", subid=1)

    def call(relations, *messages):
        return applier.apply([frame(relations, messages)], start=LSN(100), end=LSN(1000))

    return call
