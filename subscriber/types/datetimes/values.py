"""timetz, and how many decimals of a second a type modifier keeps of a time or timestamp."""

from __future__ import annotations

from typing import Final, NamedTuple

from subscriber.errors import DataException
from subscriber.types.datetimes.calendar import SECOND, TIMESTAMP_INFINITIES, rounded
from subscriber.types.form import sign

_PRECISION: Final = 6
"""Decimals of a second that are kept."""


class TimeTZ(NamedTuple):
    """A time with its zone.

    Attributes:
        microseconds: since midnight in that zone.
        zone: seconds west of Greenwich.
    """

    microseconds: int
    zone: int

    @property
    def utc(self) -> int:
        """Microseconds since midnight in Greenwich; may be before or after that day."""
        return self.microseconds + self.zone * SECOND


def compare_timetz(left: TimeTZ, right: TimeTZ) -> int:
    """The order of two: by the moment in Greenwich, and then by the zone."""
    return sign((left.utc, left.zone), (right.utc, right.zone))


def scaled_time(value: int, modifier: int) -> int:
    """What a column ``time(modifier)`` keeps of the value (``time_scale``)."""
    return rounded(value, modifier) if 0 <= modifier < _PRECISION else value


def scaled_timetz(value: TimeTZ, modifier: int) -> TimeTZ:
    """What a column ``timetz(modifier)`` keeps of the value (``timetz_scale``)."""
    return TimeTZ(scaled_time(value.microseconds, modifier), value.zone)


def scaled_timestamp(value: int, modifier: int) -> int:
    """What a column ``timestamp(modifier)`` or ``timestamptz(modifier)`` keeps of the value.

    Raises:
        DataException: 22023, no column has this modifier.
    """
    if value in TIMESTAMP_INFINITIES or modifier in {-1, _PRECISION}:
        return value
    if not 0 <= modifier < _PRECISION:
        raise DataException(f"timestamp({modifier}) precision must be between 0 and 6", sqlstate="22023")
    return rounded(value, modifier)
