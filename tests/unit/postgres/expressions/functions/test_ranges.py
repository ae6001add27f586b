"""Ranges: how they are kept, and filters with them from their text to rows (rules B11, B26)."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import DataException
from subscriber.postgres.expressions.check_filter import analyze_filter
from subscriber.postgres.expressions.evaluate.row_filter import compile_filter
from subscriber.postgres.expressions.functions.range_functions import _contains, _intersection, _overlaps
from subscriber.postgres.types.ranges import Range, compare_ranges, merged
from subscriber.postgres.types.registry import form_of
from tests.publications import table, tables

INT4RANGE, NUMRANGE, DATERANGE = 3904, 3906, 3912
_PLAIN = table("public.t", {"a": "int4", "r": "text", "d": "text"}, key=["a"])
_OIDS = {"a": 23, "r": INT4RANGE, "d": DATERANGE}
T = dataclasses.replace(
    _PLAIN, columns=tuple(dataclasses.replace(one, type_oid=_OIDS[one.name]) for one in _PLAIN.columns)
)


def read(oid: int, text: str) -> Range:
    form = form_of(oid)
    assert form is not None
    found: Range = form.from_text(text, -1)
    return found


@pytest.mark.parametrize(
    ("oid", "text", "shown"),
    [
        (INT4RANGE, "[1,5]", "[1,6)"),
        (INT4RANGE, "(1,2)", "empty"),
        (INT4RANGE, " [,5) ", "(,5)"),
        (NUMRANGE, "(1.50,2]", "(1.50,2]"),
        (DATERANGE, "[2024-02-28,infinity]", "[2024-02-28,infinity]"),
        (DATERANGE, "(2024-02-28,Mar 1 2024]", "[2024-02-29,2024-03-02)"),
    ],
)
def test_ranges_of_integers_and_dates_are_kept_in_one_form(oid, text, shown):
    form = form_of(oid)
    assert form is not None
    assert form.to_text(read(oid, text)) == shown


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [("[2,1]", "22000"), ("[secret,1]", "22P02"), ("secret", "22P02"), ("[1,2147483647]", "22003"), ("[1,", "22P02")],
)
def test_what_is_no_range_has_the_servers_sqlstate_and_is_not_shown(text, sqlstate):
    """names_are_data holds for what the range's own reader says; a number's error shows a constant,
    as that of a number does.
    """
    with pytest.raises(DataException) as caught:
        read(INT4RANGE, text)
    assert caught.value.sqlstate == sqlstate


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("r @> 5", [True, False, False, None]),
        ("r && '[6,9)'", [True, False, True, None]),
        ("a <@ r", [True, False, False, True]),
        ("r << '[10,20)'::int4range AND NOT isempty(r)", [True, False, True, None]),
        ("lower(r) IS NULL", [False, True, False, True]),
        ("d @> '2024-02-29'::date", [True, False, None, False]),
        ("r < int4range(2, NULL)", [True, True, False, None]),
    ],
)
def test_a_filter_with_ranges_goes_from_its_text_to_rows(text, kept):
    columns = {
        "a": pa.array([5, 0, 9, 3], pa.int32()),
        "r": pa.array(["[1,8)", "empty", "[6,8)", None]),
        "d": pa.array(["[2024-02-01,2024-03-01)", "empty", None, "[2024-03-01,)"]),
    }
    if text == "a <@ r":
        columns["r"] = pa.array(["[1,8)", "empty", "[6,8)", "(,)"])
    assert compile_filter(analyze_filter(text, T, tables(T))).evaluate(columns, 4).to_pylist() == kept


RANGES = st.builds(
    lambda low, length, ends: read(INT4RANGE, f"{ends[0]}{low},{low + length}{ends[1]}"),
    st.integers(-6, 6),
    st.integers(0, 5),
    st.tuples(st.sampled_from("[("), st.sampled_from(")]")),
)


@given(RANGES, RANGES)
def test_intersection_and_merge_agree_with_containment_andcompare_ranges(left, right):
    both, around = _intersection(left, right), merged(left, right)
    assert (both.lower is not None) == _overlaps(left, right)
    assert _contains(left, both)
    assert _contains(right, both)
    assert _contains(around, left)
    assert _contains(around, right)
    assert compare_ranges(left, right) == -compare_ranges(right, left)
