"""Expressions: how they are put together, taken apart, and freed of conditions."""

from __future__ import annotations

from subscriber.postgres.expressions.regex.automaton import (
    EMPTY,
    Alternatives,
    Anchor,
    Character,
    Lookaround,
    Repeat,
    Sequence,
    below,
    parts,
    repeated,
    sequence,
    without_conditions,
)

A, B = Character(((97, 97),)), Character(((98, 98),))
BEGIN = Anchor("begin")
AHEAD = Lookaround(B, ahead=True, negative=False)


def test_a_sequence_of_one_item_is_the_item():
    assert sequence(A) is A
    assert sequence(A, B) == Sequence((A, B))
    assert sequence() == EMPTY


def test_a_repetition_of_exactly_one_is_the_item():
    assert repeated(A, 1, 1) is A
    assert repeated(A, 0, 1) == Repeat(A, 0, 1)
    assert repeated(A, 1, None) == Repeat(A, 1, None)


def test_parts_are_the_expression_and_all_below_it():
    choice = Alternatives((Sequence((A, BEGIN)), Repeat(AHEAD, 0, None)))
    assert below(choice) == choice.branches
    assert below(A) == below(BEGIN) == ()
    assert list(parts(choice)) == [choice, choice.branches[0], A, BEGIN, choice.branches[1], AHEAD, B]


def test_conditions_are_replaced_by_the_empty_string():
    expression = Sequence((BEGIN, Alternatives((A, AHEAD)), Repeat(Sequence((B, BEGIN)), 2, 3)))
    assert without_conditions(expression) == Sequence(
        (EMPTY, Alternatives((A, EMPTY)), Repeat(Sequence((B, EMPTY)), 2, 3))
    )
