"""jsonb: access, containment, existence, deletion and casts.

Documents are ordered as in a database whose collation compares bytes, because the order of the
strings in them depends on the collation. jsonpath is not supported.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal

from subscriber.base.digits import parse_int
from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.functions.function_table import FUNCTIONS, Context, elementwise
from subscriber.postgres.types import json
from subscriber.postgres.types.arrays import Array
from subscriber.postgres.types.numeric import numeric_out

_INT32: Final = (-(2**31), 2**31 - 1)
_INDEX: Final = re.compile(r"[ \t\n\v\f\r]*([-+]?[0-9]+)", re.ASCII)
_NULL_CASTS: Final = 180000
"""The first version that casts JSON's null to SQL's NULL. In older versions it is an error."""


class NothingThereError(LookupError):
    """The requested part is not in the document."""


def _invalid(message: str) -> RowFilterError:
    return RowFilterError(message, sqlstate="22023")


def _as_text(value: json.Json) -> str | None:
    """What ``->>`` gives for a value; None for JSON's null."""
    if value is None:
        return None
    if isinstance(value, str):
        return value
    return numeric_out(value) if isinstance(value, Decimal) else json.to_text(value)


def _elements(value: json.Json) -> tuple[json.Json, ...]:
    """The elements of an array. A scalar counts as an array with one element, as it is stored."""
    return value if isinstance(value, tuple) else (value,)


def _is_scalar(value: json.Json) -> bool:
    return not isinstance(value, tuple | Mapping)


def path_index(text: str) -> int | None:
    """A path element as the index of an array element; None if it is not an index."""
    match = _INDEX.fullmatch(text)
    if match is None or not _INT32[0] <= (index := parse_int(match[1])) <= _INT32[1]:
        return None
    return index


def element_at(elements: Sequence[Any], index: int) -> Any:
    """The element at an index, which counts from the end if it is negative."""
    if index >= len(elements) or index < -len(elements):
        raise NothingThereError
    return elements[index]


# --- jsonb: access ------------------------------------------------------------------------------


def _register_access(signature: str, find: Callable[[json.Json, Any], json.Json]) -> None:
    """Register a function and its ``_text`` variant. ``find`` raises LookupError for no part."""

    def as_jsonb(document: json.Jsonb, place: Any) -> json.Jsonb | None:
        try:
            return json.Jsonb(find(document.value, place))
        except LookupError:
            return None

    def as_text(document: json.Jsonb, place: Any) -> str | None:
        try:
            return _as_text(find(document.value, place))
        except LookupError:
            return None

    elementwise(signature, raises=False)(as_jsonb)
    elementwise(signature.replace("(", "_text("), raises=False)(as_text)


def _field(value: json.Json, name: str) -> json.Json:
    if not isinstance(value, Mapping):
        raise NothingThereError
    return value[name]


def _element(value: json.Json, index: int) -> json.Json:
    if isinstance(value, Mapping):
        raise NothingThereError
    found: json.Json = element_at(_elements(value), index)
    return found


def _path(value: json.Json, path: Array) -> json.Json:
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

elementwise("jsonb_eq(jsonb,jsonb)", raises=False)(lambda left, right: json.equal(left.value, right.value))
elementwise("jsonb_ne(jsonb,jsonb)", raises=False)(lambda left, right: not json.equal(left.value, right.value))


# jsonb_cmp is not here: for strings it returns the result of C's memcmp, of which only the
# sign is defined.
for _name, _test in {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}.items():
    elementwise(f"jsonb_{_name}(jsonb,jsonb)", raises=False)(
        lambda left, right, test=_test: test(json.order(left.value, right.value), 0)
    )


elementwise("jsonb_contains(jsonb,jsonb)", raises=False)(
    lambda document, part: json.root_contains(document.value, part.value)
)
elementwise("jsonb_contained(jsonb,jsonb)", raises=False)(
    lambda part, document: json.root_contains(document.value, part.value)
)


