"""Arrays of every built-in type: their text, and decoding of their binary format.

The text is ``{1,NULL,"a b"}``, preceded by the bounds, as in ``[0:2]={…}``, if a lower bound is not
1. The binary format becomes that text::

    one column's arrays ──▶ bounds of each + the elements of all ──elements' family──▶ texts ──▶ {1,NULL,3}

int2vector and oidvector are sent as arrays whose lower bound is 0. Their text is the numbers,
separated by blanks.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from math import prod
from typing import Any, Final, NamedTuple

import pyarrow as pa

from subscriber.base.digits import parse_int
from subscriber.base.errors import DataException
from subscriber.postgres.types import family
from subscriber.postgres.types.byte_strings import byteaout
from subscriber.postgres.types.equality import EXACT, Canonical, Equality
from subscriber.postgres.types.float_text import double_text, real_text
from subscriber.postgres.types.floats import canonical_text
from subscriber.postgres.types.integers import boolout
from subscriber.postgres.types.oids import ELEMENT_TYPES, type_name

MOST_DIMENSIONS: Final = 6
MOST_ELEMENTS: Final = 134_217_727

_SPACE: Final = " \t\n\r\v\f"
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_INT32: Final = (-(2**31), 2**31 - 1)
_END_OF_ELEMENT: Final = re.compile(rf"[{_SPACE}]*[,}}]")
_TOKEN: Final = re.compile(
    rf'[{_SPACE}]*(?:(?P<mark>[{{}},])|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>(?:[^{{}},"\\]|\\.)+))', re.DOTALL
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_TRAILING: Final = re.compile(rf"((?:[^\\]|\\.)*?)[{_SPACE}]*", re.DOTALL)
_SPECIAL: Final = r'[\s"\\{}%s]|\A\Z|\A(?i:null)\Z'
_TO_QUOTE: Final = {delimiter: re.compile(_SPECIAL % delimiter, re.ASCII) for delimiter in ",;"}
r"""With the blanks of array_isspace: space, \t, \n, \r, \v, \f."""


@dataclass(frozen=True, slots=True)
class Array:
    """A value of an array type: the size and the first subscript of each dimension (none for an
    empty array), and the elements in their type's form, row by row; None is NULL.
    """

    dimensions: tuple[int, ...]
    lower_bounds: tuple[int, ...]
    elements: tuple[Any, ...]


EMPTY: Final = Array((), (), ())


def malformed() -> DataException:
    return DataException("malformed array literal", sqlstate="22P02")


def too_many_dimensions() -> DataException:
    return DataException(
        f"number of array dimensions exceeds the maximum allowed ({MOST_DIMENSIONS})", sqlstate="54000"
    )


def too_large() -> DataException:
    return DataException(f"array size exceeds the maximum allowed ({MOST_ELEMENTS})", sqlstate="54000")


def array_in(element: Callable[[str], Any], text: str) -> Array:
    lower, given, rest = _bounds(text.strip(_SPACE))
    if given:
        if not rest.startswith("="):
            raise malformed()
        rest = rest[1:].lstrip(_SPACE)
    dimensions, elements = _read(rest, element)
    if given and tuple(given) != dimensions:
        raise malformed()
    return Array(dimensions, tuple(lower) or (1,) * len(dimensions), tuple(elements)) if dimensions else EMPTY


def _bounds(text: str) -> tuple[list[int], list[int], str]:
    """Read bounds such as ``[1:2][0:3]``: the lower bounds, the sizes, and the rest of the text."""
    lower: list[int] = []
    sizes: list[int] = []
    while text.startswith("["):
        if len(sizes) == MOST_DIMENSIONS:
            raise too_many_dimensions()
        first, text = _bound(text[1:])
        last = first
        if text.startswith(":"):
            last, text = _bound(text[1:])
        else:
            first = 1
        if not text.startswith("]"):
            raise malformed()
        text = text[1:].lstrip(_SPACE)
        if last < first:
            raise DataException("upper bound cannot be less than lower bound", sqlstate="2202E")
        if last == _INT32[1]:
            raise DataException(f"array upper bound is too large: {last}", sqlstate="54000")
        if last - first + 1 > _INT32[1]:
            raise too_large()
        lower.append(first)
        sizes.append(last - first + 1)
    return lower, sizes, text


def _bound(text: str) -> tuple[int, str]:
    match = _INTEGER.match(text)
    if match is None:
        raise malformed()
    bound = parse_int(match[0])
    if not _INT32[0] <= bound <= _INT32[1]:
        raise DataException("array bound is out of integer range", sqlstate="54000")
    return bound, text[match.end() :]


def _read(text: str, element: Callable[[str], Any]) -> tuple[tuple[int, ...], list[Any]]:
    """Each element is read before the text after it is checked."""
    if not text.startswith("{"):
        raise malformed()
    elements: list[Any] = []
    # ``counts`` has the number of members so far for each open brace. ``sizes`` has the required
    # number of members for each depth.
    counts: list[int] = []
    sizes: dict[int, int] = {}
    leaf_depth: int | None = None
    place, expects_member, may_close = 0, True, False
    while True:
        token = _TOKEN.match(text, place)
        if token is None:
            raise malformed()
        place = token.end()
        mark = token["mark"]
        if mark == "{" and expects_member:
            if counts:
                counts[-1] += 1
            counts.append(0)
            if len(counts) > MOST_DIMENSIONS:
                raise too_many_dimensions()
            expects_member, may_close = True, True
        elif mark == "}" and may_close:
            count = counts.pop()
            if sizes.setdefault(len(counts), count) != count:
                raise malformed()
            expects_member, may_close = False, True
            if not counts:
                break
        elif mark == "," and not expects_member:
            expects_member, may_close = True, False
        elif mark is None and expects_member:
            if _END_OF_ELEMENT.match(text, place) is None:
                raise malformed()
            written = _element(token)
            elements.append(None if written is None else element(written))
            if leaf_depth is None:
                leaf_depth = len(counts)
            if leaf_depth != len(counts):
                raise malformed()
            counts[-1] += 1
            expects_member, may_close = False, True
        else:
            raise malformed()
    if place != len(text):
        raise malformed()
    if not elements:
        return (), []
    if leaf_depth is None or len(sizes) != leaf_depth:
        raise malformed()
    return tuple(sizes[depth] for depth in range(leaf_depth)), elements


def _element(token: re.Match[str]) -> str | None:
    if token["quoted"] is not None:
        return _ESCAPED.sub(r"\1", token["quoted"])
    match = _TRAILING.fullmatch(token["bare"])
    bare = match[1] if match else ""
    if not bare:
        raise malformed()
    if bare.upper() == "NULL":
        return None
    return _ESCAPED.sub(r"\1", bare)


def array_out(element: Callable[[Any], str], array: Array) -> str:
    present = quoted(element(one) for one in array.elements if one is not None)
    texts = ["NULL" if one is None else next(present) for one in array.elements]
    return array_text(texts, array.dimensions, array.lower_bounds)


def array_text(
    texts: Sequence[str], dimensions: Sequence[int], lower_bounds: Sequence[int], delimiter: str = ","
) -> str:
    """Put the texts of elements, row by row, into braces. Without dimensions the array is empty."""
    if not dimensions:
        return "{}"
    for size in reversed(dimensions):
        texts = ["{" + delimiter.join(texts[at : at + size]) + "}" for at in range(0, len(texts), size)]
    if all(bound == 1 for bound in lower_bounds):
        return texts[0]
    return f"{bounds_text(dimensions, lower_bounds)}={texts[0]}"


def bounds_text(dimensions: Sequence[int], lower_bounds: Sequence[int]) -> str:
    return "".join(f"[{lower}:{lower + size - 1}]" for lower, size in zip(lower_bounds, dimensions, strict=True))


def quoted(texts: Iterable[str], delimiter: str = ",") -> Iterator[str]:
    special = _TO_QUOTE[delimiter].search
    return (_in_quotes(text) if special(text) else text for text in texts)


def _in_quotes(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def output_text(value: pa.Scalar) -> str | None:
    return output_texts(pa.array([value.as_py()], value.type))[0] if value.is_valid else None


def output_texts(values: pa.Array) -> list[str]:
    """The text of each value of an array of a family's Arrow type, without nulls."""
    kind = values.type
    if pa.types.is_string(kind):
        texts: list[str] = values.to_pylist()
        return texts
    if pa.types.is_integer(kind):
        return [str(value) for value in values.to_pylist()]
    if pa.types.is_boolean(kind):
        return [boolout(value) for value in values.to_pylist()]
    if pa.types.is_binary(kind):
        return [byteaout(value) for value in values.to_pylist()]
    to_text = real_text if pa.types.is_float32(kind) else double_text
    return [to_text(value) for value in values.to_pylist()]


