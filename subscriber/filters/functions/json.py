"""jsonb: access, containment, existence, deletion and casts.

The order of documents is that of a database whose collation compares bytes, because the order of
the strings in them depends on the collation. jsonpath is not supported. The functions of json are
in :mod:`.json_text`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from subscriber.digits import integer_of
from subscriber.errors import RowFilterError
from subscriber.filters.functions.function_table import Context, FunctionTable
from subscriber.filters.functions.numeric import FUNCTIONS as NUMERIC_FUNCTIONS
from subscriber.types.array_text import Array
from subscriber.types.json import (
    Json,
    Jsonb,
    equal,
    order,
    ordered_object,
    root_contains,
    to_text,
    type_of,
)
from subscriber.types.numeric import numeric_out

FUNCTIONS: Final = FunctionTable()

_INT32: Final = (-(2**31), 2**31 - 1)
_INDEX: Final = re.compile(r"[ \t\n\v\f\r]*([-+]?[0-9]+)", re.ASCII)
_NULL_CASTS: Final = 180000
"""The first version that casts JSON's null to SQL's NULL. In older versions it is an error."""


class NothingThereError(LookupError):
    """The requested part is not in the document."""


def _invalid(message: str) -> RowFilterError:
    return RowFilterError(message, sqlstate="22023")


def _as_text(value: Json) -> str | None:
    """The text that ``->>`` gives for a value; None for JSON's null."""
    if value is None:
        return None
    if isinstance(value, str):
        return value
    return numeric_out(value) if isinstance(value, Decimal) else to_text(value)


def _elements(value: Json) -> tuple[Json, ...]:
    """The elements of an array. A scalar counts as an array with one element, as it is stored."""
    return value if isinstance(value, tuple) else (value,)


def _is_scalar(value: Json) -> bool:
    return not isinstance(value, tuple | Mapping)


def path_index(text: str) -> int | None:
    """A path element as the index of an array element; None if it is not an index."""
    match = _INDEX.fullmatch(text)
    if match is None or not _INT32[0] <= (index := integer_of(match[1])) <= _INT32[1]:
        return None
    return index


def element_at(elements: Sequence[Any], index: int) -> Any:
    """The element at an index, which counts from the end if it is negative.

    Raises:
        NothingThereError: there is no such element.
    """
    if index >= len(elements) or index < -len(elements):
        raise NothingThereError
    return elements[index]


# --- jsonb: access ------------------------------------------------------------------------------


def _register_access(signature: str, find: Callable[[Json, Any], Json]) -> None:
    """Register an access function and its ``_text`` variant.

    The function ``find`` raises LookupError if the requested part does not exist.
    """

    def as_jsonb(document: Jsonb, place: Any) -> Jsonb | None:
        try:
            return Jsonb(find(document.value, place))
        except LookupError:
            return None

    def as_text(document: Jsonb, place: Any) -> str | None:
        try:
            return _as_text(find(document.value, place))
        except LookupError:
            return None

    FUNCTIONS.elementwise(signature, raises=False)(as_jsonb)
    FUNCTIONS.elementwise(signature.replace("(", "_text("), raises=False)(as_text)


def _field(value: Json, name: str) -> Json:
    if not isinstance(value, Mapping):
        raise NothingThereError
    return value[name]


def _element(value: Json, index: int) -> Json:
    if isinstance(value, Mapping):
        raise NothingThereError
    found: Json = element_at(_elements(value), index)
    return found


def _path(value: Json, path: Array) -> Json:
    if None in path.elements:
        raise NothingThereError
    for step in path.elements:
        if isinstance(value, tuple):
            index = path_index(step)
            if index is None:
                raise NothingThereError
            value = element_at(value, index)
        else:
            value = _field(value, step)
    return value


_register_access("jsonb_object_field(jsonb,text)", _field)
_register_access("jsonb_array_element(jsonb,int4)", _element)
_register_access("jsonb_extract_path(jsonb,_text)", _path)


# --- jsonb: questions ---------------------------------------------------------------------------


@FUNCTIONS.elementwise("jsonb_eq(jsonb,jsonb)", raises=False)
def _equal(left: Jsonb, right: Jsonb) -> bool:
    return equal(left.value, right.value)


