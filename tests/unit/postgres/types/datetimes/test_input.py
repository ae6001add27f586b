"""Input functions of dates and times: regress/sql/date.sql, time.sql, timetz.sql, timestamp.sql,
timestamptz.sql and horology.sql, with DateStyle ISO, MDY and TimeZone UTC.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.types.datetimes.date_values import (
    DATE_INFINITIES,
    DATE_LIMITS,
    DAY,
    TIMESTAMP_INFINITIES,
    TIMESTAMP_LIMITS,
    TimeTZ,
)
from tests.type_samples import form, read, refused, shown

DATE, TIME, TIMETZ = "date", "time without time zone", "time with time zone"
TIMESTAMP, TIMESTAMPTZ = "timestamp without time zone", "timestamp with time zone"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (DATE, "today"),
        (DATE, "yesterday"),
        (TIMESTAMP, "now"),
        (TIMESTAMP, "tomorrow"),
        (TIME, "now"),
        (TIMESTAMPTZ, "2024-01-01 10:00:00 localtime"),
        (TIMETZ, "10:11 MSK"),
    ],
)
def test_a_value_that_depends_on_clock_or_installation_is_refused_with_what_to_write(name, text):
    """B27, refuse_not_guess: such a constant may mean something else at the publisher."""
    with pytest.raises(NotSupportedError) as caught:
        read(name, text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        (DATE, "January 8, 1999", "1999-01-08"),
        (DATE, "1999-01-08", "1999-01-08"),
        (DATE, "1999-01-18", "1999-01-18"),
        (DATE, "1/8/1999", "1999-01-08"),
        (DATE, "1/18/1999", "1999-01-18"),
        (DATE, "01/02/03", "2003-01-02"),
        (DATE, "08-Jan-99", "1999-01-08"),
        (DATE, "Jan-08-1999", "1999-01-08"),
        (DATE, "1999-Jan-08", "1999-01-08"),
        (DATE, "19990108", "1999-01-08"),
        (DATE, "990108", "1999-01-08"),
        (DATE, "1999.008", "1999-01-08"),
        (DATE, "J2451187", "1999-01-08"),
        (DATE, "January 8, 99 BC", "0099-01-08 BC"),
        (DATE, "3/1/69", "2069-03-01"),
        (DATE, "3/1/70", "1970-03-01"),
        (DATE, "2040-04-10 BC", "2040-04-10 BC"),
        (DATE, "4714-11-24 BC", "4714-11-24 BC"),
        (DATE, "5874897-12-31", "5874897-12-31"),
        (DATE, "epoch", "1970-01-01"),
        (DATE, "infinity", "infinity"),
        (DATE, "-infinity", "-infinity"),
        (DATE, "+infinity", "infinity"),
        (DATE, "2024-02-29 24:00:00", "2024-02-29"),
        (TIME, "00:00", "00:00:00"),
        (TIME, "01:00", "01:00:00"),
        (TIME, "02:03 PST", "02:03:00"),
        (TIME, "11:59 EDT", "11:59:00"),
        (TIME, "12:01", "12:01:00"),
        (TIME, "11:59:59.99 PM", "23:59:59.99"),
        (TIME, "040506.789", "04:05:06.789"),
        (TIME, "12:30 AM", "00:30:00"),
        (TIME, "allballs", "00:00:00"),
        (TIME, "24:00:00", "24:00:00"),
        (TIME, "23:59:59.999999", "23:59:59.999999"),
        (TIME, "23:59:59.9999999", "24:00:00"),
        (TIME, "23:59:60", "24:00:00"),
        (TIME, "2003-04-12 04:05:06 America/New_York", "04:05:06"),
        (TIMETZ, "04:05:06 PST", "04:05:06-08"),
        (TIMETZ, "00:01 PDT", "00:01:00-07"),
        (TIMETZ, "2003-07-12 04:05:06 America/New_York", "04:05:06-04"),
        (TIMETZ, "24:00:00 PDT", "24:00:00-07"),
        (TIMETZ, "04:05:06.789+05:30:15", "04:05:06.789+05:30:15"),
        (TIMETZ, "10:00", "10:00:00+00"),
        (TIMESTAMP, "Jan-8-1999 4:05 PM", "1999-01-08 16:05:00"),
        (TIMESTAMP, "Mon Feb 10 17:32:01.4 1997 PST", "1997-02-10 17:32:01.4"),
        (TIMESTAMP, "19970210 173201 America/New_York", "1997-02-10 17:32:01"),
        (TIMESTAMP, "20011225T040506.789-07", "2001-12-25 04:05:06.789"),
        (TIMESTAMP, "2000-03-15 08:14:01 GMT+8", "2000-03-15 08:14:01"),
        (TIMESTAMP, "J2452271 T040506.789-08", "2001-12-27 04:05:06.789"),
        (TIMESTAMP, "Feb 16 17:32:01 0097 BC", "0097-02-16 17:32:01 BC"),
        (TIMESTAMP, "4714-11-24 00:00:00 BC", "4714-11-24 00:00:00 BC"),
        (TIMESTAMP, "294276-12-31 23:59:59.999999", "294276-12-31 23:59:59.999999"),
        (TIMESTAMP, "2000-01-01 24:00:00", "2000-01-02 00:00:00"),
        (TIMESTAMP, "2000-01-01 23:59:60", "2000-01-02 00:00:00"),
        (TIMESTAMP, "20240101 259900", "2024-01-02 02:39:00"),
        (TIMESTAMP, "-infinity", "-infinity"),
        (TIMESTAMPTZ, "Fri Feb 7 15:23:27 1997 PST", "1997-02-07 23:23:27+00"),
        (TIMESTAMPTZ, "1997-06-10 18:32:01 PDT", "1997-06-11 01:32:01+00"),
        (TIMESTAMPTZ, "2000-01-01 00:00:00+05:30", "1999-12-31 18:30:00+00"),
        (TIMESTAMPTZ, "19970710 173201 America/New_York", "1997-07-10 21:32:01+00"),
        (TIMESTAMPTZ, "2024-03-31 02:30 europe/berlin", "2024-03-31 01:30:00+00"),
        (TIMESTAMPTZ, "2024-07-01 12:00 MET DST", "2024-07-01 10:00:00+00"),
        (TIMESTAMPTZ, "epoch", "1970-01-01 00:00:00+00"),
        (TIMESTAMPTZ, "infinity", "infinity"),
    ],
)
def test_the_usual_notations_of_dates_and_times_are_read(name, text, written):
    """B27."""
    assert shown(name, text) == written


@pytest.mark.parametrize(
    ("name", "text", "sqlstate"),
    [
        (DATE, "", "22007"),
        (DATE, "garbage", "22007"),
        (DATE, "13/8/1999", "22008"),
        (DATE, "18/1/1999", "22008"),
        (DATE, "99-Jan-08", "22008"),
        (DATE, "99 08 Jan", "22007"),
        (DATE, "1999-08-Jan x", "22007"),
        (DATE, "1997-02-29", "22008"),
        (DATE, "1997-04-31", "22008"),
        (DATE, "0000-01-01", "22008"),
        (DATE, "4714-11-23 BC", "22008"),
        (DATE, "5874898-01-01", "22008"),
        (DATE, "8 x", "22007"),
        (DATE, "msk 2024-01-01", "22007"),
        (DATE, "1 " * 30, "22007"),
        (TIME, "13:00 PM", "22008"),
        (TIME, "24:00:00.01", "22008"),
        (TIME, "23:59:60.01", "22008"),
        (TIME, "24:01:00", "22008"),
        (TIME, "25:00:00", "22008"),
        (TIME, "10:60:00", "22008"),
        (TIME, "today", "22007"),
        (TIME, "infinity", "22007"),
        (TIME, "04:05 Europe/Berlin", "22007"),
        (TIMETZ, "24:00:00.01 PDT", "22008"),
        (TIMETZ, "15:36:39 America/New_York", "22007"),
        (TIMETZ, "10:00 +16", "22009"),
        (TIMESTAMP, "4714-11-23 23:59:59 BC", "22008"),
        (TIMESTAMP, "294277-01-01 00:00:00", "22008"),
        (TIMESTAMP, "19970710 173201 America/Does_not_exist", "22023"),
        (TIMESTAMP, "Feb 29 17:32:01 1997", "22008"),
        (TIMESTAMP, "Feb 16 17:32:01 5097 BC", "22008"),
        (TIMESTAMPTZ, "Feb 16 17:32:01 -0097", "22009"),
        (TIMESTAMPTZ, "2024-01-01 10:00 +99", "22009"),
        (TIMESTAMPTZ, "2024-01-01 y", "22007"),
        (TIMESTAMPTZ, "4714-11-24 00:00:00+01 BC", "22008"),
    ],
)
def test_a_text_that_is_not_a_date_or_time_has_the_servers_sqlstate(name, text, sqlstate):
    assert refused(name, text).sqlstate == sqlstate


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2024-02-29 101112-08", "2024-02-29 10:11:12"), ("2024-02-29 1011-08", "2024-02-29 10:11:00"), ("J 2451545", "2000-01-01 00:00:00"),
        ("J2451545-08", "2000-01-01 00:00:00"), ("2024 feb.29", "2024-02-29 00:00:00"), ("08 Feb 99", "1999-02-08 00:00:00"), ("2024--02-29", "2024-02-29 00:00:00"),
        ("2024-02-29 101112.5", "2024-02-29 10:11:12.5"), ("2024-02-29 10:11.5", "2024-02-29 00:10:11.5"), ("2024-02-29 10:11:", "2024-02-29 10:11:00"),
        ("2024-02-29 t10:11", "2024-02-29 10:11:00"), ("2024-02-29 t 2024", "2024-02-29 20:24:00"), ("1997.041", "1997-02-10 00:00:00"), ("0097.040 BC", "0097-02-09 00:00:00 BC"),
        ("Feb 10 17:32:01 1997 -0800", "1997-02-10 17:32:01"), ("2024-02-29 10:11 -08:00:", "2024-02-29 10:11:00"),
    ],
)  # fmt: skip
def test_an_unusual_notation_of_a_timestamp_is_read_as_the_server_reads_it(text, written):
    """The values are PostgreSQL 18's."""
    assert shown(TIMESTAMP, text) == written


