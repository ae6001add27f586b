"""tsvector and tsquery.

A tsvector is lexemes in quotes, with positions and weights. In a tsquery, the operators are written
between their operands.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa

from subscriber.types.family import as_text, family
from subscriber.types.wire import BadWire, Wire, value_by_value

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


def _vector(wire: Wire) -> str:
    """Layout: number of lexemes i32; for each of them its text, 0, number of positions u16, and
    that many u16, each with a weight (2 bits) and a position (14 bits).
    """
    return " ".join(_lexeme(wire) for _ in range(wire.count("i", _LEAST_LEXEME)))


def _lexeme(wire: Wire) -> str:
    lexeme = _quoted(wire.string())
    count = wire.count("H", 2)
    if not count:
        return lexeme
    positions = wire.numbers(f"{count}H")
    return f"{lexeme}:{','.join(map(_position, positions))}"


def _position(entry: int) -> str:
    return f"{entry & ((1 << _POSITION_BITS) - 1)}{_WEIGHTS[entry >> _POSITION_BITS]}"


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


class _Term(NamedTuple):
    """A part of a query: its text, and its operator, which decides whether it needs parentheses."""

    text: str
    operator: int = 0

    def within(self, operator: int, *, behind: bool = False) -> str:
        """The text of this part as an operand of ``operator``.

        With ``behind`` it is the right operand, otherwise the left operand.
        """
        looser = _PRIORITY.get(self.operator, _OPERAND) < _PRIORITY[operator]
        # a <-> (b <-> c) differs from (a <-> b) <-> c.
        return f"( {self.text} )" if looser or (behind and self.operator == operator == _PHRASE) else self.text


def _query(wire: Wire) -> str:
    """Layout: number of items i32, then the items; each operator precedes its operands, and the
    right operand precedes the left one.
    """
    items = [_item(wire) for _ in range(wire.count("i", 2))]
    if not items:
        return ""
    terms: list[_Term] = []
    for item in reversed(items):
        if isinstance(item, _Term):
            terms.append(item)
            continue
        operator, distance = item
        if len(terms) < (1 if operator == _NOT else 2):
            raise BadWire
        right = terms.pop().within(operator, behind=True)
        if operator == _NOT:
            terms.append(_Term(f"!{right}", _NOT))
            continue
        left = terms.pop().within(operator)
        sign = _SIGNS.get(operator) or ("<->" if distance == 1 else f"<{distance}>")
        terms.append(_Term(f"{left} {sign} {right}", operator))
    if len(terms) != 1:
        raise BadWire
    return terms[0].text


def _item(wire: Wire) -> _Term | tuple[int, int]:
    """Layout: 1 u8, weights u8, prefix u8, lexeme, 0; or 2 u8, operator u8, and for a phrase its
    distance u16.
    """
    kind = wire.number("B")
    if kind == _VALUE:
        weights, prefix = wire.numbers("BB")
        if weights > 0xF:
            raise BadWire
        lexeme = _quoted(wire.string())
        marks = ("*" if prefix else "") + "".join(letter for bit, letter in _QUERY_WEIGHTS if weights & bit)
        return _Term(f"{lexeme}:{marks}" if marks else lexeme)
    operator = wire.number("B")
    if kind != _OPERATOR or operator not in _PRIORITY:
        raise BadWire
    return operator, wire.number("H") if operator == _PHRASE else 0


FAMILIES: Final = (
    family("tsvector", (3614,), pa.string(), as_text, value_by_value("tsvector", _vector)),
    family("tsquery", (3615,), pa.string(), as_text, value_by_value("tsquery", _query)),
)
