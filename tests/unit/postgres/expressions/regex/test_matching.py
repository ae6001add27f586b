"""Where regular expressions match (rule B26), on the manual's own examples.

``tests/conformance/test_row_filter_text.py`` compares them with the server's.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from subscriber.base.errors import NotSupportedError, RowFilterError
from subscriber.postgres.expressions.regex import Options, compile_regex

NO_OPTIONS = Options()


def parts(pattern: str, text: str) -> list[str | None] | None:
    found = compile_regex(pattern, NO_OPTIONS).find(text)
    return None if found is None else [None if span is None else text[slice(*span)] for span in found]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("Y*([0-9]{1,3})", "XY1234Z", ["Y123", "123"]),
        ("Y*?([0-9]{1,3})", "XY1234Z", ["Y1", "1"]),
        ("(.*)(\\d+)(.*)", "abc01234xyz", ["abc01234xyz", "abc0123", "4", "xyz"]),
        ("(.*?)(\\d+)(.*)", "abc01234xyz", ["abc0", "abc", "0", ""]),
        ("(?:(.*?)(\\d+)(.*)){1,1}", "abc01234xyz", ["abc01234xyz", "abc", "01234", "xyz"]),
    ],
)
def test_the_first_quantifier_with_a_preference_decides_how_long_the_whole_is(pattern, text, expected):
    """B26: the manual's examples, section "Regular Expression Matching Rules"."""
    assert parts(pattern, text) == expected


def test_alternatives_prefer_the_longest_and_parts_the_first_that_fits():
    """B26: not the first alternative that matches, as Perl has it."""
    assert parts("a|ab|abc", "abcd") == ["abc"]
    assert parts("(a|ab)(c|bcd)(d*)", "abcd") == ["abcd", "ab", "c", "d"]


def test_an_iteration_holds_what_its_last_time_matched():
    """B26."""
    assert parts("(?:(a)|(b)|c)+", "abc") == ["abc", None, None]
    assert parts("(a|b)*", "ab") == ["ab", "b"]


def test_a_back_reference_sees_one_way_to_dissect_what_is_before_it():
    """B26: another division of the first pair would fit; PostgreSQL does not look for it."""
    assert parts("^((a*)(a*))\\2$", "aaa") is None
    assert parts("^(a*)\\1$", "aaaa") == ["aaaa", "aa"]
    assert parts("(?i)(ab)\\1", "xaBAb") == ["aBAb", "aB"]
    assert parts("(a){0}\\1?b", "b") is None


def test_lines_are_nothing_special_unless_asked_for():
    """B26: options n, p and w."""
    assert parts("^b", "a\nb") is None
    assert parts("a$", "a\n") is None
    assert parts("a.b", "a\nb") == ["a\nb"]
    assert parts("(?n)^b$", "a\nb\nc") == ["b"]
    assert parts("(?w)a.^b$", "a\nb\nc") == ["a\nb"]
    assert parts("(?p)[^x]*", "a\nb") == ["a"]


def test_matches_go_on_behind_the_last_and_empty_ones_by_a_character():
    """B26."""
    found = [spans[0] for spans in compile_regex("b*", NO_OPTIONS).find_all("abba")]
    assert found == [(0, 0), (1, 3), (3, 3), (4, 4)]


def test_what_is_no_regular_expression_is_refused():
    """B26: 2201B; the reasons are in test_regex_scanner.py and test_regex_parser.py."""
    with pytest.raises(RowFilterError) as caught:
        compile_regex("a(", NO_OPTIONS)
    assert caught.value.sqlstate == "2201B"


def test_a_search_begins_where_it_is_asked_to():
    regex = compile_regex("^a|b", NO_OPTIONS)
    assert regex.find("ab") == [(0, 1)]
    assert regex.find("ab", 1) == [(1, 2)]
    assert regex.find("ab", 2) is None
    assert list(regex.find_all("abab", 2)) == [[(3, 4)]]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("(a*)*", "aa", ["aa", "aa"]),
        ("(a|ab)*?c", "aabc", ["aabc", "ab"]),
        ("(?:(a)|b)*", "ab", ["ab", None]),
        ("(a)?b", "b", ["b", None]),
        ("(a){2}", "aa", ["aa", "a"]),
        (r"(a*)b\1", "aabaa", ["aabaa", "aa"]),
        (r"(a*)b\1", "aaba", ["aba", "a"]),
        (r"(a|b)\1{2}", "abbb", ["bbb", "b"]),
        (r"(x*)\1*", "", ["", ""]),
    ],
)
def test_captures_hold_their_last_match(pattern, text, expected):
    """``regexp_match`` of PostgreSQL 18 returns the same."""
    assert parts(pattern, text) == expected


def test_an_expression_is_compiled_once():
    assert compile_regex("abc", NO_OPTIONS) is compile_regex("abc", Options())
    assert compile_regex("abc", NO_OPTIONS).matches("xabcx")
    assert not compile_regex("abc", NO_OPTIONS).matches("ABC")
    assert compile_regex("abc", Options(ignore_case=True)).matches("ABC")


@pytest.mark.parametrize("pattern", ["(?e)a", "(?b)a", "((a{255}){255}){2}", "(" * 2000 + ")" * 2000])
def test_what_cannot_be_exact_is_refused(pattern):
    """B26: POSIX's own syntaxes, and sizes at which the server gives up somewhere."""
    with pytest.raises(NotSupportedError):
        compile_regex(pattern, NO_OPTIONS)


@pytest.mark.parametrize(
    ("pattern", "knows"),
    [
        ("^[a-z]+é.$", False),
        ("(?i)12-3", False),
        ("[[:xdigit:]]", False),
        ("(?i)a", True),
        ("(?i)[0-9]", True),
        ("\\d", True),
        ("[^[:alpha:]]", True),
        ("\\mx", True),
    ],
)
def test_a_collation_matters_where_letters_are_known(pattern, knows):
    """B26: ranges are code points by any collation; classes, words and cases are not."""
    assert compile_regex(pattern, NO_OPTIONS).knows_letters is knows


@pytest.mark.parametrize("pattern", ["\\mab", "a\\M", "a(?=b)", "(?<!a)b", "(a)\\1", "\\Yé"])
def test_what_re2_has_not_is_matched_by_the_automaton(pattern):
    """B26: ``\\Y`` among them, which RE2 finds between the bytes of a character."""
    assert compile_regex(pattern, NO_OPTIONS).re2 is None


def test_re2_is_given_characters_and_not_classes_of_its_own():
    """B26: its newlines, letters and empty classes are not asked for."""
    texts = ["", "\n", "a\n", "é", "٣", "_", "😀"]
    for pattern in (".", "^.$", "\\w", "[^\\w]", "[^\\s\\S]", "\\d|^$", "\\y", "[é-😀]"):
        regex = compile_regex(pattern, NO_OPTIONS)
        assert regex.re2 is not None
        found = pc.match_substring_regex(pa.array(texts), regex.re2).to_pylist()
        assert found == [regex.matches(text) for text in texts]
