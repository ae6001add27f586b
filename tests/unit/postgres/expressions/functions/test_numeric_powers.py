"""exp, ln, log and power of numeric: digits and scales that the server gave (rule B11)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from subscriber.base.errors import DataException
from subscriber.postgres.expressions.functions.function_table import Context
from subscriber.postgres.types.numeric import numeric_out
from tests.filter_expressions import implementation


def computed(name: str, *arguments: str | int, version: int = 180000) -> str:
    types = ",".join("numeric" if isinstance(one, str) else "int4" for one in arguments)
    found = implementation(f"{name}({types})")
    context = [Context((), 1700, version)] if found.context else []
    result = found.function(*context, *(Decimal(one) if isinstance(one, str) else one for one in arguments))
    return numeric_out(result) if isinstance(result, Decimal) else str(result)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("exp", ("1.0",), "2.7182818284590452"),
        ("exp", ("-Infinity",), "0"),
        ("ln", ("2.0",), "0.6931471805599453"),
        ("log", ("100",), "2.0000000000000000"),
        ("log", ("2", "64"), "6.0000000000000000"),
        ("log", ("Infinity", "2"), "0"),
        ("power", ("2", "0.5"), "1.4142135623730950"),
        ("power", ("-2", "3"), "-8.0000000000000000"),
        ("power", ("0", "0"), "1.0000000000000000"),
        ("power", ("NaN", "0"), "1"),
        ("power", ("-Infinity", "3"), "-Infinity"),
        ("power", ("-0.5", "27"), "-0.000000007450580596923828"),
    ],
)
def test_the_digits_are_the_servers(name, arguments, expected):
    assert computed(name, *arguments) == expected


def test_whole_powers_had_sixteen_decimals_before_16():
    assert computed("power", "-0.5", "27", version=150000) == "-0.0000000074505806"


@pytest.mark.parametrize(
    ("name", "arguments", "sqlstate"),
    [
        ("ln", ("0",), "2201E"),
        ("log", ("-Infinity",), "2201E"),
        ("log", ("1", "2"), "22012"),
        ("power", ("0", "-1"), "2201F"),
        ("power", ("-1", "0.5"), "2201F"),
        ("power", ("10", "1000000"), "22003"),
        ("exp", ("6000",), "22003"),
    ],
)
def test_what_has_no_result_has_the_servers_sqlstate(name, arguments, sqlstate):
    with pytest.raises(DataException) as caught:
        computed(name, *arguments)
    assert caught.value.sqlstate == sqlstate
