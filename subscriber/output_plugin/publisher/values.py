"""The values and types of the publisher in memory: from what a user writes to what the WAL
contains.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final

from subscriber.errors import NotSupportedError, UsageError
from subscriber.filters.analyze.typeinfo import FIRST_NORMAL_OID, Types, type_modifier
from subscriber.filters.builtins import catalog_of
from subscriber.filters.parse import syntax
from subscriber.filters.parse.parser import parse
from subscriber.output_plugin.heap_tuples import ColumnDatum, Datum
from subscriber.protocol.messages import NULL
from subscriber.schema.publisher_tables import PublisherTables
from subscriber.types import boolout, byteaout, send_of
from subscriber.types.arrays import array_send
from subscriber.types.family import Send
from subscriber.types.float_text import double_text, real_text
from subscriber.types.text import text_send

_REAL: Final = 700


@dataclass(frozen=True, slots=True)
class Toasted:
    """A value that the table stores out of line.

    PostgreSQL decides that by the size of the row after compression. The Publisher does not
    compress, so the user says it.
    """

    value: Any


def resolve_type(text: str, tables: PublisherTables) -> tuple[int, int, str]:
    """The OID, the modifier and the name of a type, such as ``numeric(10,2)``.

    Raises:
        SQLSyntaxError: the text is not a type.
        UsageError: 42704, there is no such type; or its modifier is wrong.
    """
    types = Types(catalog_of(tables.server_version, tables.own_objects, tables.search_path))
    cast = parse(f"CAST(NULL AS {text})", tables.server_version // 10000)
    assert isinstance(cast, syntax.TypeCast)
    name = cast.type
    found = types.catalog.find_type(name.names[0] if len(name.names) > 1 else None, name.names[-1])
    if found is None or (name.array and not found.array):
        raise UsageError(
            f'type "{text}" does not exist',
            sqlstate="42704",
            hint="Create it with Publisher.create_enum or create_domain.",
        )
    values = tuple(node.value for node in name.modifiers if isinstance(node, syntax.Constant))
    modifier = type_modifier(found, ".".join(name.names), values) if values else -1
    oid = found.array if name.array else found.oid
    return oid, modifier, types.name_with_modifier(oid, modifier)


def collation_of(oid: int, tables: PublisherTables) -> int:
    """The OID of the collation that a column of a type has; 0 for none."""
    return Types(catalog_of(tables.server_version, tables.own_objects, tables.search_path)).collation(oid)


def base_type(oid: int, tables: PublisherTables) -> int:
    """The base type of a domain, and any other type itself."""
    return Types(catalog_of(tables.server_version, tables.own_objects, tables.search_path)).base(oid)


def datum(value: Any, base_oid: int, tables: PublisherTables | None = None) -> ColumnDatum:
    """The value of a column.

    Args:
        value: None, or a number, text or bytes; a text is the output of the type's output function.
        base_oid: the type; of a domain its base type.
        tables: the tables; without them a value of a user-defined type has no binary format.

    Raises:
        UsageError: 42804, a value of this Python type cannot be written.
        DataException: a text is not a value of the type.
    """
    external = isinstance(value, Toasted)
    if isinstance(value, Toasted):
        value = value.value
    if value is None:
        return NULL
    text = _text(value, base_oid)
    send = send_of(base_oid) if tables is None else send_function(base_oid, tables)
    return Datum(text.encode(), _sent(text, send), external)


def _text(value: Any, base_oid: int) -> str:
    match value:
        case str():
            return value
        case bool():
            return boolout(value)
        case int() | Decimal() | uuid.UUID():
            return str(value)
        case float():
            return real_text(_single(value)) if base_oid == _REAL else double_text(value)
        case bytes():
            return byteaout(value)
        case _:
            raise UsageError(
                f"cannot write a value of type {type(value).__name__}",
                sqlstate="42804",
                hint="Give the text that PostgreSQL prints for the value.",
            )


def _single(value: float) -> float:
    """The nearest value of real, which the output function expects."""
    single: float = struct.unpack(">f", struct.pack(">f", value))[0]
    return single


def _sent(text: str, send: Send | None) -> bytes | None:
    """What a send function writes; None if it is not known here, or cannot read the text."""
    try:
        return None if send is None else send(text)
    except NotSupportedError:
        return None


def send_function(base_oid: int, tables: PublisherTables) -> Send | None:
    """The send function of a type, also of an enum and of an array of user-defined types; None if
    it is not known here. Such a value is sent as text in a binary stream, which every reader
    accepts (rule A12).

    Args:
        base_oid: the type; of a domain its base type.
        tables: the tables, with the user-defined types.
    """
    send = send_of(base_oid)
    if send is not None or base_oid < FIRST_NORMAL_OID:
        return send
    types = Types(catalog_of(tables.server_version, tables.own_objects, tables.search_path))
    found = types.get(base_oid)
    if found.kind == "e":
        return text_send
    element = send_function(types.base(found.element), tables) if found.element else None
    return None if element is None else partial(array_send, found.element, element)
