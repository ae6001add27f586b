"""Properties of types: names, elements, domains and type modifiers (``format_type.c``)."""

from __future__ import annotations

import pytest

from subscriber.base.errors import SubscriberError
from subscriber.postgres.expressions.analyze.typeinfo import type_modifier

BIT, BPCHAR, VARCHAR, NUMERIC, INTERVAL, TIMESTAMPTZ = 1560, 1042, 1043, 1700, 1186, 1184
DOMAIN, MOOD, MOODS = 16502, 16500, 16501
FULL = 0x7FFF


@pytest.mark.parametrize(
    ("oid", "modifier", "name"),
    [
        (23, -1, "integer"),
        (1007, -1, "integer[]"),
        (VARCHAR, 9, "character varying(5)"),
        (1015, 9, "character varying(5)[]"),
        (BPCHAR, 9, "character(5)"),
        (BPCHAR, -1, "bpchar"),
        (BIT, 3, "bit(3)"),
        (BIT, -1, '"bit"'),
        (18, -1, '"char"'),
        (NUMERIC, (5 << 16 | 2) + 4, "numeric(5,2)"),
        (TIMESTAMPTZ, 3, "timestamp(3) with time zone"),
        (30, -1, "oidvector"),
        (MOOD, -1, "mood"),
        (MOODS, -1, "mood[]"),
        (99999, -1, "???"),
    ],
)
def test_a_type_has_the_name_of_format_type(types, oid, modifier, name):
    assert types.name_with_modifier(oid, modifier) == name


def test_a_name_without_a_modifier_is_the_plain_one(types):
    assert (types.name(BPCHAR), types.name(BIT), types.name(VARCHAR)) == ("character", "bit", "character varying")


def test_a_domain_has_a_base_and_an_array_an_element(types):
    assert (types.base(DOMAIN), types.base(23)) == (23, 23)
    assert types.base_and_modifier(DOMAIN, 7) == (23, -1)
    assert types.base_and_modifier(23, 7) == (23, 7)
    assert (types.element(1007), types.element(23), types.element(99999)) == (23, 0, 0)
    assert types.base_element(DOMAIN) == 0
    assert (types.array(23), types.array(MOOD)) == (1007, MOODS)


def test_a_category_has_preferred_types(types):
    assert types.category(23) == "N"
    assert types.is_preferred("N", 701)
    assert not types.is_preferred("N", 23)
    assert not types.is_preferred("S", 701)
    assert (types.collation(25), types.collation(23)) == (100, 0)


def test_rows_are_record_and_composite_types(types):
    assert types.is_row(2249)
    assert not types.is_row(23)


@pytest.mark.parametrize(
    ("oid", "values", "modifier"),
    [
        (VARCHAR, ("5",), 9),
        (BPCHAR, ("10485760",), 10485764),
        (BIT, ("3",), 3),
        (NUMERIC, ("5",), (5 << 16) + 4),
        (NUMERIC, ("5", "2"), (5 << 16 | 2) + 4),
        (NUMERIC, ("5", "-2"), (5 << 16 | 0x7FE) + 4),
        (TIMESTAMPTZ, ("3",), 3),
        (TIMESTAMPTZ, ("9",), 6),
        (INTERVAL, (str(FULL), "3"), FULL << 16 | 3),
        (INTERVAL, (str(FULL),), -1),
        (INTERVAL, ("4",), 4 << 16 | 0xFFFF),
        (INTERVAL, (str(FULL), "9"), FULL << 16 | 6),
    ],
)
def test_values_in_parentheses_are_a_type_modifier(types, oid, values, modifier):
    assert type_modifier(types.get(oid), "t", values) == modifier


@pytest.mark.parametrize(
    ("oid", "values", "sqlstate", "message"),
    [
        (23, ("1",), "42601", 'type modifier is not allowed for type "t"'),
        (VARCHAR, ("0",), "22023", "length for type varchar must be at least 1"),
        (BPCHAR, ("10485761",), "22023", "length for type char cannot exceed 10485760"),
        (BIT, ("83886081",), "22023", "length for type bit cannot exceed 83886080"),
        (VARCHAR, ("1", "2"), "22023", "invalid type modifier"),
        (VARCHAR, ("x",), "22P02", 'invalid input syntax for type integer: "x"'),
        (NUMERIC, ("0",), "22023", "NUMERIC precision 0 must be between 1 and 1000"),
        (NUMERIC, ("5", "1001"), "22023", "NUMERIC scale 1001 must be between -1000 and 1000"),
        (NUMERIC, ("1", "2", "3"), "22023", "invalid NUMERIC type modifier"),
        (TIMESTAMPTZ, ("-1",), "22023", "TIMESTAMP(-1) WITH TIME ZONE precision must not be negative"),
        (1083, ("-1",), "22023", "TIME(-1) precision must not be negative"),
        (1083, ("1", "2"), "22023", "invalid type modifier"),
        (INTERVAL, ("3",), "22023", "invalid INTERVAL type modifier"),
        (INTERVAL, (str(FULL), "-1"), "22023", "INTERVAL(-1) precision must not be negative"),
        (INTERVAL, ("4", "1", "1"), "22023", "invalid INTERVAL type modifier"),
    ],
)
def test_wrong_values_of_a_type_modifier_are_an_error(types, oid, values, sqlstate, message):
    with pytest.raises(SubscriberError) as caught:
        type_modifier(types.get(oid), "t", values)
    assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message)