_HEADER: Final = struct.Struct(">iiI")
_DIMENSION: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">i")
_LARGEST_BOUND: Final = 2**31 - 1
_NULL: Final = -1
_MOST_ALIKE: Final = 256
"""The largest number of elements that are read together, and of layouts that are cached."""
_NULL_ELEMENT: Final = _LENGTH.pack(_NULL)
_BOX: Final = 603
_EXCHANGED: Final = str.maketrans(",;", ";,")
_FLOATS: Final = frozenset({700, 701})
_VECTORS: Final = {22: 21, 30: 26}
"""OID → OID of the elements' type: int2vector and oidvector."""


class _Bounds(NamedTuple):
    sizes: tuple[int, ...]
    firsts: tuple[int, ...]


def _from_binary(name: str, element_type: int, elements: family.TypeFamily, array: pa.BinaryArray) -> pa.StringArray:
    delimiter = ";" if element_type == _BOX else ","
    found, values = _take_apart(name, element_type, array)
    texts = iter(_texts(elements, values, delimiter))
    written = (_written(bounds, texts, delimiter) for bounds in found)
    return pa.array(written, type=pa.string())


def _vector_from_binary(
    name: str, element_type: int, elements: family.TypeFamily, array: pa.BinaryArray
) -> pa.StringArray:
    found, values = _take_apart(name, element_type, array)
    if None in values or any(len(bounds.sizes) > 1 or any(bounds.firsts) for bounds in found):
        raise family.invalid_binary(name)
    texts = iter(_texts(elements, values, ","))
    return pa.array([" ".join(next(texts) for _ in range(sum(bounds.sizes))) for bounds in found], type=pa.string())


