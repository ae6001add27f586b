"""An interval as a sum of units, as PostgreSQL adds them up (``struct pg_itm_in``).

The fraction of a unit is added to smaller units: that of a month to days and microseconds, that of
a day to microseconds. Each sum that is too large is an error at its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from subscriber.errors import DataException
from subscriber.types.datetimes.calendar import DAY, HOUR, MINUTE, SECOND, rint
from subscriber.types.datetimes.intervals import Interval, finite

INT32: Final = (-(2**31), 2**31 - 1)
INT64: Final = (-(2**63), 2**63 - 1)
_SCALES: Final = {"microsecond": 1, "millisecond": 1000, "second": SECOND, "minute": MINUTE, "hour": HOUR}
_YEARS: Final = {"year": 1, "decade": 10, "century": 100, "millennium": 1000}
COUNTED_UNITS: Final = frozenset({*_SCALES, "day", "week", "month", *_YEARS})
"""The units of which an interval can contain a number."""


class BadIntervalError(Exception):
    """The text is not an interval in this notation."""


def interval_overflow() -> DataException:
    """The error for a field that is too large (22015)."""
    return DataException("interval field value out of range", sqlstate="22015")


@dataclass(slots=True)
class IntervalSum:
    """The parts of the interval that have been read so far."""

    years: int = 0
    months: int = 0
    days: int = 0
    microseconds: int = 0

    def add(self, unit: str, whole: int, fraction: float) -> None:
        """Add a number of a unit. Its fraction is added to smaller units."""
        if unit in _SCALES:
            self._add_microseconds(whole * _SCALES[unit])
            self._add_fraction(fraction, _SCALES[unit])
        elif unit == "day":
            self._add_days(whole, 1)
            self._add_fraction(fraction, DAY)
        elif unit == "week":
            self._add_days(whole, 7)
            self._add_fraction_of_days(fraction, 7)
        elif unit == "month":
            self.months = _in_int32(self.months + _in_int32(whole))
            self._add_fraction_of_days(fraction, 30)
        else:
            self.years = _in_int32(self.years + _in_int32(_in_int32(whole) * _YEARS[unit]))
            self.months = _in_int32(self.months + int(rint(fraction * _YEARS[unit] * 12)))

    def _add_microseconds(self, count: int) -> None:
        if not INT64[0] <= count <= INT64[1] or not INT64[0] <= self.microseconds + count <= INT64[1]:
            raise interval_overflow()
        self.microseconds += count

    def _add_fraction(self, fraction: float, unit: int) -> None:
        """Add the fraction of a unit in microseconds; half a microsecond is dropped, a larger
        fraction rounds up.
        """
        scaled = fraction * unit
        whole = int(scaled)
        left = scaled - whole
        self._add_microseconds(whole + (left > 0.5) - (left < -0.5))

    def _add_days(self, count: int, unit: int) -> None:
        self.days = _in_int32(self.days + _in_int32(_in_int32(count) * unit))

    def _add_fraction_of_days(self, fraction: float, unit: int) -> None:
        scaled = fraction * unit
        whole = int(scaled)
        self.days = _in_int32(self.days + whole)
        self._add_fraction(scaled - whole, DAY)

    def negate(self) -> None:
        """Negate all parts, because of the word ``ago``."""
        if INT32[0] in (self.years, self.months, self.days) or self.microseconds == INT64[0]:
            raise interval_overflow()
        self.years, self.months = -self.years, -self.months
        self.days, self.microseconds = -self.days, -self.microseconds

    def value(self) -> Interval:
        """The interval with all parts that have been read."""
        return finite(self.years * 12 + self.months, self.days, self.microseconds)


def _in_int32(value: int) -> int:
    if not INT32[0] <= value <= INT32[1]:
        raise interval_overflow()
    return value
