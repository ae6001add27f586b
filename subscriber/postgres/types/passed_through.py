"""Types that are decoded and sent, but not computed with: geometric types, tsvector and tsquery.

Both forms of a geometric type contain the coordinates as doubles; the texts differ in their
brackets. Layout: a point is x f64, y f64. The other types are points one after another. A path has
a byte (closed) and the number of points before them, a polygon only the number of points.
"""

from __future__ import annotations

import re
import struct
from functools import partial
from typing import Final, NamedTuple

from subscriber.base.byte_reader import Reader
from subscriber.base.errors import DataException
from subscriber.postgres.types import family
from subscriber.postgres.types.equality import NONE
from subscriber.postgres.types.float_text import double_text

_POINT_SIZE: Final = 16
_SAME: Final = 1e-6
"""EPSILON: a line is invalid if both A and B are this near to zero."""


def _point(wire: Reader) -> str:
    x, y = wire.numbers("dd")
    return f"({double_text(x)},{double_text(y)})"


def _points(wire: Reader) -> str:
    """Layout: number of points i32, the points; at least one."""
    count = wire.count(wire.number("i"), _POINT_SIZE)
    if not count:
        raise family.BadWire
    return ",".join(_point(wire) for _ in range(count))


def _segment(wire: Reader) -> str:
    return f"[{_point(wire)},{_point(wire)}]"


def _box(wire: Reader) -> str:
    """Layout: the upper right corner, the lower left corner."""
    return f"{_point(wire)},{_point(wire)}"


def _path(wire: Reader) -> str:
    """Layout: closed u8, points."""
    closed = wire.number("B")
    if closed not in (0, 1):
        raise family.BadWire
    return f"({_points(wire)})" if closed else f"[{_points(wire)}]"


def _polygon(wire: Reader) -> str:
    return f"({_points(wire)})"


def _line(wire: Reader) -> str:
    """Layout: A, B, C f64 of Ax + By + C = 0."""
    a, b, c = wire.numbers("ddd")
    if abs(a) <= _SAME and abs(b) <= _SAME:
        raise family.BadWire
    return f"{{{double_text(a)},{double_text(b)},{double_text(c)}}}"


def _circle(wire: Reader) -> str:
    """Layout: the centre, radius f64, which must not be negative."""
    centre = _point(wire)
    (radius,) = wire.numbers("d")
    if radius < 0:
        raise family.BadWire
    return f"<{centre},{double_text(radius)}>"


# --- send functions -----------------------------------------------------------------------------

_NUMBER: Final = re.compile(r"[-+]?(?:Infinity|NaN|[0-9]+(?:[.][0-9]+)?(?:e[-+]?[0-9]+)?)")


