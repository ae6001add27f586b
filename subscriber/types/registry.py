"""The registry of types: from a type's OID to its family, and from a column's bytes to Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

import pyarrow as pa

from subscriber.errors import ProtocolError
from subscriber.types import (
    bits,
    boolean,
    bytea,
    floats,
    geometric,
    integers,
    json,
    macaddr,
    network,
    numeric,
    system,
    text,
    text_search,
    uuid,
)
from subscriber.types.arrays import array_families
from subscriber.types.datetimes import wire as datetimes
from subscriber.types.equality import Equality
from subscriber.types.family import Send, TypeFamily
from subscriber.types.form import Form
from subscriber.types.ranges import range_families

_SCALARS: Final[tuple[TypeFamily, ...]] = (
    *boolean.FAMILIES,
    *integers.FAMILIES,
    *floats.FAMILIES,
    *numeric.FAMILIES,
    *text.FAMILIES,
    *json.FAMILIES,
    *bytea.FAMILIES,
    *uuid.FAMILIES,
    *datetimes.FAMILIES,
    *bits.FAMILIES,
    *geometric.FAMILIES,
    *network.FAMILIES,
    *macaddr.FAMILIES,
    *text_search.FAMILIES,
    *system.FAMILIES,
)


def _by_oid(families: Iterable[TypeFamily]) -> dict[int, TypeFamily]:
    return {oid: family for family in families for oid in family.oids}


_ELEMENTS: Final = (*_SCALARS, *range_families(_by_oid(_SCALARS)))

FAMILIES: Final[tuple[TypeFamily, ...]] = (*_ELEMENTS, *array_families(_by_oid(_ELEMENTS)))
"""Every family that has decoders for specific types."""

_BY_OID: Final = _by_oid(FAMILIES)

WITHOUT_BINARY_FORM: Final = frozenset((1033, 3642))
"""aclitem and gtsvector, which have no send function. Their values are sent as text in a binary
stream, too (rule A12).
"""


@cache
def family_of(type_oid: int) -> TypeFamily:
    """The family of a type. An unknown type gets a family whose Arrow type is ``string``.

    That applies to user-defined types, extensions' types, money, and the types that name objects of
    the catalogs: the value is the type's text, exactly as the publisher's output function wrote it
    (rule C5). Their binary format cannot be read, because its meaning depends on the publisher's
    types, its ``lc_monetary`` and its catalogs.
    """
    return _BY_OID.get(type_oid) or text.text_only(type_oid)


def form_of(type_oid: int) -> Form | None:
    """The form of a type's values; None for a type whose values are only passed on."""
    return family_of(type_oid).form


def send_of(type_oid: int) -> Send | None:
    """The send function of a type: the text of a value → its binary format.

    None for a type that has none (rule A12), or whose bytes depend on the publisher's catalogs or
    settings: money, and the types that name objects.
    """
    return family_of(type_oid).send


def equality_of(type_oid: int) -> Equality:
    """How two values of a type are compared by their text."""
    return family_of(type_oid).equality


def comes_unread(type_oid: int) -> bool:
    """Whether a binary stream may contain values of the type in a form that cannot be read (rule
    A12).
    """
    return type_oid not in WITHOUT_BINARY_FORM and not family_of(type_oid).reads_binary


def decode_column(type_oid: int, array: pa.Array, *, binary: bool, column: int) -> pa.Array:
    """Decode the bytes of one column's values (rules A12, C5).

    Args:
        type_oid: the type in the relation message.
        array: the bytes of the values, null for NULL; all values have the same kind.
        binary: whether the kind is ``b``. A column of a binary stream may have kind ``t`` (A12).
        column: the column's number for error messages, from 1.

    Raises:
        ProtocolError: a value is not valid for the type: 22P03 with C5's text for the binary
            format, otherwise 22P02, 22007, 22008 or 22021.
        NotSupportedError: the type's binary format cannot be read.
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