@pytest.mark.parametrize(
    "text",
    [
        "2024-02-29 101112-08 10:11", "2024-02-29 J5", "J2451545x", "J2451545.5x", "J2451545.x-08", "2024-02-29.5", "29.5 Feb 2024", "99 Feb 2024", "2024-Feb-Mar-1",
        "2024-at-02-29", "1-2-3-4", "2024-02-29x", "20240229.5", "2024-02-29 10.5", "2024-02-29 10:11:12.5x", "2024-02-29 10:11:12:13", "2024-02-29 10: 11", "2024-02-29 10:11 +",
        "2024-02-29 10:11+01:02:03:04", "2024-02-29 10:11+01x", "2024-02-29 h5", "d 5", "2024.5", "97.041", "2024-02-29 10:11 EDT dst", "2024-02-29 10:11 Europe/Berlin dst",
        "-1-01-01",
    ],
)  # fmt: skip
def test_a_text_with_a_field_that_a_timestamp_cannot_have_is_refused(text):
    assert refused(TIMESTAMP, text).sqlstate == "22007"


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("J99999999999", "22008"), ("Feb 29.5 2024", "22008"), ("2024 Feb 99", "22008"), ("Feb 99 08", "22008"), ("2024-02-29 10:99999999999", "22008"),
        ("2024-02-29 99999999999999999999:00", "22008"), ("97/02/10 17:32:01 UTC", "22008"), ("2024-02-29 10:11+99999999999", "22009"),
    ],
)  # fmt: skip
def test_a_number_that_is_too_large_is_out_of_range(text, sqlstate):
    assert refused(TIMESTAMP, text).sqlstate == sqlstate


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("10:11:12-08", "10:11:12-08"), ("101112-08", "10:11:12-08"), ("1011.5", "10:11:00.5+00"), ("101112.5", "10:11:12.5+00"), ("10:11 at", "10:11:00+00"),
        ("J2451545 10:11", "10:11:00+00"), ("10:11 EST dst", "10:11:00-04"), ("10:11 Etc/GMT-5", "10:11:00+05"), ("T 101112", "10:11:12+00"), ("10:11 BC", "10:11:00+00"),
    ],
)  # fmt: skip
def test_an_unusual_notation_of_a_time_is_read_as_the_server_reads_it(text, written):
    """The values are PostgreSQL 18's."""
    assert shown(TIMETZ, text) == written


