"""What two messages say together, and when the value of older rows is known. On servers:
test_followed_schema_changes.py.
"""

from __future__ import annotations

import pytest

from subscriber.apply.relations.added_columns import moved, next_baseline, older_rows, renames
from subscriber.schema.attributes import Attribute, TableAttributes
from subscriber.schema.kept_shape import Baseline, KeptColumn
from tests.frames import OIDS, relation


def columns(names: str) -> tuple[KeptColumn, ...]:
    """Small letters are integers, capital letters are texts."""
    return tuple(KeptColumn(name, OIDS["int4" if name.islower() else "text"], -1) for name in names)


@pytest.mark.parametrize(
    ("before", "now", "pairs"),
    [
        ("ab", "ac", [("b", "c")]),
        ("abc", "axy", [("b", "x"), ("c", "y")]),
        ("abcd", "axcy", [("b", "x"), ("d", "y")]),
        ("ab", "aX", []),
        ("aBc", "aXy", [("B", "X"), ("c", "y")]),
        ("abC", "abcD", [("C", "D")]),
        ("ab", "bx", []),
        ("ab", "abc", []),
        ("ab", "a", []),
    ],
)
def test_what_may_have_been_renamed_has_the_same_type_and_the_same_place(before, now, pairs):
    assert renames(columns(before), columns(now)) == pairs


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ("abc", "acb", ("a", "b", "c")),
        ("abc", "abc", ()),
        ("abc", "ac", ()),
        ("ab", "abc", ()),
        ("abc", "cbx", ("b", "c")),
    ],
)
def test_columns_in_another_order_have_moved(before, now, found):
    assert moved(columns(before), columns(now)) == found


MESSAGE = relation("public.t", {"a": "int4", "c": "int4"}, ["a"])
COLUMN = MESSAGE.columns[1]


def attributes(
    *found: tuple[int, str], last: int = 0, missing: frozenset[str] = frozenset(), **also: object
) -> TableAttributes:
    listed = tuple(
        Attribute(number, name, OIDS["int4"], -1, missing if name == "c" else frozenset()) for number, name in found
    )
    files = also.pop("files", {})
    return TableAttributes(listed, last or max(number for number, _ in found), files, **also)  # type: ignore[arg-type]


NEW = attributes((1, "a"), (3, "c"))
BASELINE = Baseline(2, {})


def test_a_missing_value_is_that_of_older_rows_and_none_is_null():
    assert older_rows(COLUMN, MESSAGE, BASELINE, attributes((1, "a"), (3, "c"), missing=frozenset({"5"}))).value == "5"
    found = older_rows(COLUMN, MESSAGE, BASELINE, NEW)
    assert (found.value, found.unknown) == (None, None)


@pytest.mark.parametrize(
    ("baseline", "now", "why"),
    [
        (BASELINE, None, "altered again"),
        (BASELINE, attributes((1, "a"), (3, "d")), "altered again"),
        (BASELINE, attributes((1, "a"), (3, "d"), (4, "c")), "altered again"),
        (BASELINE, attributes((3, "c"), (4, "a")), "altered again"),
        (None, NEW, "not known"),
        (Baseline(3, {}), NEW, "had the column before"),
        (BASELINE, attributes((1, "a"), (3, "c"), whole=False), "column list"),
        (BASELINE, attributes((1, "a"), (3, "c"), files={9: 10}), "rewritten"),
        (Baseline(2, {9: 8}), attributes((1, "a"), (3, "c"), files={9: 10}), "rewritten"),
        (BASELINE, attributes((1, "a"), (3, "c"), missing=frozenset("56")), "partitions"),
    ],
)
def test_an_unknown_value_has_a_reason(baseline, now, why):
    found = older_rows(COLUMN, MESSAGE, baseline, now)
    assert why in str(found.unknown)


def test_a_table_that_was_rewritten_before_the_baseline_is_known():
    files = {9: 10}
    assert older_rows(COLUMN, MESSAGE, Baseline(2, files), attributes((1, "a"), (3, "c"), files=files)).unknown is None


def test_columns_that_were_added_later_do_not_matter():
    """The publisher may already have columns that the stream does not have yet."""
    later = attributes((1, "a"), (3, "c"), (4, "d"), missing=frozenset("5"))
    assert older_rows(COLUMN, MESSAGE, BASELINE, later).value == "5"


def test_a_baseline_moves_with_what_is_applied_and_takes_files_only_where_no_later_column_may_have_changed_them():
    assert next_baseline(MESSAGE, BASELINE, attributes((1, "a"), (3, "c"), files={9: 10})) == Baseline(3, {9: 10})
    assert next_baseline(MESSAGE, BASELINE, attributes((1, "a"), (3, "c"), (4, "d"), files={9: 10})) == Baseline(3, {})
    assert next_baseline(MESSAGE, None, attributes((1, "a"), (3, "c"), (4, "d"))) is None
    assert next_baseline(MESSAGE, BASELINE, None) == BASELINE
    assert next_baseline(MESSAGE, None, attributes((1, "a"), (3, "c"), whole=False)) is None
