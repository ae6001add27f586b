from __future__ import annotations

from collections.abc import Iterator

import pytest

from subscriber.targets import Target
from tests.targets.kinds import KINDS, documented_example, opened_kind


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The target of docs/adding-a-target.md."""
    with documented_example(tmp_path_factory.mktemp("targets")):
        yield


@pytest.fixture(params=KINDS)
def target(request, tmp_path, example) -> Iterator[Target]:
    """An empty database of each kind."""
    with opened_kind(request.param, request, tmp_path) as opened:
        yield opened
