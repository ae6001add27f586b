"""text, character varying, character, name and "char": comparison, casts and lengths."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.filter_expressions import failure, implementation, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # Bytes are compared; UTF-8 orders them as code points.
        ("'a'::text = 'a'", "t"),
        ("'a'::text <> 'b'", "t"),
        ("'Z' COLLATE \"C\" < 'a'", "t"),
        ("'a' COLLATE \"C\" <= 'ab'", "t"),
        ("'é' COLLATE \"C\" > 'z'", "t"),
        ("'b' COLLATE \"C\" >= 'b'", "t"),
        ("'😀' COLLATE \"C\" > '\uffff'", "t"),
        ("'a'::text ~<~ 'b'", "t"),
        ("'b'::text ~>=~ 'b'", "t"),
        ("text_larger('a' COLLATE \"C\", 'b')", "b"),
        ("text_smaller('a' COLLATE \"C\", 'b')", "a"),
        ("'a'::name = 'a'::text", "t"),
        ("'a'::name COLLATE \"C\" < 'b'::text", "t"),
        ("'a'::text COLLATE \"C\" > 'A'::name", "t"),
        # The blanks at the end of character(n) do not count.
        ("'ab  '::char(4) = 'ab'::char(2)", "t"),
        ("'ab  '::char(4) COLLATE \"C\" < 'ab c'::char(4)", "t"),
        ("length('ab  '::char(4))", "2"),
        ("octet_length('ab  '::char(4))", "4"),
        ("'ab  '::char(4) || 'c'", "abc"),
        ("'ab  '::char(4)::text || 'c'", "abc"),
        ("bpchar_larger('a ' COLLATE \"C\", 'b ')", "b "),
        # Casts.
        ("'abcdef'::varchar(3)", "abc"),
        ("'abcdef'::char(3)", "abc"),
        ("'ab'::char(4)::varchar(4)", "ab"),
        ("repeat('a', 70)::name::text", "a" * 63),
        ("'a'::\"char\"::integer", "97"),
        ('(-1)::"char"::integer', "-1"),
        ('97::"char"', "a"),
        ("'a'::\"char\" < 'b'::\"char\"", "t"),
        ('(-1)::"char" > \'b\'::"char"', "t"),
        # Lengths, in characters, bytes and bits.
        ("char_length('josé')", "4"),
        ("octet_length('josé')", "5"),
        ("bit_length('jose')", "32"),
        ("length('😀')", "1"),
        ("'Value: ' || 'x'", "Value: x"),
        ("lower('TOM' COLLATE \"C\")", "tom"),
        ("upper('tom' COLLATE \"C\")", "TOM"),
        ("upper('é' COLLATE \"C\")", "é"),
        ("casefold('TOM' COLLATE \"C\")", "tom"),
        ("NULL::text || 'a'", None),
        ("length(NULL)", None),
        ("NULL::char(3) = 'a'", None),
    ],
)
def test_text(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ('128::"char"', "22003", '"char" out of range'),
        ('(-129)::"char"', "22003", '"char" out of range'),
    ],
)
def test_the_error_of_a_cast(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)


def test_blanks_at_the_end_of_character_count_where_postgresql_says():
    """B11: the table in ``functions/text_functions.py``."""
    padded = pa.array(["ab  ", " ab", "ab"])

    def found(signature: str, *others: object) -> list[object]:
        values: list[object] = implementation(signature).function(padded, *others).to_pylist()
        return values

    assert found("bpchareq(bpchar,bpchar)", pa.array(["ab", "ab", "ab "])) == [True, False, True]
    assert found("bpcharlt(bpchar,bpchar)", pa.array(["ab", "ab", "abc "])) == [False, True, True]
    assert found("length(bpchar)") == [2, 3, 2]
    assert found("octet_length(bpchar)") == [4, 3, 2]
    assert found("text(bpchar)") == ["ab", " ab", "ab"]
