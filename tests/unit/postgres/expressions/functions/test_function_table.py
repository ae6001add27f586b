"""The table of functions: signatures, comparison operators, what an implementation is by
default."""

from __future__ import annotations

import dataclasses

import pytest

from subscriber.postgres.expressions.builtin_catalog import catalog_of
from subscriber.postgres.expressions.functions import FUNCTIONS
from subscriber.postgres.expressions.functions.function_table import Implementation, elementwise, vectorised


@pytest.fixture(autouse=True)
def _restored():
    before = dict(FUNCTIONS)
    yield
    FUNCTIONS.clear()
    FUNCTIONS.update(before)


def test_a_function_is_found_under_each_of_its_signatures():
    @elementwise("f(int4)", "g(int4)", strict=False)
    def function(value: int) -> int:
        return value

    assert FUNCTIONS["f(int4)"].function is FUNCTIONS["g(int4)"].function is function
    assert not FUNCTIONS["f(int4)"].strict


def test_a_function_over_columns_raises_no_errors_unless_it_says_so():
    vectorised("f(int4)")(abs)
    vectorised("g(int4)", raises=True)(abs)
    elementwise("h(int4)")(abs)
    assert [FUNCTIONS[f"{name}(int4)"].vectorised for name in "fgh"] == [True, True, False]
    assert [FUNCTIONS[f"{name}(int4)"].raises for name in "fgh"] == [False, True, True]


def test_a_signature_cannot_have_two_implementations():
    with pytest.raises(AssertionError, match="abs"):
        elementwise("abs(int4)")(abs)


def test_every_signature_is_one_of_postgresql():
    catalogs = [catalog_of(version) for version in (150000, 160000, 180000)]
    known = {one.signature(row) for one in catalogs for row in one.functions.values()}
    assert FUNCTIONS.keys() <= known


def test_constants_choose_the_implementation_of_a_call():
    plain = Implementation("f(text,text)", max, False, True, True, False, True)
    assert plain.for_constants({1: "a"}) is plain

    def specialise(one: Implementation, constants: object) -> Implementation:
        return dataclasses.replace(one, bytewise=constants != {1: "a"}, specialise=None)

    chosen = dataclasses.replace(plain, specialise=specialise)
    assert not chosen.for_constants({1: "a"}).bytewise
    assert chosen.for_constants({}).bytewise
