from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.targets import TargetColumn
from subscriber.targets.generic.values import GenericValues

VALUES = GenericValues()
COLUMN = TargetColumn("a", "", "")


@pytest.mark.parametrize(
    ("values", "bound"),
    [
        (pa.array([1, None]), [1, None]),
        (pa.array([True, None]), [True, None]),
        (pa.array([b"\0", None]), [b"\0", None]),
        (pa.array(["1.50", None]), ["1.50", None]),
        (pa.array([], pa.string()), []),
    ],
)
def test_a_value_is_bound_as_pythons(values, bound):
    """absence_is_typed: NULL is None."""
    assert VALUES.bind_values(23, COLUMN, values) == bound


def test_every_column_is_accepted():
    VALUES.check_column(1700, TargetColumn("a", "TINYINT", "TINYINT"))


def test_values_in_binary_form_are_accepted():
    """C5: the column does not have a PostgreSQL type."""
    assert VALUES.refused_binary(20, COLUMN, 1) is None


def test_a_column_is_read_as_it_is():
    assert str(VALUES.readable(COLUMN)) == "a"
