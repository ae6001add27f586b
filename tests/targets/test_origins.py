"""The optional role ``origins``: what is applied is marked with the origin that it came from (rules
C32, C34).
"""

from __future__ import annotations

import pytest

from tests.targets.tables import created, insert, shape_of, stored

SHAPE = shape_of({"a": "integer", "b": "text"}, ["a"])


@pytest.mark.parametrize("timestamp", [None, 0, 800_000_000_000_000])
def test_a_marked_transaction_commits_and_its_origin_can_be_dropped(target, timestamp):
    origins = target.origins
    if origins is None:
        pytest.skip("it remembers no origins")
    created(target, SHAPE)
    for number in ("1", "2"):
        with target.begin() as connection:
            origins.set(connection, "pg_1")
            insert(target, connection, SHAPE, (number, "x"))
            origins.set_position(connection, int(number) * 100, timestamp)
    with target.begin() as connection:
        assert origins.others(connection) is None  # it writes as no origin
        insert(target, connection, SHAPE, ("3", "own"))
    for _ in range(2):
        with target.begin() as connection:
            origins.drop(connection, "pg_1")
    assert [row[0] for row in stored(target, SHAPE)] == ["1", "2", "3"]
