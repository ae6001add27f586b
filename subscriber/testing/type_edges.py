"""Values of PostgreSQL's types at their edges, as the output functions write them."""

from __future__ import annotations

from typing import Final

EDGES: Final[dict[str, list[str]]] = {
    "smallint": ["-32768", "0", "32767"],
    "integer": ["-2147483648", "0", "2147483647"],
    "bigint": ["-9223372036854775808", "9007199254740993", "9223372036854775807"],
    "boolean": ["t", "f"],
    "real": ["0.1", "-3.4028235e+38", "NaN", "Infinity"],
    "double precision": ["0.1", "1e-300", "1.7976931348623157e+308", "NaN", "-Infinity"],
    "numeric": ["0.10", "-12345678901234567890.123456789", "1" * 60, "NaN"],
    "numeric(10,2)": ["0.10", "-99999999.99", "NaN"],
    "text": ["", " two  blanks ", "'; DROP TABLE t; --", "%s %%", "\\N", "a\tb\nc", "ä€😀", "NULL"],
    "character varying(20)": ["", "ä€😀", "twenty characters..."],
    "bytea": ["\\x", "\\x00ff5c27"],
    "date": ["2026-02-28", "0001-01-01", "9999-12-31", "infinity", "0044-03-15 BC", "10000-01-01"],
    "time without time zone": ["00:00:00", "23:59:59.999999", "24:00:00"],
    "timestamp without time zone": ["2026-02-28 12:34:56.789012", "-infinity", "0044-03-15 00:00:00 BC"],
    "timestamp with time zone": ["2026-02-28 12:34:56.789012+00", "infinity", "10000-01-01 00:00:00+00"],
    "interval": ["1 year 2 mons -3 days +04:05:06.789", "00:00:00"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "json": ['{"b": 1,  "a": 1.00}', "null"],
    "jsonb": ['{"a": 1.00, "b": null}', '"text"'],
    "inet": ["192.168.0.1/24", "::1"],
    "integer[]": ["{1,NULL,-3}", "{}", "[2:3]={1,2}"],
    "text[]": ['{a,"b,c",NULL,"NULL","\\"\\\\"}'],
}
