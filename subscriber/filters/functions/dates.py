"""date, time, timetz, timestamp and timestamptz: forms, type modifiers and comparison.

What is computed with them is in :mod:`.date_arithmetic`, ``extract`` and ``date_trunc`` in :mod:`.fields`, AT TIME ZONE in :mod:`.zones`,
OVERLAPS in :mod:`.overlaps`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import RowFilterError
from subscriber.filters.functions import date_input
from subscriber.filters.functions.calendar import (
    DATE_INFINITIES,
    DAYS_OF_TIMESTAMPS,
    SECOND,
    TIMESTAMP_INFINITIES,
)
from subscriber.filters.functions.comparison import (
    register_columns,
    register_extremes,
    register_order,
    register_values,
    sign,
)
from subscriber.filters.functions.forms import Form, register
from subscriber.filters.functions.function_registry import elementwise, vectorised
from subscriber.filters.functions.intervals import rounded
from subscriber.types.datetimes import DAY, date_text, time_text, zone_text

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


# --- forms --------------------------------------------------------------------------------------


def date_to_text(value: int) -> str:
    """``date_out``."""
    if value in DATE_INFINITIES:
        return "infinity" if value > 0 else "-infinity"
    day, era = date_text(value)
    return day + era


def _timestamp_to_text(value: int, zone: str = "") -> str:
    if value in TIMESTAMP_INFINITIES:
        return "infinity" if value > 0 else "-infinity"
    day, era = date_text(value // DAY)
    return f"{day} {time_text(value % DAY)}{zone}{era}"


def timestamp_to_text(value: int) -> str:
    """``timestamp_out``."""
    return _timestamp_to_text(value)


def timestamptz_to_text(value: int) -> str:
    """``timestamptz_out`` in UTC."""
    return _timestamp_to_text(value, "+00")


def timetz_to_text(value: TimeTZ) -> str:
    """``timetz_out``."""
    return time_text(value.microseconds) + zone_text(value.zone)


def _date_from_text(text: str, _: int) -> int:
    return date_input.read_date(text)


def _timestamp_from_text(text: str, modifier: int) -> int:
    return _scale_timestamp(date_input.read_timestamp(text), modifier)


def _timestamptz_from_text(text: str, modifier: int) -> int:
    return _scale_timestamp(date_input.read_timestamptz(text), modifier)


def _time_from_text(text: str, modifier: int) -> int:
    return _scale_time(date_input.read_time(text), modifier)


def _timetz_from_text(text: str, modifier: int) -> TimeTZ:
    return scale_timetz(TimeTZ(*date_input.read_timetz(text)), modifier)


DATE: Final = register(Form((1082,), _date_from_text, date_to_text, pa.int32(), date_input.read_dates))
TIME: Final = register(Form((1083,), _time_from_text, time_text, pa.int64()))
TIMETZ: Final = register(Form((1266,), _timetz_from_text, timetz_to_text))
TIMESTAMP: Final = register(
    Form((1114,), _timestamp_from_text, timestamp_to_text, pa.int64(), date_input.read_timestamps)
)
TIMESTAMPTZ: Final = register(
    Form((1184,), _timestamptz_from_text, timestamptz_to_text, pa.int64(), date_input.read_timestamptzs)
)


# --- type modifiers: how many decimals ----------------------------------------------------------


@elementwise("time(time,int4)", raises=False)
def _scale_time(value: int, modifier: int) -> int:
    return rounded(value, modifier) if 0 <= modifier < _PRECISION else value


@elementwise("timetz(timetz,int4)", raises=False)
def scale_timetz(value: TimeTZ, modifier: int) -> TimeTZ:
    """``timetz_scale``."""
    return TimeTZ(_scale_time(value.microseconds, modifier), value.zone)


@elementwise("timestamp(timestamp,int4)", "timestamptz(timestamptz,int4)")
def _scale_timestamp(value: int, modifier: int) -> int:
    if value in TIMESTAMP_INFINITIES or modifier in {-1, _PRECISION}:
        return value
    if not 0 <= modifier < _PRECISION:
        raise RowFilterError(f"timestamp({modifier}) precision must be between 0 and 6", sqlstate="22023")
    return rounded(value, modifier)


# --- comparison ---------------------------------------------------------------------------------

for _name in ("date", "time", "timestamp", "timestamptz"):
    register_columns(f"{_name}_{{}}({_name},{_name})")
    register_order(f"{_name}_cmp({_name},{_name})", sign)
    register_extremes(f"{_name}_larger({_name},{_name})", f"{_name}_smaller({_name},{_name})", sign)


def _moment_of_dates(days: Any) -> Any:
    """Dates as timestamps: those after the last timestamp are one that is later than every other, but before infinity."""
    minus_infinity, infinity = DATE_INFINITIES
    latest = pc.min_element_wise(days, pa.scalar(DAYS_OF_TIMESTAMPS, pa.int32()), skip_nulls=False)
    # -infinity would overflow, and is replaced afterwards.
    earliest = pc.max_element_wise(latest, pa.scalar(-DAYS_OF_TIMESTAMPS, pa.int32()), skip_nulls=False)
    moments = pc.multiply(pc.cast(earliest, pa.int64()), pa.scalar(DAY, pa.int64()))
    moments = pc.if_else(pc.equal(days, infinity), pa.scalar(TIMESTAMP_INFINITIES[1], pa.int64()), moments)
    return pc.if_else(pc.equal(days, minus_infinity), pa.scalar(TIMESTAMP_INFINITIES[0], pa.int64()), moments)


register_columns("date_{}_timestamp(date,timestamp)", _moment_of_dates)
register_columns("timestamp_{}_date(timestamp,date)", None, _moment_of_dates)


def _moment_of_date(day: int) -> int:
    if day in DATE_INFINITIES:
        return TIMESTAMP_INFINITIES[DATE_INFINITIES.index(day)]
    return min(day, DAYS_OF_TIMESTAMPS) * DAY


register_order("date_cmp_timestamp(date,timestamp)", lambda day, moment: sign(_moment_of_date(day), moment))
register_order("timestamp_cmp_date(timestamp,date)", lambda moment, day: sign(moment, _moment_of_date(day)))


def compare_timetz(left: TimeTZ, right: TimeTZ) -> int:
    """By the moment in Greenwich, and then by the zone."""
    return sign((left.utc, left.zone), (right.utc, right.zone))


register_values("timetz_{}(timetz,timetz)", compare_timetz)
register_extremes("timetz_larger(timetz,timetz)", "timetz_smaller(timetz,timetz)", compare_timetz)


@vectorised("isfinite(date)")
def _is_finite_date(values: Any) -> Any:
    return pc.and_(pc.not_equal(values, DATE_INFINITIES[0]), pc.not_equal(values, DATE_INFINITIES[1]))


@vectorised("isfinite(timestamp)", "isfinite(timestamptz)")
def _is_finite_timestamp(values: Any) -> Any:
    return pc.and_(
        pc.not_equal(values, pa.scalar(TIMESTAMP_INFINITIES[0], pa.int64())),
        pc.not_equal(values, pa.scalar(TIMESTAMP_INFINITIES[1], pa.int64())),
    )
