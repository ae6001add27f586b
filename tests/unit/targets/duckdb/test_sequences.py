"""DuckDB's sequences."""

from __future__ import annotations

import pytest

from subscriber.schema.shape import SequencePosition
from tests.target_databases import set_sequence
from tests.unit.targets.tables import execute, reflected, rows


@pytest.mark.parametrize(
    ("position", "following"),
    [
        (SequencePosition(last_value=41, is_called=True), 42),
        (SequencePosition(last_value=41, is_called=False), 41),
    ],
)
def test_a_sequence_goes_on_as_the_publishers(target, position, following):
    """D14"""
    execute(target, 'CREATE SEQUENCE "q ""q"', """CREATE TABLE t (a int DEFAULT nextval('"q ""q"'), b int)""")
    table = reflected(target, "t")
    with target.begin() as connection:
        assert set_sequence(target, connection, table, "a", position)
        assert not set_sequence(target, connection, table, "b", position)
        assert not set_sequence(target, connection, table, "absent", position)
    execute(target, "INSERT INTO t (b) VALUES (1)")
    assert rows(target, "SELECT a FROM t") == [{"a": following}]
