"""json: access functions, which return a part of the document's text as it was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from subscriber.postgres.expressions.functions import json_functions
from subscriber.postgres.expressions.functions.function_table import elementwise
from subscriber.postgres.types.arrays import Array
from subscriber.postgres.types.json import check_string, string_at, string_text, value_end

_SPACE: Final = " \t\n\r"


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in _SPACE:
        place += 1
    return place


def _members(text: str, start: int) -> Iterator[tuple[str | None, int, int]]:
    """Key (None in an array), begin and end of each member of the object or array at ``start``."""
    is_object = text[start] == "{"
    place = _skip(text, start + 1)
    while text[place] not in "]}":
        key = None
        if is_object:
            key, place = string_at(text, place)
            place = _skip(text, _skip(text, place) + 1)
        end = value_end(text, place)
        yield key, place, end
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)


def _check_escapes(text: str) -> None:
    """All strings must be valid: the server reads all of them when it searches in the document."""
    if "\\u" not in text:
        return
    place = text.find('"')
    while place >= 0:
        string, end = string_at(text, place)
        check_string(string)
        place = text.find('"', end)


def _json_field(text: str, span: tuple[int, int], name: str) -> tuple[int, int]:
    if text[span[0]] != "{":
        raise json_functions.NothingThereError
    found = [(begin, end) for key, begin, end in _members(text, span[0]) if key == name]
    return found[-1]


def _json_element(text: str, span: tuple[int, int], index: int) -> tuple[int, int]:
    if text[span[0]] != "[":
        raise json_functions.NothingThereError
    found: tuple[int, int] = json_functions.element_at(
        [(begin, end) for _, begin, end in _members(text, span[0])], index
    )
    return found


def _json_path(text: str, span: tuple[int, int], path: Array) -> tuple[int, int]:
    """The part at a path, as the server's ``get_worker`` in jsonfuncs.c finds it.

    The server does not go down the path. It reads the whole document once and keeps the last value
    whose keys and indexes are those of the path. This shows in two places:

    - Of equal keys all count: the path ``a,b`` of ``{"a":{"b":1},"a":2}`` is 1.
    - A negative index is made a positive one at the first array of its level that is long enough,
      which need not be on the path, and keeps this value in all later arrays of the level. So the
      path ``a,-1`` of ``{"z":[1,2,3],"a":[4,5,6,7]}`` is 6.
    """
    begin, end = span
    steps = path.elements
    if not steps:
        # A scalar document is returned from its first character on, including leading blanks.
        return span if text[begin] in "{[" else (0, end)
    indexes = [json_functions.path_index(step) for step in steps]
    found = None
    values = [(begin, 0, True)]  # each with its level, and whether the path leads to it
    while values:
        begin, level, is_on_path = values.pop()
        if text[begin] not in "{[":
            continue
        members = list(_members(text, begin))
        index = indexes[level]
        if text[begin] == "[" and index is not None and index < 0 and -index <= len(members):
            index = indexes[level] = index + len(members)
        inner = []
        for place, (key, begin_of_member, end_of_member) in enumerate(members):
            matches = is_on_path and (place == index if key is None else key == steps[level])
            if level + 1 < len(steps):
                inner.append((begin_of_member, level + 1, matches))
            elif matches:
                found = begin_of_member, end_of_member
        values.extend(reversed(inner))  # so that the first is read next, as the server reads it
    if found is None:
        raise json_functions.NothingThereError
    return found


def _register_json_access(signature: str, find: Callable[[str, tuple[int, int], Any], tuple[int, int]]) -> None:
    def part(text: str, place: Any) -> str | None:
        if isinstance(place, Array) and None in place.elements:
            return None  # the server does not look at the document in this case
        _check_escapes(text)
        begin = _skip(text, 0)
        try:
            begin, end = find(text, (begin, value_end(text, begin)), place)
        except LookupError:
            return None
        return text[begin:end]

    def part_as_text(text: str, place: Any) -> str | None:
        found = part(text, place)
        begin = 0 if found is None else _skip(found, 0)
        if found is None or found[begin:] == "null":
            return None
        return check_string(string_at(found, begin)[0]) if found[begin] == '"' else found

    elementwise(signature)(part)
    elementwise(signature.replace("(", "_text("))(part_as_text)


_register_json_access("json_object_field(json,text)", _json_field)
_register_json_access("json_array_element(json,int4)", _json_element)
_register_json_access("json_extract_path(json,_text)", _json_path)


def _without_nulls(text: str, begin: int, end: int, *, in_arrays: bool) -> str:
    """The text of a value without the members of objects that are null, and without blanks."""
    if text[begin] == '"':
        return string_text(string_at(text, begin)[0])
    if text[begin] not in "{[":
        return text[begin:end]
    members = []
    for key, first, last in _members(text, begin):
        if text[first:last] != "null" or (key is None and not in_arrays):
            label = "" if key is None else f"{string_text(key)}:"
            members.append(label + _without_nulls(text, first, last, in_arrays=in_arrays))
    return text[begin] + ",".join(members) + ("}" if text[begin] == "{" else "]")


@elementwise("json_strip_nulls(json,bool)")
def _strip_nulls_in_arrays(text: str, in_arrays: bool) -> str:
    _check_escapes(text)
    begin = _skip(text, 0)
    return _without_nulls(text, begin, value_end(text, begin), in_arrays=in_arrays)


elementwise("json_strip_nulls(json)")(lambda text: _strip_nulls_in_arrays(text, False))


_TYPES: Final = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}


elementwise("json_typeof(json)", raises=False)(lambda text: _TYPES.get(text[_skip(text, 0)], "number"))


@elementwise("json_array_length(json)")
def _json_array_length(text: str) -> int:
    begin = _skip(text, 0)
    if text[begin] == "[":
        return sum(1 for _ in _members(text, begin))
    raise json_functions.no_array_length(is_scalar=text[begin] != "{")
