"""Which values a column of MariaDB cannot hold: agrees with what is bound, and knows of what the
server refuses.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.errors import UnsupportedValue
from subscriber.targets import TargetColumn
from subscriber.targets.mariadb.refused_values import unrepresentable_values
from subscriber.targets.mariadb.values import bind_values

INF, NAN = float("inf"), float("nan")


def column(declared: str) -> TargetColumn:
    return TargetColumn("c", declared, declared.partition("(")[0].partition(" ")[0])


@pytest.mark.parametrize(
    ("type_oid", "declared", "values", "refused"),
    [
        (701, "double", pa.array([1.0, NAN, None, INF, -INF]), [1, 3, 4]),
        (700, "double", pa.array([0.1, NAN], pa.float32()), [1]),
        (1700, "decimal(5,2)", pa.array(["999.99", "1000", "NaN", "0.001", "0.100", None, "Infinity"]), [1, 2, 3, 6]),
        (23, "decimal(3,0)", pa.array([999, 1000, -1000], pa.int32()), [1, 2]),
        (1082, "date", pa.array(["2026-01-01", "0044-03-15 BC", "infinity", "10000-01-01", None]), [1, 2, 3]),
        (1114, "datetime(6)", pa.array(["9999-12-31 23:59:59.999999", "-infinity"]), [1]),
        (1082, "datetime(6)", pa.array(["2026-01-01", "infinity", "infinity"]), [1, 2]),
        (25, "varchar(3)", pa.array(["äöü", "abcd", "abc ", None]), [1, 2]),
        (25, "tinytext", pa.array(["x" * 255 + " ", "x" * 255]), [0]),
        (17, "varbinary(2)", pa.array([b"ab", b"abc"]), [1]),
        (25, "int", pa.array(["1", "x", None, "x", "2"]), [1, 3]),
        (1700, "double", pa.array(["0.5", "0.1234567890123456789"]), [1]),
        (16, "tinyint", pa.array([True, None]), []),
        (25, "longtext", pa.array(["x" * 70_000]), []),
        (2950, "uuid", pa.array(["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]), []),
    ],
)
def test_exactly_the_values_that_are_not_bound_are_refused(type_oid, declared, values, refused):
    mask = unrepresentable_values(type_oid, column(declared), values)
    assert [number for number, one in enumerate(mask.to_pylist()) if one] == refused
    for number in range(len(values)):
        try:
            bind_values(type_oid, column(declared), values.slice(number, 1))
        except UnsupportedValue:
            assert number in refused
        else:
            assert number not in refused


@pytest.mark.parametrize(
    ("type_oid", "declared", "values", "refused"),
    [
        (20, "int", pa.array([2**31 - 1, 2**31, -(2**31) - 1]), [1, 2]),
        (20, "int unsigned", pa.array([2**32 - 1, 2**32, -1]), [1, 2]),
        (17, "blob", pa.array([b"x" * 65_535, b"x" * 65_536]), [1]),
        (25, "text", pa.array(["x" * 65_536, "ä" * 65_535, "x" * 65_535]), [0]),
    ],
)
def test_what_the_server_refuses_because_of_the_type_is_known(type_oid, declared, values, refused):
    mask = unrepresentable_values(type_oid, column(declared), values)
    assert [number for number, one in enumerate(mask.to_pylist()) if one] == refused
    assert len(bind_values(type_oid, column(declared), values)) == len(values)
