"""date, time, timetz, timestamp, timestamptz and interval.

::

    bytes, text of a replication session ──wire──▶ Arrow array of text
    any notation ──parts──▶ fields ──decoding──▶ Moment ──input──▶ value ──output──▶ text
                             words      timezones ◀── timezone_data ◀── zone_file (tz database), posix_zone
    interval ──interval_input──▶ intervals.Interval

    wire                        the families: decoding of a publisher's values
    parts, words                the fields of a text; the words in them
    decoding, field_numbers     the meaning of the fields; the numbers in them
    input                       the input functions
    intervals, interval_input   the values of interval; their input function
    interval_sum, iso_interval  an interval as a sum of units; the formats of ISO 8601
    values                      the values of timetz; the precision that a type modifier sets
    output                      the output functions
    calendar                    the calendar, limits and units
    timezones, timezone_data    names of time zones; their offsets
    zone_file, posix_zone       time zones of files and of POSIX specifications

Comparison, arithmetic, ``extract`` and AT TIME ZONE are not here, but in
:mod:`subscriber.filters.functions`.
"""