@elementwise("jsonb_exists(jsonb,text)", raises=False)
def _exists(document: json.Jsonb, name: str) -> bool:
    value = document.value
    if isinstance(value, Mapping):
        return name in value
    return any(isinstance(one, str) and one == name for one in _elements(value))


elementwise("jsonb_exists_any(jsonb,_text)", raises=False)(
    lambda document, names: any(_exists(document, name) for name in names.elements if name is not None)
)
elementwise("jsonb_exists_all(jsonb,_text)", raises=False)(
    lambda document, names: all(_exists(document, name) for name in names.elements if name is not None)
)
elementwise("jsonb_typeof(jsonb)", raises=False)(lambda document: json.type_of(document.value))


@elementwise("jsonb_array_length(jsonb)")
def _array_length(document: json.Jsonb) -> int:
    value = document.value
    if isinstance(value, tuple):
        return len(value)
    raise no_array_length(is_scalar=_is_scalar(value))


def no_array_length(*, is_scalar: bool) -> RowFilterError:
    return _invalid(f"cannot get array length of a {'scalar' if is_scalar else 'non-array'}")


# --- jsonb: other documents ---------------------------------------------------------------------


@elementwise("jsonb_concat(jsonb,jsonb)", raises=False)
def _concat(left: json.Jsonb, right: json.Jsonb) -> json.Jsonb:
    if isinstance(left.value, Mapping) and isinstance(right.value, Mapping):
        return json.Jsonb(json.ordered_object({**left.value, **right.value}))
    return json.Jsonb((*_elements(left.value), *_elements(right.value)))


def _without(document: json.Jsonb, names: frozenset[str]) -> json.Jsonb:
    value = document.value
    if isinstance(value, Mapping):
        return json.Jsonb({key: one for key, one in value.items() if key not in names})
    if isinstance(value, tuple):
        return json.Jsonb(tuple(one for one in value if not isinstance(one, str) or one not in names))
    raise _invalid("cannot delete from scalar")


elementwise("jsonb_delete(jsonb,text)")(lambda document, name: _without(document, frozenset({name})))


@elementwise("jsonb_delete(jsonb,_text)")
def _delete_names(document: json.Jsonb, names: Array) -> json.Jsonb:
    _check_one_dimension(names)
    return _without(document, frozenset(name for name in names.elements if name is not None))


def _check_one_dimension(array: Array) -> None:
    if len(array.dimensions) > 1:
        raise RowFilterError("wrong number of array subscripts", sqlstate="2202E")


@elementwise("jsonb_delete(jsonb,int4)")
def _delete_element(document: json.Jsonb, index: int) -> json.Jsonb:
    value = document.value
    if _is_scalar(value):
        raise _invalid("cannot delete from scalar")
    if isinstance(value, Mapping):
        raise _invalid("cannot delete from object using integer index")
    return json.Jsonb(_without_element(_elements(value), index))


def _without_element(elements: tuple[json.Json, ...], index: int) -> tuple[json.Json, ...]:
    place = index + len(elements) if index < 0 else index
    return elements if not 0 <= place < len(elements) else elements[:place] + elements[place + 1 :]


@elementwise("jsonb_delete_path(jsonb,_text)")
def _delete_path(document: json.Jsonb, path: Array) -> json.Jsonb:
    _check_one_dimension(path)
    if _is_scalar(document.value):
        raise _invalid("cannot delete path in scalar")
    if not document.value or not path.elements:
        return document
    return json.Jsonb(_without_path(document.value, path.elements, 0))


def _step(path: Sequence[Any], depth: int) -> Any:
    if path[depth] is None:
        raise RowFilterError(f"path element at position {depth + 1} is null", sqlstate="22004")
    return path[depth]


def _without_path(value: json.Json, path: Sequence[Any], depth: int) -> json.Json:
    step = _step(path, depth)
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


def _without_nulls(value: json.Json, *, in_arrays: bool) -> json.Json:
    if isinstance(value, Mapping):
        return {key: _without_nulls(one, in_arrays=in_arrays) for key, one in value.items() if one is not None}
    if isinstance(value, tuple):
        return tuple(_without_nulls(one, in_arrays=in_arrays) for one in value if one is not None or not in_arrays)
    return value


