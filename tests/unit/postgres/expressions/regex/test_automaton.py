"""Automata: where a match may end, conditions at places, and the limit of states."""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.expressions.regex import automaton as automata
from subscriber.postgres.expressions.regex.automaton import (
    ANYTHING,
    EMPTY,
    MOST_STATES,
    Alternatives,
    Anchor,
    Automaton,
    Character,
    Language,
    Lookaround,
    Repeat,
    Sequence,
    Subject,
    sequence,
)

A, B = Character(((97, 97),)), Character(((98, 98),))


def ends(expression: Language, text: str, begin: int = 0) -> list[int]:
    return Automaton(expression).ends(Subject(text), begin)


@pytest.mark.parametrize(
    ("expression", "text", "expected"),
    [
        (A, "ab", [1]),
        (A, "b", []),
        (A, "", []),
        (EMPTY, "a", [0]),
        (Sequence((A, B)), "abb", [2]),
        (Alternatives((A, Sequence((A, B)))), "abb", [1, 2]),
        (Alternatives(()), "a", []),
        (Repeat(A, 0, None), "aab", [0, 1, 2]),
        (Repeat(A, 1, None), "aab", [1, 2]),
        (Repeat(A, 2, 2), "aaa", [2]),
        (Repeat(A, 1, 3), "aaaa", [1, 2, 3]),
        (Repeat(A, 0, 1), "b", [0]),
        (Repeat(Alternatives((EMPTY, A)), 0, None), "aa", [0, 1, 2]),
        (ANYTHING, "a\n", [0, 1, 2]),
    ],
)
def test_a_match_may_end_at_these_places(expression, text, expected):
    assert ends(expression, text) == expected
    assert Automaton(expression).first_end(Subject(text), 0) == (expected[0] if expected else None)


def test_a_match_begins_where_it_is_asked_to():
    assert ends(Repeat(A, 1, None), "baab", 1) == [2, 3]
    assert ends(Repeat(A, 1, None), "baab", 3) == []
    assert ends(EMPTY, "ab", 2) == [2]


@pytest.mark.parametrize(
    ("kind", "text", "places"),
    [
        ("begin", "a\nb", [0]),
        ("end", "a\nb", [3]),
        ("line begin", "a\nb", [0, 2]),
        ("line end", "a\nb", [1, 3]),
        ("word begin", "a _1 é", [0, 2]),
        ("word end", "a _1 é", [1, 4]),
        ("boundary", "a _1", [0, 1, 2, 4]),
        ("no boundary", "a _1", [3]),
        ("no boundary", "", [0]),
    ],
)
def test_an_anchor_holds_at_these_places(kind, text, places):
    """Letters are those of ASCII."""
    automaton, subject = Automaton(Anchor(kind)), Subject(text)
    assert [place for place in range(len(text) + 1) if automaton.ends(subject, place)] == places


@pytest.mark.parametrize(
    ("look", "places"),
    [
        (Lookaround(A, ahead=True, negative=False), [0, 2]),
        (Lookaround(A, ahead=True, negative=True), [1, 3]),
        (Lookaround(A, ahead=False, negative=False), [1, 3]),
        (Lookaround(A, ahead=False, negative=True), [0, 2]),
        (Lookaround(Repeat(B, 1, None), ahead=False, negative=False), [2]),
    ],
)
def test_a_lookaround_constraint_holds_at_these_places(look, places):
    automaton, subject = Automaton(look), Subject("aba")
    assert [place for place in range(4) if automaton.ends(subject, place)] == places


def test_a_search_finds_the_end_of_the_first_match():
    assert Automaton(sequence(ANYTHING, B)).first_end(Subject("aabab"), 0) == 3


def test_an_expression_with_too_many_states_is_refused():
    within = Repeat(A, 0, MOST_STATES // 2 - 2)
    assert ends(within, "aa") == [0, 1, 2]
    with pytest.raises(NotSupportedError, match="of this size") as caught:
        Automaton(Repeat(A, 0, MOST_STATES))
    assert caught.value.hint


def test_an_automaton_forgets_and_matches_on(monkeypatch):
    """bounded_memory: what it remembers does not grow with the rows."""
    monkeypatch.setattr(automata, "_MOST_REMEMBERED", 10)
    automaton = Automaton(A)
    for code in range(0x100, 0x200):
        assert automaton.ends(Subject(f"a{chr(code)}"), 0) == [1]
        assert automaton.ends(Subject(chr(code)), 0) == []
        assert automaton._remembered <= 20
