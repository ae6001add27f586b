"""Names of types become names and modifiers, as ``gram.y`` has them."""

from __future__ import annotations

import pytest

from subscriber.base.errors import SQLSyntaxError, UsageError
from subscriber.postgres.expressions.parse import syntax
from subscriber.postgres.expressions.parse.parser import parse

YEAR, MONTH, DAY, HOUR, MINUTE, SECOND = 1 << 2, 1 << 1, 1 << 3, 1 << 10, 1 << 11, 1 << 12


def read(text: str) -> tuple[str, list[str], bool]:
    """The name, the modifiers and whether it is an array, of the type that ``a`` is cast to."""
    return parts(parse(f"a::{text}"))


def parts(node: syntax.Node) -> tuple[str, list[str], bool]:
    assert isinstance(node, syntax.TypeCast)
    modifiers = [one.value for one in node.type.modifiers if isinstance(one, syntax.AConst)]
    return ".".join(node.type.names), modifiers, node.type.array


@pytest.mark.parametrize(
    ("text", "name", "modifiers"),
    [
        ("int", "pg_catalog.int4", []),
        ("INTEGER", "pg_catalog.int4", []),
        ("smallint", "pg_catalog.int2", []),
        ("bigint", "pg_catalog.int8", []),
        ("real", "pg_catalog.float4", []),
        ("boolean", "pg_catalog.bool", []),
        ("double precision", "pg_catalog.float8", []),
        ("float", "pg_catalog.float8", []),
        ("float(24)", "pg_catalog.float4", []),
        ("float(25)", "pg_catalog.float8", []),
        ("decimal(5, 2)", "pg_catalog.numeric", ["5", "2"]),
        ("numeric(5, -2)", "pg_catalog.numeric", ["5", "-2"]),
        ("dec", "pg_catalog.numeric", []),
        # character and bit have one place unless a length is written.
        ("char", "pg_catalog.bpchar", ["1"]),
        ("character(7)", "pg_catalog.bpchar", ["7"]),
        ("nchar", "pg_catalog.bpchar", ["1"]),
        ("national character varying(7)", "pg_catalog.varchar", ["7"]),
        ("varchar", "pg_catalog.varchar", []),
        ("char varying", "pg_catalog.varchar", []),
        ("bit", "pg_catalog.bit", ["1"]),
        ("bit(3)", "pg_catalog.bit", ["3"]),
        ("bit varying", "pg_catalog.varbit", []),
        # Dates and times.
        ("time", "pg_catalog.time", []),
        ("time(3) without time zone", "pg_catalog.time", ["3"]),
        ("time with time zone", "pg_catalog.timetz", []),
        ("timestamp(0) with time zone", "pg_catalog.timestamptz", ["0"]),
        ("interval", "pg_catalog.interval", []),
        ("interval(3)", "pg_catalog.interval", [str(0x7FFF), "3"]),
        ("interval year", "pg_catalog.interval", [str(YEAR)]),
        ("interval month", "pg_catalog.interval", [str(MONTH)]),
        ("interval year to month", "pg_catalog.interval", [str(YEAR | MONTH)]),
        ("interval day to minute", "pg_catalog.interval", [str(DAY | HOUR | MINUTE)]),
        ("interval hour to second(2)", "pg_catalog.interval", [str(HOUR | MINUTE | SECOND), "2"]),
        # Other names.
        ("text", "text", []),
        ("json", "pg_catalog.json", []),
        ("s.mood", "s.mood", []),
        ('"Mood"', "Mood", []),
        ("setof date", "date", []),
        ("geometry(1, 2)", "geometry", ["1", "2"]),
    ],
)
def test_a_type_name_has_its_name_and_modifiers(text, name, modifiers):
    assert read(text) == (name, modifiers, False)


@pytest.mark.parametrize("text", ["int[]", "int[3]", "int[][4]", "int ARRAY", "int ARRAY[3]"])
def test_brackets_of_any_number_make_an_array(text):
    assert read(text) == ("pg_catalog.int4", [], True)


@pytest.mark.parametrize(
    ("text", "name", "modifiers"),
    [
        ("char 'x'", "pg_catalog.bpchar", []),
        ("bit '1'", "pg_catalog.bit", []),
        ("interval '1' hour", "pg_catalog.interval", [str(HOUR)]),
        ("interval(2) '1'", "pg_catalog.interval", [str(0x7FFF), "2"]),
        ("timestamp with time zone '2024-01-01'", "pg_catalog.timestamptz", []),
    ],
)
def test_a_type_before_a_string_has_no_length_of_its_own(text, name, modifiers):
    assert parts(parse(text)) == (name, modifiers, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("float(0)", "precision for type float must be at least 1 bit"),
        ("float(54)", "precision for type float must be less than 54 bits"),
    ],
)
def test_the_precision_of_float_is_1_to_53_bits(text, message):
    with pytest.raises(UsageError) as caught:
        read(text)
    assert (caught.value.sqlstate, caught.value.message) == ("22023", message)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("interval month to year", "year"),
        ("interval day to day", "day"),
        ("interval second to minute", "minute"),
        ("national text", "text"),
        ("int[a]", "a"),
        ("varchar(n)", "n"),
        ("select", "select"),
    ],
)
def test_what_is_no_type_name_is_a_syntax_error(text, near):
    with pytest.raises(SQLSyntaxError) as caught:
        read(text)
    assert caught.value.message == f'syntax error at or near "{near}"'
