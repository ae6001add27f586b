"""date, time, timetz, timestamp, timestamptz and interval: their texts and values, without
arithmetic.

::

    bytes, text of a replication session ──date_families──▶ Arrow array of text
    any notation ──date_parts──▶ fields ──date_decoding──▶ Moment ──date_families──▶ value ──date_values──▶ text
                                                    timezones (tz database, POSIX specifications)
    interval ──interval_input──▶ dates.Interval
"""
