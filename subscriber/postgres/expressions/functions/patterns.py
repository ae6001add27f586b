"""LIKE, ILIKE and SIMILAR TO.

``x LIKE y ESCAPE z`` is ``x LIKE like_escape(y, z)``; ``x SIMILAR TO y`` is ``x ~
similar_to_escape(y)``.

A constant pattern is matched against whole columns: as a string comparison if that is sufficient,
otherwise by RE2. Other patterns are matched character by character, as the server does it: a
backslash at the end of a pattern is an error only if matching reaches it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.errors import NotSupportedError, RowFilterError
from subscriber.postgres.expressions.functions.collators import Collator
from subscriber.postgres.expressions.functions.function_table import Implementation, elementwise

_TOKEN: Final = re.compile(r"\\(.)|([%_])|([^%_\\]+)|(\\)", re.DOTALL)
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_TOO_FAR: Final = None
"""``LIKE_ABORT``: the string has ended, so later start positions are useless."""


def _bad_pattern() -> RowFilterError:
    return RowFilterError("LIKE pattern must not end with escape character", sqlstate="22025")


# --- step by step -----------------------------------------------------------------------------


def is_like(text: str, pattern: str) -> bool:
    return bool(_match(text, 0, pattern, 0))


def _match(text: str, place: int, pattern: str, at: int) -> bool | None:
    while place < len(text) and at < len(pattern):
        symbol = pattern[at]
        if symbol == "%":
            return _match_rest(text, place, pattern, at + 1)
        if symbol == "\\":
            at += 1
            if at == len(pattern):
                raise _bad_pattern()
        if (symbol == "\\" or symbol != "_") and pattern[at] != text[place]:
            return False
        place += 1
        at += 1
    if place < len(text):
        return False
    return True if not pattern[at:].strip("%") else _TOO_FAR


def _match_rest(text: str, place: int, pattern: str, at: int) -> bool | None:
    """Match the pattern after a ``%``. The first position at which it matches is sufficient."""
    while at < len(pattern) and pattern[at] in {"%", "_"}:
        if pattern[at] == "_":
            if place == len(text):
                return _TOO_FAR
            place += 1
        at += 1
    if at == len(pattern):
        return True
    if pattern[at:] == "\\":
        raise _bad_pattern()
    first = pattern[at + 1] if pattern[at] == "\\" else pattern[at]
    while (place := text.find(first, place)) >= 0:
        matched = _match(text, place, pattern, at)
        if matched is not False:
            return matched
        place += 1
    return _TOO_FAR


# --- over columns -----------------------------------------------------------------------------


def _as_tokens(pattern: str) -> list[str] | None:
    """Wildcards, and literals after ``=``; None if the pattern ends with a backslash."""
    tokens: list[str] = []
    for match in _TOKEN.finditer(pattern):
        escaped, wildcard, plain, stray = match.groups()
        if stray:
            return None
        if wildcard:
            if not (wildcard == "%" and tokens and tokens[-1] == "%"):
                tokens.append(wildcard)
        elif tokens and tokens[-1][0] == "=":
            tokens[-1] += escaped or plain
        else:
            tokens.append("=" + (escaped or plain))
    return tokens


def _column_test(pattern: str) -> Callable[[Any], Any] | None:
    """``LIKE pattern`` for a column; None for what is matched character by character."""
    match _as_tokens(pattern):
        case None:
            return None
        case []:
            return partial(_is_equal, "")
        case ["%"]:
            return _is_something
        case [plain] if plain != "_":
            return partial(_is_equal, plain[1:])
        case [plain, "%"] if plain != "_":
            return partial(pc.starts_with, pattern=plain[1:])
        case ["%", plain] if plain != "_":
            return partial(pc.ends_with, pattern=plain[1:])
        case ["%", plain, "%"] if plain != "_":
            return partial(pc.match_substring, pattern=plain[1:])
        case tokens:
            written = "".join({"%": ".*", "_": "."}.get(one) or _literally(one[1:]) for one in tokens)
            test = partial(pc.match_substring_regex, pattern=rf"(?s)\A{written}\z")
    try:
        test(pa.array([""]))
    except pa.ArrowInvalid:
        return None  # the regular expression is too large for RE2
    return test


def _is_equal(text: str, value: Any) -> Any:
    return pc.equal(value, pa.scalar(text))


def _is_something(value: Any) -> Any:
    return pc.if_else(pc.is_valid(value), True, pa.scalar(None, pa.bool_()))


def _literally(text: str) -> str:
    return "".join(f"\\x{{{ord(character):X}}}" for character in text)


def _column_like(test: Callable[[Any], Any], ignore_case: bool, negative: bool, value: Any, _: Any) -> Any:
    found = test(pc.ascii_lower(value) if ignore_case else value)
    return pc.invert(found) if negative else found


def _with_constant_pattern(
    ignore_case: bool, negative: bool, implementation: Implementation, constants: Mapping[int, Any]
) -> Implementation:
    pattern = constants.get(1)
    if pattern is None:
        return implementation
    test = _column_test(pattern.translate(_LOWER) if ignore_case else pattern)
    if test is None:
        return implementation
    function = partial(_column_like, test, ignore_case, negative)
    return dataclasses.replace(implementation, function=function, vectorised=True, raises=False, specialise=None)


def _ilike_by(negative: bool, collator: Collator) -> Callable[[str, str], bool]:
    return lambda value, pattern: is_like(collator.lower(value), collator.lower(pattern)) != negative


elementwise(
    "textlike(text,text)",
    "like(text,text)",
    "bpcharlike(bpchar,text)",
    "namelike(name,text)",
    "like(name,text)",
    specialise=partial(_with_constant_pattern, False, False),
)(is_like)
elementwise(
    "textnlike(text,text)",
    "notlike(text,text)",
    "bpcharnlike(bpchar,text)",
    "namenlike(name,text)",
    "notlike(name,text)",
    specialise=partial(_with_constant_pattern, False, True),
)(lambda value, pattern: not is_like(value, pattern))
elementwise(
    "texticlike(text,text)",
    "bpchariclike(bpchar,text)",
    "nameiclike(name,text)",
    bytewise=True,
    specialise=partial(_with_constant_pattern, True, False),
    by_case=partial(_ilike_by, False),
)(lambda value, pattern: is_like(value.translate(_LOWER), pattern.translate(_LOWER)))
elementwise(
    "texticnlike(text,text)",
    "bpcharicnlike(bpchar,text)",
    "nameicnlike(name,text)",
    bytewise=True,
    specialise=partial(_with_constant_pattern, True, True),
    by_case=partial(_ilike_by, True),
)(lambda value, pattern: not is_like(value.translate(_LOWER), pattern.translate(_LOWER)))


@elementwise("bytealike(bytea,bytea)", "like(bytea,bytea)")
def _bytes_like(value: bytes, pattern: bytes) -> bool:
    return is_like(value.decode("latin-1"), pattern.decode("latin-1"))


elementwise("byteanlike(bytea,bytea)", "notlike(bytea,bytea)")(lambda value, pattern: not _bytes_like(value, pattern))


# --- ESCAPE -----------------------------------------------------------------------------------


@elementwise("like_escape(text,text)")
def _like_escape(pattern: str, escape: str) -> str:
    r"""Replace the escape character of a pattern by ``\``."""
    if len(escape) > 1:
        raise _bad_escape()
    if not escape:
        return pattern.replace("\\", "\\\\")
    if escape == "\\":
        return pattern
    result = []
    after_escape = False
    for character in pattern:
        if character == escape and not after_escape:
            result.append("\\")
            after_escape = True
            continue
        result.append("\\\\" if character == "\\" and not after_escape else character)
        after_escape = False
    return "".join(result)


elementwise("like_escape(bytea,bytea)")(
    lambda pattern, escape: _like_escape(pattern.decode("latin-1"), escape.decode("latin-1")).encode("latin-1")
)


def _bad_escape() -> RowFilterError:
    return RowFilterError(
        "invalid escape string", sqlstate="22025", hint="Escape string must be empty or one character."
    )


# --- SIMILAR TO -------------------------------------------------------------------------------


def similar_to_escape(pattern: str, escape: str, *, nested_brackets: bool = True) -> str:
    """The advanced regular expression that the server makes of an SQL regular expression.

    Two ``escape "`` in it enclose the part that ``substring`` returns. ``escape`` may be empty.
    ``nested_brackets`` says how a bracket expression ends: servers before the minor releases of
    August 2025 ended it at any ``]``, including the ``]`` of ``[:alpha:]``.
    """
    if len(escape) > 1:
        raise _bad_escape()
    result = ["^(?:"]
    after_escape = False
    separators = 0
    brackets = _Brackets(nested=nested_brackets)
    for character in pattern:
        if after_escape:
            after_escape = False
            if character == '"' and not brackets.depth:
                if separators == 2:
                    raise RowFilterError(
                        "SQL regular expression may not contain more than two escape-double-quote separators",
                        sqlstate="2200C",
                    )
                result.append("){1,1}(?:" if separators else "){1,1}?(")
                separators += 1
            else:
                result.append("\\" + character)
                brackets.pass_element()
        elif character == escape:
            after_escape = True
        elif brackets.depth:
            result.append("\\\\" if character == "\\" else character)
            brackets.pass_character(character)
        else:
            result.append(_SIMILAR.get(character, character))
            brackets.open(character)
    return "".join([*result, ")$"])


_SIMILAR: Final = {"%": ".*", "_": ".", "(": "(?:", "\\": "\\\\", ".": "\\.", "^": "\\^", "$": "\\$"}


class _Brackets:
    """The state of reading a bracket expression."""

    def __init__(self, *, nested: bool) -> None:
        self.depth = 0
        self._nested = nested
        self._elements = 0  # 1 after "[", 2 after its "^", 3 or more after an element, where ] ends the expression

    def open(self, character: str) -> None:
        if character == "[":
            self.depth = self._elements = 1

    def pass_element(self) -> None:
        self._elements = 3

    def pass_character(self, character: str) -> None:
        if not self._nested:
            self.depth = 0 if character == "]" else 1
        elif character == "]" and self._elements > 2:
            self.depth -= 1
        elif character == "[":
            self.depth += 1
            self._elements = 3
        elif character == "^":
            self._elements += 1
        else:
            self._elements = 3


def certain_similar_to_escape(pattern: str, escape: str) -> str:
    """:func:`similar_to_escape` of a pattern that all minor releases interpret in the same way."""
    converted = similar_to_escape(pattern, escape)
    if converted != similar_to_escape(pattern, escape, nested_brackets=False):
        raise NotSupportedError(
            "SIMILAR TO with this pattern cannot be evaluated by the subscriber",
            detail="The meaning of its brackets differs between minor releases of PostgreSQL.",
            hint="Use the operator ~ with a regular expression.",
        )
    return converted


def _check_similar(implementation: Implementation, constants: Mapping[int, Any]) -> Implementation:
    """Refuse an invalid pattern when the filter is given, if the pattern is a constant."""
    pattern, escape = constants.get(0), constants.get(1, "\\")
    is_known = len(constants) == implementation.signature.count("text")
    if not is_known or pattern is None or (escape is None and implementation.strict) or (escape and len(escape) > 1):
        return implementation
    certain_similar_to_escape(pattern, "\\" if escape is None else escape)
    return implementation


elementwise("similar_to_escape(text)", specialise=_check_similar)(
    lambda pattern: certain_similar_to_escape(pattern, "\\")
)
elementwise("similar_to_escape(text,text)", specialise=_check_similar)(certain_similar_to_escape)
elementwise("similar_escape(text,text)", strict=False, specialise=_check_similar)(
    lambda pattern, escape: (
        None if pattern is None else certain_similar_to_escape(pattern, "\\" if escape is None else escape)
    )
)
