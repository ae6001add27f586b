"""types.declared: a type with its modifier (the whole is compared with servers in
tests/conformance/test_schema_changes.py).
"""

import pytest

from subscriber.types import declared_type


@pytest.mark.parametrize(
    ("type_oid", "modifier", "declared"),
    [
        (23, -1, "integer"),
        (1042, -1, "bpchar"),
        (1560, -1, '"bit"'),
        (1007, -1, "integer[]"),
        (16400, 7, "type with OID 16400"),
    ],
)
def test_a_type_without_a_modifier_of_its_own_is_its_name(type_oid, modifier, declared):
    """ "bit" alone is bit(1), and character alone character(1)"""
    assert declared_type(type_oid, modifier) == declared
