"""The names of PostgreSQL's built-in types (``format_type``), alone and with a type modifier.

The table has the types below 10000, which have the same OID in every database.
``tests/conformance/test_types_against_postgresql.py`` compares it with ``pg_type``. The declaration
is the text that CREATE TABLE would contain (rule A14).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

FIRST_NORMAL_OID: Final = 16384
"""The first OID of objects that users create (``FirstNormalObjectId``, rule B25)."""

# (OID, name, OID of its array type or 0)
_BASE_TYPES: Final = (
    (16, "boolean", 1000), (17, "bytea", 1001), (18, '"char"', 1002), (19, "name", 1003), (20, "bigint", 1016),
    (21, "smallint", 1005), (23, "integer", 1007), (24, "regproc", 1008), (25, "text", 1009), (26, "oid", 1028),
    (27, "tid", 1010), (28, "xid", 1011), (29, "cid", 1012), (114, "json", 199), (142, "xml", 143),
    (194, "pg_node_tree", 0), (600, "point", 1017), (601, "lseg", 1018), (602, "path", 1019), (603, "box", 1020),
    (604, "polygon", 1027), (628, "line", 629), (650, "cidr", 651), (700, "real", 1021),
    (701, "double precision", 1022), (718, "circle", 719), (774, "macaddr8", 775), (790, "money", 791),
    (829, "macaddr", 1040), (869, "inet", 1041), (1033, "aclitem", 1034), (1042, "character", 1014),
    (1043, "character varying", 1015), (1082, "date", 1182), (1083, "time without time zone", 1183),
    (1114, "timestamp without time zone", 1115), (1184, "timestamp with time zone", 1185), (1186, "interval", 1187),
    (1266, "time with time zone", 1270), (1560, "bit", 1561), (1562, "bit varying", 1563), (1700, "numeric", 1231),
    (1790, "refcursor", 2201), (2202, "regprocedure", 2207), (2203, "regoper", 2208), (2204, "regoperator", 2209),
    (2205, "regclass", 2210), (2206, "regtype", 2211), (2950, "uuid", 2951), (2970, "txid_snapshot", 2949),
    (3220, "pg_lsn", 3221), (3361, "pg_ndistinct", 0), (3402, "pg_dependencies", 0), (3614, "tsvector", 3643),
    (3615, "tsquery", 3645), (3642, "gtsvector", 3644), (3734, "regconfig", 3735), (3769, "regdictionary", 3770),
    (3802, "jsonb", 3807), (3904, "int4range", 3905), (3906, "numrange", 3907), (3908, "tsrange", 3909),
    (3910, "tstzrange", 3911), (3912, "daterange", 3913), (3926, "int8range", 3927), (4072, "jsonpath", 4073),
    (4089, "regnamespace", 4090), (4096, "regrole", 4097), (4191, "regcollation", 4192),
    (4451, "int4multirange", 6150), (4532, "nummultirange", 6151), (4533, "tsmultirange", 6152),
    (4534, "tstzmultirange", 6153), (4535, "datemultirange", 6155), (4536, "int8multirange", 6157),
    (4600, "pg_brin_bloom_summary", 0), (4601, "pg_brin_minmax_multi_summary", 0), (5017, "pg_mcv_list", 0),
    (5038, "pg_snapshot", 5039), (5069, "xid8", 271), (22, "int2vector", 1006), (30, "oidvector", 1013),
)  # fmt: skip

_NAMES: Final[dict[int, str]] = {oid: name for oid, name, _ in _BASE_TYPES} | {
    array: f"{name}[]" for _, name, array in _BASE_TYPES if array
}

BUILT_IN_TYPES: Final = frozenset(_NAMES)

ELEMENT_TYPES: Final[dict[int, int]] = {array: oid for oid, _, array in _BASE_TYPES if array}
"""OID of an array type → OID of its elements' type."""


