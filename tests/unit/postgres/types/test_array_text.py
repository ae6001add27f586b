"""The text of arrays: regress/sql/arrays.sql, and chapter 8.15 of the documentation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.arrays import EMPTY, Array, array_out, array_text, bounds_text, quoted
from tests.type_samples import read, refused

ELEMENTS = st.none() | st.text('ab ,;{}"\\\t\u00e9NULnul', max_size=4)


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("{a}", ("a",)), ("{a,b}", ("a", "b")), ("  { a , b }  ", ("a", "b")), ("{ a b }", ("a b",)), ('{"a b"}', ("a b",)), ('{"",x}', ("", "x")),
        ("{NULL,null,nUlL}", (None, None, None)), ('{"NULL"}', ("NULL",)), (r"{\NULL}", ("NULL",)), (r'{"\"",\"}', ('"', '"')), (r"{a\,b}", ("a,b",)),
        (r"{\ a\ }", (" a ",)), (r"{a\\}", ("a\\",)), ("{nulls}", ("nulls",)), ('{" a "}', (" a ",)), ("{a\n}", ("a",)),
    ],
)  # fmt: skip
def test_the_elements_of_a_text_are_read(text, elements):
    assert read("text[]", text) == Array((len(elements),), (1,), elements)


@pytest.mark.parametrize(
    ("text", "dimensions", "lower_bounds"),
    [
        ("{{1,2},{3,4}}", (2, 2), (1, 1)), ("{{{1}}}", (1, 1, 1), (1, 1, 1)), ("[0:1]={1,2}", (2,), (0,)), ("[-2:-1][5:6]={{1,2},{3,4}}", (2, 2), (-2, 5)),
        ("[2]={1,2}", (2,), (1,)), ("[1:2] = {1,2}", (2,), (1,)),
        ("[2147483646:2147483646]={1}", (1,), (2147483646,)), ("[-2147483648:-2147483647]={1,2}", (2,), (-(2**31),)), ("[+1:+1]={1}", (1,), (1,)),
    ],
)  # fmt: skip
def test_the_bounds_of_a_text_are_read(text, dimensions, lower_bounds):
    found = read("text[]", text)
    assert (found.dimensions, found.lower_bounds) == (dimensions, lower_bounds)


@pytest.mark.parametrize("text", ["{}", "{{},{}}", "{{}}", " { } ", "{{{}}}"])
def test_an_array_without_elements_has_no_dimensions(text):
    assert read("text[]", text) == EMPTY


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "{", "}", "{a", "a}", "{a}b", "{a}}", "{{1,2},{3}}", "{{1,2},3}", "{1,{2}}", "{{1},{{2}}}", "{,}", "{a,}", "{,a}", "{a,,b}", '{"a"b}',
        '{a"b"}', '{"a}', "{a\\", "{{}", "{{},{1}}", "{{1},{}}", "[1:2]{1,2}", "[1:2]={1}", "[1:2]=1", "[1={1}", "[1:]={1}", "[:1]={1}", "[a]={1}", "[]={1}",
        "[1:2][1:1]={1,2}", "{a{b}", "{}x", "[1:1]={}", "[ 1:1]={1}",
    ],
)  # fmt: skip
def test_a_text_that_is_not_an_array_is_refused(text):
    error = refused("text[]", text)
    assert (error.sqlstate, error.message) == ("22P02", "malformed array literal")


@pytest.mark.parametrize(
    ("text", "sqlstate", "message"),
    [
        ("[2:1]={1}", "2202E", "upper bound cannot be less than lower bound"),
        ("[0]={}", "2202E", "upper bound cannot be less than lower bound"),
        ("{{{{{{{1}}}}}}}", "54000", "number of array dimensions exceeds the maximum allowed (6)"),
        ("[1][1][1][1][1][1][1]={1}", "54000", "number of array dimensions exceeds the maximum allowed (6)"),
        ("[1:2147483648]={1}", "54000", "array bound is out of integer range"),
        ("[2147483647:2147483647]={1}", "54000", "array upper bound is too large: 2147483647"),
        ("[-2147483648:2147483646]={1}", "54000", "array size exceeds the maximum allowed (134217727)"),
    ],
)
def test_bounds_that_an_array_cannot_have_are_refused(text, sqlstate, message):
    error = refused("text[]", text)
    assert (error.sqlstate, error.message) == (sqlstate, message)


def test_an_element_is_read_before_the_text_after_it():
    assert refused("integer[]", "{x}}").message == "invalid input syntax for type integer"
    assert refused("integer[]", "{1}}").message == "malformed array literal"


@pytest.mark.parametrize(
    ("element", "written"),
    [
        ("a", "a"), ("", '""'), ("a b", '"a b"'), ("a,b", '"a,b"'), ("{", '"{"'), ("}", '"}"'), ('"', r'"\""'), ("\\", r'"\\"'), ("null", '"null"'),
        ("NULLs", "NULLs"), ("a;b", "a;b"), ("\v", '"\v"'), ("\u00a0", "\u00a0"), ("\u00e9", "\u00e9"),
    ],
)  # fmt: skip
def test_an_element_is_quoted_only_where_necessary(element, written):
    assert list(quoted([element])) == [written]


def test_the_delimiter_of_boxes_is_a_semicolon():
    assert list(quoted(["(1,1),(0,0)", "a;b"], ";")) == ["(1,1),(0,0)", '"a;b"']
    assert array_text(["(1,1),(0,0)", "x"], (2,), (1,), ";") == "{(1,1),(0,0);x}"


def test_bounds_are_written_only_if_one_is_not_1():
    assert array_text(["1", "2", "3", "4"], (2, 2), (1, 1)) == "{{1,2},{3,4}}"
    assert array_text(["1", "2", "3", "4"], (2, 2), (1, 0)) == "[1:2][0:1]={{1,2},{3,4}}"
    assert array_text([], (), ()) == "{}"
    assert bounds_text((2, 4), (1, 0)) == "[1:2][0:3]"


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(-3, 3)), min_size=1, max_size=3).flatmap(
        lambda bounds: st.tuples(st.just(bounds), st.lists(ELEMENTS, min_size=_size(bounds), max_size=_size(bounds)))
    )
)
def test_every_array_is_read_as_it_was_written(found):
    bounds, elements = found
    array = Array(tuple(size for size, _ in bounds), tuple(lower for _, lower in bounds), tuple(elements))
    assert read("text[]", array_out(str, array)) == array


def _size(bounds: list[tuple[int, int]]) -> int:
    size = 1
    for one, _ in bounds:
        size *= one
    return size
