"""date, time, timetz, timestamp and timestamptz: type modifiers and comparison.

Arithmetic is in :mod:`.date_arithmetic`, ``extract`` and ``date_trunc`` are in :mod:`.fields`, AT
TIME ZONE is in :mod:`.zones`, and OVERLAPS is in :mod:`.overlaps`.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.filters.functions.comparison import (
    register_columns,
    register_extremes,
    register_order,
    register_values,
)
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.types.datetimes.calendar import (
    DATE_INFINITIES,
    DAY,
    DAYS_OF_TIMESTAMPS,
    TIMESTAMP_INFINITIES,
)
from subscriber.types.datetimes.values import compare_timetz, scaled_time, scaled_timestamp, scaled_timetz
from subscriber.types.form import sign

FUNCTIONS: Final = FunctionTable()

FUNCTIONS.elementwise("time(time,int4)", raises=False)(scaled_time)
FUNCTIONS.elementwise("timetz(timetz,int4)", raises=False)(scaled_timetz)
FUNCTIONS.elementwise("timestamp(timestamp,int4)", "timestamptz(timestamptz,int4)")(scaled_timestamp)

# --- comparison ---------------------------------------------------------------------------------

for _name in ("date", "time", "timestamp", "timestamptz"):
    register_columns(FUNCTIONS, f"{_name}_{{}}({_name},{_name})")
    register_order(FUNCTIONS, f"{_name}_cmp({_name},{_name})", sign)
    register_extremes(FUNCTIONS, f"{_name}_larger({_name},{_name})", f"{_name}_smaller({_name},{_name})", sign)


_AFTER_TIMESTAMPS: Final = TIMESTAMP_INFINITIES[1] - 1
"""The moment of all dates for which there is no timestamp. It is later than every finite timestamp
and earlier than infinity."""


def _moment_of_dates(days: Any) -> Any:
    """Convert dates to timestamps for a comparison."""
    minus_infinity, infinity = DATE_INFINITIES
    latest = pc.min_element_wise(days, pa.scalar(DAYS_OF_TIMESTAMPS, pa.int32()), skip_nulls=False)
    # -infinity would overflow in the multiplication. It is limited here and replaced afterwards.
    earliest = pc.max_element_wise(latest, pa.scalar(-DAYS_OF_TIMESTAMPS, pa.int32()), skip_nulls=False)
    moments = pc.multiply(pc.cast(earliest, pa.int64()), pa.scalar(DAY, pa.int64()))
    is_late = pc.greater_equal(days, DAYS_OF_TIMESTAMPS)
    moments = pc.if_else(is_late, pa.scalar(_AFTER_TIMESTAMPS, pa.int64()), moments)
    moments = pc.if_else(pc.equal(days, infinity), pa.scalar(TIMESTAMP_INFINITIES[1], pa.int64()), moments)
    return pc.if_else(pc.equal(days, minus_infinity), pa.scalar(TIMESTAMP_INFINITIES[0], pa.int64()), moments)


register_columns(FUNCTIONS, "date_{}_timestamp(date,timestamp)", _moment_of_dates)
register_columns(FUNCTIONS, "timestamp_{}_date(timestamp,date)", None, _moment_of_dates)


def _moment_of_date(day: int) -> int:
    if day in DATE_INFINITIES:
        return TIMESTAMP_INFINITIES[DATE_INFINITIES.index(day)]
    return day * DAY if day < DAYS_OF_TIMESTAMPS else _AFTER_TIMESTAMPS


register_order(FUNCTIONS, "date_cmp_timestamp(date,timestamp)", lambda day, moment: sign(_moment_of_date(day), moment))
register_order(FUNCTIONS, "timestamp_cmp_date(timestamp,date)", lambda moment, day: sign(moment, _moment_of_date(day)))


register_values(FUNCTIONS, "timetz_{}(timetz,timetz)", compare_timetz)
register_extremes(FUNCTIONS, "timetz_larger(timetz,timetz)", "timetz_smaller(timetz,timetz)", compare_timetz)


@FUNCTIONS.vectorised("isfinite(date)")
def _is_finite_date(values: Any) -> Any:
    return pc.and_(pc.not_equal(values, DATE_INFINITIES[0]), pc.not_equal(values, DATE_INFINITIES[1]))


@FUNCTIONS.vectorised("isfinite(timestamp)", "isfinite(timestamptz)")
def _is_finite_timestamp(values: Any) -> Any:
    return pc.and_(
        pc.not_equal(values, pa.scalar(TIMESTAMP_INFINITIES[0], pa.int64())),
        pc.not_equal(values, pa.scalar(TIMESTAMP_INFINITIES[1], pa.int64())),
    )
