"""The tree of dissection: a leaf where the parts of a match are not needed, else their shape."""

from __future__ import annotations

from typing import assert_never

import pytest

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.regex.automaton import EMPTY, Alternatives, Character, Repeat, Sequence
from subscriber.postgres.expressions.regex.regex_parser import (
    Branches,
    Iteration,
    Leaf,
    Options,
    Pair,
    Parsed,
    Reference,
    RegexNode,
    Traits,
    Wrapper,
    parse,
)

A, B, C = (Character(((code, code),)) for code in b"abc")


def parsed(pattern: str) -> Parsed:
    return parse(pattern, Options())


def shape(node: RegexNode) -> str:
    """The tree as text; a capture is its number and a colon in front."""
    capture = f"{node.capture}:" if node.capture else ""
    below = ", ".join(map(shape, node.children))
    match node:
        case Leaf():
            return f"{capture}leaf"
        case Pair():
            return f"{capture}pair({below})"
        case Branches():
            return f"{capture}branches({below})"
        case Iteration():
            return f"{capture}iteration({below}, {node.least}-{node.most})"
        case Wrapper():
            return f"{capture}wrapper({below})"
        case Reference():
            return f"{capture}reference({node.number}, {node.least}-{node.most})"
    assert_never(node)


@pytest.mark.parametrize(
    ("pattern", "expression"),
    [
        ("", EMPTY),
        ("a", A),
        ("ab", Sequence((A, B))),
        ("a|b", Alternatives((A, B))),
        ("a*", Repeat(A, 0, None)),
        ("(?:ab)+c", Sequence((Repeat(Sequence((A, B)), 1, None), C))),
        ("a{0}b", Sequence((EMPTY, B))),
        ("a{1}", A),
    ],
)
def test_a_pattern_without_parts_is_a_leaf(pattern, expression):
    tree = parsed(pattern).tree
    assert isinstance(tree, Leaf)
    assert tree.expression == expression


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("(a)", "1:leaf"),
        ("a(b)", "pair(leaf, 1:leaf)"),
        ("(a)b", "pair(1:leaf, leaf)"),
        ("a(b)c", "pair(leaf, pair(1:leaf, leaf))"),
        ("(a)(b)", "pair(1:leaf, 2:leaf)"),
        ("((a))", "1:wrapper(2:leaf)"),
        ("(a|b)", "1:leaf"),
        ("(a)|b", "branches(1:leaf, leaf)"),
        ("(a)*", "iteration(1:leaf, 0-None)"),
        ("(a)+", "pair(leaf, 1:leaf)"),
        ("(a){2,3}", "pair(leaf, 1:leaf)"),
        (r"(a)\1", "pair(1:leaf, reference(1, 1-1))"),
        (r"(a)\1*", "pair(1:leaf, reference(1, 0-None))"),
        (r"(a)(?:\1)+", "pair(1:leaf, iteration(reference(1, 1-1), 1-None))"),
        # A preference for a short match beside one for a long match needs their parts.
        ("a*b*", "leaf"),
        ("a*b*?", "pair(leaf, leaf)"),
        ("(?:a*?)(?:b*?)", "leaf"),
    ],
)
def test_parts_that_are_needed_are_nodes(pattern, expected):
    assert shape(parsed(pattern).tree) == expected


@pytest.mark.parametrize(
    ("pattern", "preference"),
    [
        ("a*", Traits.LONGER),
        ("a*?", Traits.SHORTER),
        ("a{2}", Traits(0)),
        ("a{2,3}?b*", Traits.SHORTER),
        ("a|b*?", Traits.LONGER),
        ("a", Traits(0)),
    ],
)
def test_the_first_quantifier_with_a_preference_has_it_for_the_whole(pattern, preference):
    assert parsed(pattern).tree.traits & (Traits.LONGER | Traits.SHORTER) == preference


def test_what_a_pattern_says_of_itself():
    plain = parsed("(a)(?:b)(c)")
    assert (plain.captures, plain.ignore_case, plain.has_references, plain.knows_letters) == (2, False, False, False)
    other = parsed(r"(?i)(a)\1")
    assert (other.captures, other.ignore_case, other.has_references, other.knows_letters) == (1, True, True, True)
    assert parsed("(?=(a))b").captures == 0


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a(", "parentheses () not balanced"),
        ("a)", "parentheses () not balanced"),
        ("(?=a", "parentheses () not balanced"),
        ("*a", "quantifier operand invalid"),
        ("a**", "quantifier operand invalid"),
        ("a|*", "quantifier operand invalid"),
        ("(*a)", "quantifier operand invalid"),
        (r"\1(a)", "invalid backreference number"),
        (r"(a)\2", "invalid backreference number"),
        (r"(a)(?=\1)", "invalid backreference number"),
        (r"(\1)", "invalid backreference number"),
    ],
)
def test_what_is_no_regular_expression_has_the_reason_of_the_server(pattern, reason):
    with pytest.raises(RowFilterError) as caught:
        parsed(pattern)
    assert (caught.value.sqlstate, caught.value.message) == ("2201B", f"invalid regular expression: {reason}")
