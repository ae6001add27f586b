"""Random patterns for LIKE, SIMILAR TO and regular expressions. Their alphabet is small, so that
many of them match.
"""

from __future__ import annotations

from random import Random
from typing import Final

ATOMS: Final = (
    "a", "b", "c", "ab", ".", "[ab]", "[^a]", "[a-c\\d]", "\\w", "\\W", "\\d", "\\s", "[[:upper:]]", "[[:alpha:]_]", "é", " ", "\\n", "\\.",
    "\\u00e9", "[]a]", "[^]a]", "[a-]", "\\x41", "[[.hyphen.]a]", "[[=a=]]", "_", "(?#x)a",
)  # fmt: skip
ANCHORS: Final = ("^", "$", "\\m", "\\M", "\\y", "\\Y", "\\A", "\\Z", "[[:<:]]", "[[:>:]]")
QUANTIFIERS: Final = ("*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?", "{2,}", "{1}?", "{1,1}?", "{0}")
REFERENCES: Final = ("\\1", "\\1*", "\\1+", "\\1{2}", "\\2?")
OPTIONS: Final = ("(?i)", "(?n)", "(?p)", "(?w)", "(?x)", "(?in)", "(?s)", "***:", "***=", "(?q)")


def regular_expression(random: Random, *, references: bool = False) -> str:
    """A regular expression. With ``references`` most of them have back references."""
    expression = _alternatives(random, 3)
    if references:
        expression = f"({_alternatives(random, 1)}){_branch(random, 1)}{random.choice(REFERENCES)}{_branch(random, 1)}"
    return random.choice(OPTIONS) + expression if random.random() < 0.15 else expression


def _alternatives(random: Random, depth: int) -> str:
    return "|".join(_branch(random, depth) for _ in range(random.choice([1, 1, 1, 2, 3])))


def _branch(random: Random, depth: int) -> str:
    least = 0 if random.random() < 0.1 else 1
    return "".join(_piece(random, depth) for _ in range(random.randint(least, 4)))


def _piece(random: Random, depth: int) -> str:
    kind = random.random()
    if depth and 0.9 < kind < 0.95:
        return random.choice(["(?=", "(?!", "(?<=", "(?<!"]) + _alternatives(random, depth - 1) + ")"
    if kind >= 0.95:
        return random.choice(ANCHORS)
    if depth and kind < 0.35:
        atom = random.choice(["(", "(", "(?:"]) + _alternatives(random, depth - 1) + ")"
    else:
        atom = random.choice(ATOMS)
    return atom + random.choice(QUANTIFIERS) if random.random() < 0.45 else atom


def subject(random: Random) -> str:
    """A text to match with such expressions."""
    return "".join(random.choice("aaabbbcAB1 é\n_-.") for _ in range(random.randint(0, 8)))


def like_pattern(random: Random) -> str:
    """A pattern for LIKE."""
    pieces = ("%", "%", "_", "a", "b", "A", "é", "\\%", "\\_", "\\\\", "\\a", "ab", "\n", "😀")
    pattern = "".join(random.choice(pieces) for _ in range(random.randint(0, 5)))
    return pattern + "\\" if random.random() < 0.05 else pattern


def similar_pattern(random: Random) -> str:
    """A pattern for SIMILAR TO; some use ``#`` as the escape character."""
    pieces = (
        "%",
        "_",
        "a",
        "b",
        "(a|b)",
        "[ab]",
        "[^a]",
        "+",
        "*",
        "{2}",
        "#%",
        '#"',
        ".",
        "^",
        "$",
        "\\",
        "é",
        "|",
        "[a#]]",
        "[]a]",
    )
    return "".join(random.choice(pieces) for _ in range(random.randint(0, 6)))
