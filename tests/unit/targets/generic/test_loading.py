"""Loading by INSERT. What is loaded is tested in tests/unit/targets/test_loader.py."""

from __future__ import annotations

from subscriber.targets.loader import LoadColumn
from tests.unit.targets.tables import execute, reflected


def test_a_block_is_a_batch_of_arrow(target):
    execute(target, "CREATE TABLE t (a INT, b TEXT)")
    columns = [LoadColumn(column, 25) for column in reflected(target, "t").columns]
    assert target.loading.block_format(columns) == "arrow"
    assert target.loading.block_format([]) == "arrow"
