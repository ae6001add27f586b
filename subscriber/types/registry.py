"""From a type's OID to its family, and from a column's bytes to its Arrow array."""

from __future__ import annotations

from functools import cache
from typing import Final

import pyarrow as pa

from subscriber.errors import ProtocolError
from subscriber.types import boolean, bytea, datetimes, floats, integers, numeric, text, uuid
from subscriber.types.family import TypeFamily

FAMILIES: Final[tuple[TypeFamily, ...]] = (
    *boolean.FAMILIES,
    *integers.FAMILIES,
    *floats.FAMILIES,
    *numeric.FAMILIES,
    *text.FAMILIES,
    *bytea.FAMILIES,
    *uuid.FAMILIES,
    *datetimes.FAMILIES,
)
"""Every family with decoders of its own."""

_BY_OID: Final = {oid: family for family in FAMILIES for oid in family.oids}


@cache
def family_of(type_oid: int) -> TypeFamily:
    """The family of a type; one whose Arrow type is ``string`` for any type not known here.

    That is the rule for enums, domains, arrays, ranges, network addresses and extensions' types: the
    value is the type's own text, exactly as the publisher's output function wrote it (rule C5).
    """
    return _BY_OID.get(type_oid) or text.text_only(type_oid)


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
