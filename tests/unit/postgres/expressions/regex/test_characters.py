"""Sets of characters: union, complement, cases and membership."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.expressions.regex.automaton import (
    CLASSES,
    EVERYTHING,
    NEWLINE,
    CharacterSet,
    complement,
    contains,
    union,
    with_both_cases,
)

LAST = 0x10FFFF
RANGES = st.tuples(st.integers(0, LAST), st.integers(0, 300)).map(lambda one: (one[0], min(one[0] + one[1], LAST)))
SETS = st.lists(RANGES, max_size=6).map(lambda ranges: union([tuple(ranges)]))


def of(text: str) -> CharacterSet:
    return union([tuple((ord(one), ord(one)) for one in text)])


def test_a_union_joins_ranges_that_touch_or_overlap():
    assert union([((5, 7),), ((1, 2), (8, 9)), ((6, 6),)]) == ((1, 2), (5, 9))
    assert union([]) == ()


def test_a_complement_has_all_other_characters():
    assert complement(NEWLINE) == ((0, 9), (11, LAST))
    assert complement(()) == EVERYTHING
    assert complement(EVERYTHING) == ()
    assert complement(((0, 5), (LAST, LAST))) == ((6, LAST - 1),)


def test_both_cases_are_those_of_ascii_letters():
    assert with_both_cases(of("aZ1")) == of("aAzZ1")
    assert with_both_cases(of("é")) == of("é")
    assert with_both_cases(((ord("X"), ord("b")),)) == union([((ord("X"), ord("b")),), of("xyzAB")])


@pytest.mark.parametrize(
    ("name", "characters"),
    [
        ("alpha", string.ascii_letters),
        ("digit", string.digits),
        ("alnum", string.ascii_letters + string.digits),
        ("word", string.ascii_letters + string.digits + "_"),
        ("upper", string.ascii_uppercase),
        ("lower", string.ascii_lowercase),
        ("punct", string.punctuation),
        ("space", " \t\n\v\f\r"),
        ("blank", " \t"),
        ("xdigit", string.hexdigits),
        ("graph", string.ascii_letters + string.digits + string.punctuation),
        ("print", string.ascii_letters + string.digits + string.punctuation + " "),
    ],
)
def test_a_class_has_the_characters_of_collation_c(name, characters):
    assert CLASSES[name] == of(characters)


@given(SETS, st.characters())
def test_a_character_is_in_a_set_or_in_its_complement(ranges, character):
    assert contains(ranges, character) != contains(complement(ranges), character)


@given(SETS, SETS, st.characters())
def test_a_union_has_the_characters_of_both(left, right, character):
    assert contains(union([left, right]), character) == (contains(left, character) or contains(right, character))


@given(SETS)
def test_the_complement_of_the_complement_is_the_set(ranges):
    assert complement(complement(ranges)) == ranges
