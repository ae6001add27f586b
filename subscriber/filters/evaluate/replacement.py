"""What the server's planner puts in place of a call before it sees a row (``simplify_function``),
as far as it can be noticed.

An SQL function is its body: ``interval + date`` is ``date + interval``, so that the date is
computed first and its error is the one that is seen, and of ``(a, b) OVERLAPS (c, d)`` with an
interval for an end nothing is computed that is added to a constant NULL. A conversion of length
that a column's own type modifier makes superfluous is its argument, and what else it is given is
not looked at.
"""

from __future__ import annotations

from typing import Final

from subscriber.errors import RowFilterError
from subscriber.filters.analyze import tree
from subscriber.filters.analyze.coerce import modifier_of
from subscriber.filters.functions.function_registry import implementation_of
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
"""SQL functions whose body is another function of the same arguments, the second one first."""
_OVERLAPS: Final = {"time": "time_pl_interval(time,interval)", "timestamp": "timestamp_pl_interval(timestamp,interval)"}
_CHEAP: Final = 10
"""A body that has an argument twice replaces the call only where that argument is no more than so
many functions.
"""
_TIMESTAMP: Final = 1114
_HEADER: Final = 4
_PRECISION: Final = 6


def replacement(call: tree.Call) -> tree.Expression | None:
    """What stands for a call whose arguments are simplified and not all constant; None for the call
    itself.

    Raises:
        RowFilterError: a constant makes it fail for every row, whatever the other arguments are.
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
    """``(start, length) OVERLAPS …`` with the ends computed; ``"overlaps"(a, b, c, d)`` with b the
    length is ``"overlaps"(a, a + b, c, d)``.
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
    """How many functions there are in an expression."""
    return isinstance(node, tree.Call) + sum(map(_calls, node.children))


def _check_pattern(call: tree.Call) -> None:
    """The pattern of ``substring(a similar b escape c)`` is made of constants once, before
    any row.
    """
    found = implementation_of(call.function)
    known = {place: one.value for place, one in enumerate(call.arguments) if isinstance(one, tree.Known)}
    if found is not None and {1, 2} <= known.keys():
        found.for_constants(known)


# Conversions of length ----------------------------------------------------------------------------


def _has_no_effect(call: tree.Call) -> bool:
    """Whether the function behind a conversion of length (``prosupport``) says so."""
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
    """``intervaltypmodleastfield``: 0 for seconds to 5 for years.

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
