"""What we do not compute exactly is refused by name, when the filter is given
(refuse_not_guess).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import NotSupportedError, SubscriberError, UsageError
from subscriber.postgres.expressions.check_filter import check_filter
from subscriber.postgres.schema.publisher_tables import PublisherCollation
from tests.films import BYTEWISE, COLUMNS, TABLE, TABLES, refusal
from tests.publications import table, tables

_PLAIN = table("public.t", {"a": "int4", "b": "text", "j": "jsonb"}, key=["a"])
T = replace(
    _PLAIN,
    columns=tuple(replace(one, collation=100 if one.name == "b" else 0) for one in _PLAIN.columns),
)
KNOWN = tables(T)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("j < '{}'", "operator jsonb < jsonb is not supported in a database whose collation"),
        ("to_ascii(b) = 'x'", "function to_ascii(text)"),
        ("b ~ b", 'operator text ~ text by collation "default"'),
    ],
)
def test_the_error_names_what_is_not_computed(text, what):
    with pytest.raises(NotSupportedError) as caught:
        check_filter(text, T, KNOWN)
    assert what in caught.value.message
    assert caught.value.sqlstate == "0A000"
    assert caught.value.hint


@pytest.mark.parametrize("text", ["octet_length(b) = 1", "md5(b) = 'x'", "ascii(b) = 65", "chr(a) = 'A'"])
def test_the_bytes_of_text_are_those_of_utf8_or_refused(text):
    assert check_filter(text, T, KNOWN)
    with pytest.raises(NotSupportedError, match="of a database with encoding LATIN1"):
        check_filter(text, T, replace(KNOWN, encoding="LATIN1"))


IN_19 = replace(KNOWN, server_version=190000)


@pytest.mark.parametrize("text", ["error_on_null(a) = 1", "a::oid8 = 1", "tid_block('(1,2)') = 1"])
def test_what_does_not_exist_names_the_version_of_a_publisher_that_is_newer(text):
    """A server of 19 has these functions and this type, and the subscriber does not know them."""
    with pytest.raises(UsageError, match="does not exist") as caught:
        check_filter(text, T, IN_19)
    assert caught.value.detail == (
        "The publisher is PostgreSQL 19. The subscriber knows the types, functions, operators and casts of PostgreSQL 18."
    )
    with pytest.raises(UsageError, match="does not exist") as caught:
        check_filter(text, T, KNOWN)
    assert caught.value.detail is None


@pytest.mark.parametrize("encoding", ["'base64url'", "'base32hex'", "b", "NULL"])
def test_an_encoding_that_may_be_new_in_19_is_refused_with_the_version(encoding):
    """In 18 it is an error of the row, as on the server."""
    for text in (f"encode('x', {encoding}) = b", f"decode(b, {encoding}) = 'x'"):
        assert check_filter(text, T, KNOWN)
        with pytest.raises(NotSupportedError, match="new in PostgreSQL 19"):
            check_filter(text, T, IN_19)
    assert check_filter("encode('x', 'Hex') = b", T, IN_19)


MOMENTS = table("public.t", {"a": "int4", "s": "timestamp", "z": "timestamptz", "b": "text"}, key=["a"])
INSTALLED = "'posix/Europe/Berlin'"


@pytest.mark.parametrize(
    "text",
    [
        f"s AT TIME ZONE {INSTALLED} IS NULL",
        f"z AT TIME ZONE {INSTALLED} IS NULL",
        "z AT TIME ZONE lower('POSIX/x') IS NULL",
        f"s AT TIME ZONE (CASE WHEN true THEN {INSTALLED} ELSE b END) IS NULL",
        f"s AT TIME ZONE (CASE WHEN a > 1 THEN {INSTALLED} ELSE 'UTC' END) IS NULL",
        f"s AT TIME ZONE COALESCE(b, {INSTALLED}) IS NULL",
        f"date_trunc('day', z, {INSTALLED}) IS NULL",
        f"date_add(z, '1 day', {INSTALLED}) IS NULL",
        f"date_subtract(z, '1 day', NULLIF({INSTALLED}, b)) IS NULL",
        "b COLLATE \"C\" ~ CASE WHEN a > 1 THEN '(?b)x' ELSE 'x' END",
        "b COLLATE \"C\" ~ ANY (ARRAY['x', '(?e)x'])",
        "b COLLATE \"C\" ~ COALESCE(b, '***=x', '(?b)x')",
        "b COLLATE \"C\" SIMILAR TO CASE WHEN a > 1 THEN '[[a]%]' ELSE 'x' END",
        "regexp_like(b COLLATE \"C\", b, 'b')",
        "regexp_replace(b COLLATE \"C\", b, b, 1, 1, CASE a WHEN 1 THEN 'e' ELSE 'g' END) = 'x'",
    ],
)
def test_a_constant_that_is_refused_is_refused_when_the_filter_is_given(text):
    """Issue 30: never at the first row, also if only some rows need it."""
    with pytest.raises(NotSupportedError) as caught:
        check_filter(text, MOMENTS, tables(MOMENTS))
    assert caught.value.hint


def test_an_unknown_zone_is_an_error_of_the_rows_as_on_the_server():
    assert check_filter("s AT TIME ZONE 'Nowhere/Town' IS NULL", MOMENTS, tables(MOMENTS))
    assert check_filter("regexp_like(b COLLATE \"C\", b, 'nonsense')", MOMENTS, tables(MOMENTS))


def test_documents_are_ordered_where_the_databases_collation_compares_by_bytes():
    """Strings in them are compared by it, whatever collation the expression has."""
    bytewise = replace(KNOWN, bytewise_collations=KNOWN.bytewise_collations | {100})
    assert check_filter("j < '{}'", T, bytewise)
    assert check_filter("greatest(j, '[]') = j", T, bytewise)
    with pytest.raises(NotSupportedError, match="does not compare by bytes"):
        check_filter("greatest(j, '[]') = j", T, KNOWN)


def test_what_we_do_not_compute_is_refused_by_name():
    """refuse_not_guess."""
    error = refusal("place = place")
    assert isinstance(error, NotSupportedError)
    assert error.message == "operator box = box is not supported in the row filters that the subscriber evaluates"
    assert refusal("place IS NULL").message.startswith("type box is not supported")
    assert refusal("num_nulls(VARIADIC tags) = 1").message.startswith("function num_nulls(text[])")
    assert refusal("xmlelement(name x) IS NULL").message.startswith("XMLELEMENT is not supported")


def test_an_order_of_text_needs_a_collation_that_compares_by_bytes():
    """refuse_not_guess: other collations are the server's operating system's."""
    error = refusal("b < 'm'")
    assert error.message == (
        'operator text < text by collation "default" is not supported in the row filters that the subscriber evaluates'
    )
    assert error.hint is not None
    assert 'COLLATE "C"' in error.hint
    check_filter("b COLLATE \"C\" < 'm'", TABLE, TABLES)
    check_filter("c < 'm'", TABLE, TABLES)
    check_filter("b = 'm'", TABLE, TABLES)
    check_filter("b < 'm'", TABLE, BYTEWISE)
    assert '"de_DE"' in refusal("b < 'm' COLLATE \"de_DE\"").message


def test_a_comparison_whose_collation_is_open_is_refused_as_the_server_refuses_to_evaluate_it():
    tables = replace(TABLES, tables={})
    table = replace(TABLE, columns=(COLUMNS[1], replace(COLUMNS[1], name="p", collation=951), COLUMNS[2]))
    with pytest.raises(SubscriberError) as caught:
        check_filter("p = c", table, tables)
    assert caught.value.sqlstate == "42P22"


def test_a_constant_that_cannot_be_computed_is_accepted_as_by_the_server():
    """The error comes with the first row."""
    check_filter("a > 0 OR 1 / 0 = 1", TABLE, TABLES)


def test_the_error_says_which_locale_the_database_has_and_which_version_is_missing():
    german = PublisherCollation(100, "default", "c", "de_DE.UTF-8", "de_DE.UTF-8", "2.1")
    with pytest.raises(NotSupportedError) as caught:
        check_filter("b < 'm'", T, replace(KNOWN, collations=(german,)))
    assert caught.value.message == (
        'operator text < text by collation "default" (de_DE.UTF-8 of libc) cannot be evaluated by this machine'
    )
    assert caught.value.detail is not None
    assert caught.value.detail.startswith("The publisher uses glibc 2.1, this machine ")
    assert caught.value.hint is not None
    with pytest.raises(NotSupportedError, match=r'by collation "default" \(de_DE.UTF-8 of libc\) is not supported'):
        check_filter("b ~ b", T, replace(KNOWN, collations=(german,)))
    assert check_filter("b < 'm'", T, replace(KNOWN, collations=(replace(german, locale="C.UTF-8"),)))
    with pytest.raises(NotSupportedError, match="is not supported"):
        check_filter("b < 'm'", T, replace(KNOWN, collations=(replace(german, locale="C.UTF-8"),), encoding="LATIN1"))