@pytest.mark.parametrize(
    "text",
    [
        "10.5",
        "2024-02-29 101112",
        "2024.060 10:11",
        "1",
        "10:11 dst",
        "10:11 2024-02",
        "T1011 T1011",
        "10:11 d",
        "10:11 Mon",
        "Feb 29 2024 10:11",
    ],
)
def test_a_text_with_a_field_that_a_time_cannot_have_is_refused(text):
    assert refused(TIMETZ, text).sqlstate == "22007"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (DATE, "invalid input syntax for type date"),
        (TIME, "invalid input syntax for type time"),
        (TIMETZ, "invalid input syntax for type time with time zone"),
        (TIMESTAMP, "invalid input syntax for type timestamp"),
        (TIMESTAMPTZ, "invalid input syntax for type timestamp with time zone"),
    ],
)
def test_an_invalid_text_is_reported_with_the_name_of_the_type(name, message):
    error = refused(name, "garbage")
    assert (error.message, error.quoting) == (message, None)


@pytest.mark.parametrize("name", [DATE, TIMESTAMP, TIMESTAMPTZ])
def test_after_the_last_field_that_a_date_may_have_only_blanks_are_allowed(name):
    """``ParseDateTime``: a comma needs no field, but room for one."""
    fields = "2024-01-01" + " at" * 24
    assert read(name, f"{fields}  ") == read(name, "2024-01-01")
    assert read(name, f"{fields[:-3]} ,") == read(name, "2024-01-01")
    assert refused(name, f"{fields} ,").sqlstate == "22007"