@FUNCTIONS.elementwise("jsonb_ne(jsonb,jsonb)", raises=False)
def _not_equal(left: Jsonb, right: Jsonb) -> bool:
    return not equal(left.value, right.value)


# jsonb_cmp is not here: for strings it returns the result of C's memcmp, of which only the
# sign is defined.
for _name, _test in {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}.items():
    FUNCTIONS.elementwise(f"jsonb_{_name}(jsonb,jsonb)", raises=False)(
        lambda left, right, test=_test: test(order(left.value, right.value), 0)
    )


@FUNCTIONS.elementwise("jsonb_contains(jsonb,jsonb)", raises=False)
def _contains(document: Jsonb, part: Jsonb) -> bool:
    return root_contains(document.value, part.value)


@FUNCTIONS.elementwise("jsonb_contained(jsonb,jsonb)", raises=False)
def _contained(part: Jsonb, document: Jsonb) -> bool:
    return root_contains(document.value, part.value)


@FUNCTIONS.elementwise("jsonb_exists(jsonb,text)", raises=False)
def _exists(document: Jsonb, name: str) -> bool:
    value = document.value
    if isinstance(value, Mapping):
        return name in value
    return any(isinstance(one, str) and one == name for one in _elements(value))


@FUNCTIONS.elementwise("jsonb_exists_any(jsonb,_text)", raises=False)
def _exists_any(document: Jsonb, names: Array) -> bool:
    return any(_exists(document, name) for name in names.elements if name is not None)


@FUNCTIONS.elementwise("jsonb_exists_all(jsonb,_text)", raises=False)
def _exists_all(document: Jsonb, names: Array) -> bool:
    return all(_exists(document, name) for name in names.elements if name is not None)


@FUNCTIONS.elementwise("jsonb_typeof(jsonb)", raises=False)
def _type_of(document: Jsonb) -> str:
    return type_of(document.value)


@FUNCTIONS.elementwise("jsonb_array_length(jsonb)")
def _array_length(document: Jsonb) -> int:
    value = document.value
    if isinstance(value, tuple):
        return len(value)
    raise no_array_length(is_scalar=_is_scalar(value))


def no_array_length(*, is_scalar: bool) -> RowFilterError:
    """The error for a document that is not an array."""
    return _invalid(f"cannot get array length of a {'scalar' if is_scalar else 'non-array'}")


# --- jsonb: other documents ---------------------------------------------------------------------


@FUNCTIONS.elementwise("jsonb_concat(jsonb,jsonb)", raises=False)
def _concat(left: Jsonb, right: Jsonb) -> Jsonb:
    if isinstance(left.value, Mapping) and isinstance(right.value, Mapping):
        return Jsonb(ordered_object({**left.value, **right.value}))
    return Jsonb((*_elements(left.value), *_elements(right.value)))


def _without(document: Jsonb, names: frozenset[str]) -> Jsonb:
    value = document.value
    if isinstance(value, Mapping):
        return Jsonb({key: one for key, one in value.items() if key not in names})
    if isinstance(value, tuple):
        return Jsonb(tuple(one for one in value if not isinstance(one, str) or one not in names))
    raise _invalid("cannot delete from scalar")


@FUNCTIONS.elementwise("jsonb_delete(jsonb,text)")
def _delete(document: Jsonb, name: str) -> Jsonb:
    return _without(document, frozenset({name}))


@FUNCTIONS.elementwise("jsonb_delete(jsonb,_text)")
def _delete_names(document: Jsonb, names: Array) -> Jsonb:
    _check_one_dimension(names)
    return _without(document, frozenset(name for name in names.elements if name is not None))


def _check_one_dimension(array: Array) -> None:
    if len(array.dimensions) > 1:
        raise RowFilterError("wrong number of array subscripts", sqlstate="2202E")


@FUNCTIONS.elementwise("jsonb_delete(jsonb,int4)")
def _delete_element(document: Jsonb, index: int) -> Jsonb:
    value = document.value
    if _is_scalar(value):
        raise _invalid("cannot delete from scalar")
    if isinstance(value, Mapping):
        raise _invalid("cannot delete from object using integer index")
    return Jsonb(_without_element(_elements(value), index))


