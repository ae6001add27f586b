"""LIKE, SIMILAR TO and ``~`` with constants and without (rules B24, B26), and when the blanks of
``character(n)`` count.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.errors import DataException, NotSupportedError, RowFilterError
from subscriber.filters.functions import FUNCTIONS
from subscriber.filters.functions.function_table import Implementation
from subscriber.filters.functions.patterns import is_like, similar_to_escape


def implementation(signature: str) -> Implementation:
    found = FUNCTIONS.get(signature)
    assert found is not None
    return found


def column(*texts: str | None) -> pa.StringArray:
    return pa.array(texts, pa.string())


@pytest.mark.parametrize("pattern", ["a", "", "%", "a%", "%a", "%a%", "a_%", "%\\%", "_"])
def test_like_with_a_constant_pattern_is_over_columns_and_never_raises(pattern):
    """B26: newlines are characters like all others."""
    found = implementation("textlike(text,text)").for_constants({1: pattern})
    assert found.vectorised
    assert not found.raises
    texts = ["", "a", "ab", "ba", "a\nb", "\n", "%", "é", None]
    expected = [None if text is None else is_like(text, pattern) for text in texts]
    assert found.function(column(*texts), pa.scalar(pattern)).to_pylist() == expected


def test_a_pattern_that_ends_with_a_backslash_raises_only_where_matching_gets_there():
    """B26: 22025, as the server: the string that differs before is simply not like it."""
    found = implementation("textlike(text,text)").for_constants({1: "ab\\"})
    assert not found.vectorised
    assert found.raises
    assert found.function("xb", "ab\\") is False
    assert found.function("ab", "ab\\") is False
    with pytest.raises(RowFilterError) as caught:
        found.function("abc", "ab\\")
    assert (caught.value.sqlstate, caught.value.message) == ("22025", "LIKE pattern must not end with escape character")


@pytest.mark.parametrize(
    ("signature", "arguments", "expected"),
    [
        ("textregexeq(text,text)", ("abc", "b."), True),
        ("textregexne(text,text)", ("abc", "b."), False),
        ("regexp_like(text,text,text)", ("ABC", "b", "i"), True),
        ("regexp_count(text,text,int4,text)", ("abAB", "a", 2, "i"), 1),
        ("regexp_replace(text,text,text,text)", ("aaa", "a", "b", "g"), "bbb"),
        ("regexp_replace(text,text,text,int4,int4)", ("aaa", "a", "b", 1, 2), "aba"),
        ("substring(text,text,text)", ("abc", 'a#"b#"_', "#"), "b"),
        ("similar_to_escape(text)", ("a%",), "^(?:a.*)$"),
        ("similar_escape(text,text)", ("a%", None), "^(?:a.*)$"),
    ],
)
def test_a_pattern_that_is_no_constant_is_read_at_each_row(signature, arguments, expected):
    """It may know letters, so the function is one of bytewise collations only; and the pattern may
    be none.
    """
    found = implementation(signature).for_constants({})
    assert found.function(*arguments) == expected
    assert found.raises
    assert found.bytewise or signature.startswith("similar")


@pytest.mark.parametrize(
    ("signature", "arguments", "sqlstate"),
    [
        ("textregexeq(text,text)", ("a", "secret("), "2201B"),
        ("regexp_like(text,text,text)", ("a", "a", "1984"), "22023"),
        ("regexp_replace(text,text,text,text)", ("a", "a", "b", "1984"), "22023"),
        ("regexp_count(text,text,int4)", ("a", "secret(", 0), "22023"),  # the position comes first
        ("substring(text,text,text)", (None, "a", "secret"), "22025"),
    ],
)
def test_an_error_about_a_pattern_of_a_row_does_not_show_it(signature, arguments, sqlstate):
    """names_are_data."""
    with pytest.raises(RowFilterError) as caught:
        implementation(signature).for_constants({}).function(*arguments)
    assert caught.value.sqlstate == sqlstate
    assert "secret" not in caught.value.report()
    assert "1984" not in caught.value.report()


def test_a_regular_expression_goes_by_the_collation_only_where_it_knows_letters():
    """B24: so that one without classes may stand in a filter of a column with any collation."""
    operator = implementation("textregexeq(text,text)")
    assert operator.bytewise
    assert not operator.for_constants({1: "^[a-z]+$"}).bytewise
    assert operator.for_constants({1: "\\w"}).bytewise
    assert implementation("texticregexeq(text,text)").for_constants({1: "a"}).bytewise


def test_brackets_that_minor_releases_read_differently_are_refused():
    """refuse_not_guess: SIMILAR TO's brackets ended at the first ``]`` before August 2025."""
    similar = implementation("similar_to_escape(text)")
    assert similar.for_constants({0: "[[:alpha:]]%"}).function("[[:alpha:]]%") == "^(?:[[:alpha:]].*)$"
    with pytest.raises(NotSupportedError, match="read its brackets differently"):
        similar.for_constants({0: "[[:alpha:]_]"})
    with pytest.raises(NotSupportedError, match="read its brackets differently"):
        similar.for_constants({}).function("[[:alpha:]_]")
    assert similar_to_escape("[[:alpha:]_]", "\\") == "^(?:[[:alpha:]_])$"


