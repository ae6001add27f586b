"""Polymorphic functions: the types of the arguments determine the type of the result
(``parse_coerce.c`` about the types ``any…``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from subscriber.base.errors import UsageError
from subscriber.postgres.expressions.analyze import typeinfo as t
from subscriber.postgres.expressions.analyze.typeinfo import UNKNOWN, Types

_ELEMENTS: Final = frozenset({t.ANYELEMENT, t.ANYNONARRAY, t.ANYENUM})
_COMPATIBLES: Final = frozenset({t.ANYCOMPATIBLE, t.ANYCOMPATIBLENONARRAY})
_CONTAINERS: Final = frozenset(
    {t.ANYARRAY, t.ANYRANGE, t.ANYMULTIRANGE, t.ANYCOMPATIBLEARRAY, t.ANYCOMPATIBLERANGE, t.ANYCOMPATIBLEMULTIRANGE}
)
_COMPATIBLE_FAMILY: Final = _COMPATIBLES | {t.ANYCOMPATIBLEARRAY, t.ANYCOMPATIBLERANGE, t.ANYCOMPATIBLEMULTIRANGE}
POLYMORPHIC: Final = _ELEMENTS | _COMPATIBLES | _CONTAINERS
PASSED_AS_THEY_ARE: Final = frozenset({t.ANY, t.ANYELEMENT, t.ANYNONARRAY, t.ANYCOMPATIBLE, t.ANYCOMPATIBLENONARRAY})
"""The declared types that accept a value of any type without a conversion node."""


class Conversions(Protocol):
    @property
    def types(self) -> Types: ...

    def common_type_of(self, oids: Sequence[int], construct: str | None) -> int:
        """The type to which values of all these types can be converted; 0 if there is none."""
        ...

    def possible(self, sources: Sequence[int], targets: Sequence[int]) -> bool:
        """Whether each source type can be converted implicitly to its target type."""
        ...


class _Unlike(UsageError):
    sqlstate = "42804"


@dataclass
class _Family:
    """What ``any…`` or ``anycompatible…`` stand for in a call; 0 where it is not known."""

    element: int = 0
    array: int = 0
    range: int = 0
    multirange: int = 0
    actual: list[int] = field(default_factory=list)
    declared: set[int] = field(default_factory=set)

    def type_of(self, types: Types, declared: int) -> int:
        if declared in (t.ANYARRAY, t.ANYCOMPATIBLEARRAY):
            found = self.array or types.array(self.element)
            if not found:
                name = types.name(self.element)
                raise UsageError(f"could not find array type for data type {name}", sqlstate="42704")
            return found
        if declared in (t.ANYRANGE, t.ANYCOMPATIBLERANGE):
            return _known(types, self.range, declared)
        if declared in (t.ANYMULTIRANGE, t.ANYCOMPATIBLEMULTIRANGE):
            return _known(types, self.multirange, declared)
        return self.element


def check_generic_types(conversions: Conversions, actual: Sequence[int], declared: Sequence[int]) -> bool:
    """``check_generic_type_consistency``: whether the actual types fit the declared types."""
    try:
        _resolve(conversions, actual, declared)
    except _Unlike:
        return False
    return True


def enforce_generic_types(
    conversions: Conversions, actual: Sequence[int], declared: Sequence[int], result: int
) -> tuple[list[int], int]:
    """``enforce_generic_type_consistency``: declared and result types with real types."""
    if POLYMORPHIC.isdisjoint(declared):
        return list(declared), result
    plain, compatible = _resolve(conversions, actual, declared)
    types = conversions.types
    if plain.declared and not plain.element:
        raise UsageError("could not determine polymorphic type because input has type unknown", sqlstate="42804")
    if compatible.declared and not compatible.element:
        if compatible.declared & {t.ANYCOMPATIBLERANGE, t.ANYCOMPATIBLEMULTIRANGE}:
            name = "anycompatiblerange" if t.ANYCOMPATIBLERANGE in compatible.declared else "anycompatiblemultirange"
            message = f"could not determine polymorphic type {name} because input has type unknown"
            raise UsageError(message, sqlstate="42804")
        compatible.element = t.TEXT
    for one in (plain, compatible):
        if one.range and not one.multirange:
            one.multirange = types.get(one.range).multirange
    found = []
    for given, wanted in zip(actual, declared, strict=True):
        if wanted in _COMPATIBLE_FAMILY:
            found.append(compatible.type_of(types, wanted))
        elif wanted in POLYMORPHIC and given == UNKNOWN:
            found.append(plain.type_of(types, wanted))
        else:
            found.append(wanted)
    if result in POLYMORPHIC:
        result = (compatible if result in _COMPATIBLE_FAMILY else plain).type_of(types, result)
    return found, result


def _resolve(conversions: Conversions, actual: Sequence[int], declared: Sequence[int]) -> tuple[_Family, _Family]:
    types = conversions.types
    plain, compatible = _Family(), _Family()
    for given, wanted in zip(actual, declared, strict=True):
        if wanted not in POLYMORPHIC:
            continue
        family = compatible if wanted in _COMPATIBLE_FAMILY else plain
        family.declared.add(wanted)
        if given == UNKNOWN:
            continue
        if wanted in _ELEMENTS:
            plain.element = _same(types, plain.element, given, "anyelement")
        elif wanted in _COMPATIBLES:
            compatible.actual.append(given)
        else:
            _container(types, family, types.base(given), wanted)
    _settle_plain(types, plain)
    _settle_compatible(conversions, compatible)
    return plain, compatible


def _container(types: Types, family: _Family, given: int, wanted: int) -> None:
    if wanted in (t.ANYARRAY, t.ANYCOMPATIBLEARRAY):
        element = types.element(given)
        if not element:
            raise _Unlike(f"argument declared {types.name(wanted)} is not an array but type {types.name(given)}")
        if wanted == t.ANYCOMPATIBLEARRAY:
            family.actual.append(element)
        else:
            family.array = _same(types, family.array, given, "anyarray")
        return
    if wanted in (t.ANYMULTIRANGE, t.ANYCOMPATIBLEMULTIRANGE):
        ranges = [one.oid for one in types.catalog.types.values() if one.multirange == given]
        if not ranges:
            raise _Unlike(
                f"argument declared {types.name(wanted)} is not a multirange type but type {types.name(given)}"
            )
        family.multirange = _same(types, family.multirange, given, types.name(wanted))
        given = ranges[0]
    if not types.get(given).subtype:
        raise _Unlike(f"argument declared {types.name(wanted)} is not a range type but type {types.name(given)}")
    family.range = _same(types, family.range, given, types.name(wanted))
    if wanted in _COMPATIBLE_FAMILY:
        family.actual.append(types.get(given).subtype)


def _settle_plain(types: Types, family: _Family) -> None:
    parts = [types.element(family.array)] if family.array else []
    parts += [types.get(family.range).subtype] if family.range else []
    for part in parts:
        family.element = _same(types, family.element, part, "anyelement")
    if not family.element:
        if t.ANYENUM in family.declared:
            raise _Unlike("type matched to anyenum is not an enum type: unknown")
        return
    if t.ANYNONARRAY in family.declared and types.base_element(family.element):
        raise _Unlike(f"type matched to anynonarray is an array type: {types.name(family.element)}")
    if t.ANYENUM in family.declared and types.get(family.element).kind != "e":
        raise _Unlike(f"type matched to anyenum is not an enum type: {types.name(family.element)}")


def _settle_compatible(conversions: Conversions, family: _Family) -> None:
    if not family.actual:
        return
    types = conversions.types
    family.element = conversions.common_type_of(family.actual, None)
    possible = family.element and all(conversions.possible([one], [family.element]) for one in family.actual)
    if not possible:
        raise _Unlike("arguments of anycompatible family cannot be cast to a common type")
    if t.ANYCOMPATIBLENONARRAY in family.declared and types.base_element(family.element):
        raise _Unlike(f"type matched to anycompatiblenonarray is an array type: {types.name(family.element)}")
    if family.range and types.get(family.range).subtype != family.element:
        name = types.name(family.range)
        message = f"anycompatiblerange type {name} does not match anycompatible type {types.name(family.element)}"
        raise _Unlike(message)


def _known(types: Types, found: int, declared: int) -> int:
    if not found:
        name = types.name(declared)
        message = f"could not determine polymorphic type {name} because input has type unknown"
        raise UsageError(message, sqlstate="42804")
    return found


def _same(types: Types, known: int, given: int, declared: str) -> int:
    if known and known != given:
        detail = f"{types.name(known)} versus {types.name(given)}"
        raise _Unlike(f'arguments declared "{declared}" are not all alike', detail=detail)
    return given