def _without_element(elements: tuple[Json, ...], index: int) -> tuple[Json, ...]:
    place = index + len(elements) if index < 0 else index
    return elements if not 0 <= place < len(elements) else elements[:place] + elements[place + 1 :]


@FUNCTIONS.elementwise("jsonb_delete_path(jsonb,_text)")
def _delete_path(document: Jsonb, path: Array) -> Jsonb:
    _check_one_dimension(path)
    if _is_scalar(document.value):
        raise _invalid("cannot delete path in scalar")
    if not document.value or not path.elements:
        return document
    return Jsonb(_without_path(document.value, path.elements, 0))


def _without_path(value: Json, path: Sequence[Any], depth: int) -> Json:
    step = path[depth]
    if step is None:
        raise RowFilterError(f"path element at position {depth + 1} is null", sqlstate="22004")
    if _is_scalar(value):
        return value
    is_last = depth == len(path) - 1
    if isinstance(value, Mapping):
        if step not in value:
            return value
        if is_last:
            return {key: one for key, one in value.items() if key != step}
        return {key: _without_path(one, path, depth + 1) if key == step else one for key, one in value.items()}
    elements = _elements(value)
    index = path_index(step)
    if index is None:
        raise RowFilterError(f"path element at position {depth + 1} is not an integer", sqlstate="22P02")
    if is_last:
        return _without_element(elements, index)
    place = index + len(elements) if index < 0 else index
    return tuple(_without_path(one, path, depth + 1) if at == place else one for at, one in enumerate(elements))


def _without_nulls(value: Json, *, in_arrays: bool) -> Json:
    if isinstance(value, Mapping):
        return {key: _without_nulls(one, in_arrays=in_arrays) for key, one in value.items() if one is not None}
    if isinstance(value, tuple):
        return tuple(_without_nulls(one, in_arrays=in_arrays) for one in value if one is not None or not in_arrays)
    return value


@FUNCTIONS.elementwise("jsonb_strip_nulls(jsonb)", raises=False)
def _strip_nulls(document: Jsonb) -> Jsonb:
    return Jsonb(_without_nulls(document.value, in_arrays=False))


@FUNCTIONS.elementwise("jsonb_strip_nulls(jsonb,bool)", raises=False)
def _strip_nulls_in_arrays(document: Jsonb, in_arrays: bool) -> Jsonb:
    return Jsonb(_without_nulls(document.value, in_arrays=in_arrays))


# --- jsonb: casts -------------------------------------------------------------------------------


def _check_cast(context: Context, value: Json, kind: type, target: str) -> bool:
    """Whether there is a value to convert: JSON's null becomes SQL's NULL.

    Raises:
        RowFilterError: 22023, the value is of another type.
    """
    if value is None and context.server_version >= _NULL_CASTS:
        return False
    found = type_of(value)
    if not isinstance(value, kind):
        raise _invalid(f"cannot cast jsonb {'numeric' if found == 'number' else found} to type {target}")
    return True


@FUNCTIONS.elementwise("bool(jsonb)", context=True)
def _to_bool(context: Context, document: Jsonb) -> Any:
    return document.value if _check_cast(context, document.value, bool, "boolean") else None


@FUNCTIONS.elementwise("numeric(jsonb)", context=True)
def _to_numeric(context: Context, document: Jsonb) -> Any:
    return document.value if _check_cast(context, document.value, Decimal, "numeric") else None


def _register_cast(name: str, target: str) -> None:
    def cast(context: Context, document: Jsonb) -> Any:
        if not _check_cast(context, document.value, Decimal, target):
            return None
        return NUMERIC_FUNCTIONS[f"{name}(numeric)"].function(document.value)

    FUNCTIONS.elementwise(f"{name}(jsonb)", context=True)(cast)


for _name, _target in (
    ("int2", "smallint"),
    ("int4", "integer"),
    ("int8", "bigint"),
    ("float4", "real"),
    ("float8", "double precision"),
):
    _register_cast(_name, _target)
