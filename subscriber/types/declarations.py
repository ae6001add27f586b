"""The declaration of a built-in type with its modifier: ``format_type(oid, typmod)``.

A relation message describes a column's type by these two numbers (rule A14). The declaration is the
text that CREATE TABLE would contain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from subscriber.types.oids import ELEMENT_TYPES, type_name

NO_MODIFIER: Final = -1
_HEADER: Final = 4
"""VARHDRSZ: the size of the header, which the modifiers of types with a header include."""

INTERVAL_FIELDS: Final[Mapping[int, str]] = {
    1 << 2: "year",
    1 << 1: "month",
    1 << 3: "day",
    1 << 10: "hour",
    1 << 11: "minute",
    1 << 12: "second",
    1 << 2 | 1 << 1: "year to month",
    1 << 3 | 1 << 10: "day to hour",
    1 << 3 | 1 << 10 | 1 << 11: "day to minute",
    1 << 3 | 1 << 10 | 1 << 11 | 1 << 12: "day to second",
    1 << 10 | 1 << 11: "hour to minute",
    1 << 10 | 1 << 11 | 1 << 12: "hour to second",
    1 << 11 | 1 << 12: "minute to second",
}
"""The fields of an interval, by the upper half of its modifier."""
_EVERY_DIGIT: Final = 0xFFFF


def declared_type(type_oid: int, modifier: int = NO_MODIFIER) -> str:
    """The declaration of a column of this type.

    Args:
        type_oid: the OID of the type.
        modifier: ``atttypmod``; -1 means no modifier.

    >>> declared_type(1700, 655366), declared_type(1184, 3), declared_type(1015, 14)
    ('numeric(10,2)', 'timestamp(3) with time zone', 'character varying(10)[]')
    """
    element = ELEMENT_TYPES.get(type_oid)
    if element is not None:
        return f"{declared_type(element, modifier)}[]"
    if modifier < 0:
        return _WITHOUT_MODIFIER.get(type_oid, type_name(type_oid))
    return with_modifier(type_oid, type_name(type_oid), modifier)


def with_modifier(type_oid: int, name: str, modifier: int) -> str:
    """The name of a built-in type with its modifier, which must not be -1.

    A type that takes no modifier gets only its name.

    >>> with_modifier(1186, "interval", 0x1C08FFFF)
    'interval day to second'
    """
    written = _MODIFIED.get(type_oid)
    return name if written is None else written(name, modifier)


def _length(name: str, modifier: int) -> str:
    return f"{name}({modifier - _HEADER})" if modifier > _HEADER else name


def _bits(name: str, modifier: int) -> str:
    return f"{name}({modifier})"


def _numeric(name: str, modifier: int) -> str:
    packed = modifier - _HEADER
    # The scale is a signed integer of eleven bits.
    return f"{name}({packed >> 16 & 0xFFFF},{(packed & 0x7FF ^ 0x400) - 0x400})"


def _time(name: str, modifier: int) -> str:
    word, _, zone = name.partition(" ")
    return f"{word}({modifier}) {zone}"


def _interval(name: str, modifier: int) -> str:
    fields = INTERVAL_FIELDS.get(modifier >> 16 & 0x7FFF)
    digits = modifier & 0xFFFF
    return name + (f" {fields}" if fields else "") + ("" if digits == _EVERY_DIGIT else f"({digits})")


_WITHOUT_MODIFIER: Final = {1042: "bpchar", 1560: '"bit"'}
"""Types whose name alone would mean a length of one, and the name that means any length."""

_MODIFIED: Final[Mapping[int, Callable[[str, int], str]]] = {
    **dict.fromkeys((1042, 1043), _length),
    **dict.fromkeys((1560, 1562), _bits),
    1700: _numeric,
    **dict.fromkeys((1083, 1114, 1184, 1266), _time),
    1186: _interval,
}
"""For each type, how its modifier is written."""
