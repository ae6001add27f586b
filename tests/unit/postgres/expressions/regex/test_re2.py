"""Expressions in the notation of RE2: Arrow finds what the expression means, or there is none."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from subscriber.postgres.expressions.regex.automaton import (
    EMPTY,
    EVERYTHING,
    Alternatives,
    Anchor,
    Character,
    Lookaround,
    Repeat,
    Sequence,
)
from subscriber.postgres.expressions.regex.matching import in_re2

A, B, DOT = Character(((97, 97),)), Character(((98, 98),)), Character(((46, 46),))


@pytest.mark.parametrize(
    ("expression", "pattern"),
    [
        (A, "a"),
        (DOT, r"\x{2E}"),
        (Character(((97, 99), (0x1F600, 0x1F600))), r"[a-c\x{1F600}]"),
        (Character(EVERYTHING), "(?s:.)"),
        (EMPTY, ""),
        (Sequence((A, B)), "ab"),
        (Alternatives((A, B)), "(?:a|b)"),
        (Repeat(A, 0, None), "(?:a)*"),
        (Repeat(A, 1, None), "(?:a)+"),
        (Repeat(A, 0, 1), "(?:a)?"),
        (Repeat(A, 2, 3), "(?:a){2,3}"),
        (Repeat(A, 2, None), "(?:a){2,}"),
        (Sequence((Anchor("begin"), A, Anchor("end"))), r"\Aa\z"),
        (Sequence((Anchor("line begin"), Anchor("line end"))), "(?m:^)(?m:$)"),
        (Anchor("boundary"), r"\b"),
    ],
)
def test_an_expression_is_written(expression, pattern):
    assert in_re2(expression) == pattern


@pytest.mark.parametrize(
    "expression",
    [
        Anchor("no boundary"),
        Anchor("word begin"),
        Anchor("word end"),
        Sequence((A, Lookaround(B, ahead=True, negative=False))),
        Repeat(Repeat(A, 255, 255), 255, 255),
    ],
    ids=["no boundary", "word begin", "word end", "look", "too large"],
)
def test_what_re2_cannot_express_has_no_notation(expression):
    assert in_re2(expression) is None


def test_the_empty_set_matches_no_character():
    pattern = in_re2(Character(()))
    assert pattern is not None
    assert pc.match_substring_regex(pa.array(["", "a", "\n", "😀"]), pattern).to_pylist() == [False] * 4