@pytest.mark.parametrize(
    ("name", "text", "precision", "written"),
    [
        (TIME, "10:00:00.4999996", 3, "10:00:00.5"),
        (TIME, "10:00:00.5", 0, "10:00:01"),
        (TIME, "23:59:59.9", 0, "24:00:00"),
        (TIMETZ, "10:00:00.55+02", 1, "10:00:00.6+02"),
        (TIMESTAMP, "2000-01-01 00:00:00.5", 0, "2000-01-01 00:00:01"),
        (TIMESTAMP, "1999-12-31 23:59:59.5", 0, "1999-12-31 23:59:59"),
        (TIMESTAMP, "2000-01-01 00:00:00.123456", 4, "2000-01-01 00:00:00.1235"),
        (TIMESTAMPTZ, "2000-01-01 00:00:00.123456+00", 6, "2000-01-01 00:00:00.123456+00"),
        (TIMESTAMPTZ, "infinity", 0, "infinity"),
    ],
)
def test_a_value_is_rounded_to_the_precision_of_its_type(name, text, precision, written):
    """A timestamp before 2000 is negative, and a half is rounded away from zero."""
    assert shown(name, text, precision) == written


@given(st.integers(*DATE_LIMITS) | st.sampled_from(DATE_INFINITIES))
def test_every_date_is_read_as_it_was_written(day):
    assert read(DATE, form(DATE).to_text(day)) == day


@given(st.integers(*TIMESTAMP_LIMITS) | st.sampled_from(TIMESTAMP_INFINITIES))
def test_every_timestamp_is_read_as_it_was_written(moment):
    for name in (TIMESTAMP, TIMESTAMPTZ):
        assert read(name, form(name).to_text(moment)) == moment


@given(st.integers(0, DAY), st.integers(-57_599, 57_599))
def test_every_time_is_read_as_it_was_written(time, zone):
    assert read(TIME, form(TIME).to_text(time)) == time
    assert read(TIMETZ, form(TIMETZ).to_text(TimeTZ(time, zone))) == TimeTZ(time, zone)


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (DATE, ["2024-02-29", None, "0001-01-01"]),
        (DATE, ["2024-02-29", None, "infinity", "0044-03-15 BC", "10000-01-01"]),
        (TIMESTAMP, ["2024-02-29 10:00:00", None, "1999-12-31 23:59:59.999999"]),
        (TIMESTAMP, ["-infinity", None, "0044-03-15 10:00:00 BC"]),
        (TIMESTAMPTZ, ["2024-02-29 10:00:00.5+00", None]),
        (TIMESTAMPTZ, ["infinity", None, "10000-01-01 00:00:00+00"]),
    ],
)
def test_a_column_of_texts_is_read_as_each_of_them(name, texts):
    """Arrow reads columns of ordinary years, and the input function all others."""
    function = form(name)
    assert function.from_texts is not None
    found = function.from_texts(pa.array(texts, pa.string()))
    assert found.type == function.arrow
    assert [None if value is None else function.to_text(value) for value in found.to_pylist()] == texts
