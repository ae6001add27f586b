"""Traits of nodes: what a node inherits, and which preference a sequence has (``regguts.h``)."""

from __future__ import annotations

import pytest

from subscriber.postgres.expressions.regex.regex_parser import PREFERENCES, Traits, combined, inherited

NONE = Traits(0)
LONGER, SHORTER, MIXED, CAPTURES, REFERS = Traits


@pytest.mark.parametrize(
    ("traits", "expected"),
    [
        (NONE, NONE),
        (LONGER, NONE),
        (SHORTER, NONE),
        (PREFERENCES, MIXED),
        (LONGER | CAPTURES, CAPTURES),
        (PREFERENCES | REFERS, MIXED | REFERS),
        (MIXED, MIXED),
    ],
)
def test_a_preference_is_not_inherited_but_two_of_them_are_mixed(traits, expected):
    assert inherited(traits) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (LONGER, NONE, LONGER),
        (NONE, SHORTER, SHORTER),
        (LONGER, SHORTER, LONGER | MIXED),
        (SHORTER, LONGER, SHORTER | MIXED),
        (CAPTURES, LONGER | REFERS, LONGER | CAPTURES | REFERS),
        (NONE, NONE, NONE),
    ],
)
def test_the_first_preference_of_a_sequence_decides(first, second, expected):
    assert combined(first, second) == expected
