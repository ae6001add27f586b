"""OVERLAPS for times, timestamps and their lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from subscriber.filters.functions.comparison import sign
from subscriber.filters.functions.date_arithmetic import time_plus, timestamp_plus
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.types.datetimes.intervals import Interval
from subscriber.types.datetimes.values import compare_timetz

FUNCTIONS: Final = FunctionTable()


def _register_overlaps(
    name: str, start_plus: Callable[[Any, Interval], Any] | None, compare: Callable[[Any, Any], int]
) -> None:
    """Register ``(start, end) OVERLAPS (start, end)`` for a type.

    An end may also be a length. The results for NULL are those of the SQL standard.
    """

    def less(left: Any, right: Any) -> bool:
        return compare(left, right) < 0

    def ordered(start: Any, end: Any) -> tuple[Any, Any]:
        if start is None:
            return end, None
        return (end, start) if end is not None and less(end, start) else (start, end)

    def overlap(start: Any, end: Any, other_start: Any, other_end: Any) -> bool | None:
        start, end = ordered(start, end)
        other_start, other_end = ordered(other_start, other_end)
        if start is None or other_start is None:
            return None
        if less(other_start, start):
            start, end, other_start, other_end = other_start, other_end, start, end
        if less(start, other_start):
            # The first period begins earlier, so they overlap if it ends after the start of the
            # other period.
            if end is None:
                return None
            return True if less(other_start, end) else (None if other_end is None else False)
        return None if end is None or other_end is None else True

    FUNCTIONS.elementwise(f"overlaps({name},{name},{name},{name})", strict=False, raises=False)(overlap)
    if start_plus is None:
        return

    def end_of(start: Any, length: Interval | None) -> Any:
        return None if start is None or length is None else start_plus(start, length)

    FUNCTIONS.elementwise(f"overlaps({name},interval,{name},interval)", strict=False)(
        lambda start, length, other, other_length: overlap(
            start, end_of(start, length), other, end_of(other, other_length)
        )
    )
    FUNCTIONS.elementwise(f"overlaps({name},{name},{name},interval)", strict=False)(
        lambda start, end, other, other_length: overlap(start, end, other, end_of(other, other_length))
    )
    FUNCTIONS.elementwise(f"overlaps({name},interval,{name},{name})", strict=False)(
        lambda start, length, other, other_end: overlap(start, end_of(start, length), other, other_end)
    )


_register_overlaps("time", time_plus, sign)
_register_overlaps("timetz", None, compare_timetz)
_register_overlaps("timestamp", timestamp_plus, sign)
_register_overlaps("timestamptz", None, sign)
