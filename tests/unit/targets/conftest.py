from __future__ import annotations

from collections.abc import Iterator

import pytest

from subscriber.targets import Target, open_target


@pytest.fixture
def target(tmp_path) -> Iterator[Target]:
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        yield opened
