"""PostgreSQL 18's keywords that cannot be an identifier everywhere (``pg_get_keywords()``).

``ColId`` (names of subscriptions and publications) excludes all of them but the column-name
keywords. ``ColLabel`` (names of options) excludes none. The unquoted value of an option excludes
only the column-name keywords, since ``def_arg`` has a separate rule for reserved words.
"""

from __future__ import annotations

from typing import Final

RESERVED: Final = frozenset(
    """
    all analyse analyze and any array as asc asymmetric both case cast check collate column constraint
    create current_catalog current_date current_role current_time current_timestamp current_user default
    deferrable desc distinct do else end except false fetch for foreign from grant group having in
    initially intersect into lateral leading limit localtime localtimestamp not null offset on only or
    order placing primary references returning select session_user some symmetric system_user table then
    to trailing true union unique user using variadic when where window with
    """.split()  # noqa: SIM905 - a list of words is easier to read than a list of literals
)
"""Category R: reserved."""

TYPE_OR_FUNCTION_NAMES: Final = frozenset(
    """
    authorization binary collation concurrently cross current_schema freeze full ilike inner is isnull
    join left like natural notnull outer overlaps right similar tablesample verbose
    """.split()  # noqa: SIM905 - a list of words is easier to read than a list of literals
)
"""Category T: reserved, but can be the name of a function or type."""

COLUMN_NAMES: Final = frozenset(
    """
    between bigint bit boolean char character coalesce dec decimal exists extract float greatest grouping
    inout int integer interval json json_array json_arrayagg json_exists json_object json_objectagg
    json_query json_scalar json_serialize json_table json_value least merge_action national nchar none
    normalize nullif numeric out overlay position precision real row setof smallint substring time
    timestamp treat trim values varchar xmlattributes xmlconcat xmlelement xmlexists xmlforest
    xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
    """.split()  # noqa: SIM905 - a list of words is easier to read than a list of literals
)
"""Category C: not reserved, but cannot be the name of a function or type."""

NOT_COLUMN_ID: Final = RESERVED | TYPE_OR_FUNCTION_NAMES
"""The words that cannot be a ColId."""
NOT_TYPE_OR_FUNCTION: Final = RESERVED | COLUMN_NAMES
"""The words that cannot be a type_function_name."""

_SINCE_16: Final = frozenset({"json_array", "json_arrayagg", "json_object", "json_objectagg"})
_SINCE_17: Final = frozenset(
    """
    json json_exists json_query json_scalar json_serialize json_table json_value merge_action
    """.split()  # noqa: SIM905 - a list of words is easier to read than a list of literals
)


def column_names(major: int) -> frozenset[str]:
    """The words of :data:`COLUMN_NAMES` that this version of PostgreSQL has."""
    newer = (_SINCE_17 if major < 17 else frozenset()) | (_SINCE_16 if major < 16 else frozenset())
    return COLUMN_NAMES - newer


def reserved(major: int) -> frozenset[str]:
    """The words of :data:`RESERVED` that this version of PostgreSQL has."""
    return RESERVED - {"system_user"} if major < 16 else RESERVED
