"""PostgreSQL's built-in functions and operators over columns of values, one file a family; see
:mod:`.function_registry`.

A file is found by what it is about: ``logic``, ``integers``, ``floats``, ``numeric``, ``text``,
``strings``, ``patterns``, ``regexps``, ``bytea``, ``bits``, ``dates``, ``intervals``, ``uuid``,
``json``, ``network``, ``arrays``. Importing this package registers them all.

What a value is, and its text, is :mod:`subscriber.types`'s.
"""

from subscriber.filters.functions import (  # noqa: F401  importing one registers its functions
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
