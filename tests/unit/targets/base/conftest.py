from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from subscriber.targets import Target
from subscriber.targets.base.target import base_target


@pytest.fixture
def target(tmp_path) -> Iterator[Target]:
    """SQLite, with the base class of each role."""
    url = sa.make_url(f"sqlite:///{tmp_path / 't.db'}")
    with base_target(url, sa.create_engine(url, hide_parameters=True)) as opened:
        yield opened