def _take_apart(name: str, element_type: int, array: pa.BinaryArray) -> tuple[list[_Bounds], list[bytes | None]]:
    """The bounds of the arrays, and the bytes of all elements of all arrays in one list.

    Layout: dimensions i32, has nulls i32, OID of the elements' type u32, for each dimension its
    size i32 and its lower bound i32, then the elements, row by row: length i32 (-1 for NULL),
    bytes.
    """
    found: list[_Bounds] = []
    values: list[bytes | None] = []
    try:
        for data in array.to_pylist():
            dimensions, flags, oid = _HEADER.unpack_from(data)
            if not 0 <= dimensions <= MOST_DIMENSIONS or flags not in (0, 1) or oid != element_type:
                raise family.invalid_binary(name)
            at = _HEADER.size + dimensions * _DIMENSION.size
            bounds = _array_bounds(name, data[_HEADER.size : at])
            count = prod(bounds.sizes) if bounds.sizes else 0
            if count * _LENGTH.size > len(data) - at:
                raise family.invalid_binary(name)
            values += _elements(name, data, at, count)
            found.append(bounds)
    except struct.error:
        raise family.invalid_binary(name) from None
    return found, values


def _elements(name: str, data: bytes, at: int, count: int) -> list[bytes | None]:
    if 0 < count <= _MOST_ALIKE:
        # Elements of equal length, such as numbers, are read by a single call.
        width, rest = divmod(len(data) - at, count)
        if not rest:
            lengths_and_bytes = _alike(count, width - _LENGTH.size).unpack_from(data, at)
            if lengths_and_bytes[0::2] == (width - _LENGTH.size,) * count:
                return list(lengths_and_bytes[1::2])
    values: list[bytes | None] = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if length == _NULL:
            values.append(None)
            continue
        if not 0 <= length <= len(data) - at:
            raise family.invalid_binary(name)
        values.append(data[at : at + length])
        at += length
    if at != len(data):
        raise family.invalid_binary(name)
    return values


@lru_cache(_MOST_ALIKE)
def _alike(count: int, size: int) -> struct.Struct:
    return struct.Struct(">" + f"i{size}s" * count)


def _array_bounds(name: str, data: bytes) -> _Bounds:
    pairs = list(_DIMENSION.iter_unpack(data))
    if any(size < 0 or first + size > _LARGEST_BOUND for size, first in pairs):
        raise family.invalid_binary(name)
    if any(size == 0 for size, _ in pairs):
        return _Bounds((), ())
    return _Bounds(tuple(size for size, _ in pairs), tuple(first for _, first in pairs))


