"""json, jsonb and jsonpath.

jsonb and jsonpath on the wire are their text, with a version byte before it in binary mode. json is
sent as its text. Python's parser reads the JSON grammar; here are the differences: numbers are
numerics with their scale, the last of several equal keys is kept, and keys are ordered by their
length and then by their bytes.
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

from subscriber.base.errors import DataException, NotSupportedError, ProtocolError
from subscriber.postgres.types import family
from subscriber.postgres.types.equality import NONE, Equality
from subscriber.postgres.types.numeric import canonical_inside, numeric_in, numeric_out

Json: TypeAlias = "bool | Decimal | str | tuple[Json, ...] | Mapping[str, Json] | None"
"""A JSON value; None is JSON's null. The keys of an object are in PostgreSQL's order."""

_VERSION: Final = 1
"""The version that jsonb_send and jsonpath_send write; the only one since PostgreSQL 9.4 and 12."""


@dataclass(frozen=True, slots=True)
class Jsonb:
    """A value of type jsonb. It distinguishes JSON's null from SQL's NULL."""

    value: Json


def invalid_json() -> DataException:
    return family.invalid_syntax("json")


def check_string(text: str) -> str:
    """Check a string without escapes: 22P05 for a zero character, 22P02 for half a surrogate."""
    wrong = _NO_CHARACTER.search(text)
    if wrong is None:
        return text
    if wrong[0] == "\0":
        raise DataException("unsupported Unicode escape sequence", sqlstate="22P05")
    raise invalid_json()


_NO_CHARACTER: Final = re.compile("[\0\ud800-\udfff]")


class _Number(str):
    """A number as it was written. It is converted after the whole document has proved valid."""

    __slots__ = ()


def _no_constant(_: str) -> Any:
    """Refuse NaN and Infinity, which Python reads and JSON does not contain."""
    raise ValueError


class _Members(tuple[tuple[str, Any], ...]):
    __slots__ = ()


_NUMBERS_AS_TEXT: Final = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_no_constant)
_TYPED: Final = json.JSONDecoder(
    parse_float=_Number, parse_int=_Number, parse_constant=_no_constant, object_pairs_hook=_Members
)


def check_syntax(text: str) -> None:
    """Check that a text is valid JSON. Of escapes, only the digits are checked."""
    try:
        _decode(_NUMBERS_AS_TEXT, text)
    except ValueError:
        raise invalid_json() from None


def value_end(text: str, start: int) -> int:
    """The end of the JSON value that begins at ``start`` of a valid document."""
    return _NUMBERS_AS_TEXT.raw_decode(text, start)[1]


def string_at(text: str, start: int) -> tuple[str, int]:
    """The string at ``start``, which may contain halves of surrogate pairs, and its end."""
    found: tuple[str, int] = _NUMBERS_AS_TEXT.raw_decode(text, start)
    return found


def parse(text: str) -> Json:
    try:
        found = _decode(_TYPED, text)
    except ValueError as error:
        _check_tokens(text, error.pos if isinstance(error, json.JSONDecodeError) else len(text))
        raise invalid_json() from None
    return _ordered(found)


_TOKEN: Final = re.compile(
    r'[ \t\n\r]*(?:"(?P<string>(?:[^"\\\0-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+)(?P<end>"?)|[][{},:]|'
    r"(?:true|false|null|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?))(?![0-9A-Za-z_\x80-\U0010ffff]))"
)


def _check_tokens(text: str, end: int) -> None:
    """Raise the server's error, which reads one token further before it converts a number."""
    place, number = 0, None
    while place <= end:
        token = _TOKEN.match(text, place)
        if token is None and text[place:].strip(" \t\n\r"):
            return
        if token is not None and token["string"] is not None:
            check_string(_NUMBERS_AS_TEXT.decode(f'"{token["string"]}"'))
            if not token["end"]:
                return
        if number is not None:
            numeric_in(number)
        if token is None:
            return
        place, number = token.end(), token["number"]


def _decode(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        return decoder.decode(text)
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
    return dict(sorted(members.items(), key=lambda member: (len(key := member[0].encode()), key)))


# --- text ---------------------------------------------------------------------------------------

_ESCAPES: Final = {code: f"\\u{code:04x}" for code in range(32)} | {
    ord(character): f"\\{letter}" for character, letter in zip('\b\f\n\r\t"\\', 'bfnrt"\\', strict=True)
}


def string_text(value: str) -> str:
    return f'"{value.translate(_ESCAPES)}"'


def to_text(value: Json) -> str:
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
    """The scale of numbers does not matter."""
    if type_of(left) != type_of(right):
        return False
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(equal(one, other) for one, other in zip(left, right, strict=True))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(one, right[key]) for key, one in left.items())
    return left == right


_TYPE_ORDER: Final = ("null", "string", "number", "boolean", "array", "object")


def order(left: Json, right: Json) -> int:
    """Compare two documents (``compareJsonbContainers``), with a collation that compares bytes.

    A scalar document counts as an array with one element, which is less than a real one. An array
    is greater than a scalar, but an empty array is less than every scalar document, including null.
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
    """``jsonb @> jsonb``: an array also contains its elements as scalar documents."""
    if isinstance(value, tuple) and not isinstance(part, tuple | Mapping):
        return any(equal(one, part) for one in value)
    return contains(value, part)


# --- the families -------------------------------------------------------------------------------


def _versioned_text(name: str, array: pa.BinaryArray) -> pa.StringArray:
    """Layout: version u8 = 1, text."""
    data, offsets = family.values_of(array)
    starts = offsets[:-1]
    if np.any(np.diff(offsets) == 0) or np.any(data[starts] != _VERSION):
        raise ProtocolError(f"unsupported {name} version number", sqlstate="22P03")
    text_offsets = offsets - np.arange(len(offsets))
    return family.as_text(family.binary_array(np.delete(data, starts), text_offsets.astype(np.int32)))


def _versioned_send(text: str) -> bytes:
    return bytes([_VERSION]) + text.encode()


def json_in(text: str) -> str:
    check_syntax(text)
    return text


def jsonb_in(text: str) -> Jsonb:
    return Jsonb(parse(text))


def jsonb_out(document: Jsonb) -> str:
    return to_text(document.value)


_JSON: Final = family.Form(family.without_modifier(json_in), str)
_JSONB: Final = family.Form(family.without_modifier(jsonb_in), jsonb_out)
_EQUALITY: Final = Equality(canonical=canonical_inside)

FAMILIES: Final = (
    family.of_decoders("json", 114, pa.string(), family.as_text, family.as_text, _JSON, equality=NONE, send=str.encode),
    family.of_decoders(
        "jsonb",
        3802,
        pa.string(),
        family.as_text,
        partial(_versioned_text, "jsonb"),
        _JSONB,
        equality=_EQUALITY,
        send=_versioned_send,
    ),
    family.of_decoders(
        "jsonpath",
        4072,
        pa.string(),
        family.as_text,
        partial(_versioned_text, "jsonpath"),
        equality=NONE,
        send=_versioned_send,
    ),
)
