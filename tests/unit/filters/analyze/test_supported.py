"""What we do not compute exactly is refused by name, when the filter is given
(refuse_not_guess).
"""

from __future__ import annotations

import dataclasses

import pytest

from subscriber.errors import NotSupportedError
from subscriber.filters.check import check_filter
from tests.publications import table, tables

_PLAIN = table("public.t", {"a": "int4", "b": "text", "j": "jsonb"}, key=["a"])
T = dataclasses.replace(
    _PLAIN,
    columns=tuple(dataclasses.replace(one, collation=100 if one.name == "b" else 0) for one in _PLAIN.columns),
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
        check_filter(text, T, dataclasses.replace(KNOWN, encoding="LATIN1"))


def test_documents_are_ordered_where_the_databases_collation_compares_by_bytes():
    """Strings in them are compared by it, whatever collation the expression has."""
    bytewise = dataclasses.replace(KNOWN, bytewise_collations=KNOWN.bytewise_collations | {100})
    assert check_filter("j < '{}'", T, bytewise)
    assert check_filter("greatest(j, '[]') = j", T, bytewise)
    with pytest.raises(NotSupportedError, match="does not compare by bytes"):
        check_filter("greatest(j, '[]') = j", T, KNOWN)
