"""The choice between functions or operators of one name (the manual's 10.2 and 10.3)."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.expressions.analyze.candidates import (
    FunctionCandidate,
    OperatorCandidate,
    find_operator,
    find_prefix_operator,
    function_candidates,
    matching,
    select,
)

INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC, TEXT, VARCHAR, UNKNOWN, DATE = (
    21,
    23,
    20,
    700,
    701,
    1700,
    25,
    1043,
    705,
    1082,
)


def candidates(coercions, name: str, count: int, *names: str | None) -> dict[tuple[int, ...], FunctionCandidate]:
    found = function_candidates(coercions, (name,), count, names, expand_variadic=True)
    return {one.arguments: one for one in found}


@pytest.mark.parametrize(
    ("name", "left", "right", "types"),
    [
        ("+", INT4, INT4, (INT4, INT4)),
        ("+", INT4, INT8, (INT4, INT8)),
        ("+", INT2, NUMERIC, (NUMERIC, NUMERIC)),
        ("+", FLOAT4, INT4, (FLOAT4, FLOAT8)),
        ("+", INT4, UNKNOWN, (INT4, INT4)),
        ("||", UNKNOWN, UNKNOWN, (TEXT, TEXT)),
        ("||", VARCHAR, TEXT, (TEXT, TEXT)),
        ("<", UNKNOWN, DATE, (DATE, DATE)),
    ],
)
def test_an_operator_is_chosen_by_the_types_of_its_operands(coercions, name, left, right, types):
    found = find_operator(coercions, (name,), left, right)
    assert (found.left, found.right) == types


def test_a_domain_is_compared_as_its_base_type(coercions):
    found = find_operator(coercions, ("=",), 16502, UNKNOWN)
    assert (found.left, found.right) == (INT4, INT4)


def test_an_operator_may_be_qualified(coercions):
    assert find_operator(coercions, ("public", "==="), TEXT, TEXT).oid == 16512
    with pytest.raises(UsageError, match="operator does not exist: text pg_catalog"):
        find_operator(coercions, ("pg_catalog", "==="), TEXT, TEXT)


def test_a_prefix_operator_is_chosen_by_its_operand(coercions):
    assert find_prefix_operator(coercions, ("-",), INT4).right == INT4
    assert find_prefix_operator(coercions, ("-",), 16502).right == INT4


@pytest.mark.parametrize(
    ("inputs", "sqlstate", "message", "hint"),
    [
        ((UNKNOWN,), "42725", "operator is not unique: ~ unknown", "Could not choose a best candidate operator."),
        ((TEXT,), "42883", "operator does not exist: ~ text", "add an explicit type cast."),
        ((INT4, TEXT), "42883", "operator does not exist: integer ~ text", "add explicit type casts."),
    ],
)
def test_the_error_names_the_types_of_the_operands(coercions, inputs, sqlstate, message, hint):
    with pytest.raises(UsageError) as caught:
        if len(inputs) == 1:
            find_prefix_operator(coercions, ("~",), *inputs)
        else:
            find_operator(coercions, ("~",), *inputs)
    assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message)
    assert hint in (caught.value.hint or "")


def test_functions_have_as_many_arguments_as_the_call(coercions):
    assert (INT4,) in candidates(coercions, "abs", 1)
    assert candidates(coercions, "abs", 2) == {}
    assert candidates(coercions, "nope", 1) == {}


def test_a_variadic_function_takes_any_number_of_elements(coercions):
    found = candidates(coercions, "jsonb_extract_path", 3)
    (only,) = found.values()
    assert (only.arguments, only.variadic_count) == ((3802, TEXT, TEXT), 2)
    as_array = function_candidates(coercions, ("jsonb_extract_path",), 2, (), expand_variadic=False)
    assert [(one.arguments, one.variadic_count) for one in as_array] == [((3802, 1009), 0)]


def test_arguments_with_defaults_may_be_left_out(coercions):
    found = candidates(coercions, "make_interval", 2)
    (only,) = found.values()
    assert (only.arguments, only.default_count) == ((INT4, INT4), 5)


def test_named_arguments_take_the_types_of_their_names(coercions):
    found = candidates(coercions, "make_interval", 2, "secs", "days")
    (only,) = found.values()
    assert (only.arguments, only.default_count) == ((FLOAT8, INT4), 5)
    mixed = candidates(coercions, "make_interval", 2, None, "secs")
    assert list(mixed) == [(INT4, FLOAT8)]
    assert candidates(coercions, "make_interval", 1, "nope") == {}
    assert candidates(coercions, "make_interval", 2, None, "years") == {}


def chosen(coercions, inputs: tuple[int, ...], *offered: tuple[int, ...]) -> tuple[int, ...] | None:
    """The best of operators with these types."""
    operator = next(iter(coercions.catalog.operators.values()))
    found = matching(coercions, inputs, [OperatorCandidate(operator, one) for one in offered])
    best = select(coercions, inputs, found)
    return None if best is None else best.arguments


@pytest.mark.parametrize(
    ("inputs", "offered", "best"),
    [
        # The most exact matches.
        ((INT4, INT4), [(INT4, INT8), (FLOAT8, FLOAT8)], (INT4, INT8)),
        ((INT4, INT8), [(INT4, NUMERIC), (NUMERIC, INT8)], None),
        # The most preferred types of the categories of the inputs.
        ((INT4,), [(FLOAT8,), (NUMERIC,)], (FLOAT8,)),
        ((INT4, INT8), [(INT4, FLOAT8), (INT8, INT8)], (INT4, FLOAT8)),
        # Unknown inputs are strings if a candidate takes one ...
        ((UNKNOWN,), [(INT4,), (TEXT,)], (TEXT,)),
        # ... and otherwise of the category of all candidates, by its preferred type.
        ((UNKNOWN,), [(INT4,), (FLOAT8,)], (FLOAT8,)),
        ((UNKNOWN,), [(INT4,), (DATE,)], None),
        # An unknown input is taken for the type of the known ones.
        ((INT4, UNKNOWN), [(INT4, INT4), (INT4, DATE)], (INT4, INT4)),
    ],
)
def test_the_best_of_several_candidates(coercions, inputs, offered, best):
    assert chosen(coercions, inputs, *offered) == best
