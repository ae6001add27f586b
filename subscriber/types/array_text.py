"""The text of arrays.

The text is ``{1,NULL,"a b"}``, preceded by the bounds, as in ``[0:2]={…}``, if a lower bound is not
1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from subscriber.digits import integer_of
from subscriber.errors import DataException

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
r"""An element is written in quotes if it contains one of these. The blanks are those of
array_isspace: space, \t, \n, \r, \v, \f.
"""


@dataclass(frozen=True, slots=True)
class Array:
    """A value of an array type.

    Attributes:
        dimensions: the number of elements in each dimension; no dimensions for an empty array.
        lower_bounds: the first subscript of each dimension.
        elements: the elements in their type's form, row by row; None is NULL.
    """

    dimensions: tuple[int, ...]
    lower_bounds: tuple[int, ...]
    elements: tuple[Any, ...]


EMPTY: Final = Array((), (), ())


def malformed() -> DataException:
    """The error for text that is not an array (22P02)."""
    return DataException("malformed array literal", sqlstate="22P02")


def too_many_dimensions() -> DataException:
    """The error for more dimensions than an array may have (54000)."""
    return DataException(
        f"number of array dimensions exceeds the maximum allowed ({MOST_DIMENSIONS})", sqlstate="54000"
    )


def too_large() -> DataException:
    """The error for more elements than an array may have (54000)."""
    return DataException(f"array size exceeds the maximum allowed ({MOST_ELEMENTS})", sqlstate="54000")


def array_in(element: Callable[[str], Any], text: str) -> Array:
    """The input function of arrays.

    Args:
        element: the input function of the elements.
        text: the text of the array.

    Raises:
        DataException: 22P02, 2202E, 54000, and the errors of ``element``.
    """
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
    """Read bounds such as ``[1:2][0:3]``, which may precede an array.

    The result is the lower bounds, the sizes, and the rest of the text.
    """
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
    """The integer at the beginning of a text, and the rest of the text."""
    match = _INTEGER.match(text)
    if match is None:
        raise malformed()
    bound = integer_of(match[0])
    if not _INT32[0] <= bound <= _INT32[1]:
        raise DataException("array bound is out of integer range", sqlstate="54000")
    return bound, text[match.end() :]


def _read(text: str, element: Callable[[str], Any]) -> tuple[tuple[int, ...], list[Any]]:
    """The dimensions and elements of an array in braces.

    Each element is read before the text after it is checked.
    """
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
    """The output function of arrays; ``element`` is the output function of the elements."""
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
    """The bounds of an array as text, such as ``[1:2][0:3]``."""
    return "".join(f"[{lower}:{lower + size - 1}]" for lower, size in zip(lower_bounds, dimensions, strict=True))


def quoted(texts: Iterable[str], delimiter: str = ",") -> Iterator[str]:
    """The texts of elements, in quotes where the array's text needs them."""
    special = _TO_QUOTE[delimiter].search
    return (_in_quotes(text) if special(text) else text for text in texts)


def _in_quotes(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