@elementwise("jsonb_strip_nulls(jsonb)", raises=False)
def _strip_nulls(document: json.Jsonb) -> json.Jsonb:
    return json.Jsonb(_without_nulls(document.value, in_arrays=False))


@elementwise("jsonb_strip_nulls(jsonb,bool)", raises=False)
def _strip_nulls_in_arrays(document: json.Jsonb, in_arrays: bool) -> json.Jsonb:
    return json.Jsonb(_without_nulls(document.value, in_arrays=in_arrays))


# --- jsonb: setting a part ------------------------------------------------------------------------

_Operation = Literal["create", "replace", "insert before", "insert after"]
_TREATMENTS: Final = '"delete_key", "return_target", "use_json_null", or "raise_exception"'


@elementwise("jsonb_set(jsonb,_text,jsonb,bool)")
def _set(document: json.Jsonb, path: Array, new: json.Jsonb, create: bool) -> json.Jsonb:
    _check_one_dimension(path)
    if _is_scalar(document.value):
        raise _invalid("cannot set path in scalar")
    if not path.elements or not (document.value or create):
        return document
    return json.Jsonb(_with_path(document.value, path.elements, 0, new.value, "create" if create else "replace"))


@elementwise("jsonb_insert(jsonb,_text,jsonb,bool)")
def _insert(document: json.Jsonb, path: Array, new: json.Jsonb, after: bool) -> json.Jsonb:
    _check_one_dimension(path)
    if _is_scalar(document.value):
        raise _invalid("cannot set path in scalar")
    if not path.elements:
        return document
    return json.Jsonb(
        _with_path(document.value, path.elements, 0, new.value, "insert after" if after else "insert before")
    )


@elementwise("jsonb_set_lax(jsonb,_text,jsonb,bool,text)", strict=False)
def _set_lax(
    document: json.Jsonb | None, path: Array | None, new: json.Jsonb | None, create: bool | None, treatment: str | None
) -> json.Jsonb | None:
    if document is None or path is None or create is None:
        return None
    if treatment is None:
        raise _invalid(f"null_value_treatment must be {_TREATMENTS}")
    if new is not None:
        return _set(document, path, new, create)
    match treatment:
        case "raise_exception":
            raise RowFilterError("JSON value must not be null", sqlstate="22004")
        case "use_json_null":
            return _set(document, path, json.Jsonb(None), create)
        case "delete_key":
            return _delete_path(document, path)
        case "return_target":
            return document
    raise _invalid(f"null_value_treatment must be {_TREATMENTS}")


def _with_path(value: json.Json, path: Sequence[Any], depth: int, new: json.Json, operation: _Operation) -> json.Json:
    """``setPath``: the value with another part at a path."""
    step = _step(path, depth)
    if _is_scalar(value):
        return value
    is_last = depth == len(path) - 1
    if isinstance(value, Mapping):
        if is_last and step in value and operation.startswith("insert"):
            raise RowFilterError(
                "cannot replace existing key",
                sqlstate="22023",
                hint="Try using the function jsonb_set to replace key value.",
            )
        if is_last:
            return json.ordered_object({**value, step: new}) if step in value or operation != "replace" else value
        return {
            key: _with_path(one, path, depth + 1, new, operation) if key == step else one for key, one in value.items()
        }
    elements = _elements(value)
    index = path_index(step)
    if index is None:
        raise RowFilterError(f"path element at position {depth + 1} is not an integer", sqlstate="22P02")
    place = index + len(elements) if index < 0 else index
    if 0 <= place < len(elements):
        if not is_last:
            inner = _with_path(elements[place], path, depth + 1, new, operation)
            return (*elements[:place], inner, *elements[place + 1 :])
        kept = elements[place : place + 1] if operation.startswith("insert") else ()
        middle = (*kept, new) if operation == "insert after" else (new, *kept)
        return (*elements[:place], *middle, *elements[place + 1 :])
    if not is_last or operation == "replace":
        return value
    return (new, *elements) if place < 0 else (*elements, new)


