"""PostgreSQL's built-in functions and operators, as row filters evaluate them.

Every module holds the functions of one family of types in a table, and :data:`FUNCTIONS` is all of
them together.

::

    function_table                        signature → implementation
    comparison                            the comparison operators of a type, added together
    logic                                 boolean
    integers, floats, float_functions     smallint, integer, bigint and oid; real and double precision; their mathematical functions
    numeric, numeric_buckets              numeric; width_bucket of numeric
    numeric_var, numeric_powers           arithmetic with a chosen number of decimals; exp, ln, log and power of numeric
    text, strings, patterns, regexps      comparison and casts; string functions; LIKE and SIMILAR TO; regular expressions
    bytea, bits                           bytea; bit and bit varying
    dates, date_arithmetic                date/time types: comparison; arithmetic
    fields, date_trunc                    extract and date_part; date_trunc
    zones, overlaps, intervals            AT TIME ZONE; OVERLAPS; interval
    json, json_text                       jsonb; json
    arrays, ranges                        arrays; the built-in range types
    network, macaddrs, uuid, lsns         inet and cidr; macaddr and macaddr8; uuid; pg_lsn

A filter is first analyzed (:mod:`subscriber.filters.analyze`), which finds the signature of each
call. ``FUNCTIONS.get(signature)`` gives the implementation, or None, and
:mod:`subscriber.filters.evaluate` calls it with columns or with values.

The values themselves, their text and their order are not here, but in :mod:`subscriber.types`.
"""

from __future__ import annotations

from typing import Final

from subscriber.filters.functions import (
    arrays,
    bits,
    bytea,
    date_arithmetic,
    date_trunc,
    dates,
    fields,
    float_functions,
    floats,
    integers,
    intervals,
    json,
    json_text,
    logic,
    lsns,
    macaddrs,
    network,
    numeric,
    numeric_buckets,
    numeric_powers,
    overlaps,
    patterns,
    ranges,
    regexps,
    strings,
    text,
    uuid,
    zones,
)
from subscriber.filters.functions.function_table import FunctionTable

FUNCTIONS: Final = FunctionTable(
    arrays.FUNCTIONS,
    bits.FUNCTIONS,
    bytea.FUNCTIONS,
    date_arithmetic.FUNCTIONS,
    date_trunc.FUNCTIONS,
    dates.FUNCTIONS,
    fields.FUNCTIONS,
    float_functions.FUNCTIONS,
    floats.FUNCTIONS,
    integers.FUNCTIONS,
    intervals.FUNCTIONS,
    json.FUNCTIONS,
    json_text.FUNCTIONS,
    logic.FUNCTIONS,
    lsns.FUNCTIONS,
    macaddrs.FUNCTIONS,
    network.FUNCTIONS,
    numeric.FUNCTIONS,
    numeric_buckets.FUNCTIONS,
    numeric_powers.FUNCTIONS,
    overlaps.FUNCTIONS,
    patterns.FUNCTIONS,
    ranges.FUNCTIONS,
    regexps.FUNCTIONS,
    strings.FUNCTIONS,
    text.FUNCTIONS,
    uuid.FUNCTIONS,
    zones.FUNCTIONS,
)
"""All implementations, by signature."""
