"""A publisher's table of films, with columns of many types, and user-defined objects."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from subscriber.base.errors import SubscriberError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.check_filter import analyze_filter, check_filter, filter_text
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables

BOOL, INT8, INT4, TEXT, BOX, INT4S, TEXTS, VARCHAR, DATE, NUMERIC = 16, 20, 23, 25, 603, 1007, 1009, 1043, 1082, 1700
MOOD: Final = 16500
COLUMNS: Final = (
    PublisherColumn("a", 1, INT4),
    PublisherColumn("b", 2, TEXT, collation=100),
    PublisherColumn("c", 3, TEXT, collation=950),
    PublisherColumn("n", 4, NUMERIC),
    PublisherColumn("tags", 5, TEXTS, collation=100),
    PublisherColumn("mood", 6, MOOD),
    PublisherColumn("double", 7, INT8, generated="virtual", expression="(a * 2)"),
    PublisherColumn("place", 8, BOX),
    PublisherColumn("d", 9, DATE),
    PublisherColumn("k", 10, INT4S),
    PublisherColumn("v", 11, VARCHAR, type_modifier=9, collation=100),
    PublisherColumn("p", 12, BOOL),
)
TABLE: Final = PublisherTable(20000, "public", "films", "table", COLUMNS)
OWN: Final = "\n".join(  # noqa: FLY002 - a row a line
    [
        "type\t16500\tpublic\tmood\te\tE\t0\t0\t16501\t0\t0\t-1\t0\t0",
        "type\t16501\tpublic\t_mood\tb\tA\t0\t16500\t0\t0\t0\t-1\t0\t0",
        "type\t16502\tpublic\tyear\td\tN\t0\t0\t0\t0\t23\t-1\t0\t0",
        "function\t16510\tpublic\tis_long\t25\t16\tf\ti\t0\t0\t0\t\t",
        "function\t16511\tpublic\tsame\t25 25\t16\tf\ti\t0\t0\t0\t\t",
        "operator\t16512\tpublic\t===\t25\t25\t16\t16511\t0",
        "collation\t16513\tpublic\told_spelling",
        "collation\t12500\tpg_catalog\tde_DE",
    ]
)
TABLES: Final = PublisherTables(180004, {TABLE.key: TABLE}, frozenset({950, 951}), own_objects=OWN)
BYTEWISE: Final = replace(TABLES, bytewise_collations=frozenset({100, 950, 951}))


def analyzed(text: str, tables: PublisherTables = TABLES) -> tree.Expression:
    """The typed tree of an expression of any type over films."""
    found = analyze_filter(f"({text}) IS NOT NULL", TABLE, tables)
    assert isinstance(found, tree.NullTest)
    return found.argument


def canonical(text: str, tables: PublisherTables = TABLES) -> str:
    """A filter of films as ``pg_get_expr`` prints it."""
    return filter_text(analyze_filter(text, TABLE, tables), tables)


def refusal(text: str, tables: PublisherTables = TABLES) -> SubscriberError:
    """The error for a filter of films."""
    with pytest.raises(SubscriberError) as caught:
        check_filter(text, TABLE, tables)
    return caught.value
