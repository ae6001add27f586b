"""Tables of functions: what an entry says, and what a signature finds."""

from __future__ import annotations

import dataclasses
import re

import pytest

from subscriber.filters.builtins import catalog_of
from subscriber.filters.functions import FUNCTIONS
from subscriber.filters.functions.function_table import FunctionTable, Implementation


def test_a_function_of_columns_is_strict_and_raises_only_if_it_says_so():
    table = FunctionTable()
    made = table.vectorised("f(int4)", "g(int4)")(abs)
    assert made is abs
    assert table["f(int4)"] == Implementation("f(int4)", abs, True, True, False, False, False)
    assert table["g(int4)"].function is abs
    table.vectorised("h(int4)", raises=True, bytewise=True)(abs)
    assert (table["h(int4)"].raises, table["h(int4)"].bytewise) == (True, True)


def test_a_function_of_single_values_may_raise_unless_it_says_not():
    table = FunctionTable()
    table.elementwise("f(int4)")(abs)
    assert table["f(int4)"] == Implementation("f(int4)", abs, False, True, True, False, False)
    table.elementwise("g(int4)", strict=False, raises=False, context=True)(abs)
    assert table["g(int4)"] == Implementation("g(int4)", abs, False, False, False, True, False)


def test_a_table_has_the_functions_of_several_tables():
    one, other = FunctionTable(), FunctionTable()
    one.elementwise("f(int4)")(abs)
    other.vectorised("g(int4)")(abs)
    both = FunctionTable(one, other)
    assert list(both) == ["f(int4)", "g(int4)"]
    assert len(both) == 2
    assert both.get("h(int4)") is None


def test_a_signature_stands_in_a_table_once():
    table = FunctionTable()
    table.elementwise("f(int4)")(abs)
    for add in (table.elementwise, table.vectorised):
        with pytest.raises(AssertionError, match=re.escape("f(int4) has two implementations")):
            add("f(int4)")(max)
    with pytest.raises(AssertionError, match="two implementations"):
        FunctionTable(table, table)
    assert table["f(int4)"].function is abs


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
