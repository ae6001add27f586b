"""Rows of catalogs, read from their fields as text."""

from __future__ import annotations

import pytest

from subscriber.postgres.expressions.builtin_catalog import (
    Cast,
    CatalogType,
    Collation,
    FamilyMember,
    Function,
    Operator,
    OperatorClass,
    read_row,
)


def test_a_function_has_its_arguments_names_and_defaults():
    fields = ["3464", "pg_catalog", "make_interval", "23 701", "1186", "f", "i", "0", "0", "2", "years,secs", "0, 0.0"]
    found = read_row(Function, fields)
    assert (found.oid, found.name, found.arguments, found.result) == (3464, "make_interval", (23, 701), 1186)
    assert (found.returns_set, found.default_count) == (False, 2)
    assert (found.argument_names, found.defaults) == (("years", "secs"), "0, 0.0")


def test_a_function_without_arguments_and_names_has_empty_tuples():
    found = read_row(Function, ["1", "pg_catalog", "pi", "", "701", "f", "i", "1", "0", "0", "", ""])
    assert (found.arguments, found.argument_names, found.returns_set) == ((), (), True)


def test_a_function_is_built_in_below_the_first_oid_of_users():
    """B25."""
    fields = ["pg_catalog", "f", "", "16", "f", "i", "0", "0", "0", "", ""]
    assert read_row(Function, ["16383", *fields]).is_built_in
    assert not read_row(Function, ["16384", *fields]).is_built_in


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        (
            CatalogType,
            ["23", "pg_catalog", "int4", "b", "N", "0", "0", "1007", "0", "0", "-1", "0", "0"],
            CatalogType(23, "pg_catalog", "int4", "b", "N", False, 0, 1007, 0, 0, -1, 0, 0),
        ),
        (
            Operator,
            ["96", "pg_catalog", "=", "23", "23", "16", "65", "518"],
            Operator(96, "pg_catalog", "=", left=23, right=23, result=16, function=65, negator=518),
        ),
        (Cast, ["23", "20", "481", "i", "f"], Cast(23, 20, 481, "i", "f")),
        (OperatorClass, ["1978", "23", "1976"], OperatorClass(1978, type=23, family=1976)),
        (FamilyMember, ["1", "1976", "3", "23", "20", "15"], FamilyMember(1, 1976, 3, left=23, right=20, operator=15)),
        (Collation, ["950", "pg_catalog", "C"], Collation(950, "pg_catalog", "C")),
    ],
)
def test_every_field_has_the_type_of_its_column(kind, fields, expected):
    assert read_row(kind, fields) == expected


def test_a_row_with_a_field_too_few_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        read_row(Cast, ["23", "20", "481", "i"])
