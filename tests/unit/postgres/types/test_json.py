"""json, jsonb and jsonpath: regress/sql/json.sql and jsonb.sql."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import cmp_to_key

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.types.json import (
    Jsonb,
    check_string,
    contains,
    equal,
    order,
    parse,
    root_contains,
    string_at,
    string_text,
    to_text,
    type_of,
    value_end,
)
from tests.type_samples import SAMPLES, canonical, from_binary, read, refused, refused_binary, shown

STRINGS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=10,
)

# --- input --------------------------------------------------------------------------------------

VALID = [
    '""', '"abc"', r'"\n\"\\"', r'"\u0061"', "1", "0", "0.1", "9223372036854775808", "1e100", "1.3e100", "-0", "[]", "[1,2]", "{}", '{"abc":1}',
    '{"abc":{"def":{"ghi":[1]}}}', "true", "false", "null", "  true   ", "\t\n\r 1",
]  # fmt: skip
INVALID = [
    "", "    ", "''", '"abc', '"abc\ndef"', r'"\v"', r'"\u"', r'"\u00"', r'"\u000g"', "01", "1f2", "0.x1", "1.3ex100", "+1", ".5", "1.", "1e",
    "[1,2,]", "[1,2", "[1,[2]", '{"abc"}', '{1:"abc"}', '{"abc",1}', '{"abc"=1}', '{"abc"::1}', '{"abc":1:2}', '{"abc":1,3}', '{"abc":1,}',
    "true false", "true, false", "truf", "trues", "NaN", "Infinity", "-Infinity", "nul", "True", "'a'",
]  # fmt: skip


@pytest.mark.parametrize("text", VALID)
def test_json_keeps_a_valid_text(text):
    assert shown("json", text) == text


@pytest.mark.parametrize("text", INVALID)
@pytest.mark.parametrize("name", ["json", "jsonb"])
def test_a_text_that_is_not_json_is_refused(name, text):
    error = refused(name, text)
    assert (error.sqlstate, error.message, error.quoting) == ("22P02", "invalid input syntax for type json", None)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (' { "b" :1 , "a":[ 1,2 ] } ', '{"a": [1, 2], "b": 1}'),
        ('{"aa": 1, "b": 2, "a": 3}', '{"a": 3, "b": 2, "aa": 1}'),
        ('{"a": 1, "a": {"b": 2}, "a": null}', '{"a": null}'),
        ("1.50", "1.50"), ("1e3", "1000"), ("1E-2", "0.01"), ("-0", "0"), ("-0.0", "0.0"),
        (r'"\u0061\/\b\f\n\r\t"', r'"a/\b\f\n\r\t"'), (r'"\u00e9\ud83d\ude00"', '"é😀"'), (r'"\u0007\u007f"', '"\\u0007\x7f"'),
        ("null", "null"), ("[]", "[]"), ("{}", "{}"), ("[true, false]", "[true, false]"),
    ],
)  # fmt: skip
def test_jsonb_is_written_in_one_form(text, written):
    assert shown("jsonb", text) == written


@pytest.mark.parametrize("text", [r'"\u0000"', r'{"\u0000": 1}', r'["a\u0000b"]'])
def test_jsonb_has_no_zero_character(text):
    error = refused("jsonb", text)
    assert (error.sqlstate, error.message) == ("22P05", "unsupported Unicode escape sequence")
    assert shown("json", text) == text


@pytest.mark.parametrize(
    "text", [r'"\ud83d"', r'"\ude00"', r'"\ud83d\ud83d"', r'"\ude00\ud83d"', r'"\ud83dx"', r'{"\ud83d": 1}']
)
def test_jsonb_has_no_half_of_a_surrogate_pair(text):
    assert refused("jsonb", text).sqlstate == "22P02"
    assert shown("json", text) == text


def test_a_number_that_numeric_cannot_hold_is_refused():
    assert refused("jsonb", "1e131072").sqlstate == "22003"
    assert shown("json", "1e131072") == "1e131072"


def test_a_value_whose_key_occurs_again_must_be_valid_too():
    assert refused("jsonb", r'{"a": "\u0000", "a": 1}').sqlstate == "22P05"


def test_a_document_that_is_nested_too_deeply_is_refused():
    for name in ("json", "jsonb"):
        with pytest.raises(NotSupportedError, match="nested"):
            read(name, "[" * 100_000 + "]" * 100_000)


def test_a_null_of_json_is_a_value():
    assert read("jsonb", "null") == Jsonb(None)
    assert read("jsonb", "null") is not None


@given(DOCUMENTS)
def test_a_document_has_the_value_that_python_reads(document):
    found = parse(json.dumps(document))
    assert json.loads(to_text(found)) == document
    assert to_text(parse(to_text(found))) == to_text(found)


def test_a_string_is_checked_after_its_escapes_were_replaced():
    assert check_string("aé") == "aé"
    for text, sqlstate in (("a\0", "22P05"), ("\ud800", "22P02")):
        with pytest.raises(DataException) as caught:
            check_string(text)
        assert caught.value.sqlstate == sqlstate


@given(STRINGS)
def test_a_string_reads_back_between_its_quotes(text):
    assert string_at("[" + string_text(text) + ", 1]", 1) == (text, len(string_text(text)) + 1)


def test_the_end_of_a_value_inside_of_a_document_is_found():
    text = '{"a": [1, {"b": "]"}], "c": 2}'
    assert text[6 : value_end(text, 6)] == '[1, {"b": "]"}]'


# --- order and equality -------------------------------------------------------------------------


def test_documents_are_in_the_servers_order():
    """``compareJsonbContainers``: by type, then by length, then by what is in them; an empty array
    comes before all else.
    """
    in_order = [
        "[]", "null", '"a"', '"b"', "1", "2", "false", "true", '["b"]', "[0]", "[1]", "[[]]", "[1, 0]", "{}", '{"b": 1}', '{"a": 1, "b": 0}',
        '{"a": 1, "b": 1}',
    ]  # fmt: skip
    documents = sorted((parse(text) for text in reversed(in_order)), key=cmp_to_key(order))
    assert [to_text(one) for one in documents] == in_order


@given(DOCUMENTS, DOCUMENTS)
def test_the_order_agrees_with_equality_and_is_symmetric(left, right):
    one, other = parse(json.dumps(left)), parse(json.dumps(right))
    assert order(one, other) == -order(other, one)
    assert (order(one, other) == 0) == equal(one, other)
    assert equal(one, one)
    assert order(one, one) == 0


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("1.0", "1.00", True), ("1", '"1"', False), ("1", "true", False), ("[1, 2]", "[2, 1]", False), ("[1.0]", "[1]", True), ("[1]", "[1, 1]", False),
        ('{"a": 1, "b": 2}', '{"b": 2.0, "a": 1}', True), ('{"a": 1}', '{"a": 2}', False), ('{"a": 1}', '{"b": 1}', False), ("null", "null", True),
    ],
)  # fmt: skip
def test_equality_ignores_the_scale_of_numbers(left, right, expected):
    assert equal(parse(left), parse(right)) is expected
    texts = [canonical("jsonb", shown("jsonb", text)) for text in (left, right)]
    assert (texts[0] == texts[1]) is expected


@pytest.mark.parametrize(
    ("value", "part", "expected"),
    [
        ('"foo"', '"foo"', True), ("[1, 2, 3]", "[1, 3]", True), ("[1, 2, 3]", "[3, 1]", True), ("[1, 2, 3]", "[1, 2, 2]", True),
        ('{"product": "PostgreSQL", "version": 9.4, "jsonb": true}', '{"version": 9.4}', True), ("[1, 2, [1, 3]]", "[1, 3]", False),
        ("[1, 2, [1, 3]]", "[[1, 3]]", True), ('{"foo": {"bar": "baz"}}', '{"bar": "baz"}', False), ('{"foo": {"bar": "baz"}}', '{"foo": {}}', True),
        ('["foo", "bar"]', '"bar"', True), ('"bar"', '["bar"]', False), ("{}", "[]", False), ("[]", "{}", False), ("[1]", "[1.0]", True),
        ('["a"]', '{"a": 1}', False),
    ],
)  # fmt: skip
def test_containment_is_that_of_the_documentation(value, part, expected):
    """Chapter 8.14.3."""
    assert root_contains(parse(value), parse(part)) is expected


def test_an_array_contains_a_scalar_only_at_the_root():
    assert root_contains(parse("[1]"), Decimal(1))
    assert not contains(parse("[1]"), Decimal(1))


def test_each_value_has_its_type():
    values = ["null", "true", "1", '"a"', "[]", "{}"]
    assert [type_of(parse(text)) for text in values] == ["null", "boolean", "number", "string", "array", "object"]


# --- binary form --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["jsonb", "jsonpath"])
@pytest.mark.parametrize("bad", [b"", b"\2{}", b"{}"])
def test_another_version_of_the_binary_form_is_refused(name, bad):
    error = refused_binary(name, SAMPLES[name][1], bad)
    assert (error.sqlstate, error.message) == ("22P03", f"unsupported {name} version number")


def test_the_version_is_no_part_of_the_text():
    assert from_binary("jsonb", b"\1[1]", None, b"\1{}") == ["[1]", None, "{}"]
    assert from_binary("json", b"[1]") == ["[1]"]
