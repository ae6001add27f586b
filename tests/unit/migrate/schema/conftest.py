"""A comparison of a publisher's table with a target's, with SQLite as the target."""

from __future__ import annotations

import pytest

from subscriber.targets import open_target
from tests.unit.migrate.compared_tables import Comparison


@pytest.fixture
def missing(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target, target.engine.connect() as connection:
        yield Comparison(target, connection)
