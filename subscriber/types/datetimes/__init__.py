"""date, time, timetz, timestamp, timestamptz and interval.

::

    bytes, text of a replication session ──wire──▶ Arrow array of text
    any notation ──parts──▶ fields ──decoding──▶ Moment ──input──▶ value ──output──▶ text
                             words      timezones ◀── timezone_data (tz database, POSIX)
    interval ──interval_input──▶ intervals.Interval

``calendar`` counts the days, ``values`` and ``intervals`` say what type modifiers keep. The
families are in :mod:`.wire`.
"""
