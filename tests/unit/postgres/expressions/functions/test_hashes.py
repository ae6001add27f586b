"""Hash functions of types. The values are those of a server of PostgreSQL 18."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.expressions.check_filter import check_filter
from subscriber.postgres.expressions.functions.hashes import PROBE, SIGNATURES
from tests.filter_expressions import value
from tests.publications import table, tables

T = table("public.t", {"a": "int4", "b": "text"}, key=["a"])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("hashtext('')", "-1477818771"),
        ("hashtext('tenant-1')", "-475081847"),
        ("hashtext('a text of more than twelve bytes')", "1139813685"),
        ("hashtextextended('abc', 1)", "2125675926272891485"),
        ("hashint2('-1')", "385747274"),
        ("hashint4(17)", "-917053276"),
        ("hashint8(9223372036854775807)", "-1524351049"),
        ("hashint8extended(-1, -1)", "6481520839006961279"),
        ("hashoid(4294967295)", "385747274"),
        ("hashfloat4('1.5')", "630860146"),
        ("hashfloat8('NaN')", "-1275764840"),
        ("hashfloat8extended(0, 5)", "5"),
        ("uuid_hash('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')", "1154666245"),
        ("hashinet('10.1.2.3/8')", "1966931979"),
        ("timetz_hash('12:00+01')", "-569214674"),
        ("interval_hash('1 day')", "-2053980660"),
        ("timestamp_hash('2000-01-02')", "-2053980660"),
    ],
)
def test_a_hash_is_the_servers(expression, expected):
    assert value(expression) == expected


def test_equal_values_have_equal_hashes():
    assert value("hashfloat8(0) = hashfloat8('-0')") == "t"
    assert value("hashint8(-5) = hashint4(-5)") == "t"
    assert value("interval_hash('1 mon') = interval_hash('30 days')") == "t"
    assert value("hashbpchar('a ') = hashtext('a')") == "t"


def test_each_function_has_one_with_a_seed():
    names = [signature.partition("(")[0] for signature in SIGNATURES]
    assert sum(name.endswith("extended") for name in names) * 2 == len(names)
    assert PROBE.startswith("hashtext(")


def test_hashes_are_refused_for_a_publisher_that_gives_others():
    with pytest.raises(NotSupportedError, match="hash functions give other results"):
        check_filter("hashint4(a) % 4 = 0", T, tables(T))
    known = replace(tables(T), has_known_hashes=True)
    assert check_filter("hashint4(a) % 4 = 0", T, known)
    with pytest.raises(NotSupportedError, match="with encoding LATIN1"):
        check_filter('hashtext(b COLLATE "C") = 1', T, replace(known, encoding="LATIN1"))
