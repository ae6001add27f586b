"""Intervals in the formats of ISO 8601 (``DecodeISO8601Interval``): ``P1Y2M3DT4H5M6S`` with
designators, and ``P0001-02-03T04:05:06``, the alternative format, which has none.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Final

from subscriber.types.datetimes.interval_sum import BadIntervalError, IntervalSum, interval_overflow
from subscriber.types.datetimes.intervals import Interval

_ISO_NUMBER: Final = re.compile(
    r"-?(?P<hexadecimal>0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+))(?:p[-+]?[0-9]+)?"
    r"|-?(?P<decimal>[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?"
    r"|-(?:inf(?:inity)?|nan)",
    re.IGNORECASE,
)
_ISO_DATE: Final = {"Y": "year", "M": "month", "W": "week", "D": "day"}
_ISO_TIME: Final = {"H": "hour", "M": "minute", "S": "second"}
_ISO_LIMIT: Final = 1e15
_LEAST_NORMAL: Final = sys.float_info.min
_NOT_ZERO: Final = re.compile("[1-9a-fA-F]")


def iso_interval(text: str) -> Interval:
    """The interval that a text in one of these formats is.

    Raises:
        BadIntervalError: the text has another format.
        DataException: 22015, a field is too large.
    """
    return _Reader(text).value()


def _c_double(text: str) -> float:
    """Convert a decimal or hexadecimal number; a number that is too large becomes infinity."""
    try:
        return float.fromhex(text) if "x" in text.lower() else float(text)
    except OverflowError:
        return math.inf


class _Reader:
    """The ISO 8601 formats (``DecodeISO8601Interval``): the format with designators, and the
    alternative format, which has none.
    """

    def __init__(self, text: str) -> None:
        if len(text) < 2 or text[0] != "P":
            raise BadIntervalError
        self._text = text
        self._place = 1
        self._total = IntervalSum()

    def value(self) -> Interval:
        """The interval of the whole text."""
        in_date, has_field = True, False
        while self._place < len(self._text):
            if self._accept("T"):
                in_date, has_field = False, False
                continue
            start = self._place
            whole, fraction = self._number()
            unit = self._text[self._place : self._place + 1]
            if unit in (_ISO_DATE if in_date else _ISO_TIME):
                self._place += 1
                self._total.add((_ISO_DATE if in_date else _ISO_TIME)[unit], whole, fraction)
                has_field = True
            elif unit not in (("", "T", "-") if in_date else ("", ":")) or (has_field and unit in {"-", ":"}):
                raise BadIntervalError
            elif in_date:
                self._date(start, whole, fraction, has_field)
                in_date = False
            else:
                self._time(start, whole, fraction, has_field)
                break
        return self._total.value()

    def _date(self, start: int, whole: int, fraction: float, has_field: bool) -> None:
        """Read as much of ``YYYYMMDD`` or ``YYYY-MM-DD`` as there is."""
        if self._at_end_of_part() and self._width(start) == 8 and not has_field:
            sign = -1 if whole < 0 else 1
            years, rest = divmod(abs(whole), 10000)
            self._total.add("year", sign * years, 0.0)
            self._total.add("month", sign * (rest // 100), 0.0)
            self._total.add("day", sign * (rest % 100), fraction)
        elif has_field:
            raise BadIntervalError
        else:
            self._total.add("year", whole, fraction)
            for unit in ("month", "day"):
                if self._at_end_of_part():
                    break
                if not self._accept("-"):
                    raise BadIntervalError
                self._total.add(unit, *self._number())
        if not self._at_end_of_part():
            raise BadIntervalError
        self._accept("T")

    def _time(self, start: int, whole: int, fraction: float, has_field: bool) -> None:
        """Read as much of ``HHMMSS`` or ``HH:MM:SS`` as there is."""
        if self._place == len(self._text) and self._width(start) == 6 and not has_field:
            sign = -1 if whole < 0 else 1
            hours, rest = divmod(abs(whole), 10000)
            self._total.add("hour", sign * hours, 0.0)
            self._total.add("minute", sign * (rest // 100), 0.0)
            self._total.add("second", sign * (rest % 100), 0.0)
            self._total.add("microsecond", 0, fraction)
            return
        if has_field:
            raise BadIntervalError
        self._total.add("hour", whole, fraction)
        for unit in ("minute", "second"):
            if self._place == len(self._text):
                return
            if not self._accept(":"):
                raise BadIntervalError
            self._total.add(unit, *self._number())
        if self._place < len(self._text):
            raise BadIntervalError

    def _number(self) -> tuple[int, float]:
        """The integer part and the fraction of a number that C's strtod reads
        (``ParseISO8601Number``).
        """
        match = _ISO_NUMBER.match(self._text, self._place)
        if match is None:
            raise BadIntervalError
        self._place = match.end()
        digits = match["hexadecimal"] or match["decimal"]
        value = _c_double(match[0]) if digits else math.inf
        # C reports a range error for a number that is too small, as for a number that is too large.
        if digits and (math.isinf(value) or (abs(value) < _LEAST_NORMAL and _NOT_ZERO.search(digits))):
            raise BadIntervalError
        if not abs(value) <= _ISO_LIMIT:
            raise interval_overflow()
        return int(value), value - int(value)

    def _accept(self, mark: str) -> bool:
        if not self._text.startswith(mark, self._place):
            return False
        self._place += 1
        return True

    def _at_end_of_part(self) -> bool:
        return self._place == len(self._text) or self._text[self._place] == "T"

    def _width(self, start: int) -> int:
        """The number of digits at the beginning of a number."""
        start += self._text.startswith("-", start)
        return len(self._text[start:]) - len(self._text[start:].lstrip("0123456789"))
