"""The conformance kit on every target: what `subscriber conformance` prints."""

from __future__ import annotations

from typing import Final

import pytest

from subscriber.testing.conformance_kit import check_conformance
from tests.targets.kinds import KINDS, opened_kind

_BY_URL: Final = [one for one in KINDS if one not in ("generic", "example")]
"""The others are no databases that a URL names."""


@pytest.mark.parametrize(
    "quick",
    [
        pytest.param(True, id="quick"),
        pytest.param(False, id="whole", marks=[pytest.mark.long, pytest.mark.server, pytest.mark.spark]),
    ],
)
@pytest.mark.parametrize("kind", _BY_URL)
def test_the_kit_finds_no_difference_to_postgresql(kind, quick, request, tmp_path):
    with opened_kind(kind, request, tmp_path) as target:
        url = target.url.render_as_string(hide_password=False)
        target.close()
        outcomes = list(check_conformance(url, quick=quick))
    assert [one for one in outcomes if one.verdict == "fails"] == []
    replication = ("identities", "commit order", "conflicts", "progress", "histories", "crashes")
    refused = {one.check.partition(",")[0] for one in outcomes if one.area in replication and one.verdict != "holds"}
    assert refused == set()
