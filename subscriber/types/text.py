r"""Types that are their own text: character types, JSON, XML, and every type without a family.

``binary`` changes nothing for the character types, json and xml: their send functions write the
text. jsonb and jsonpath put a version byte before it. A single ``"char"`` may be any byte: its
output function writes those above 127 as ``\ooo`` and zero as nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from subscriber.errors import ProtocolError
from subscriber.types.family import TypeFamily, as_text, binary_array, family, fixed_width, invalid_binary, values_of
from subscriber.types.oids import type_name

_VERSION: Final = 1
"""The only version of jsonb_send and jsonpath_send, since 9.4 and 12."""

_CHAR_TEXTS: Final = ("", *map(chr, range(1, 128)), *(f"\\{byte:o}" for byte in range(128, 256)))


def _versioned_text(name: str, array: pa.BinaryArray) -> pa.StringArray:
    """Layout: version u8 = 1, text."""
    data, offsets = values_of(array)
    starts = offsets[:-1]
    if np.any(np.diff(offsets) == 0) or np.any(data[starts] != _VERSION):
        raise ProtocolError(f"unsupported {name} version number", sqlstate="22P03")
    text_offsets = offsets - np.arange(len(offsets))
    return as_text(binary_array(np.delete(data, starts), text_offsets.astype(np.int32)))


def _char_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: one byte, any."""
    rows = fixed_width(array, 1)
    if rows is None:
        raise invalid_binary('"char"')
    return pa.array(_CHAR_TEXTS).take(pa.array(rows.reshape(-1).astype(np.int32)))


def text_only(type_oid: int) -> TypeFamily:
    """The family of a type that has none: its text, whatever it is; its binary form is refused."""
    return family(type_name(type_oid), (type_oid,), pa.string(), as_text)


FAMILIES: Final = (
    family("text", (25, 1043, 1042, 19, 1790), pa.string(), as_text, as_text),
    family('"char"', (18,), pa.string(), as_text, _char_from_binary),
    family("json", (114,), pa.string(), as_text, as_text),
    family("xml", (142,), pa.string(), as_text, as_text),
    family("jsonb", (3802,), pa.string(), as_text, partial(_versioned_text, "jsonb")),
    family("jsonpath", (4072,), pa.string(), as_text, partial(_versioned_text, "jsonpath")),
)
