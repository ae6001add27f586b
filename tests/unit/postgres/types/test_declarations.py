"""A type with its modifier, as format_type writes it; tests/conformance/test_schema_changes.py
compares declarations with servers.
"""

import pytest

from subscriber.postgres.types.oids import declared_type, with_modifier


@pytest.mark.parametrize(
    ("type_oid", "modifier", "declared"),
    [
        (23, -1, "integer"),
        (1042, -1, "bpchar"),
        (1560, -1, '"bit"'),
        (1007, -1, "integer[]"),
        (1014, -1, "bpchar[]"),
        (16400, 7, "type with OID 16400"),
        (23, 7, "integer"),
    ],
)
def test_a_type_without_a_modifier_of_its_own_is_its_name(type_oid, modifier, declared):
    """ "bit" alone is bit(1), and character alone character(1)."""
    assert declared_type(type_oid, modifier) == declared


@pytest.mark.parametrize(
    ("type_oid", "modifier", "declared"),
    [
        (1043, 14, "character varying(10)"),
        (1042, 5, "character(1)"),
        (1015, 14, "character varying(10)[]"),
        (1560, 3, "bit(3)"),
        (1562, 64, "bit varying(64)"),
        (1700, (10 << 16 | 2) + 4, "numeric(10,2)"),
        (1700, (1000 << 16 | 0) + 4, "numeric(1000,0)"),
        (1700, (3 << 16 | -6 & 0x7FF) + 4, "numeric(3,-6)"),
        (1700, (3 << 16 | 1000) + 4, "numeric(3,1000)"),
        (1083, 0, "time(0) without time zone"),
        (1266, 6, "time(6) with time zone"),
        (1114, 3, "timestamp(3) without time zone"),
        (1184, 3, "timestamp(3) with time zone"),
        (1185, 3, "timestamp(3) with time zone[]"),
        (1186, 0x7FFF << 16 | 3, "interval(3)"),
        (1186, 1 << 2 << 16 | 0xFFFF, "interval year"),
        (1186, (1 << 2 | 1 << 1) << 16 | 0xFFFF, "interval year to month"),
        (1186, (1 << 3 | 1 << 10 | 1 << 11 | 1 << 12) << 16 | 2, "interval day to second(2)"),
        (1186, (1 << 11 | 1 << 12) << 16 | 0xFFFF, "interval minute to second"),
    ],
)
def test_a_modifier_is_written_as_in_create_table(type_oid, modifier, declared):
    assert declared_type(type_oid, modifier) == declared


def test_a_modifier_can_follow_another_name_of_the_type():
    assert with_modifier(1043, "varchar", 14) == "varchar(10)"
    assert with_modifier(23, "int", 14) == "int"
