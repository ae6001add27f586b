r"""When two values of a type are equal though they are written differently (rules C14, C17).

A target that keeps PostgreSQL's text compares letters, where PostgreSQL compares by the type's equality operator: ``1.0`` and ``1.00``
are one numeric, ``1 mon`` and ``30 days`` one interval. Such a type has a *canonical form* here: two values are equal if and only if
their canonical forms are the same text. The form is for comparing only, and is never stored.

===========================  =========================================================================
numeric                      without zeros at the end of the fraction
real, double precision       0 for -0 (as text, which only the elements of arrays are)
interval                     microseconds, with days of 24 hours and months of 30 days
character(n)                 without blanks at the end
jsonb, numrange and its kin  every numeric in it as above
arrays                       every element as above, in quotes
everything else              the text itself: equal values are written alike, or have no equality
===========================  =========================================================================

Types made by a user (domains, composite types, citext) are compared by their text: only the publisher knows what they are made of.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from subscriber.digits import digits_of, integer_of
from subscriber.types.oids import ELEMENT_TYPES

Canonical = Callable[[str], str]
Spellings = Callable[[str], tuple[str, str]]

WITHOUT_EQUALITY: Final = frozenset(
    {114, 142, 600, 601, 602, 603, 604, 628, 718, 1790, 2970, 3642, 4072, 4600, 4601, 5038}
)
"""json, xml, the geometric types, refcursor, jsonpath, snapshots, what only indexes hold: PostgreSQL cannot tell whether two values are equal. Nor of arrays."""


@dataclass(frozen=True, slots=True)
class Equality:
    """How two values of a type are compared.

    Attributes:
        exists: PostgreSQL has an operator for it (rule C17).
        canonical: the canonical form of a value's text; None where equal values are always written alike.
        spellings: of a canonical form, a range of texts in byte order, the end excluded, that every text of an equal value is in;
            None where there is no such range worth looking in.
    """

    exists: bool = True
    canonical: Canonical | None = None
    spellings: Spellings | None = None


EXACT: Final = Equality()
"""Equal values are written alike, or the target compares them as the type does."""
NONE: Final = Equality(exists=False)


@cache
def equality_of(type_oid: int) -> Equality:
    """How values of a type are compared, from their text."""
    if type_oid in WITHOUT_EQUALITY:
        return NONE
    if type_oid in _BY_OID:
        return _BY_OID[type_oid]
    if type_oid not in ELEMENT_TYPES:
        return EXACT
    # Numbers of an array are text, whatever they are in a column of their own.
    element = _IN_ARRAYS.get(ELEMENT_TYPES[type_oid]) or equality_of(ELEMENT_TYPES[type_oid])
    return Equality(canonical=partial(_array, element.canonical)) if element.canonical else element


_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


def _numeric(text: str) -> str:
    """Without zeros at the end.

    >>> [_numeric(text) for text in ("1.50", "100", "-0.10", "0.000", "NaN", "Infinity")]
    ['1.5', '100', '-0.1', '0', 'NaN', 'Infinity']
    """
    if _NUMBER.fullmatch(text) is None:
        return text
    number = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if number == "-0" else number


def _numeric_spellings(number: str) -> tuple[str, str]:
    """More zeros, after a point where there is none. In byte order '-' and '.' come before '/', which comes before the digits.

    >>> _numeric_spellings("15"), _numeric_spellings("1.5")
    (('15', '15/'), ('1.5', '1.51'))
    """
    return number, number + ("1" if "." in number else "/")


def _float(text: str) -> str:
    return "0" if text == "-0" else text


def _blank_padded(text: str) -> str:
    return text.rstrip(" ")


def _blank_padded_spellings(text: str) -> tuple[str, str]:
    return text, text + "!"


_INTERVAL: Final = re.compile(
    r"(?:([+-]?\d+) years?)? ?(?:([+-]?\d+) mons?)? ?(?:([+-]?\d+) days?)? ?(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)


def _interval(text: str) -> str:
    """Microseconds.

    >>> [_interval(text) for text in ("1 mon", "29 days 24:00:00", "-1 days +00:00:00.5", "infinity")]
    ['2592000000000', '2592000000000', '-86399500000', 'infinity']
    """
    found = _INTERVAL.fullmatch(text)
    if not text or found is None:
        return text
    years, months, days = (integer_of(part or "0") for part in found.group(1, 2, 3))
    hours, minutes, seconds = (integer_of(part or "0") for part in found.group(5, 6, 7))
    time = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((found[8] or "").ljust(6, "0"))
    whole_days = (years * 12 + months) * 30 + days
    return digits_of(whole_days * 86_400_000_000 + (-time if found[4] == "-" else time))


_JSON_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?')


def _numbers_inside(text: str) -> str:
    r"""Every numeric that is not inside a text.

    >>> _numbers_inside('{"1.0": [1.0, "2.0"]}'), _numbers_inside("{[1.0,2.50),(3,)}")
    ('{"1.0": [1, "2.0"]}', '{[1,2.5),(3,)}')
    """
    return _JSON_TOKEN.sub(lambda token: token[0] if token[0][0] == '"' else _numeric(token[0]), text)


_ELEMENT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^{},"]+)', re.DOTALL)


def _array(canonical: Canonical, text: str) -> str:
    r"""Every element in quotes.

    >>> _array(_numeric, "[0:1]={1.0,NULL}"), _array(_blank_padded, '{{"a ",b},{"\\" ","NULL"}}')
    ('[0:1]={"1",NULL}', '{{"a","b"},{"\\"","NULL"}}')
    """

    def element(found: re.Match[str]) -> str:
        if found[2] == "NULL":
            return "NULL"
        value = found[2] if found[1] is None else re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL)
        return '"' + re.sub(r'(["\\])', r"\\\1", canonical(value)) + '"'

    bounds, brace, elements = text.partition("{")
    return bounds + brace + _ELEMENT.sub(element, elements)


_BY_OID: Final = {
    1700: Equality(canonical=_numeric, spellings=_numeric_spellings),
    1042: Equality(canonical=_blank_padded, spellings=_blank_padded_spellings),
    1186: Equality(canonical=_interval),
    3802: Equality(canonical=_numbers_inside),
    3906: Equality(canonical=_numbers_inside),
    4532: Equality(canonical=_numbers_inside),
}
_IN_ARRAYS: Final = {700: Equality(canonical=_float), 701: Equality(canonical=_float)}
