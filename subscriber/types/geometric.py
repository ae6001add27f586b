"""Geometric types: both forms contain the coordinates as doubles; the texts differ in their
brackets.

Layout: a point is x f64, y f64. The other types are points one after another. A path has a byte
(closed) and the number of points before them, a polygon only the number of points.
"""

from __future__ import annotations

import re
import struct
from functools import partial
from typing import Final

import pyarrow as pa

from subscriber.types.equality import NONE
from subscriber.types.family import Send, as_text, family
from subscriber.types.float_text import double_text
from subscriber.types.form import invalid_syntax
from subscriber.types.wire import BadWire, Wire, value_by_value

_POINT_SIZE: Final = 16
_SAME: Final = 1e-6
"""EPSILON: a line is invalid if both A and B are this near to zero."""


def _point(wire: Wire) -> str:
    x, y = wire.numbers("dd")
    return f"({double_text(x)},{double_text(y)})"


def _points(wire: Wire) -> str:
    """Layout: number of points i32, the points; at least one."""
    count = wire.count("i", _POINT_SIZE)
    if not count:
        raise BadWire
    return ",".join(_point(wire) for _ in range(count))


def _segment(wire: Wire) -> str:
    return f"[{_point(wire)},{_point(wire)}]"


def _box(wire: Wire) -> str:
    """Layout: the upper right corner, the lower left corner."""
    return f"{_point(wire)},{_point(wire)}"


def _path(wire: Wire) -> str:
    """Layout: closed u8, points."""
    closed = wire.number("B")
    if closed not in (0, 1):
        raise BadWire
    return f"({_points(wire)})" if closed else f"[{_points(wire)}]"


def _polygon(wire: Wire) -> str:
    return f"({_points(wire)})"


def _line(wire: Wire) -> str:
    """Layout: A, B, C f64 of Ax + By + C = 0."""
    a, b, c = wire.numbers("ddd")
    if abs(a) <= _SAME and abs(b) <= _SAME:
        raise BadWire
    return f"{{{double_text(a)},{double_text(b)},{double_text(c)}}}"


def _circle(wire: Wire) -> str:
    """Layout: the centre, radius f64, which must not be negative."""
    centre = _point(wire)
    (radius,) = wire.numbers("d")
    if radius < 0:
        raise BadWire
    return f"<{centre},{double_text(radius)}>"


# --- send functions -----------------------------------------------------------------------------

_NUMBER: Final = re.compile(r"[-+]?(?:Infinity|NaN|[0-9]+(?:[.][0-9]+)?(?:e[-+]?[0-9]+)?)")


def _send(counted: bool, text: str) -> bytes:
    """Write the numbers of a text that an output function wrote.

    Args:
        counted: whether the number of points comes first; the text of a path says whether it is
            closed, too.
        text: the text.
    """
    numbers = [float(number) for number in _NUMBER.findall(text)]
    if not numbers or _NUMBER.sub("", text).strip("()[]{}<>,"):
        raise invalid_syntax("geometric type")
    count = struct.pack(">i", len(numbers) // 2) if counted else b""
    return count + struct.pack(f">{len(numbers)}d", *numbers)


def _path_send(text: str) -> bytes:
    return (b"\1" if text.startswith("(") else b"\0") + _send(True, text)


def _sender(name: str) -> Send:
    return _path_send if name == "path" else partial(_send, name == "polygon")


FAMILIES: Final = tuple(
    family(name, (oid,), pa.string(), as_text, value_by_value(name, convert), equality=NONE, send=_sender(name))
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
