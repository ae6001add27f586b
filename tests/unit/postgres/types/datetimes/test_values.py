"""The values of timetz, and the precision that a type modifier sets."""

import pytest

from subscriber.base.errors import DataException
from subscriber.postgres.types.datetimes.date_values import (
    DAY,
    TIMESTAMP_INFINITIES,
    TimeTZ,
    compare_timetz,
    scaled_time,
    scaled_timestamp,
    scaled_timetz,
)

HOUR = DAY // 24


def test_a_time_with_time_zone_is_compared_in_utc_and_then_by_its_offset():
    """timetz_cmp_internal: 12:00+02 is the same moment as 11:00+01, and not equal to it."""
    noon, eleven = TimeTZ(12 * HOUR, -7200), TimeTZ(11 * HOUR, -3600)
    assert noon.utc == eleven.utc == 10 * HOUR
    assert compare_timetz(noon, eleven) < 0 < compare_timetz(eleven, noon)
    assert compare_timetz(noon, noon) == 0
    assert compare_timetz(TimeTZ(0, 0), TimeTZ(0, 3600)) < 0


def test_the_time_in_utc_may_be_on_another_day():
    assert TimeTZ(0, -3600).utc == -HOUR
    assert TimeTZ(DAY, 3600).utc == DAY + HOUR


@pytest.mark.parametrize(
    ("modifier", "value"), [(0, 2_000_000), (1, 1_600_000), (3, 1_556_000), (6, 1_555_555), (-1, 1_555_555)]
)
def test_a_value_is_rounded_to_the_decimals_of_its_type(modifier, value):
    assert scaled_time(1_555_555, modifier) == scaled_timestamp(1_555_555, modifier) == value
    assert scaled_timetz(TimeTZ(1_555_555, 7), modifier) == TimeTZ(value, 7)
    assert scaled_timestamp(-1_555_555, modifier) == -value


@pytest.mark.parametrize("infinity", TIMESTAMP_INFINITIES)
def test_an_infinity_is_not_rounded(infinity):
    assert scaled_timestamp(infinity, 0) == infinity


@pytest.mark.parametrize("modifier", [7, -2])
def test_a_precision_that_no_type_has_is_refused(modifier):
    with pytest.raises(DataException) as caught:
        scaled_timestamp(0, modifier)
    assert caught.value.sqlstate == "22023"
    assert caught.value.message == f"timestamp({modifier}) precision must be between 0 and 6"
