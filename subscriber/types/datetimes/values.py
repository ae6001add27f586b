"""timetz, and the precision that a type modifier sets for a time or timestamp."""

from __future__ import annotations

from typing import Final, NamedTuple

from subscriber.errors import DataException
from subscriber.types.datetimes.calendar import SECOND, TIMESTAMP_INFINITIES, rounded
from subscriber.types.form import sign

_PRECISION: Final = 6
"""The number of decimals of a second that PostgreSQL stores."""


class TimeTZ(NamedTuple):
    """A value of type timetz.

    Attributes:
        microseconds: microseconds since midnight in the time zone.
        zone: the offset of the time zone in seconds west of Greenwich.
    """

    microseconds: int
    zone: int

    @property
    def utc(self) -> int:
        """Microseconds since midnight in UTC. The result may be before or after that day."""
        return self.microseconds + self.zone * SECOND


def compare_timetz(left: TimeTZ, right: TimeTZ) -> int:
    """Compare two values by their time in UTC, and then by their offset."""
    return sign((left.utc, left.zone), (right.utc, right.zone))


def scaled_time(value: int, modifier: int) -> int:
    """Round a value to ``time(modifier)`` (``time_scale``)."""
    return rounded(value, modifier) if 0 <= modifier < _PRECISION else value


def scaled_timetz(value: TimeTZ, modifier: int) -> TimeTZ:
    """Round a value to ``timetz(modifier)`` (``timetz_scale``)."""
    return TimeTZ(scaled_time(value.microseconds, modifier), value.zone)


def scaled_timestamp(value: int, modifier: int) -> int:
    """Round a value to ``timestamp(modifier)`` or ``timestamptz(modifier)``.

    Raises:
        DataException: 22023, the type modifier is not valid.
    """
    if value in TIMESTAMP_INFINITIES or modifier in {-1, _PRECISION}:
        return value
    if not 0 <= modifier < _PRECISION:
        raise DataException(f"timestamp({modifier}) precision must be between 0 and 6", sqlstate="22023")
    return rounded(value, modifier)
