"""Writes expressions in the notation of RE2, which Arrow's kernels use.

Characters are written as ranges, so that the result does not depend on RE2's character classes.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.filters.regex.characters import EVERYTHING, CharacterSet
from subscriber.filters.regex.languages import Anchor, Character, Choice, Expression, Repeat, Sequence

_ANCHORS: Final = {
    "begin": r"\A",
    "end": r"\z",
    "line begin": "(?m:^)",
    "line end": "(?m:$)",
    "boundary": r"\b",
}
"""``\\B`` is missing: RE2 works on bytes, and would find such a place between the bytes of one
character.
"""

_PLAIN: Final = re.compile(r"[0-9A-Za-z ]")


def in_re2(expression: Expression) -> str | None:
    """Return the expression for ``match_substring_regex``.

    Returns:
        None if RE2 cannot express it, or refuses it as too large.
    """
    try:
        pattern = _written(expression)
        pc.match_substring_regex(pa.array([""]), pattern)
    except (LookupError, pa.ArrowInvalid):
        return None
    return pattern


def _written(expression: Expression) -> str:
    match expression:
        case Character(ranges):
            return _characters(ranges)
        case Sequence(items):
            return "".join(map(_written, items))
        case Choice(branches):
            return f"(?:{'|'.join(map(_written, branches))})"
        case Repeat(item, least, most):
            bounds = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
            if bounds is None:
                bounds = f"{{{least},{'' if most is None else most}}}"
            return f"(?:{_written(item)}){bounds}"
        case Anchor(kind):
            return _ANCHORS[kind]
    raise LookupError


def _characters(ranges: CharacterSet) -> str:
    if ranges == EVERYTHING:
        return "(?s:.)"
    if not ranges:
        return rf"[^\x{{0}}-\x{{{EVERYTHING[0][1]:X}}}]"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _code(ranges[0][0])
    return (
        "["
        + "".join(_code(first) if first == last else f"{_code(first)}-{_code(last)}" for first, last in ranges)
        + "]"
    )


def _code(code: int) -> str:
    character = chr(code)
    return character if _PLAIN.fullmatch(character) else f"\\x{{{code:X}}}"
