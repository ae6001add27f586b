"""The registry: what a registration says, and what a signature finds."""

from __future__ import annotations

import dataclasses
import re

import pytest

from subscriber.filters.builtins import catalog_of
from subscriber.filters.functions.function_registry import (
    Implementation,
    elementwise,
    implementation_of,
    implementations,
    vectorised,
)
from tests.filter_expressions import implementation


def test_a_signature_finds_its_function_and_others_find_none():
    assert implementation("int4pl(int4,int4)").vectorised
    assert implementation_of("int4pl(int4,int8)") is None
    assert implementation_of("hashint4(int4)") is None


def test_functions_of_columns_are_strict_and_raise_only_if_they_say_so():
    greater = implementation("int4gt(int4,int4)")
    assert (greater.vectorised, greater.strict, greater.raises, greater.context) == (True, True, False, False)
    assert implementation("int4div(int4,int4)").raises


def test_functions_of_single_values_may_raise_unless_they_say_not():
    parsed = implementation("get_byte(bytea,int4)")
    assert (parsed.vectorised, parsed.strict, parsed.raises) == (False, True, True)
    assert not implementation("reverse(text)").raises
    assert not implementation("num_nulls(any)").strict
    assert implementation("array_eq(anyarray,anyarray)").context


@pytest.mark.parametrize("register", [vectorised, elementwise])
def test_a_signature_is_registered_once(register):
    before = implementation("int4gt(int4,int4)")
    with pytest.raises(AssertionError, match=re.escape("int4gt(int4,int4) is registered twice")):
        register("int4gt(int4,int4)")(lambda left, right: left > right)
    assert implementation("int4gt(int4,int4)") is before


def test_the_list_of_all_functions_is_a_copy():
    known = implementations()
    assert known.pop("int4gt(int4,int4)").signature == "int4gt(int4,int4)"
    assert "int4gt(int4,int4)" in implementations()


def test_every_registered_signature_is_one_of_postgresql():
    catalogs = [catalog_of(version) for version in (150000, 160000, 180000)]
    known = {one.signature(row) for one in catalogs for row in one.functions.values()}
    assert implementations().keys() <= known


def test_constants_choose_the_implementation_of_a_call():
    plain = Implementation("f(text,text)", max, False, True, True, False, True)
    assert plain.for_constants({1: "a"}) is plain

    def specialise(one: Implementation, constants: object) -> Implementation:
        return dataclasses.replace(one, bytewise=constants != {1: "a"}, specialise=None)

    chosen = dataclasses.replace(plain, specialise=specialise)
    assert not chosen.for_constants({1: "a"}).bytewise
    assert chosen.for_constants({}).bytewise
