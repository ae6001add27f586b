"""The names of PostgreSQL's built-in types, for messages (``format_type(oid, NULL)``).

The table contains types that have the same OID in every database: those below 10000, which
pg_type.dat assigns manually. ``tests/conformance/test_types_against_postgresql.py`` compares the
table with ``pg_type`` of the available servers.
"""

from __future__ import annotations

from typing import Final

# (OID, name, OID of its array type or 0)
_BASE_TYPES: Final = (
    (16, "boolean", 1000),
    (17, "bytea", 1001),
    (18, '"char"', 1002),
    (19, "name", 1003),
    (20, "bigint", 1016),
    (21, "smallint", 1005),
    (23, "integer", 1007),
    (24, "regproc", 1008),
    (25, "text", 1009),
    (26, "oid", 1028),
    (27, "tid", 1010),
    (28, "xid", 1011),
    (29, "cid", 1012),
    (114, "json", 199),
    (142, "xml", 143),
    (194, "pg_node_tree", 0),
    (600, "point", 1017),
    (601, "lseg", 1018),
    (602, "path", 1019),
    (603, "box", 1020),
    (604, "polygon", 1027),
    (628, "line", 629),
    (650, "cidr", 651),
    (700, "real", 1021),
    (701, "double precision", 1022),
    (718, "circle", 719),
    (774, "macaddr8", 775),
    (790, "money", 791),
    (829, "macaddr", 1040),
    (869, "inet", 1041),
    (1033, "aclitem", 1034),
    (1042, "character", 1014),
    (1043, "character varying", 1015),
    (1082, "date", 1182),
    (1083, "time without time zone", 1183),
    (1114, "timestamp without time zone", 1115),
    (1184, "timestamp with time zone", 1185),
    (1186, "interval", 1187),
    (1266, "time with time zone", 1270),
    (1560, "bit", 1561),
    (1562, "bit varying", 1563),
    (1700, "numeric", 1231),
    (1790, "refcursor", 2201),
    (2202, "regprocedure", 2207),
    (2203, "regoper", 2208),
    (2204, "regoperator", 2209),
    (2205, "regclass", 2210),
    (2206, "regtype", 2211),
    (2950, "uuid", 2951),
    (2970, "txid_snapshot", 2949),
    (3220, "pg_lsn", 3221),
    (3361, "pg_ndistinct", 0),
    (3402, "pg_dependencies", 0),
    (3614, "tsvector", 3643),
    (3615, "tsquery", 3645),
    (3642, "gtsvector", 3644),
    (3734, "regconfig", 3735),
    (3769, "regdictionary", 3770),
    (3802, "jsonb", 3807),
    (3904, "int4range", 3905),
    (3906, "numrange", 3907),
    (3908, "tsrange", 3909),
    (3910, "tstzrange", 3911),
    (3912, "daterange", 3913),
    (3926, "int8range", 3927),
    (4072, "jsonpath", 4073),
    (4089, "regnamespace", 4090),
    (4096, "regrole", 4097),
    (4191, "regcollation", 4192),
    (4451, "int4multirange", 6150),
    (4532, "nummultirange", 6151),
    (4533, "tsmultirange", 6152),
    (4534, "tstzmultirange", 6153),
    (4535, "datemultirange", 6155),
    (4536, "int8multirange", 6157),
    (4600, "pg_brin_bloom_summary", 0),
    (4601, "pg_brin_minmax_multi_summary", 0),
    (5017, "pg_mcv_list", 0),
    (5038, "pg_snapshot", 5039),
    (5069, "xid8", 271),
    (22, "int2vector", 1006),
    (30, "oidvector", 1013),
)

_NAMES: Final[dict[int, str]] = {oid: name for oid, name, _ in _BASE_TYPES} | {
    array: f"{name}[]" for _, name, array in _BASE_TYPES if array
}

BUILT_IN_TYPES: Final = frozenset(_NAMES)
"""The OIDs of the types in the table."""

ELEMENT_TYPES: Final[dict[int, int]] = {array: oid for oid, _, array in _BASE_TYPES if array}
"""OID of an array type → OID of its elements' type."""


def type_name(type_oid: int) -> str:
    """The type's SQL name, such as ``bigint`` or ``timestamp with time zone``.

    A type that CREATE TYPE or an extension created has no fixed OID, so its name is not known here.
    It is in the Type message of the stream.

    >>> type_name(20)
    'bigint'
    >>> type_name(1231)
    'numeric[]'
    >>> type_name(16400)
    'type with OID 16400'
    """
    return _NAMES.get(type_oid, f"type with OID {type_oid}")