def _texts(elements: family.TypeFamily, values: list[bytes | None], delimiter: str) -> Iterator[str]:
    present = [value for value in values if value is not None]
    texts = output_texts(elements.decode_binary(pa.array(present, type=pa.binary())))
    if not pa.types.is_primitive(elements.arrow_type):  # numbers need no quotes
        texts = list(quoted(texts, delimiter))
    if len(present) == len(values):
        return iter(texts)
    written = iter(texts)
    return ("NULL" if value is None else next(written) for value in values)


def _written(bounds: _Bounds, texts: Iterator[str], delimiter: str) -> str:
    count = prod(bounds.sizes) if bounds.sizes else 0
    return array_text(list(islice(texts, count)), bounds.sizes, bounds.firsts, delimiter)


def array_send(element_type: int, send: family.Send, text: str) -> bytes:
    # Boxes contain commas, and semicolons separate them. array_in reads the opposite.
    exchange = _exchanged if element_type == _BOX else str
    found = array_in(exchange, exchange(text))
    head = _HEADER.pack(len(found.dimensions), None in found.elements, element_type)
    bounds = b"".join(_DIMENSION.pack(*bound) for bound in zip(found.dimensions, found.lower_bounds, strict=True))
    return head + bounds + b"".join(_NULL_ELEMENT if one is None else family.sized(send(one)) for one in found.elements)


def _exchanged(text: str) -> str:
    return text.translate(_EXCHANGED)


def _vector_send(element_type: int, send: family.Send, text: str) -> bytes:
    """The send function of int2vector and oidvector: arrays with the lower bound 0."""
    numbers = text.split()
    head = _HEADER.pack(1, 0, element_type) + _DIMENSION.pack(len(numbers), 0)
    return head + b"".join(family.sized(send(number)) for number in numbers)


def array_families(by_oid: Mapping[int, family.TypeFamily]) -> tuple[family.TypeFamily, ...]:
    vectors = tuple(
        _family(
            oid,
            partial(_vector_from_binary, type_name(oid), element, by_oid[element]),
            send=_sender(_vector_send, element, by_oid[element]),
        )
        for oid, element in _VECTORS.items()
    )
    known = {**by_oid, **{vector.oid: vector for vector in vectors}}
    arrays = (
        _family(
            oid,
            partial(_from_binary, type_name(oid), element, known[element]),
            _form(known[element].form),
            _equality(element, known[element]),
            _sender(array_send, element, known[element]),
        )
        for oid, element in ELEMENT_TYPES.items()
        if element in known
    )
    return (*vectors, *arrays)


def _equality(element_type: int, element: family.TypeFamily) -> Equality:
    # The elements of an array are text, also numbers that are decoded to a numeric type in a
    # column.
    canonical = canonical_text if element_type in _FLOATS else element.equality.canonical
    return Equality(canonical=partial(_canonical, canonical)) if canonical else element.equality


_ELEMENT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^{},"]+)', re.DOTALL)


def _canonical(element: Canonical, text: str) -> str:
    r"""The canonical form of an array: every element in its canonical form, in quotes.

    >>> _canonical(str.rstrip, '{{"a ",b},{"\\" ","NULL"}}')
    '{{"a","b"},{"\\"","NULL"}}'
    """

    def quoted_element(found: re.Match[str]) -> str:
        if found[2] == "NULL":
            return "NULL"
        value = found[2] if found[1] is None else re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL)
        return '"' + re.sub(r'(["\\])', r"\\\1", element(value)) + '"'

    bounds, brace, elements = text.partition("{")
    return bounds + brace + _ELEMENT.sub(quoted_element, elements)


def _form(element: family.Form | None) -> family.Form | None:
    """The form of arrays of these elements; None if the order of the elements is not known."""
    if element is None or element.compare is None:
        return None
    return family.Form(partial(read_array, element.from_text), partial(array_out, element.to_text))


def read_array(from_text: family.FromText, text: str, modifier: int) -> Array:
    return array_in(partial(_array_element, from_text, modifier), text)


def _array_element(from_text: family.FromText, modifier: int, text: str) -> Any:
    return from_text(text, modifier)


def _sender(
    write: Callable[[int, family.Send, str], bytes], element_type: int, element: family.TypeFamily
) -> family.Send | None:
    return None if element.send is None else partial(write, element_type, element.send)


def _family(
    oid: int,
    from_binary: family.Decoder,
    form: family.Form | None = None,
    equality: Equality = EXACT,
    send: family.Send | None = None,
) -> family.TypeFamily:
    return family.of_decoders(
        type_name(oid), oid, pa.string(), family.as_text, from_binary, form, equality=equality, send=send
    )
