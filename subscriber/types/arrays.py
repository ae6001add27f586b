r"""Decoding of arrays of every built-in type.

The binary format becomes the text that ``array_out`` writes.

::

    one column's arrays ──▶ bounds of each + the elements of all ──elements' family──▶ texts ──▶ {1,NULL,3}

The elements of all arrays of a column are decoded together, as one column of the elements' type.

int2vector and oidvector are sent as arrays whose lower bound is 0. Their text is the numbers,
separated by blanks.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import islice
from math import prod
from typing import Any, Final, NamedTuple

import pyarrow as pa

from subscriber.types.array_text import MOST_DIMENSIONS, Array, array_in, array_out, array_text, quoted
from subscriber.types.equality import EXACT, Canonical, Equality
from subscriber.types.family import Decoder, Send, TypeFamily, as_text, family, invalid_binary, sized
from subscriber.types.floats import canonical_text
from subscriber.types.form import Form, FromText
from subscriber.types.oids import ELEMENT_TYPES, type_name
from subscriber.types.output import output_texts

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
"""int2vector and oidvector: OID → OID of the elements' type."""


class _Bounds(NamedTuple):
    """The dimensions of an array, outermost first: sizes and lower bounds."""

    sizes: tuple[int, ...]
    firsts: tuple[int, ...]


def _from_binary(name: str, element_type: int, elements: TypeFamily, array: pa.BinaryArray) -> pa.StringArray:
    delimiter = ";" if element_type == _BOX else ","
    found, values = _take_apart(name, element_type, array)
    texts = iter(_texts(elements, values, delimiter))
    written = (_written(bounds, texts, delimiter) for bounds in found)
    return pa.array(written, type=pa.string())


def _vector_from_binary(name: str, element_type: int, elements: TypeFamily, array: pa.BinaryArray) -> pa.StringArray:
    found, values = _take_apart(name, element_type, array)
    if None in values or any(len(bounds.sizes) > 1 or any(bounds.firsts) for bounds in found):
        raise invalid_binary(name)
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
                raise invalid_binary(name)
            at = _HEADER.size + dimensions * _DIMENSION.size
            bounds = _bounds(name, data[_HEADER.size : at])
            count = prod(bounds.sizes) if bounds.sizes else 0
            if count * _LENGTH.size > len(data) - at:
                raise invalid_binary(name)
            values += _elements(name, data, at, count)
            found.append(bounds)
    except struct.error:
        raise invalid_binary(name) from None
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
            raise invalid_binary(name)
        values.append(data[at : at + length])
        at += length
    if at != len(data):
        raise invalid_binary(name)
    return values


@lru_cache(_MOST_ALIKE)
def _alike(count: int, size: int) -> struct.Struct:
    """The layout of ``count`` elements of that size."""
    return struct.Struct(">" + f"i{size}s" * count)


def _bounds(name: str, data: bytes) -> _Bounds:
    pairs = list(_DIMENSION.iter_unpack(data))
    if any(size < 0 or first + size > _LARGEST_BOUND for size, first in pairs):
        raise invalid_binary(name)
    if any(size == 0 for size, _ in pairs):
        return _Bounds((), ())
    return _Bounds(tuple(size for size, _ in pairs), tuple(first for _, first in pairs))


def _texts(elements: TypeFamily, values: list[bytes | None], delimiter: str) -> Iterator[str]:
    """The text of each element, as it is written between the braces."""
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


def array_send(element_type: int, send: Send, text: str) -> bytes:
    """The send function of arrays (``array_send``). The layout is that of the decoder.

    Args:
        element_type: the OID of the elements' type.
        send: the send function of the elements.
        text: the text of the array.

    Raises:
        DataException: as :func:`~subscriber.types.array_text.array_in`, and the errors of the
            elements.
    """
    # Boxes contain commas, and semicolons separate them. array_in reads the opposite.
    exchange = _exchanged if element_type == _BOX else str
    found = array_in(exchange, exchange(text))
    head = _HEADER.pack(len(found.dimensions), None in found.elements, element_type)
    bounds = b"".join(_DIMENSION.pack(*bound) for bound in zip(found.dimensions, found.lower_bounds, strict=True))
    return head + bounds + b"".join(_NULL_ELEMENT if one is None else sized(send(one)) for one in found.elements)


def _exchanged(text: str) -> str:
    return text.translate(_EXCHANGED)


def _vector_send(element_type: int, send: Send, text: str) -> bytes:
    """The send function of int2vector and oidvector: arrays with the lower bound 0."""
    numbers = text.split()
    head = _HEADER.pack(1, 0, element_type) + _DIMENSION.pack(len(numbers), 0)
    return head + b"".join(sized(send(number)) for number in numbers)


def array_families(by_oid: Mapping[int, TypeFamily]) -> tuple[TypeFamily, ...]:
    """The families of the arrays of all types in ``by_oid``, and those of int2vector and
    oidvector.
    """
    vectors = tuple(
        _family(
            oid,
            partial(_vector_from_binary, type_name(oid), element, by_oid[element]),
            send=_sender(_vector_send, element, by_oid[element]),
        )
        for oid, element in _VECTORS.items()
    )
    known = {**by_oid, **{oid: vector for vector in vectors for oid in vector.oids}}
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


def _equality(element_type: int, element: TypeFamily) -> Equality:
    """The equality of arrays whose elements have this type."""
    # The elements of an array are text, also numbers that are decoded to a numeric type in a
    # column.
    canonical = canonical_text if element_type in _FLOATS else element.equality.canonical
    return Equality(canonical=partial(_canonical, canonical)) if canonical else element.equality


_ELEMENT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^{},"]+)', re.DOTALL)


def _canonical(element: Canonical, text: str) -> str:
    r"""The canonical form of an array: every element in its canonical form, in quotes.

    >>> from subscriber.types.numeric import canonical
    >>> _canonical(canonical, "[0:1]={1.0,NULL}"), _canonical(str.rstrip, '{{"a ",b},{"\\" ","NULL"}}')
    ('[0:1]={"1",NULL}', '{{"a","b"},{"\\"","NULL"}}')
    """

    def quoted_element(found: re.Match[str]) -> str:
        if found[2] == "NULL":
            return "NULL"
        value = found[2] if found[1] is None else re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL)
        return '"' + re.sub(r'(["\\])', r"\\\1", element(value)) + '"'

    bounds, brace, elements = text.partition("{")
    return bounds + brace + _ELEMENT.sub(quoted_element, elements)


def _form(element: Form | None) -> Form | None:
    """The form of arrays of these elements; None if the order of the elements is not known."""
    if element is None or element.compare is None:
        return None
    return Form(partial(_read, element.from_text), partial(array_out, element.to_text))


def _read(from_text: FromText, text: str, modifier: int) -> Array:
    return array_in(partial(_element, from_text, modifier), text)


def _element(from_text: FromText, modifier: int, text: str) -> Any:
    return from_text(text, modifier)


def _sender(write: Callable[[int, Send, str], bytes], element_type: int, element: TypeFamily) -> Send | None:
    return None if element.send is None else partial(write, element_type, element.send)


def _family(
    oid: int,
    from_binary: Decoder,
    form: Form | None = None,
    equality: Equality = EXACT,
    send: Send | None = None,
) -> TypeFamily:
    return family(type_name(oid), (oid,), pa.string(), as_text, from_binary, form, equality=equality, send=send)
