"""Polymorphic functions: what the types any… stand for in a call (the manual's 36.2.5)."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.expressions.analyze import typeinfo as t
from subscriber.postgres.expressions.analyze.polymorphic import check_generic_types, enforce_generic_types

INT4, INT8, TEXT, NUMERIC, INT4S, INT8S, RANGE, MULTIRANGE, MOOD = 23, 20, 25, 1700, 1007, 1016, 3904, 4451, 16500
UNKNOWN = t.UNKNOWN


@pytest.mark.parametrize(
    ("actual", "declared", "result", "resolved"),
    [
        # Types without any… stay what they are.
        ([INT4], [INT8], TEXT, ([INT8], TEXT)),
        # The plain family: all are the same type, and only unknown is converted to it.
        ([INT4S, INT4], [t.ANYARRAY, t.ANYELEMENT], t.ANYELEMENT, ([t.ANYARRAY, t.ANYELEMENT], INT4)),
        ([INT4S, UNKNOWN], [t.ANYARRAY, t.ANYELEMENT], t.ANYARRAY, ([t.ANYARRAY, INT4], INT4S)),
        ([UNKNOWN, INT4], [t.ANYARRAY, t.ANYELEMENT], t.ANYARRAY, ([INT4S, t.ANYELEMENT], INT4S)),
        ([RANGE, INT4], [t.ANYRANGE, t.ANYELEMENT], t.ANYELEMENT, ([t.ANYRANGE, t.ANYELEMENT], INT4)),
        ([RANGE], [t.ANYRANGE], t.ANYMULTIRANGE, ([t.ANYRANGE], MULTIRANGE)),
        ([MULTIRANGE], [t.ANYMULTIRANGE], t.ANYRANGE, ([t.ANYMULTIRANGE], RANGE)),
        ([MOOD], [t.ANYENUM], t.ANYENUM, ([t.ANYENUM], MOOD)),
        # The compatible family: all are converted to their common type.
        (
            [INT4S, INT8],
            [t.ANYCOMPATIBLEARRAY, t.ANYCOMPATIBLE],
            t.ANYCOMPATIBLEARRAY,
            ([INT8S, INT8], INT8S),
        ),
        ([INT4, NUMERIC], [t.ANYCOMPATIBLE, t.ANYCOMPATIBLE], t.ANYCOMPATIBLE, ([NUMERIC, NUMERIC], NUMERIC)),
        ([UNKNOWN], [t.ANYCOMPATIBLE], t.ANYCOMPATIBLE, ([TEXT], TEXT)),
    ],
)
def test_the_arguments_determine_the_types(coercions, actual, declared, result, resolved):
    assert check_generic_types(coercions, actual, declared)
    assert enforce_generic_types(coercions, actual, declared, result) == resolved


@pytest.mark.parametrize(
    ("actual", "declared", "message"),
    [
        ([INT4S, INT8], [t.ANYARRAY, t.ANYELEMENT], 'arguments declared "anyelement" are not all alike'),
        ([INT4S, INT8S], [t.ANYARRAY, t.ANYARRAY], 'arguments declared "anyarray" are not all alike'),
        ([INT4], [t.ANYARRAY], "argument declared anyarray is not an array but type integer"),
        ([INT4], [t.ANYRANGE], "argument declared anyrange is not a range type but type integer"),
        ([INT4], [t.ANYMULTIRANGE], "argument declared anymultirange is not a multirange type but type integer"),
        ([INT4], [t.ANYENUM], "type matched to anyenum is not an enum type: integer"),
        ([INT4S], [t.ANYNONARRAY], "type matched to anynonarray is an array type: integer[]"),
        (
            [INT4, TEXT],
            [t.ANYCOMPATIBLE, t.ANYCOMPATIBLE],
            "arguments of anycompatible family cannot be cast to a common type",
        ),
        (
            [INT4S],
            [t.ANYCOMPATIBLENONARRAY],
            "type matched to anycompatiblenonarray is an array type: integer[]",
        ),
        (
            [RANGE, INT8],
            [t.ANYCOMPATIBLERANGE, t.ANYCOMPATIBLE],
            "anycompatiblerange type int4range does not match anycompatible type bigint",
        ),
    ],
)
def test_types_that_do_not_fit_are_an_error(coercions, actual, declared, message):
    assert not check_generic_types(coercions, actual, declared)
    with pytest.raises(UsageError) as caught:
        enforce_generic_types(coercions, actual, declared, t.BOOL)
    assert (caught.value.sqlstate, caught.value.message) == ("42804", message)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (t.ANYELEMENT, "could not determine polymorphic type because input has type unknown"),
        (
            t.ANYCOMPATIBLERANGE,
            "could not determine polymorphic type anycompatiblerange because input has type unknown",
        ),
    ],
)
def test_unknown_arguments_determine_nothing(coercions, declared, message):
    with pytest.raises(UsageError) as caught:
        enforce_generic_types(coercions, [UNKNOWN], [declared], declared)
    assert (caught.value.sqlstate, caught.value.message) == ("42804", message)


def test_a_type_without_an_array_type_has_no_array(coercions):
    with pytest.raises(UsageError) as caught:
        enforce_generic_types(coercions, [16502, UNKNOWN], [t.ANYELEMENT, t.ANYARRAY], t.ANYARRAY)
    assert (caught.value.sqlstate, caught.value.message) == ("42704", "could not find array type for data type year")
