"""Calls of functions: which function is meant, and what becomes of its arguments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.check_filter import analyze_filter
from tests.films import INT4, INT8, TABLE, TABLES, TEXT, analyzed, refusal


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        ("abs(a)", "abs(int4)"),
        ("abs(n)", "abs(numeric)"),
        ("pg_catalog.abs(a)", "abs(int4)"),
        ("length('x')", "length(text)"),
        ("round(a)", "round(float8)"),
        ("mod(a, 2::bigint)", "mod(int8,int8)"),
        ("array_append(k, 1)", "array_append(anycompatiblearray,anycompatible)"),
        ("EXTRACT(year FROM d)", "extract(text,date)"),
        ("substring(b from 1 for 2)", "substring(text,int4,int4)"),
    ],
)
def test_a_call_means_the_function_that_fits_best(text, signature):
    found = analyzed(text)
    assert isinstance(found, tree.Call)
    assert found.function == signature


def test_arguments_are_converted_to_the_declared_types():
    found = analyzed("mod(a, 2::bigint)")
    assert isinstance(found, tree.Call)
    assert [one.type_oid for one in found.arguments] == [INT8, INT8]
    assert found.type_oid == INT8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int8(a)", tree.Call(INT8, 0, "int8(int4)", (tree.Var(INT4, 0, "a"),))),
        ("text('x')", tree.Const(TEXT, 100, "x")),
        ("int4('7')", tree.Const(INT4, 0, "7")),
        ("text(v)", tree.RelabelType(TEXT, 100, tree.Var(1043, 100, "v", 9), form="cast")),
    ],
)
def test_a_call_of_a_type_is_a_cast(text, expected):
    assert analyzed(text) == expected


def test_a_cast_by_the_input_and_output_functions_is_in_no_filter():
    assert (refusal("text(a) = 'x'").detail or "").startswith("Only columns")


def test_defaults_are_added_to_the_arguments():
    found = analyzed("jsonb_strip_nulls('{}')")
    assert isinstance(found, tree.Call)
    assert (len(found.arguments), found.default_count) == (2, 1)


def test_arguments_of_a_variadic_function_become_an_array():
    found = analyzed("jsonb_extract_path('{}', 'a', b)")
    assert isinstance(found, tree.Call)
    assert found.variadic
    assert isinstance(found.arguments[1], tree.ArrayExpr)
    assert len(found.arguments[1].elements) == 2
    given = analyzed("jsonb_extract_path('{}', VARIADIC tags)")
    assert isinstance(given, tree.Call)
    assert isinstance(given.arguments[1], tree.Var)


def test_a_version_has_its_own_functions():
    """What came with 18 does not exist on 16; what 17 has is not recorded, so 16 speaks for it."""
    analyze_filter("crc32('x') = 1", TABLE, TABLES)
    for version in (150000, 160000, 170000):
        older = replace(TABLES, server_version=version)
        assert refusal("crc32('x') = 1", older).message == "function crc32(unknown) does not exist"


@pytest.mark.parametrize(
    ("text", "sqlstate", "message"),
    [
        ("nope(1) = 1", "42883", "function nope(integer) does not exist"),
        ("abs(b) = 1", "42883", "function abs(text) does not exist"),
        ("public.abs(a) = 1", "42883", "function public.abs(integer) does not exist"),
        ("abs(x => a) = 1", "42883", "function abs(x => integer) does not exist"),
        (
            "overlaps(NULL, NULL, NULL, NULL)",
            "42725",
            "function overlaps(unknown, unknown, unknown, unknown) is not unique",
        ),
        ("f(a => 1, 2) = 1", "42601", "positional argument cannot follow named argument"),
        ("f(a => 1, a => 2) = 1", "42601", 'argument name "a" used more than once'),
        ("abs(DISTINCT a) = 1", "42809", "DISTINCT specified, but abs is not an aggregate function"),
        ("abs(*) = 1", "42883", "function abs() does not exist"),
        ("abs(a) OVER () = 1", "42809", "OVER specified, but abs is not a window function nor an aggregate function"),
        ("rank() = 1", "42809", "window function rank requires an OVER clause"),
        ("count() = 1", "42809", "count(*) must be used to call a parameterless aggregate function"),
        ("mode(a) = 1", "42809", "WITHIN GROUP is required for ordered-set aggregate mode"),
        ("sum(a) = 1", "42803", "aggregate functions are not allowed in WHERE"),
        ("sum(a) OVER () = 1", "42P20", "window functions are not allowed in WHERE"),
        ("sum(a) WITHIN GROUP (ORDER BY a) = 1", "42883", "function sum(integer, integer) does not exist"),
        ("num_nulls(VARIADIC a) = 1", "42804", "VARIADIC argument must be an array"),
        ("unnest(k) = 1", "0A000", "set-returning functions are not allowed in WHERE"),
    ],
)
def test_the_error_of_a_call(text, sqlstate, message):
    error = refusal(text)
    assert (error.sqlstate, error.message) == (sqlstate, message)