def test_what_is_wrong_with_the_flags_is_said_as_the_server_says_it():
    """B26: 22023; they are constants of the filter, so they may be shown."""
    for signature, constants, message in (
        ("regexp_like(text,text,text)", {1: "a", 2: "g"}, 'regexp_like() does not support the "global" option'),
        ("regexp_match(text,text,text)", {1: "a", 2: "y"}, 'invalid regular expression option: "y"'),
        ("regexp_replace(text,text,text,text)", {1: "a", 3: "12"}, 'invalid regular expression option: "12"'),
    ):
        with pytest.raises(RowFilterError) as caught:
            implementation(signature).for_constants(constants)
        assert (caught.value.sqlstate, caught.value.message) == ("22023", message)


def test_blanks_at_the_end_of_character_count_where_postgresql_says():
    """B11: the table in ``functions/text.py``."""
    padded = column("ab  ", " ab", "ab")

    def found(signature: str, *others: object) -> list[object]:
        values: list[object] = implementation(signature).function(padded, *others).to_pylist()
        return values

    assert found("bpchareq(bpchar,bpchar)", column("ab", "ab", "ab ")) == [True, False, True]
    assert found("bpcharlt(bpchar,bpchar)", column("ab", "ab", "abc ")) == [False, True, True]
    assert found("length(bpchar)") == [2, 3, 2]
    assert found("octet_length(bpchar)") == [4, 3, 2]
    assert found("text(bpchar)") == ["ab", " ab", "ab"]
    like = implementation("bpcharlike(bpchar,text)").for_constants({1: "%ab"})
    assert like.function(padded, pa.scalar("%ab")).to_pylist() == [False, True, True]


@pytest.mark.parametrize(
    ("signature", "arguments", "sqlstate", "message"),
    [
        ("repeat(text,int4)", ("secret", 2**31 - 1), "54000", "requested length too large"),
        ("substr(text,int4,int4)", ("secret", 1, -1), "22011", "negative substring length not allowed"),
        ("varchar(varchar,int4,bool)", ("secret", 7, False), "22001", "value too long for type character varying(3)"),
        ("bpchar(bpchar,int4,bool)", ("secret", 7, False), "22001", "value too long for type character(3)"),
        ("chr(int4)", (0xD800,), "54000", "requested character not valid for encoding"),
        ("like_escape(text,text)", ("a", "secret"), "22025", "invalid escape string"),
        ("get_byte(bytea,int4)", (b"a", 7), "2202E", "index out of valid range"),
        ("decode(text,text)", ("secret!", "base64"), "22023", "invalid symbol found while decoding base64 sequence"),
        ("bitand(bit,bit)", ("1", "10"), "22026", "cannot AND bit strings of different sizes"),
        ("bit(bit,int4,bool)", ("101", 2, False), "22026", "bit string length does not match type bit(2)"),
        ("int4(bit)", ("1" * 33,), "22003", "integer out of range"),
    ],
)
def test_errors_are_the_servers_without_the_values(signature, arguments, sqlstate, message):
    """names_are_data: what the server's message shows of a value, ours leaves out."""
    with pytest.raises(DataException) as caught:
        implementation(signature).function(*arguments)
    assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message)
