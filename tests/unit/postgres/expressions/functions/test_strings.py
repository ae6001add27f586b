"""String functions: the examples of the manual (9.4), bounds, NULL and errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # The tables of string functions.
        ("btrim('xyxtrimyyx', 'xyz')", "trim"),
        ("ltrim('zzzytest', 'xyz')", "test"),
        ("rtrim('testxxzx', 'xyz')", "test"),
        ("trim(both from '  test ')", "test"),
        ("overlay('Txxxxas' placing 'hom' from 2 for 4)", "Thomas"),
        ("overlay('Txxxas' placing 'hom' from 2)", "Thomas"),
        ("position('om' in 'Thomas')", "3"),
        ("substring('Thomas' from 2 for 3)", "hom"),
        ("substring('Thomas' from 3)", "omas"),
        ("substring('Thomas' for 2)", "Th"),
        ("ascii('x')", "120"),
        ("ascii('€')", "8364"),
        ("ascii('')", "0"),
        ("chr(65)", "A"),
        ("chr(128512)", "😀"),
        ("initcap('hi THOMAS')", "Hi Thomas"),
        ("left('abcde', 2)", "ab"),
        ("left('abcde', -2)", "abc"),
        ("lpad('hi', 5, 'xy')", "xyxhi"),
        ("lpad('hi', 5)", "   hi"),
        ("lpad('hello', 2, 'xy')", "he"),
        ("rpad('hi', 5, 'xy')", "hixyx"),
        ("rpad('hi', 5)", "hi   "),
        ("md5('abc')", "900150983cd24fb0d6963f7d28e17f72"),
        ("quote_literal(E'O\\'Reilly')", "'O''Reilly'"),
        ("quote_literal('a\\b')", "E'a\\\\b'"),
        ("quote_nullable(NULL::text)", "NULL"),
        ("quote_ident('Foo bar')", '"Foo bar"'),
        ("quote_ident('select')", '"select"'),
        ("quote_ident('foo')", "foo"),
        ("quote_nullable('a'::text)", "'a'"),
        ("repeat('Pg', 4)", "PgPgPgPg"),
        ("repeat('Pg', -1)", ""),
        ("replace('abcdefabcdef', 'cd', 'XX')", "abXXefabXXef"),
        ("replace('abc', '', 'X')", "abc"),
        ("reverse('abcde')", "edcba"),
        ("right('abcde', 2)", "de"),
        ("right('abcde', -2)", "cde"),
        ("right('abcde', 0)", ""),
        ("split_part('abc~@~def~@~ghi', '~@~', 2)", "def"),
        ("split_part('abc,def,ghi,jkl', ',', -2)", "ghi"),
        ("split_part('abc', ',', 2)", ""),
        ("split_part('abc', '', 1)", "abc"),
        ("starts_with('alphabet', 'alph')", "t"),
        ("'alphabet' ^@ 'bet'", "f"),
        ("string_to_array('xx~~yy~~zz', '~~', 'yy')", "{xx,NULL,zz}"),
        ("string_to_array('abc', NULL)", "{a,b,c}"),
        ("string_to_array('abc', '')", "{abc}"),
        ("string_to_array('', ',')", "{}"),
        ("strpos('high', 'ig')", "2"),
        ("strpos('high', '')", "1"),
        ("strpos('high', 'x')", "0"),
        ("substr('alphabet', 3)", "phabet"),
        ("substr('alphabet', 3, 2)", "ph"),
        ("to_bin(2147483647)", "1111111111111111111111111111111"),
        ("to_bin(-1234)", "11111111111111111111101100101110"),
        ("to_hex(2147483647)", "7fffffff"),
        ("to_hex(-1234)", "fffffb2e"),
        ("to_hex((-1)::bigint)", "ffffffffffffffff"),
        ("to_oct(2147483647)", "17777777777"),
        ("to_oct(-1234)", "37777775456"),
        ("translate('12345', '143', 'ax')", "a2x5"),
        ("unistr('d\\0061t\\+000061')", "data"),
        ("unistr('d\\u0061t\\U00000061')", "data"),
        ("unistr('\\D83D\\DE00')", "😀"),
        ("unistr('a\\\\b')", "a\\b"),
        # Positions count characters, and a part may begin before the string.
        ("substr('abcdef', -1, 4)", "ab"),
        ("substr('abcdef', 0)", "abcdef"),
        ("substr('abcdef', 2147483647, 2147483647)", ""),
        ("substr('aé😀b', 3, 1)", "😀"),
        ("left('abc', -2147483648)", ""),
        ("right('abc', -2147483648)", "abc"),
        ("left(NULL, 1)", None),
        ("replace('a', NULL, 'b')", None),
        ("string_to_array(NULL, ',')", None),
        ("starts_with('a', NULL)", None),
    ],
)
def test_strings(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("substr('abc', 1, -1)", "22011", "negative substring length not allowed"),
        ("overlay('abc' placing 'x' from 0 for 1)", "22011", "negative substring length not allowed"),
        ("overlay('abc' placing 'x' from 2147483647 for 1)", "22003", "integer out of range"),
        ("split_part('a', ',', 0)", "22023", "field position must not be zero"),
        ("repeat('abc', 2147483647)", "54000", "requested length too large"),
        ("lpad('abc', 2147483647)", "54000", "requested length too large"),
        ("chr(0)", "54000", "null character not permitted"),
        ("chr(-1)", "22023", "character number must be positive"),
        ("chr(55296)", "54000", "requested character not valid for encoding"),
        ("chr(1114112)", "54000", "requested character too large for encoding"),
        ("unistr('\\x')", "42601", "invalid Unicode escape"),
        ("unistr('\\D83D')", "42601", "invalid Unicode surrogate pair"),
        ("unistr('\\DE00')", "42601", "invalid Unicode surrogate pair"),
        ("unistr('\\+110000')", "22023", "invalid Unicode code point"),
        ("unistr('\\0000')", "22023", "invalid Unicode code point"),
    ],
)
def test_the_error_of_a_string(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)


PLAIN = st.text(st.sampled_from("abé😀 "), max_size=8)


@given(PLAIN, st.integers(1, 10))
def test_left_and_right_divide_a_string(text, count):
    assert value(f"left('{text}', {count}) || right('{text}', {-count})") == text