elementwise("jsonb_pretty(jsonb)", raises=False)(lambda document: _indented(document.value, "\n"))


def _indented(value: json.Json, line: str) -> str:
    """The text of a value over several lines; ``line`` is the line break with the indentation."""
    inner = f"{line}    "
    if isinstance(value, Mapping):
        members = (f"{inner}{json.string_text(key)}: {_indented(one, inner)}" for key, one in value.items())
        return "{" + ",".join(members) + line + "}"
    if isinstance(value, tuple):
        return "[" + ",".join(inner + _indented(one, inner) for one in value) + line + "]"
    return json.to_text(value)


# --- objects of arrays of texts -----------------------------------------------------------------


def _no_array(message: str) -> RowFilterError:
    return RowFilterError(message, sqlstate="2202E")


def _pairs(array: Array) -> list[tuple[str, str | None]]:
    if len(array.dimensions) > 2:
        raise _no_array("wrong number of array subscripts")
    if len(array.dimensions) == 1 and array.dimensions[0] % 2:
        raise _no_array("array must have even number of elements")
    if len(array.dimensions) == 2 and array.dimensions[1] != 2:
        raise _no_array("array must have two columns")
    return _with_keys(array.elements[::2], array.elements[1::2])


def _pairs_of(keys: Array, values: Array) -> list[tuple[str, str | None]]:
    if len(keys.dimensions) > 1 or len(keys.dimensions) != len(values.dimensions):
        raise _no_array("wrong number of array subscripts")
    if len(keys.elements) != len(values.elements):
        raise _no_array("mismatched array dimensions")
    return _with_keys(keys.elements, values.elements)


def _with_keys(keys: Sequence[Any], values: Sequence[Any]) -> list[tuple[str, str | None]]:
    if None in keys:
        raise RowFilterError("null value not allowed for object key", sqlstate="22004")
    return list(zip(keys, values, strict=True))


def _json_object(pairs: list[tuple[str, str | None]]) -> str:
    return "{" + ", ".join(f"{json.string_text(key)} : {json.to_text(one)}" for key, one in pairs) + "}"


for _signature, _read in (("(_text)", _pairs), ("(_text,_text)", _pairs_of)):
    elementwise(f"json_object{_signature}")(lambda *given, read=_read: _json_object(read(*given)))
    elementwise(f"jsonb_object{_signature}")(
        lambda *given, read=_read: json.Jsonb(json.ordered_object(dict(read(*given))))
    )


# --- jsonb: casts -------------------------------------------------------------------------------


def _check_cast(context: Context, value: json.Json, kind: type, target: str) -> bool:
    """Whether there is a value to convert: JSON's null becomes SQL's NULL."""
    if value is None and context.server_version >= _NULL_CASTS:
        return False
    found = json.type_of(value)
    if not isinstance(value, kind):
        raise _invalid(f"cannot cast jsonb {'numeric' if found == 'number' else found} to type {target}")
    return True


elementwise("bool(jsonb)", context=True)(
    lambda context, document: document.value if _check_cast(context, document.value, bool, "boolean") else None
)
elementwise("numeric(jsonb)", context=True)(
    lambda context, document: document.value if _check_cast(context, document.value, Decimal, "numeric") else None
)


def _register_cast(name: str, target: str) -> None:
    def cast(context: Context, document: json.Jsonb) -> Any:
        if not _check_cast(context, document.value, Decimal, target):
            return None
        return FUNCTIONS[f"{name}(numeric)"].function(document.value)

    elementwise(f"{name}(jsonb)", context=True)(cast)


for _name, _target in (
    ("int2", "smallint"),
    ("int4", "integer"),
    ("int8", "bigint"),
    ("float4", "real"),
    ("float8", "double precision"),
):
    _register_cast(_name, _target)
