"""The one registry of types: from a type's OID to its family, and from a column's bytes to
Arrow.
"""

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
from subscriber.types.family import TypeFamily
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
"""Every family with decoders of its own."""

_BY_OID: Final = _by_oid(FAMILIES)

WITHOUT_BINARY_FORM: Final = frozenset((1033, 3642))
"""aclitem and gtsvector have no send function, so they come as text in a binary stream, too (rule
A12).
"""


@cache
def family_of(type_oid: int) -> TypeFamily:
    """The family of a type; one whose Arrow type is ``string`` for any type not known here.

    That is the rule for user-defined types and extensions' types, for money, and for the names of
    catalogs' objects: the value is the type's own text, exactly as the publisher's output function
    wrote it (rule C5). Their binary form does not tell it: one has to know the publisher's types,
    its ``lc_monetary``, its catalogs.
    """
    return _BY_OID.get(type_oid) or text.text_only(type_oid)


def form_of(type_oid: int) -> Form | None:
    """The form that a type's values are computed with; None for a type that is only passed on."""
    return family_of(type_oid).form


def equality_of(type_oid: int) -> Equality:
    """How two values of a type are compared, from their text."""
    return family_of(type_oid).equality


def comes_unread(type_oid: int) -> bool:
    """Whether a binary stream may bring values of the type in a form that is not read (rule
    A12).
    """
    return type_oid not in WITHOUT_BINARY_FORM and not family_of(type_oid).reads_binary


def decode_column(type_oid: int, array: pa.Array, *, binary: bool, column: int) -> pa.Array:
    """Decode one column's value bytes (rules A12, C5).

    Args:
        type_oid: the type in the relation's description.
        array: value bytes, null where NULL, all of one kind.
        binary: whether the kind is ``b``; a column of a binary stream may be ``t`` (A12).
        column: the column's number for the message, from 1.

    Raises:
        ProtocolError: a value that is none of the type's: 22P03 with C5's text when the binary form
            is wrong, else 22P02, 22007, 22008 or 22021.
        NotSupportedError: a type whose binary form is not read.
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
