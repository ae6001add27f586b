"""Decoding of a publisher's dates and times: the bytes of their send functions, and the text of a
session with datestyle ISO, TimeZone UTC and intervalstyle postgres.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.datetimes.date_values import (
    DATE_INFINITIES,
    DATE_LIMITS,
    DAY,
    TIMESTAMP_INFINITIES,
    TIMESTAMP_LIMITS,
    Interval,
    TimeTZ,
    date_out,
    interval_out,
    time_text,
    timestamp_out,
    timetz_out,
)
from subscriber.postgres.types.registry import equality_of
from tests.type_samples import OIDS, SAMPLES, from_binary, from_text, refused_binary, refused_text

DATE, TIME, TIMETZ = "date", "time without time zone", "time with time zone"
TIMESTAMP, TIMESTAMPTZ = "timestamp without time zone", "timestamp with time zone"
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)

DATES = st.integers(*DATE_LIMITS) | st.integers(-9000, 9000) | st.sampled_from(DATE_INFINITIES)
MOMENTS = st.integers(*TIMESTAMP_LIMITS) | st.integers(-(10**15), 10**15) | st.sampled_from(TIMESTAMP_INFINITIES)


def packed(layout: str, *numbers: int) -> bytes:
    return struct.pack(f">{layout}", *numbers)


# --- text ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *[(DATE, bad) for bad in (b"", b"02/03/2024", b"02.03.2024", b"Sat 02 Mar", b"2024-3-2", b"2024-03-02 AD", b"today")],
        *[(TIME, bad) for bad in (b"", b"1:00", b"01:00", b"01:00:00 PM", b"01:00:00+00", b"01:00:00.1234567")],
        *[(TIMETZ, bad) for bad in (b"01:00:00", b"01:00:00 UTC", b"01:00:00Z")],
        *[(TIMESTAMP, bad) for bad in (b"2024-03-02", b"2024-03-02T01:00:00", b"2024-03-02 01:00:00+00")],
        *[(TIMESTAMPTZ, bad) for bad in
          (b"2024-03-02 01:00:00", b"2024-03-02 01:00:00+01", b"2024-03-02 01:00:00 UTC", b"2024-03-02 BC 01:00:00+00")],
        *[("interval", bad) for bad in (b"", b"P1D", b"@ 1 day", b"1-2", b"1 2:03:04", b"1 day ", b" 1 day", b"1 week", b"1 day ago")],
    ],
)  # fmt: skip
def test_dates_and_times_of_another_style_are_refused_with_the_settings_to_use(name, bad):
    """C5 (22007): a target that keeps text would keep the wrong day."""
    error = refused_text(name, SAMPLES[name][0], bad)
    assert error.message == f"invalid input syntax for type {name.removesuffix(' without time zone')}"
    assert error.sqlstate == "22007"
    assert "datestyle ISO, TimeZone UTC" in (error.hint or "")


@given(DATES, MOMENTS, st.integers(0, DAY), st.integers(-57_599, 57_599), INT32, INT32, INT64)
def test_the_text_of_every_value_is_accepted_unchanged(day, moment, time, zone, months, days, microseconds):
    for name, text in (
        (DATE, date_out(day)),
        (TIMESTAMP, timestamp_out(moment)),
        (TIMESTAMPTZ, timestamp_out(moment, "+00")),
        (TIME, time_text(time)),
        (TIMETZ, timetz_out(TimeTZ(time, zone))),
        ("interval", interval_out(Interval(months, days, microseconds))),
    ):
        assert from_text(name, text.encode()) == [text]


# --- binary form --------------------------------------------------------------------------------


@given(st.lists(DATES, min_size=1, max_size=4), st.lists(MOMENTS, min_size=1, max_size=4))
def test_a_column_is_written_as_each_of_its_values(days, moments):
    """Arrow writes columns of ordinary years, and the output function all others."""
    assert from_binary(DATE, *(packed("i", day) for day in days)) == [date_out(day) for day in days]
    data = [packed("q", moment) for moment in moments]
    assert from_binary(TIMESTAMP, *data) == [timestamp_out(moment) for moment in moments]
    assert from_binary(TIMESTAMPTZ, *data) == [timestamp_out(moment, "+00") for moment in moments]


@given(st.integers(0, DAY), st.integers(-57_599, 57_599), INT32, INT32, INT64)
def test_times_and_intervals_are_written_by_their_output_functions(time, zone, months, days, microseconds):
    assert from_binary(TIME, packed("q", time)) == [time_text(time)]
    assert from_binary(TIMETZ, packed("qi", time, zone)) == [timetz_out(TimeTZ(time, zone))]
    interval = Interval(months, days, microseconds)
    assert from_binary("interval", packed("qii", microseconds, days, months)) == [interval_out(interval)]


def test_the_first_and_last_dates_and_the_infinities_are_written():
    """A value outside of the ordinary years changes how the whole column is written, and not what
    is written.
    """
    expected = {
        -2_451_545: "4714-11-24 BC", -730_120: "0001-12-31 BC", -730_119: "0001-01-01", 0: "2000-01-01", 2_921_939: "9999-12-31",
        2_921_940: "10000-01-01", 2_145_031_948: "5874897-12-31", -(2**31): "-infinity", 2**31 - 1: "infinity",
    }  # fmt: skip
    assert from_binary(DATE, *(packed("i", day) for day in expected)) == list(expected.values())
    assert [from_binary(DATE, packed("i", day))[0] for day in expected] == list(expected.values())


def test_the_first_and_last_timestamps_are_written():
    expected = {
        -211_813_488_000_000_000: "4714-11-24 00:00:00 BC",
        -1: "1999-12-31 23:59:59.999999",
        10_000_000: "2000-01-01 00:00:10",
        9_223_371_331_199_999_999: "294276-12-31 23:59:59.999999",
        -(2**63): "-infinity",
    }
    assert from_binary(TIMESTAMP, *(packed("q", moment) for moment in expected)) == list(expected.values())
    assert [from_binary(TIMESTAMP, packed("q", moment))[0] for moment in expected] == list(expected.values())


def test_the_bytes_of_the_infinite_intervals_are_read():
    assert from_binary("interval", packed("qii", 2**63 - 1, 2**31 - 1, 2**31 - 1)) == ["infinity"]
    assert from_binary("interval", packed("qii", -(2**63), -(2**31), -(2**31))) == ["-infinity"]


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        (DATE, packed("i", -2_451_546), "date out of range"),
        (DATE, packed("i", 2_145_031_949), "date out of range"),
        (TIMESTAMP, packed("q", -211_813_488_000_000_001), "timestamp out of range"),
        (TIMESTAMPTZ, packed("q", 9_223_371_331_200_000_000), "timestamp out of range"),
        (TIME, packed("q", -1), "time out of range"),
        (TIME, packed("q", 86_400_000_001), "time out of range"),
        (TIMETZ, packed("qi", 86_400_000_001, 0), "time out of range"),
    ],
)
def test_a_value_that_postgresql_does_not_have_is_refused(name, bad, message):
    error = refused_binary(name, SAMPLES[name][1], bad)
    assert (error.sqlstate, error.message) == ("22008", message)


@pytest.mark.parametrize("zone", [57_600, -57_600])
def test_an_offset_of_sixteen_hours_is_refused(zone):
    error = refused_binary(TIMETZ, packed("qi", 0, zone))
    assert (error.sqlstate, error.message) == ("22009", "time zone displacement out of range")


# --- equality -----------------------------------------------------------------------------------


def test_only_equal_intervals_have_different_texts():
    assert {
        name for name in (DATE, TIME, TIMETZ, TIMESTAMP, TIMESTAMPTZ, "interval") if equality_of(OIDS[name]).canonical
    } == {"interval"}
