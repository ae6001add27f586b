"""Input functions of the constants of older servers.

::

    16   0x1F, 0o17, 0b1 and 1_000 in smallint, integer, bigint and numeric; oid reads 017 as octal
         the dates epoch and infinity stand alone, and may have a sign; no unit without its number
    17   infinity of interval; ago only at its end, and no unit without its number
         empty braces inside the braces of an array, and nothing but a number in its bounds

A text that these versions may read in another way than PostgreSQL 18, and that is none of the
above, is refused with NotSupportedError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.types.arrays import Array, malformed, read_array
from subscriber.postgres.types.family import WHITESPACE, FromText, invalid_syntax
from subscriber.postgres.types.integers import decimal_integer_in, decimal_oid_in
from subscriber.postgres.types.oids import ELEMENT_TYPES
from subscriber.postgres.types.ranges import MULTIRANGES, SUBTYPES, multirange_in, range_in
from subscriber.postgres.types.registry import form_of

_INTERVAL: Final = 1186
_NUMERIC: Final = 1700
_DATES: Final = frozenset({1082, 1083, 1114, 1184, 1266})
_INTEGERS: Final[dict[int, Callable[[str], int]]] = {
    21: partial(decimal_integer_in, "smallint", 16),
    23: partial(decimal_integer_in, "integer", 32),
    20: partial(decimal_integer_in, "bigint", 64),
    26: decimal_oid_in,
}
_NEW_NUMBER: Final = re.compile(rf"_|^[{WHITESPACE}]*[+-]?0[xob]", re.IGNORECASE)
_APART: Final = re.compile(r"e\s", re.IGNORECASE)
_EMPTY_ARRAY: Final = re.compile(rf"[{WHITESPACE}]*{{[{WHITESPACE}]*}}[{WHITESPACE}]*")
_SIGNED_INFINITY: Final = re.compile(r"\+\s*infinity", re.IGNORECASE)
_WORD: Final = re.compile(r"[a-z]+", re.IGNORECASE)
_LOOSE: Final = frozenset({
    "epoch", "infinity", "allballs", "y", "m", "d", "h", "mm", "s", "j", "jd", "julian", "dow", "doy", "isodow",
    "isoyear", "week", "quarter", "year", "month", "day", "hour", "minute", "second",
})  # fmt: skip
"""Words of dates that older versions ignore or combine with others."""


def input_of(type_oid: int, major: int) -> FromText | None:
    """For the constants of this major version; None for a type whose values are only passed on."""
    form = form_of(type_oid)
    if form is None or major >= 17:
        return None if form is None else form.from_text
    if type_oid in ELEMENT_TYPES:
        element = input_of(ELEMENT_TYPES[type_oid], major)
        return None if element is None else partial(_array, element)
    if type_oid in SUBTYPES or type_oid in MULTIRANGES:
        ranges = MULTIRANGES.get(type_oid, type_oid)
        subtype, read = form_of(SUBTYPES[ranges]), input_of(SUBTYPES[ranges], major)
        assert subtype is not None
        assert read is not None
        bounds, read_whole = replace(subtype, from_text=read), range_in if ranges == type_oid else multirange_in
        return lambda text, _: read_whole(ranges, bounds, text)
    if type_oid == _INTERVAL:
        return partial(_interval, form.from_text)
    if major >= 16:
        return form.from_text
    if type_oid in _INTEGERS:
        return lambda text, _: _INTEGERS[type_oid](text)
    if type_oid == _NUMERIC:
        return partial(_numeric, form.from_text)
    return partial(_date, form.from_text) if type_oid in _DATES else form.from_text


def _refused(what: str) -> NotSupportedError:
    return NotSupportedError(
        f"this notation of {what} is not supported, because versions of PostgreSQL read it differently",
        hint="Write the value as the server prints it.",
    )


def _array(element: FromText, text: str, modifier: int) -> Array:
    try:
        found = read_array(element, text, modifier)
    except DataException:
        if text.lstrip(WHITESPACE).startswith("["):
            raise _refused("an array with bounds") from None
        raise
    if not found.dimensions and _EMPTY_ARRAY.fullmatch(text) is None:
        raise malformed()
    return found


def _interval(read: FromText, text: str, modifier: int) -> Any:
    try:
        value = read(text, modifier)
    except DataException:
        words = _WORD.findall(text)
        if "ago" in map(str.lower, words) or (words and re.search("[0-9]", text)):
            raise _refused("an interval") from None
        raise
    if not value.is_finite:
        raise invalid_syntax("interval", text, sqlstate="22007")
    return value


def _numeric(read: FromText, text: str, modifier: int) -> Any:
    if _APART.search(text):
        raise _refused("a number")
    try:
        value = read(text, modifier)
    except DataException:
        if _NEW_NUMBER.search(text):
            raise invalid_syntax("numeric", text) from None
        raise
    if _NEW_NUMBER.search(text):
        raise invalid_syntax("numeric", text)
    return value


def _date(read: FromText, text: str, modifier: int) -> Any:
    if _SIGNED_INFINITY.search(text):
        raise _refused("a date or time")
    try:
        return read(text, modifier)
    except DataException:
        if _LOOSE.intersection(map(str.lower, _WORD.findall(text))):
            raise _refused("a date or time") from None
        raise