def type_name(type_oid: int) -> str:
    """The type's SQL name. A type that CREATE TYPE or an extension created has no fixed OID; its
    name is in the Type message of the stream.

    >>> type_name(20), type_name(1231), type_name(16400)
    ('bigint', 'numeric[]', 'type with OID 16400')
    """
    return _NAMES.get(type_oid, f"type with OID {type_oid}")


def with_type_names(text: str, names: Mapping[int, str]) -> str:
    """A text with the names of user-defined types, where :func:`type_name` has written their OIDs.

    >>> with_type_names("cannot hold type with OID 16400", {16400: "mood"})
    'cannot hold type mood'
    """
    return re.sub(
        r"(?:type )?(type with OID (\d+))",
        lambda found: f"type {names[int(found[2])]}" if int(found[2]) in names else found[0],
        text,
    )


NO_MODIFIER: Final = -1
_HEADER: Final = 4
"""VARHDRSZ: the size of the header, which the modifiers of types with a header include."""

INTERVAL_FIELDS: Final[Mapping[int, str]] = {
    1 << 2: "year", 1 << 1: "month", 1 << 3: "day", 1 << 10: "hour", 1 << 11: "minute", 1 << 12: "second",
    1 << 2 | 1 << 1: "year to month", 1 << 3 | 1 << 10: "day to hour", 1 << 3 | 1 << 10 | 1 << 11: "day to minute",
    1 << 3 | 1 << 10 | 1 << 11 | 1 << 12: "day to second", 1 << 10 | 1 << 11: "hour to minute",
    1 << 10 | 1 << 11 | 1 << 12: "hour to second", 1 << 11 | 1 << 12: "minute to second",
}  # fmt: skip
"""The fields of an interval, by the upper half of its modifier."""
_EVERY_DIGIT: Final = 0xFFFF


def declared_type(type_oid: int, modifier: int = NO_MODIFIER) -> str:
    """The declaration of a column of this type with this ``atttypmod``.

    >>> declared_type(1700, 655366), declared_type(1184, 3), declared_type(1015, 14)
    ('numeric(10,2)', 'timestamp(3) with time zone', 'character varying(10)[]')
    """
    element = ELEMENT_TYPES.get(type_oid)
    if element is not None:
        return f"{declared_type(element, modifier)}[]"
    if modifier < 0:
        return _WITHOUT_MODIFIER.get(type_oid, type_name(type_oid))
    return with_modifier(type_oid, type_name(type_oid), modifier)


def with_modifier(type_oid: int, name: str, modifier: int) -> str:
    """The name of a built-in type with its modifier, which must not be -1.

    >>> with_modifier(1186, "interval", 0x1C08FFFF)
    'interval day to second'
    """
    written = _MODIFIED.get(type_oid)
    return name if written is None else written(name, modifier)


def _length(name: str, modifier: int) -> str:
    return f"{name}({modifier - _HEADER})" if modifier > _HEADER else name


def _bits(name: str, modifier: int) -> str:
    return f"{name}({modifier})"


def _numeric(name: str, modifier: int) -> str:
    packed = modifier - _HEADER
    # The scale is a signed integer of eleven bits.
    return f"{name}({packed >> 16 & 0xFFFF},{(packed & 0x7FF ^ 0x400) - 0x400})"


def _time(name: str, modifier: int) -> str:
    word, _, zone = name.partition(" ")
    return f"{word}({modifier}) {zone}"


def _interval(name: str, modifier: int) -> str:
    fields = INTERVAL_FIELDS.get(modifier >> 16 & 0x7FFF)
    digits = modifier & 0xFFFF
    return name + (f" {fields}" if fields else "") + ("" if digits == _EVERY_DIGIT else f"({digits})")


_WITHOUT_MODIFIER: Final = {1042: "bpchar", 1560: '"bit"'}
"""Types whose name alone would mean a length of one, and the name that means any length."""

_MODIFIED: Final[Mapping[int, Callable[[str, int], str]]] = {
    **dict.fromkeys((1042, 1043), _length),
    **dict.fromkeys((1560, 1562), _bits),
    1700: _numeric,
    **dict.fromkeys((1083, 1114, 1184, 1266), _time),
    1186: _interval,
}
