"""json, jsonb and jsonpath.

The form of jsonb and jsonpath on the wire is their text, with a version byte before it in binary
mode. json is sent as its text.

Python's parser reads the JSON grammar. This module implements the differences between PostgreSQL
and Python: numbers are numerics with their scale, the last of several equal keys is kept, and keys
are ordered by their length and then by their bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from subscriber.errors import DataException, NotSupportedError, ProtocolError
from subscriber.types.equality import NONE, Equality
from subscriber.types.family import as_text, binary_array, family, values_of
from subscriber.types.form import Form, invalid_syntax, without_modifier
from subscriber.types.numeric import canonical_inside, numeric_in, numeric_out

Json: TypeAlias = "bool | Decimal | str | tuple[Json, ...] | Mapping[str, Json] | None"
"""A JSON value; None is JSON's null. The keys of an object are in PostgreSQL's order."""

_VERSION: Final = 1
"""The version that jsonb_send and jsonpath_send write; the only one since PostgreSQL 9.4 and 12."""


@dataclass(frozen=True, slots=True)
class Jsonb:
    """A value of type jsonb. It distinguishes JSON's null from SQL's NULL."""

    value: Json


def invalid_json() -> DataException:
    """The error for text that is not JSON (22P02)."""
    return invalid_syntax("json")


def check_string(text: str) -> str:
    """Check a string in which the escapes have been replaced, and return it.

    Raises:
        DataException: 22P05, it contains a zero character; 22P02, it contains half of a surrogate
            pair.
    """
    if "\0" in text:
        raise DataException("unsupported Unicode escape sequence", sqlstate="22P05")
    if not text.isascii() and _SURROGATE.search(text):
        raise invalid_json()
    return text


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class _Number(str):
    """A number as it was written. It is converted after the whole document has proved valid."""

    __slots__ = ()


def _no_constant(_: str) -> Any:
    """Refuse NaN and Infinity, which Python reads and JSON does not contain."""
    raise invalid_json()


class _Members(tuple[tuple[str, Any], ...]):
    """The members of an object as they were written; a key may occur several times."""

    __slots__ = ()


_NUMBERS_AS_TEXT: Final = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_no_constant)
_TYPED: Final = json.JSONDecoder(
    parse_float=_Number, parse_int=_Number, parse_constant=_no_constant, object_pairs_hook=_Members
)


def check_syntax(text: str) -> None:
    """Check that a text is valid JSON. Of escapes, only the digits are checked.

    Raises:
        DataException: 22P02, the text is not JSON.
        NotSupportedError: the document is nested too deeply to be checked.
    """
    _decode(_NUMBERS_AS_TEXT, text)


def value_end(text: str, start: int) -> int:
    """The end of the JSON value that begins at ``start`` of a valid document."""
    return _NUMBERS_AS_TEXT.raw_decode(text, start)[1]


def string_at(text: str, start: int) -> tuple[str, int]:
    """The string whose opening quote is at ``start`` of a valid document, and the end of the
    string.

    The result may contain halves of surrogate pairs.
    """
    found: tuple[str, int] = _NUMBERS_AS_TEXT.raw_decode(text, start)
    return found


def parse(text: str) -> Json:
    """The value of a document, as jsonb stores it.

    Raises:
        DataException: 22P02, 22P05, and the errors of numeric.
        NotSupportedError: the document is nested too deeply.
    """
    return _ordered(_decode(_TYPED, text))


def _decode(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        return decoder.decode(text)
    except json.JSONDecodeError:
        raise invalid_json() from None
    except RecursionError:
        raise NotSupportedError("a JSON document that is nested this deeply is not supported") from None


def _ordered(value: Any) -> Json:
    if isinstance(value, _Number):
        return numeric_in(value)
    if isinstance(value, str):
        return check_string(value)
    if isinstance(value, list):
        return tuple(_ordered(one) for one in value)
    if isinstance(value, _Members):
        # The values of duplicate keys must be valid, too, although only the last one is kept.
        return ordered_object({check_string(key): _ordered(one) for key, one in value})
    return value  # type: ignore[no-any-return]  # None or bool


def ordered_object(members: Mapping[str, Json]) -> dict[str, Json]:
    """An object with its keys in PostgreSQL's order."""
    return dict(sorted(members.items(), key=lambda member: (len(key := member[0].encode()), key)))


# --- text ---------------------------------------------------------------------------------------

_ESCAPES: Final = {code: f"\\u{code:04x}" for code in range(32)} | {
    ord(character): f"\\{letter}" for character, letter in zip('\b\f\n\r\t"\\', 'bfnrt"\\', strict=True)
}


def string_text(value: str) -> str:
    """A string in quotes, with the necessary escapes."""
    return f'"{value.translate(_ESCAPES)}"'


