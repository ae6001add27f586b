"""The names of the built-in types; tests/conformance/test_types_against_postgresql.py compares them
with pg_type.
"""

from subscriber.postgres.types.oids import BUILT_IN_TYPES, ELEMENT_TYPES, type_name


def test_type_names_are_postgresqls():
    assert [type_name(oid) for oid in (20, 1184, 1015, 18, 16_400)] == [
        "bigint",
        "timestamp with time zone",
        "character varying[]",
        '"char"',
        "type with OID 16400",
    ]


def test_every_type_has_a_name_of_its_own():
    names = [type_name(oid) for oid in BUILT_IN_TYPES]
    assert len(names) == len(set(names))


def test_the_name_of_an_array_type_is_that_of_its_elements_with_brackets():
    assert all(type_name(array) == f"{type_name(element)}[]" for array, element in ELEMENT_TYPES.items())
    assert len(ELEMENT_TYPES) == len(set(ELEMENT_TYPES.values()))


def test_the_types_have_oids_that_pg_type_assigns_by_hand():
    """genbki assigns OIDs from 10000 on, and they may differ from database to database."""
    assert all(0 < oid < 10_000 for oid in BUILT_IN_TYPES)
