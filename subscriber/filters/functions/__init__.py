"""PostgreSQL's built-in functions and operators, as row filters evaluate them.

Every module holds the functions of one family of types and registers them in
:mod:`.function_registry` when it is imported. Importing this package imports all of them.

::

    function_registry                     signature → implementation
    comparison                            the comparison operators of a type, registered together
    logic                                 boolean
    integers, floats, float_functions     smallint, integer, bigint and oid; real and double precision; their mathematical functions
    numeric, numeric_powers               numeric; exp, ln, log, power and width_bucket of numeric
    text, strings, patterns, regexps      comparison and casts; string functions; LIKE and SIMILAR TO; regular expressions
    bytea, bits                           bytea; bit and bit varying
    dates, date_arithmetic, fields        date/time types: comparison; arithmetic; extract, date_part and date_trunc
    zones, overlaps, intervals            AT TIME ZONE; OVERLAPS; interval
    json, json_text                       jsonb; json
    arrays, ranges                        arrays; the built-in range types
    network, macaddrs, uuid, lsns         inet and cidr; macaddr and macaddr8; uuid; pg_lsn

A filter is first analyzed (:mod:`subscriber.filters.analyze`), which finds the signature of each
call. :func:`.function_registry.implementation_of` gives the implementation, and
:mod:`subscriber.filters.evaluate` calls it with columns or with values.

The values themselves, their text and their order are not here, but in :mod:`subscriber.types`.
"""

from subscriber.filters.functions import (  # noqa: F401  importing a module registers its functions
    arrays,
    bits,
    bytea,
    date_arithmetic,
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
