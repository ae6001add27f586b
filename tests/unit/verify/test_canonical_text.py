from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import UnsupportedValue
from subscriber.postgres.types.float_text import double_text
from subscriber.targets.target_table import TargetColumn
from subscriber.verify.canonical_text import CanonicalColumn, canonical, text_of, texts_of

COLUMN = TargetColumn("c", "TEXT", "TEXT")


def canon(oid, *texts):
    return canonical(oid, pa.array(texts, pa.string())).to_pylist()


def target_text(column, values):
    return canonical(column.compared_as, texts_of(column.compared_as, values))


@pytest.mark.parametrize(
    ("oid", "ours", "theirs"),
    [
        (1700, "1.0", "1.00"),
        (1700, "10", "10.000"),
        (1700, "0", "-0.0"),
        (23, "42", "42.00"),
        (701, "0", "-0"),
        (701, "0.1", "1e-1"),
        (701, "NaN", "nan"),
        (700, "0.1", "0.10000000149011612"),
        (1042, "ab   ", "ab"),
        (1184, "2026-11-21 01:02:03.5+00", "2026-11-21 01:02:03.500000+00:00"),
        (1184, "0044-03-15 00:00:00+00 BC", "0044-03-15 00:00:00+00:00 BC"),
        (1184, "2026-11-21 01:02:00+00", "2026-11-21 01:02:00"),
        (1114, "2026-11-21 01:02:10", "2026-11-21 01:02:10.000000"),
        (1266, "01:02:03.5+02:30", "01:02:03.500+02:30"),
    ],
)
def test_values_that_postgresql_calls_equal_have_one_text(oid, ours, theirs):
    assert len(set(canon(oid, ours, theirs))) == 1
    assert canon(oid, ours) == canon(oid, ours, "NaN", None)[:1]


@pytest.mark.parametrize(
    ("oid", "ours", "theirs"),
    [
        (1700, "1.0", "10"),
        (1700, "100", "1"),
        (23, "10", "1"),
        (701, "0.1", "0.10000000000000002"),
        (701, "1", "no number"),
        (25, "1.0", "1.00"),
        (25, "a ", "a"),
        (1184, "2026-11-21 01:02:10+00", "2026-11-21 01:02:01+00"),
        (1114, "2026-11-21 01:02:03.05", "2026-11-21 01:02:03.5"),
        (1266, "01:02:03+02", "01:02:03+20"),
    ],
)
def test_values_that_differ_have_different_texts(oid, ours, theirs):
    assert len(set(canon(oid, ours, theirs))) == 2


@given(st.floats(allow_nan=False))
def test_a_float_is_its_own_text_whichever_side_writes_it(number):
    column = CanonicalColumn(701, COLUMN)
    ours = column.publisher_text(pa.array([double_text(number)]))
    assert ours.equals(target_text(column, [number]))


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_numerics_are_compared_as_numbers(numbers):
    texts = canon(1700, *(f"{number:f}" for number in numbers))
    assert [Decimal(text) for text in texts] == numbers
    assert len(set(texts)) == len(set(numbers))


@pytest.mark.parametrize(
    ("oid", "values"),
    [
        (16, [True, None, False]),
        (16, [1, 0, None]),
        (16, ["t", "f"]),
        (23, [1, None, -5]),
        (20, [1, 2.0]),
        (20, ["7", 8]),
        (25, ["a", None, ""]),
        (25, [None, None]),
        (25, [1, "a"]),
        (1700, [Decimal("1.50"), None, Decimal("1E+3")]),
        (1082, [dt.date(2026, 11, 21), None]),
        (2950, [uuid.UUID(int=5), None]),
        (17, [b"\x00\xff", b"", None]),
    ],
)
def test_a_column_of_values_has_the_text_of_each_value(oid, values):
    assert texts_of(oid, values).to_pylist() == [text_of(oid, value) for value in values]


def test_null_is_not_a_text():
    assert canon(701, None, "1") == [None, canon(701, "1")[0]]
    assert canon(1700, None, "1.0") == [None, "1"]
    assert texts_of(25, []).to_pylist() == []


def test_a_column_of_another_type_has_what_its_input_function_makes_of_the_text():
    number = CanonicalColumn(25, TargetColumn("c", "INT", "INTEGER"), into=23)
    assert number.publisher_text(pa.array([" 007", None, "-1"])).to_pylist() == ["7", None, "-1"]
    assert target_text(number, [7, None, -1]).to_pylist() == ["7", None, "-1"]
    with pytest.raises(UnsupportedValue):
        number.publisher_text(pa.array(["seven"]))
    text = CanonicalColumn(1700, COLUMN, into=25)
    assert text.publisher_text(pa.array(["1.50"])).equals(target_text(text, pa.array(["1.5"])))


def test_values_that_the_target_cannot_hold_count_as_null():
    column = CanonicalColumn(701, COLUMN, replace=lambda values: pc.if_else(pc.is_finite(values), values, None))
    assert column.publisher_text(pa.array(["NaN", "0.5", None])).equals(target_text(column, [None, 0.5, None]))


TIMES = st.sampled_from(
    [
        None,
        "no time",
        "10:00:00",
        "10:00:00.50",
        "10:00:00.00+02:30",
        "2026-11-21 01:02:03",
        "2026-11-21 01:02:03.50",
        "2026-11-21 01:02:03.000",
        "2026-11-21 01:02:03+00",
        "2026-11-21 01:02:03.50+00",
        "2026-11-21 01:02:03.50+00:00",
        "2026-11-21 01:02:03.50+02",
        "0044-03-15 01:02:03.50 BC",
        "0044-03-15 01:02:03.50+00 BC",
        "infinity",
    ]
)


@given(st.sampled_from([1083, 1114, 1184, 1266]), st.lists(TIMES, min_size=1, max_size=6))
def test_the_canonical_text_of_a_time_does_not_depend_on_the_other_rows(oid, texts):
    assert canon(oid, *texts) == [canon(oid, text)[0] for text in texts]


@pytest.mark.parametrize(
    ("oid", "value", "text"),
    [
        (16, True, "t"),
        (16, "f", "f"),
        (23, 5.0, "5"),
        (701, "1e+20", "1e+20"),
        (701, 1e20, "1e+20"),
        (700, 0.10000000149011612, "0.1"),
        (17, memoryview(b"\x00\xff"), "\\x00ff"),
        (1184, "0044-03-15 00:00:00+00:00 BC", "0044-03-15 00:00:00+00 BC"),
        (25, "12:00:00+00:00", "12:00:00+00:00"),
        (1700, "1.50", "1.50"),
        (25, None, None),
    ],
)
def test_a_value_of_a_driver_has_the_text_of_postgresql(oid, value, text):
    assert text_of(oid, value) == text
