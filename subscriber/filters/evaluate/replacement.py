"""Replaces calls of functions as the server's planner does before it sees a row
(``simplify_function``).

Only the replacements that have a visible effect are made here.

The planner replaces an SQL function by its body. ``interval + date`` becomes ``date + interval``,
so that the date is computed first and its error is reported. ``(a, b) OVERLAPS (c, d)`` with an
interval b becomes ``(a, a + b) OVERLAPS (c, d)``, and likewise for d. If one operand of such an
addition is a constant NULL, the sum is NULL, and the other operand is not evaluated.

A length conversion that has no effect, because the type modifier of its argument is at least as
strict, is replaced by its first argument. Its other arguments are not evaluated.
"""

from __future__ import annotations

from typing import Final

from subscriber.errors import RowFilterError
from subscriber.filters.analyze import tree
from subscriber.filters.analyze.coerce import modifier_of
from subscriber.filters.functions import FUNCTIONS
from subscriber.types.datetimes.intervals import FIELDS
from subscriber.types.declarations import INTERVAL_FIELDS

_SWAPPED: Final = {
    "integer_pl_date(int4,date)": "date_pli(date,int4)",
    "interval_pl_date(interval,date)": "date_pl_interval(date,interval)",
    "interval_pl_time(interval,time)": "time_pl_interval(time,interval)",
    "interval_pl_timestamp(interval,timestamp)": "timestamp_pl_interval(timestamp,interval)",
    "interval_pl_timetz(interval,timetz)": "timetz_pl_interval(timetz,interval)",
    "timedate_pl(time,date)": "datetime_pl(date,time)",
    "timetzdate_pl(timetz,date)": "datetimetz_pl(date,timetz)",
    "int8pl_inet(int8,inet)": "inetpl(inet,int8)",
}
"""SQL functions whose body calls another function with the same two arguments in reverse order."""
_OVERLAPS: Final = {"time": "time_pl_interval(time,interval)", "timestamp": "timestamp_pl_interval(timestamp,interval)"}
_CHEAP: Final = 10
"""The limit for an argument that appears twice in a body: the body replaces the call only if the
argument contains at most this number of functions.
"""
_TIMESTAMP: Final = 1114
_HEADER: Final = 4
_PRECISION: Final = 6


def replacement(call: tree.Call) -> tree.Expression | None:
    """Return the replacement of a call; None if the call stays as it is.

    Args:
        call: a call whose arguments are simplified and not all constant.

    Raises:
        RowFilterError: a constant argument makes the call fail for every row, whatever the other
            arguments are.
    """
    if call.function in _SWAPPED:
        left, right = call.arguments
        return tree.Call(call.type_oid, call.collation, _SWAPPED[call.function], (right, left))
    if call.function == "date_part(text,date)":
        field, day = call.arguments
        moment = tree.Call(_TIMESTAMP, 0, "timestamp(date)", (day,))
        return tree.Call(call.type_oid, 0, "date_part(text,timestamp)", (field, moment))
    if call.function.startswith("overlaps(") and "interval" in call.function:
        return _overlaps(call)
    if call.function == "substring(text,text,text)":
        _check_pattern(call)
    return call.arguments[0] if _has_no_effect(call) else None


def _overlaps(call: tree.Call) -> tree.Expression | None:
    """Return an OVERLAPS whose intervals are replaced by the ends that they give.

    ``"overlaps"(a, b, c, d)`` with an interval b becomes ``"overlaps"(a, a + b, c, d)``. The result
    is None if the addition is not among :data:`_OVERLAPS`, or if a start has more than
    :data:`_CHEAP` calls.
    """
    types = call.function.partition("(")[2].rstrip(")").split(",")
    plus = _OVERLAPS.get(types[0])
    if plus is None:
        return None
    ends = list(call.arguments)
    for start in (0, 2):
        if types[start + 1] == "interval":
            if _calls(ends[start]) > _CHEAP:
                return None
            ends[start + 1] = tree.Call(ends[start].type_oid, 0, plus, (ends[start], ends[start + 1]))
    return tree.Call(call.type_oid, 0, f"overlaps({','.join([types[0]] * 4)})", tuple(ends))


def _calls(node: tree.Expression) -> int:
    """Return the number of function calls in an expression."""
    return isinstance(node, tree.Call) + sum(map(_calls, node.children))


def _check_pattern(call: tree.Call) -> None:
    """Check the pattern of ``substring(a similar b escape c)`` before any row.

    If b and c are constants, the server computes the pattern once.
    """
    found = FUNCTIONS.get(call.function)
    known = {place: one.value for place, one in enumerate(call.arguments) if isinstance(one, tree.Known)}
    if found is not None and {1, 2} <= known.keys():
        found.for_constants(known)


# Conversions of length ----------------------------------------------------------------------------


def _has_no_effect(call: tree.Call) -> bool:
    """Return whether a length conversion has no effect, as its support function decides
    (``prosupport``).
    """
    name, _, types = call.function.partition("(")
    if not types.startswith(f"{name},int4") or not isinstance(call.arguments[1], tree.Known):
        return False
    new: int = call.arguments[1].value
    old = modifier_of(call.arguments[0])
    match name:
        case "varchar":
            return new < 0 or (old > 0 and old <= new)
        case "varbit":
            return new <= 0 or 0 < old <= new
        case "numeric":
            return new < _HEADER or (old >= _HEADER and _scale(old) == _scale(new) and _digits(new) >= _digits(old))
        case "time" | "timetz" | "timestamp" | "timestamptz":
            return new < 0 or new == _PRECISION or 0 <= old <= new
        case "interval":
            return new < 0 or _keeps_interval(old, new)
    return False


def _scale(modifier: int) -> int:
    return ((modifier - _HEADER) & 0x7FF ^ 1024) - 1024


def _digits(modifier: int) -> int:
    return ((modifier - _HEADER) >> 16) & 0xFFFF


def _keeps_interval(old: int, new: int) -> bool:
    least, precision = _least_field(old), 0xFFFF if old < 0 else old & 0xFFFF
    if _least_field(new) > least:
        return False
    return least > 0 or new & 0xFFFF >= _PRECISION or new & 0xFFFF >= precision


def _least_field(modifier: int) -> int:
    """Return the smallest field of an interval: 0 for seconds to 5 for years
    (``intervaltypmodleastfield``).

    Raises:
        RowFilterError: XX000, no type modifier of an interval has these fields.
    """
    if modifier < 0:
        return 0
    fields = (modifier >> 16) & 0x7FFF
    names = ("second", "minute", "hour", "day", "month", "year")
    if fields == 0x7FFF:
        return 0
    if fields not in INTERVAL_FIELDS:
        raise RowFilterError(f"invalid INTERVAL typmod: 0x{modifier:x}", sqlstate="XX000")
    return next(place for place, name in enumerate(names) if fields & FIELDS[name])
