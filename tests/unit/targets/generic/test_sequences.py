from __future__ import annotations

import pytest

from subscriber.errors import NotSupportedError
from subscriber.schema.shape import SequencePosition
from subscriber.targets.target_table import TargetSequence
from tests.unit.targets.tables import execute, reflected

POSITION = SequencePosition(last_value=1, is_called=True)


def test_no_column_has_a_sequence(target):
    execute(target, "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT)")
    table = reflected(target, "t")
    with target.begin() as connection:
        assert target.sequences.of_column(connection, table, "a") is None
        assert target.sequences.named(connection, "public", "t_a_seq") is None


def test_a_sequence_cannot_be_set(target):
    sequence = TargetSequence("t_a_seq", POSITION, 1, 10)
    with target.begin() as connection, pytest.raises(NotSupportedError) as raised:
        target.sequences.set(connection, sequence, POSITION)
    assert (raised.value.message, raised.value.sqlstate) == ('the target has no sequence "t_a_seq"', "0A000")
