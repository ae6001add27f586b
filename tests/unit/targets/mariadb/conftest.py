from __future__ import annotations

from collections.abc import Iterator

import pytest

from subscriber.targets import Target, open_target
from subscriber.targets.mariadb.ddl import MariaDBDDL


@pytest.fixture
def target() -> Iterator[Target]:
    """A target whose server does not exist: its statements are compiled, but never executed."""
    with open_target("mariadb://user:secret@127.0.0.1:1/db") as opened:
        yield opened


@pytest.fixture
def mariadb_ddl(target) -> MariaDBDDL:
    return MariaDBDDL(target.engine)
