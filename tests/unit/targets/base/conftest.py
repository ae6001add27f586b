from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from subscriber.targets import Target
from subscriber.targets.base.target import open_generic


@pytest.fixture
def target(tmp_path) -> Iterator[Target]:
    """SQLite, as a database of which only SQLAlchemy's dialect is known."""
    with open_generic(sa.make_url(f"sqlite:///{tmp_path / 't.db'}")) as opened:
        yield opened
