"""PostgreSQL's built-in functions and operators, as row filters evaluate them.

::

    function_table               signature → implementation; the comparison operators of a type, added together
    collators                    order and case of text by libc and ICU
    integer_functions            smallint, integer, bigint, oid, boolean, pg_lsn
    float_functions              real and double precision
    numeric_functions            numeric; numeric_powers: exp, ln, log and power
    text_functions, bytea_functions   text, character, name; bytea, bit, bit varying; parts of all of them
    patterns, regexps            LIKE and SIMILAR TO; regular expressions
    date_functions, date_fields  date/time types; extract, date_trunc and AT TIME ZONE
    interval_functions           interval
    json_functions, json_text    jsonb; json
    array_functions, range_functions  arrays; ranges and multiranges
    network_functions            inet, cidr, macaddr, macaddr8, uuid
    hashes                       hashtext and its kind

``FUNCTIONS.get(signature)`` gives the implementation, or None. The values themselves, their text
and their order are in :mod:`subscriber.postgres.types`.
"""

# ruff: noqa: F401  # each of the modules adds its functions to the table

from __future__ import annotations

from typing import Final

from subscriber.postgres.expressions.functions import (
    array_functions,
    bytea_functions,
    date_fields,
    date_functions,
    float_functions,
    hashes,
    integer_functions,
    interval_functions,
    json_functions,
    json_text,
    network_functions,
    numeric_functions,
    numeric_powers,
    patterns,
    range_functions,
    regexps,
    text_functions,
)
from subscriber.postgres.expressions.functions.function_table import FUNCTIONS, Implementation, elementwise

__all__ = ["FUNCTIONS", "SWAPPED"]

SWAPPED: Final = {
    "integer_pl_date(int4,date)": "date_pli(date,int4)",
    "interval_pl_date(interval,date)": "date_pl_interval(date,interval)",
    "interval_pl_time(interval,time)": "time_pl_interval(time,interval)",
    "interval_pl_timestamp(interval,timestamp)": "timestamp_pl_interval(timestamp,interval)",
    "interval_pl_timetz(interval,timetz)": "timetz_pl_interval(timetz,interval)",
    "timedate_pl(time,date)": "datetime_pl(date,time)",
    "timetzdate_pl(timetz,date)": "datetimetz_pl(date,timetz)",
    "int8pl_inet(int8,inet)": "inetpl(inet,int8)",
    "numeric_pl_pg_lsn(numeric,pg_lsn)": "pg_lsn_pli(pg_lsn,numeric)",
}
"""SQL functions whose body calls another function with the same two arguments in reverse order."""


def _add_swapped(signature: str, found: Implementation) -> None:
    elementwise(signature, raises=found.raises)(lambda left, right: found.function(right, left))


for _signature, _original in SWAPPED.items():
    _add_swapped(_signature, FUNCTIONS[_original])
