"""``~`` and the ``regexp_…`` functions: the examples of the manual (9.7), and when a
pattern depends on the collation (rules B24, B26).
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import RowFilterError
from tests.filter_expressions import failure, implementation, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # The table of regular expression match operators.
        ("'thomas' ~ 't.*ma'", "t"),
        ("'thomas' ~* 'T.*ma'", "t"),
        ("'thomas' !~ 't.*max'", "t"),
        ("'thomas' !~* 'T.*ma'", "f"),
        ("'abcd' ~ 'a.c'", "t"),
        # substring.
        ("substring('foobar' from 'o.b')", "oob"),
        ("substring('foobar' from 'o(.)b')", "o"),
        ("substring('foobar' from 'x')", None),
        ("substring('Thomas' similar '%#\"o_a#\"_' escape '#')", "oma"),
        ("substring('foobar' similar '#\"o_b#\"%' escape '#')", None),
        # regexp_count.
        ("regexp_count('ABCABCAXYaxy', 'A.')", "3"),
        ("regexp_count('ABCABCAXYaxy', 'A.', 1, 'i')", "4"),
        ("regexp_count('abc', '', 2)", "3"),
        # regexp_instr.
        ("regexp_instr('number of your street, town zip, FR', '[^,]+', 1, 2)", "23"),
        ("regexp_instr('ABCDEFGHI', '(c..)(...)', 1, 1, 0, 'i', 2)", "6"),
        ("regexp_instr('ABCDEF', 'c(.)(..)', 1, 1, 1, 'i')", "7"),
        ("regexp_instr('abc', 'x')", "0"),
        ("regexp_instr('abc', 'a', 1, 1, 0, '', 2)", "0"),
        # regexp_like.
        ("regexp_like('Hello World', 'world')", "f"),
        ("regexp_like('Hello World', 'world', 'i')", "t"),
        # regexp_match.
        ("regexp_match('foobarbequebaz', 'bar.*que')", "{barbeque}"),
        ("regexp_match('foobarbequebaz', '(bar)(beque)')", "{bar,beque}"),
        ("regexp_match('foo', 'x')", None),
        ("regexp_match('b', '(a)|(b)')", "{NULL,b}"),
        # regexp_replace.
        ("regexp_replace('foobarbaz', 'b..', 'X')", "fooXbaz"),
        ("regexp_replace('foobarbaz', 'b..', 'X', 'g')", "fooXX"),
        (r"regexp_replace('foobarbaz', 'b(..)', 'X\1Y', 'g')", "fooXarYXazY"),
        ("regexp_replace('A PostgreSQL function', 'a|e|i|o|u', 'X', 1, 0, 'i')", "X PXstgrXSQL fXnctXXn"),
        ("regexp_replace('A PostgreSQL function', 'a|e|i|o|u', 'X', 1, 3, 'i')", "A PostgrXSQL function"),
        ("regexp_replace('Thomas', '.[mN]a.', 'M')", "ThM"),
        (r"regexp_replace('abc', 'b', '[\&\\]')", r"a[b\]c"),
        (r"regexp_replace('abc', 'b', '\2')", "ac"),
        ("regexp_replace('aaa', 'a', 'b', 2)", "aba"),
        ("regexp_replace('aaa', 'a', 'b', 2, 2)", "aab"),
        ("regexp_replace('aaa', 'a', 'b', 1, 4)", "aaa"),
        # regexp_split_to_array.
        (r"regexp_split_to_array('hello world', '\s+')", "{hello,world}"),
        (r"regexp_split_to_array('the quick', '\s*')", "{t,h,e,q,u,i,c,k}"),
        ("regexp_split_to_array('AbC', 'B', 'i')", "{A,C}"),
        ("regexp_split_to_array('a,b,', ',')", '{a,b,""}'),
        # regexp_substr.
        ("regexp_substr('number of your street, town zip, FR', '[^,]+', 1, 2)", " town zip"),
        ("regexp_substr('ABCDEFGHI', '(c..)(...)', 1, 1, 'i', 2)", "FGH"),
        ("regexp_substr('abc', 'x')", None),
        # Flags.
        ("regexp_like('a\nb', 'a.b', 'n')", "f"),
        ("regexp_like('ab', 'a b', 'x')", "t"),
        ("regexp_like('a.b', 'a.b', 'q')", "t"),
        ("regexp_like('axb', 'a.b', 'q')", "f"),
        ("regexp_like('A', 'a', 'ic')", "f"),
        ("'abc' ~ NULL", None),
        ("NULL::text ~ 'a'", None),
        ("regexp_replace('a', 'a', NULL)", None),
        ("regexp_match('a', 'a', NULL)", None),
    ],
)
def test_regular_expressions(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("'a' ~ '('", "2201B", "invalid regular expression: parentheses () not balanced"),
        ("regexp_count('a', 'a', 0)", "22023", 'invalid value for parameter "start"'),
        ("regexp_instr('a', 'a', 1, 0)", "22023", 'invalid value for parameter "n"'),
        ("regexp_instr('a', 'a', 1, 1, 2)", "22023", 'invalid value for parameter "endoption"'),
        ("regexp_instr('a', 'a', 1, 1, 0, '', -1)", "22023", 'invalid value for parameter "subexpr"'),
        ("regexp_substr('a', 'a', 1, 1, '', -1)", "22023", 'invalid value for parameter "subexpr"'),
        ("regexp_replace('a', 'a', 'b', 0)", "22023", 'invalid value for parameter "start"'),
        ("regexp_replace('a', 'a', 'b', 1, -1)", "22023", 'invalid value for parameter "n"'),
        ("regexp_like('a', 'a', 'g')", "22023", 'regexp_like() does not support the "global" option'),
        ("regexp_match('a', 'a', 'g')", "22023", 'regexp_match() does not support the "global" option'),
        # The numbers are checked before the regular expression is parsed.
        ("regexp_count('a', '(', 0)", "22023", 'invalid value for parameter "start"'),
    ],
)
def test_the_error_of_a_regular_expression(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)


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
