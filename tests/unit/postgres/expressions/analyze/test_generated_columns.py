"""Virtual generated columns are written out (rule B29)."""

from __future__ import annotations

from dataclasses import replace

from subscriber.postgres.expressions.check_filter import analyze_filter, check_filter, columns_of, filter_text
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from tests.films import COLUMNS, NUMERIC, TABLE, TABLES, TEXT, canonical


def with_column(column: PublisherColumn) -> PublisherTable:
    return replace(TABLE, columns=(*COLUMNS, column))


def test_a_virtual_generated_column_is_written_out():
    """B29: so it is its columns that count for the replica identity (B33)."""
    found = check_filter("double > 4", TABLE, TABLES)
    assert filter_text(found, TABLES) == "(((a * 2))::bigint > 4)"
    assert columns_of(found) == {"a"}


def test_it_is_written_out_wherever_it_stands():
    assert canonical("double IN (2, 4)") == "(((a * 2))::bigint = ANY (ARRAY[(2)::bigint, (4)::bigint]))"
    assert canonical("CASE WHEN p THEN double = 2 END") == canonical("CASE WHEN p THEN (a * 2)::bigint = 2 END")
    assert canonical("(double, a) < (1, 2)") == "(ROW(((a * 2))::bigint, a) < ROW(1, 2))"


def test_the_value_has_the_type_and_the_collation_of_the_column():
    rounded = PublisherColumn("half", 20, NUMERIC, (10 << 16 | 1) + 4, generated="virtual", expression="(n / 2)")
    text = filter_text(analyze_filter("half = 1", with_column(rounded), TABLES), TABLES)
    assert text == "(((n / (2)::numeric))::numeric(10,1) = (1)::numeric)"
    copied = PublisherColumn("copy", 20, TEXT, collation=950, generated="virtual", expression="b")
    text = filter_text(analyze_filter("copy < 'x'", with_column(copied), TABLES), TABLES)
    assert text == "((b COLLATE \"C\") < 'x'::text)"


def test_a_stored_column_stays_a_column():
    stored = PublisherColumn("half", 20, NUMERIC, generated="stored", expression="(n / 2)")
    found = analyze_filter("half = 1", with_column(stored), TABLES)
    assert columns_of(found) == {"half"}
