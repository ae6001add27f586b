from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from subscriber.postgres.types.oids import ELEMENT_TYPES
from subscriber.postgres.types.registry import FAMILIES, decode_column
from subscriber.spark.feed.spark_types import OnUnsupported, spark_type

BOOL, INT4, TEXT, BPCHAR, NUMERIC, DATE, TIMESTAMP, TIMESTAMPTZ = 16, 23, 25, 1042, 1700, 1082, 1114, 1184
ARRAYS = {element: array for array, element in ELEMENT_TYPES.items()}


def modifier(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


def convert(
    oid: int, *texts: str | None, typmod: int = -1, unsupported: OnUnsupported = OnUnsupported.NULL
) -> list[Any]:
    """The values, and NULL for those that cannot be held; checks that exactly these are marked."""
    raw = pa.array([None if text is None else text.encode() for text in texts], pa.binary())
    one = spark_type(oid, typmod, unsupported)
    values, bad = one.convert(decode_column(oid, raw, binary=False, column=1))
    assert values.cast(to_arrow_type(one.type, timezone="UTC")).null_count == values.null_count
    marked = [False] * len(texts) if bad is None else bad.tolist()
    assert marked == [value is None and text is not None for value, text in zip(values.to_pylist(), texts, strict=True)]
    return list(values.to_pylist())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_built_in_type_has_one_of_spark(family):
    one = spark_type(family.oid, -1)
    empty, bad = one.convert(pa.array([], family.arrow_type))
    assert empty.cast(to_arrow_type(one.type, timezone="UTC")).to_pylist() == []
    assert bad is None


@pytest.mark.parametrize(
    ("typmod", "shown"),
    [
        (-1, "string"),
        (modifier(10, 2), "decimal(10,2)"),
        (modifier(38, 38), "decimal(38,38)"),
        (modifier(39, 2), "string"),
        (modifier(2, -3), "decimal(5,0)"),
        (modifier(3, 5), "decimal(5,5)"),
        (modifier(30, -10), "string"),
    ],
)
def test_a_numeric_is_a_decimal_if_it_is_declared_and_fits(typmod, shown):
    assert spark_type(NUMERIC, typmod).type.simpleString() == shown


def test_numerics_of_every_declaration_are_exact():
    assert convert(NUMERIC, "1.50", "-99999999.99", None, typmod=modifier(10, 2)) == [
        Decimal("1.50"), Decimal("-99999999.99"), None,
    ]  # fmt: skip
    assert convert(NUMERIC, "99000", typmod=modifier(2, -3)) == [Decimal(99000)]
    assert convert(NUMERIC, "0.00999", typmod=modifier(3, 5)) == [Decimal("0.00999")]
    assert convert(NUMERIC, "1.500") == ["1.500"]


def test_moments_that_spark_has_not_are_marked():
    assert convert(DATE, "0001-01-01", "9999-12-31", "10000-01-01", "0044-03-15 BC", "-infinity", None) == [
        date(1, 1, 1), date(9999, 12, 31), None, None, None, None,
    ]  # fmt: skip
    assert convert(TIMESTAMP, "2024-02-03 04:05:06", "infinity", "2024-02-03 04:05:06.000007") == [
        datetime.fromisoformat("2024-02-03T04:05:06"), None, datetime.fromisoformat("2024-02-03T04:05:06.000007"),
    ]  # fmt: skip
    assert convert(NUMERIC, "1.00", "NaN", typmod=modifier(5, 2)) == [Decimal("1.00"), None]


def test_floats_have_nan_and_the_infinities_in_spark():
    one, two, three = convert(701, "NaN", "Infinity", "-0")
    assert one != one  # noqa: PLR0124 - NaN
    assert (two, str(three)) == (float("inf"), "-0.0")


def test_arrays_keep_nulls_and_quotes_and_empty_ones():
    assert convert(ARRAYS[INT4], "{1,2,NULL}", "{}", None, "{3}") == [[1, 2, None], [], None, [3]]
    assert convert(ARRAYS[TEXT], '{a,"b,c",NULL,"NULL","\\"\\\\"}', "{}", None, '{""}') == [
        ["a", "b,c", None, "NULL", '"\\'], [], None, [""],
    ]  # fmt: skip
    assert convert(ARRAYS[BOOL], "{t,f}") == [[True, False]]
    assert convert(ARRAYS[NUMERIC], "{1.50,2.00}", typmod=modifier(5, 2)) == [[Decimal("1.50"), Decimal("2.00")]]


def test_an_array_of_several_dimensions_or_with_another_subscript_is_marked():
    assert convert(ARRAYS[INT4], "{{1,2},{3,4}}", "[0:1]={1,2}", "{5}") == [None, None, [5]]


def test_an_array_with_an_element_that_spark_cannot_hold_is_marked_as_a_whole():
    assert convert(ARRAYS[DATE], "{2024-02-03,infinity}", "{2024-02-03}", "{}") == [None, [date(2024, 2, 3)], []]


def test_boxes_are_divided_by_semicolons_and_their_arrays_stay_text():
    assert convert(ARRAYS[603], "{(2,2),(1,1);(4,4),(3,3)}") == ["{(2,2),(1,1);(4,4),(3,3)}"]


@pytest.mark.parametrize("oid", [DATE, TIMESTAMP, TIMESTAMPTZ, ARRAYS[INT4], ARRAYS[TEXT]])
def test_as_strings_types_with_such_values_are_postgresql_s_text(oid):
    assert spark_type(oid, -1, OnUnsupported.STRING).type.simpleString() == "string"


@pytest.mark.parametrize("oid", [BOOL, INT4, TEXT, BPCHAR, 17, 701])
def test_as_strings_types_without_such_values_stay_what_they_are(oid):
    assert spark_type(oid, -1, OnUnsupported.STRING).type == spark_type(oid, -1).type


def test_a_type_of_a_user_is_a_string():
    assert convert(16400, "happy", None) == ["happy", None]
