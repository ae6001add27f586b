"""The registry of types: from a type's OID to its family, and from a column's bytes to Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

import pyarrow as pa

from subscriber.base.errors import ProtocolError
from subscriber.postgres.types import byte_strings, floats, integers, json, network, numeric, passed_through, text
from subscriber.postgres.types.arrays import array_families
from subscriber.postgres.types.datetimes import date_families
from subscriber.postgres.types.equality import Equality
from subscriber.postgres.types.family import Form, Send, TypeFamily
from subscriber.postgres.types.ranges import range_families

_SCALARS: Final[tuple[TypeFamily, ...]] = (
    *integers.FAMILIES,
    *floats.FAMILIES,
    *numeric.FAMILIES,
    *text.FAMILIES,
    *json.FAMILIES,
    *byte_strings.FAMILIES,
    *network.FAMILIES,
    *date_families.FAMILIES,
    *passed_through.FAMILIES,
)


def _by_oid(families: Iterable[TypeFamily]) -> dict[int, TypeFamily]:
    return {family.oid: family for family in families}


_ELEMENTS: Final = (*_SCALARS, *range_families(_by_oid(_SCALARS)))

FAMILIES: Final[tuple[TypeFamily, ...]] = (*_ELEMENTS, *array_families(_by_oid(_ELEMENTS)))

_BY_OID: Final = _by_oid(FAMILIES)

WITHOUT_BINARY_FORM: Final = frozenset((1033, 3642))
"""aclitem and gtsvector have no send function: sent as text in a binary stream, too (rule A12)."""


@cache
def family_of(type_oid: int) -> TypeFamily:
    """The family of a type. An unknown type gets a family whose Arrow type is ``string``.

    That applies to user-defined types, extensions' types, money, and the types that name objects of
    the catalogs: the value is the text that the publisher's output function wrote (rule C5). Their
    binary format depends on the publisher's types, its ``lc_monetary`` and its catalogs, and cannot
    be read.
    """
    return _BY_OID.get(type_oid) or text.text_only(type_oid)


def form_of(type_oid: int) -> Form | None:
    """None for a type whose values are only passed on."""
    return family_of(type_oid).form


def send_of(type_oid: int) -> Send | None:
    """None without one (rule A12), or if it depends on the publisher's catalogs or settings."""
    return family_of(type_oid).send


def equality_of(type_oid: int) -> Equality:
    return family_of(type_oid).equality


def comes_unread(type_oid: int) -> bool:
    """Whether a binary stream may contain values in a form that cannot be read (rule A12)."""
    return type_oid not in WITHOUT_BINARY_FORM and not family_of(type_oid).reads_binary


def decode_column(type_oid: int, array: pa.Array, *, binary: bool, column: int) -> pa.Array:
    """Decode the bytes of one column's values, all of one kind (rules A12, C5).

    ``column`` is the number for error messages, from 1. ProtocolError for a value that is not valid
    for the type: 22P03 with C5's text for the binary format, otherwise 22P02, 22007, 22008 or
    22021. NotSupportedError if the type's binary format cannot be read.
    """
    family = family_of(type_oid)
    if not binary:
        return family.decode_text(array)
    try:
        return family.decode_binary(array)
    except ProtocolError as error:
        if error.sqlstate != "22P03":
            raise
        raise ProtocolError(
            f"incorrect binary data format in logical replication column {column}",
            sqlstate=error.sqlstate,
            detail=f"{error.message}.",
        ) from error
