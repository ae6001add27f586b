"""The bound of the apply."""

from __future__ import annotations

import pytest

from subscriber.lsn import LSN
from subscriber.pipeline.apply_bound import ApplyBound


@pytest.mark.parametrize(
    ("bound", "allowed"), [(None, [0, 1, 2, 3]), (LSN(0), [0]), (LSN(2), [0, 1, 2]), (LSN(9), [0, 1, 2, 3])]
)
def test_a_batch_may_end_at_or_before_the_bound(bound, allowed):
    assert [end for end in range(4) if ApplyBound(bound).allows(LSN(end))] == allowed
