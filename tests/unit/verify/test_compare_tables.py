"""The result of a comparison. The comparison itself is in tests/conformance/test_compare.py."""

from __future__ import annotations

from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.verify.compare_tables import TableComparison
from subscriber.verify.report import KEYS_SHOWN
from subscriber.verify.row_differences import RowDifferences

T = PublishedTable("public", "t")


def test_equal_tables_are_said_to_be_equal():
    comparison = TableComparison(T, RowDifferences(publisher_rows=2, target_rows=2))
    assert comparison.is_equal
    assert str(comparison) == (
        'table "public.t": 2 rows at the publisher, 2 in the target; 0 missing, 0 unexpected, 0 changed'
    )


def test_differences_are_counted_and_named_by_column_and_key():
    differences = RowDifferences(
        publisher_rows=3,
        target_rows=3,
        missing=1,
        unexpected=1,
        changed=1,
        columns=("b", "c"),
        missing_keys=(("3", "x"),),
        unexpected_keys=(("4", None),),
        changed_keys=(("2", "y"),),
    )
    comparison = TableComparison(T, differences)
    assert not comparison.is_equal
    assert str(comparison) == (
        'table "public.t": 3 rows at the publisher, 3 in the target; 1 missing, 1 unexpected, 1 changed (in b, c);'
        " keys (2, y), (3, x), (4, None)"
    )


def test_a_table_without_a_key_has_only_counts():
    comparison = TableComparison(T, RowDifferences(publisher_rows=1, target_rows=0, missing=1))
    assert comparison.keys == ()
    assert str(comparison).endswith("1 missing, 0 unexpected, 0 changed")


def test_no_more_keys_are_named_than_are_shown_by_default():
    def keys(start: int) -> tuple[tuple[str], ...]:
        return tuple((str(number),) for number in range(start, start + 3 * KEYS_SHOWN, 3))

    differences = RowDifferences(
        publisher_rows=20, target_rows=20, missing_keys=keys(2), unexpected_keys=keys(1), changed_keys=keys(0)
    )
    assert TableComparison(T, differences).keys == tuple((str(number),) for number in range(KEYS_SHOWN))