def to_text(value: Json) -> str:
    """A JSON value as the output function of jsonb writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return numeric_out(value)
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, tuple):
        return f"[{', '.join(to_text(one) for one in value)}]"
    return "{" + ", ".join(f"{string_text(key)}: {to_text(one)}" for key, one in value.items()) + "}"


# --- comparison ---------------------------------------------------------------------------------


def type_of(value: Json) -> str:
    """The name of a value's type (``jsonb_typeof``)."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, Decimal):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, tuple) else "object"


def equal(left: Json, right: Json) -> bool:
    """Whether two values are equal; the scale of numbers does not matter."""
    if type_of(left) != type_of(right):
        return False
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(equal(one, other) for one, other in zip(left, right, strict=True))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(one, right[key]) for key, one in left.items())
    return left == right


_TYPE_ORDER: Final = ("null", "string", "number", "boolean", "array", "object")


def order(left: Json, right: Json) -> int:
    """Compare two documents (``compareJsonbContainers``): the result is -1, 0 or 1.

    The order is that of a database whose collation compares bytes. A scalar document counts as an
    array with one element, which is less than a real array with one element. An array is greater
    than a scalar, with one exception: an empty array is less than every scalar document, including
    null.
    """
    is_scalar, other_is_scalar = (not isinstance(one, tuple | Mapping) for one in (left, right))
    if is_scalar and other_is_scalar:
        return _order(left, right)
    if is_scalar and isinstance(right, tuple):
        return 1 if not right else -1
    if other_is_scalar and isinstance(left, tuple):
        return -1 if not left else 1
    return _order((left,) if is_scalar else left, (right,) if other_is_scalar else right)


def _order(left: Json, right: Json) -> int:
    types = [_TYPE_ORDER.index(type_of(one)) for one in (left, right)]
    if types[0] != types[1]:
        return _sign(*types)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return _sign(len(left), len(right)) or _first(zip(left, right, strict=True))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        pairs = zip(left.items(), right.items(), strict=True) if len(left) == len(right) else ()
        return _sign(len(left), len(right)) or _first(pair for members in pairs for pair in zip(*members, strict=True))
    if isinstance(left, str) and isinstance(right, str):
        return _sign(left.encode(), right.encode())
    return _sign(left, right)


def _first(pairs: Iterable[tuple[Json, Json]]) -> int:
    return next((found for found in (_order(*pair) for pair in pairs) if found), 0)


def _sign(left: Any, right: Any) -> int:
    return 0 if left is None else int(left > right) - int(left < right)


def contains(value: Json, part: Json) -> bool:
    """Whether ``value`` contains all of ``part`` at the same depth."""
    if isinstance(part, Mapping):
        return isinstance(value, Mapping) and all(
            key in value and contains(value[key], one) for key, one in part.items()
        )
    if isinstance(part, tuple):
        return isinstance(value, tuple) and all(any(contains(one, other) for one in value) for other in part)
    return equal(value, part)


def root_contains(value: Json, part: Json) -> bool:
    """Whether a document contains another (``jsonb @> jsonb``). An array also contains its elements
    as scalar documents.
    """
    if isinstance(value, tuple) and not isinstance(part, tuple | Mapping):
        return any(equal(one, part) for one in value)
    return contains(value, part)


# --- the families -------------------------------------------------------------------------------


def _versioned_text(name: str, array: pa.BinaryArray) -> pa.StringArray:
    """Layout: version u8 = 1, text."""
    data, offsets = values_of(array)
    starts = offsets[:-1]
    if np.any(np.diff(offsets) == 0) or np.any(data[starts] != _VERSION):
        raise ProtocolError(f"unsupported {name} version number", sqlstate="22P03")
    text_offsets = offsets - np.arange(len(offsets))
    return as_text(binary_array(np.delete(data, starts), text_offsets.astype(np.int32)))


def _versioned_send(text: str) -> bytes:
    return bytes([_VERSION]) + text.encode()


def json_in(text: str) -> str:
    """The input function of json, which keeps the text.

    Raises:
        DataException: 22P02, the text is not JSON.
        NotSupportedError: the document is nested too deeply to be checked.
    """
    check_syntax(text)
    return text


def jsonb_in(text: str) -> Jsonb:
    """The input function of jsonb. It raises the errors of :func:`parse`."""
    return Jsonb(parse(text))


def jsonb_out(document: Jsonb) -> str:
    """The output function of jsonb."""
    return to_text(document.value)


_JSON: Final = Form(without_modifier(json_in), str)
_JSONB: Final = Form(without_modifier(jsonb_in), jsonb_out)
_EQUALITY: Final = Equality(canonical=canonical_inside)

FAMILIES: Final = (
    family("json", (114,), pa.string(), as_text, as_text, _JSON, equality=NONE, send=str.encode),
    family(
        "jsonb",
        (3802,),
        pa.string(),
        as_text,
        partial(_versioned_text, "jsonb"),
        _JSONB,
        equality=_EQUALITY,
        send=_versioned_send,
    ),
    family(
        "jsonpath",
        (4072,),
        pa.string(),
        as_text,
        partial(_versioned_text, "jsonpath"),
        equality=NONE,
        send=_versioned_send,
    ),
)