def _send(counted: bool, text: str) -> bytes:
    """Write the numbers of a text; ``counted``: the number of points comes first."""
    numbers = [float(number) for number in _NUMBER.findall(text)]
    if not numbers or _NUMBER.sub("", text).strip("()[]{}<>,"):
        raise family.invalid_syntax("geometric type")
    count = struct.pack(">i", len(numbers) // 2) if counted else b""
    return count + struct.pack(f">{len(numbers)}d", *numbers)


def _path_send(text: str) -> bytes:
    return (b"\1" if text.startswith("(") else b"\0") + _send(True, text)


def _sender(name: str) -> family.Send:
    return _path_send if name == "path" else partial(_send, name == "polygon")


_SHAPES: Final = tuple(
    family.of_texts(name, oid, convert, equality=NONE, send=_sender(name))
    for name, oid, convert in (
        ("point", 600, _point),
        ("lseg", 601, _segment),
        ("path", 602, _path),
        ("box", 603, _box),
        ("polygon", 604, _polygon),
        ("line", 628, _line),
        ("circle", 718, _circle),
    )
)


_WEIGHTS: Final = ("", "C", "B", "A")
_POSITION_BITS: Final = 14
_LEAST_LEXEME: Final = 3
"""The least number of bytes of a lexeme: a terminator and a number of positions."""

_VALUE, _OPERATOR = 1, 2
_NOT, _AND, _OR, _PHRASE = 1, 2, 3, 4
_PRIORITY: Final = {_OR: 1, _AND: 2, _PHRASE: 3, _NOT: 4}
_OPERAND: Final = 5
_SIGNS: Final = {_AND: "&", _OR: "|"}
_QUERY_WEIGHTS: Final = ((8, "A"), (4, "B"), (2, "C"), (1, "D"))


def _vector(wire: Reader) -> str:
    """Layout: number of lexemes i32; for each its text, 0, number of positions u16, and that many
    u16, each with a weight (2 bits) and a position (14 bits).
    """
    return " ".join(_lexeme(wire) for _ in range(wire.count(wire.number("i"), _LEAST_LEXEME)))


def _lexeme(wire: Reader) -> str:
    lexeme = _quoted(wire.string())
    count = wire.count(wire.number("H"), 2)
    if not count:
        return lexeme
    positions = wire.numbers(f"{count}H")
    return f"{lexeme}:{','.join(map(_position, positions))}"


def _position(entry: int) -> str:
    return f"{entry & ((1 << _POSITION_BITS) - 1)}{_WEIGHTS[entry >> _POSITION_BITS]}"


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


class _Term(NamedTuple):
    """The operator of a part decides whether it needs parentheses."""

    text: str
    operator: int = 0

    def within(self, operator: int, *, behind: bool = False) -> str:
        """The text of this part as the left or (``behind``) the right operand of ``operator``."""
        looser = _PRIORITY.get(self.operator, _OPERAND) < _PRIORITY[operator]
        # a <-> (b <-> c) differs from (a <-> b) <-> c.
        return f"( {self.text} )" if looser or (behind and self.operator == operator == _PHRASE) else self.text


def _query(wire: Reader) -> str:
    """Layout: number of items i32, then the items: an operator, its right operand, its left one."""
    items = [_item(wire) for _ in range(wire.count(wire.number("i"), 2))]
    if not items:
        return ""
    terms: list[_Term] = []
    for item in reversed(items):
        if isinstance(item, _Term):
            terms.append(item)
            continue
        operator, distance = item
        if len(terms) < (1 if operator == _NOT else 2):
            raise family.BadWire
        right = terms.pop().within(operator, behind=True)
        if operator == _NOT:
            terms.append(_Term(f"!{right}", _NOT))
            continue
        left = terms.pop().within(operator)
        sign = _SIGNS.get(operator) or ("<->" if distance == 1 else f"<{distance}>")
        terms.append(_Term(f"{left} {sign} {right}", operator))
    if len(terms) != 1:
        raise family.BadWire
    return terms[0].text


def _item(wire: Reader) -> _Term | tuple[int, int]:
    """Layout: 1 u8, weights u8, prefix u8, lexeme, 0; or 2 u8, operator u8 [, distance u16]."""
    kind = wire.number("B")
    if kind == _VALUE:
        weights, prefix = wire.numbers("BB")
        if weights > 0xF:
            raise family.BadWire
        lexeme = _quoted(wire.string())
        marks = ("*" if prefix else "") + "".join(letter for bit, letter in _QUERY_WEIGHTS if weights & bit)
        return _Term(f"{lexeme}:{marks}" if marks else lexeme)
    operator = wire.number("B")
    if kind != _OPERATOR or operator not in _PRIORITY:
        raise family.BadWire
    return operator, wire.number("H") if operator == _PHRASE else 0


# --- send functions -----------------------------------------------------------------------------

_LEXEME: Final = re.compile(r"'((?:[^'\\]|''|\\\\)*)'(?::([0-9]+[ABC]?(?:,[0-9]+[ABC]?)*))?(?: |$)")
_QUERY_TOKEN: Final = re.compile(
    r" *(?:(?P<mark>[!&|()])|<(?P<distance>[0-9]+|-)>|'(?P<lexeme>(?:[^'\\]|''|\\\\)*)'(?::(?P<marks>[*A-D]+))?)"
)


def _unquoted(lexeme: str) -> bytes:
    return lexeme.replace("''", "'").replace("\\\\", "\\").encode() + b"\0"


def vector_send(text: str) -> bytes:
    """``tsvectorsend``, for a text that ``tsvectorout`` wrote."""
    lexemes = []
    place = 0
    while place < len(text):
        found = _LEXEME.match(text, place)
        if found is None:
            raise DataException("syntax error in tsvector", sqlstate="42601")
        positions = [_position_entry(one) for one in (found[2] or "").split(",") if one]
        lexemes.append(_unquoted(found[1]) + struct.pack(f">H{len(positions)}H", len(positions), *positions))
        place = found.end()
    return struct.pack(">i", len(lexemes)) + b"".join(lexemes)


def _position_entry(text: str) -> int:
    weight = text[-1] if text[-1] in "ABC" else ""
    return _WEIGHTS.index(weight) << _POSITION_BITS | int(text.removesuffix(weight))


def query_send(text: str) -> bytes:
    """``tsquerysend``. Operators of the same kind are read from left to right (``tsqueryin``)."""
    items = _QueryReader(text).items() if text else []
    return struct.pack(">i", len(items)) + b"".join(items)


class _QueryReader:
    """Reads a query and returns its items, each operator before its operands."""

    def __init__(self, text: str) -> None:
        self._tokens: list[re.Match[str]] = []
        place = 0
        while place < len(text):
            token = _QUERY_TOKEN.match(text, place)
            if token is None:
                break
            self._tokens.append(token)
            place = token.end()
        self._complete = not text[place:].strip(" ")
        self._at = 0

    def items(self) -> list[bytes]:
        found = self._operand(0)
        if not self._complete or self._at < len(self._tokens):
            raise _query_error()
        return found

    def _operand(self, least: int) -> list[bytes]:
        """Read as far as operators have at least this priority."""
        left = self._single()
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            operator = _PHRASE if token["distance"] else {"&": _AND, "|": _OR}.get(token["mark"] or "", 0)
            if not operator or _PRIORITY[operator] < least:
                break
            self._at += 1
            right = self._operand(_PRIORITY[operator] + 1)
            distance = token["distance"]
            item = struct.pack(">BB", _OPERATOR, operator)
            if distance:
                item += struct.pack(">H", 1 if distance == "-" else int(distance))
            left = [item, *right, *left]
        return left

    def _single(self) -> list[bytes]:
        if self._at >= len(self._tokens):
            raise _query_error()
        token = self._tokens[self._at]
        self._at += 1
        if token["mark"] == "!":
            return [struct.pack(">BB", _OPERATOR, _NOT), *self._operand(_PRIORITY[_NOT] + 1)]
        if token["mark"] == "(":
            inner = self._operand(0)
            if self._at >= len(self._tokens) or self._tokens[self._at]["mark"] != ")":
                raise _query_error()
            self._at += 1
            return inner
        if token["lexeme"] is None:
            raise _query_error()
        marks = token["marks"] or ""
        weights = sum(bit for bit, letter in _QUERY_WEIGHTS if letter in marks)
        return [struct.pack(">BBB", _VALUE, weights, "*" in marks) + _unquoted(token["lexeme"])]


def _query_error() -> DataException:
    return DataException("syntax error in tsquery", sqlstate="42601")


_SEARCH: Final = (
    family.of_texts("tsvector", 3614, _vector, send=vector_send),
    family.of_texts("tsquery", 3615, _query, send=query_send),
)

FAMILIES: Final = (*_SHAPES, *_SEARCH)
