"""The error for columns that the target's table lacks says what has happened, and what to run."""

from __future__ import annotations

import pytest

from subscriber.apply.relations.missing_columns import (
    MissingColumns,
    addition,
    find_table,
    missing_columns,
    moved,
    next_baseline,
    older_rows,
    renames,
)
from subscriber.apply.relations.target_relations import RelationMap
from subscriber.base.errors import TargetRelationError
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.publisher_tables import PublisherColumn, TableAttributes
from subscriber.postgres.schema.relation_names import SAME_NAMES
from subscriber.postgres.schema.stored_shape import Baseline, StoredColumn, StoredShape, columns_of
from subscriber.targets.ddl import as_typed
from tests.frames import OIDS, relation

BEFORE = relation("public.t", {"a": "int4", "b": "text"}, ["a"])
NOW = relation("public.t", {"a": "int4", "c": "text"}, ["a"])


@pytest.fixture
def error(target, execute):
    """The error for the columns of ``NOW`` that a table with the columns of ``BEFORE`` lacks."""
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")

    def call(before: m.Relation | None, *, adds_columns: bool, replaced: tuple[str, ...] = ()) -> TargetRelationError:
        with target.begin() as connection:
            table = find_table(target, connection, SAME_NAMES, NOW)
        kept = None if before is None else StoredShape(columns_of(before))
        words = MissingColumns(target, SAME_NAMES, adds_columns=adds_columns)
        return words.error(NOW, table, missing_columns(NOW, table), kept, replaced)

    return call


def test_missing_columns_are_named_with_both_shapes_and_what_to_run(execute, target):
    """C3: the message is PostgreSQL's, the hint is not. SQLite has no place for b beside B."""
    execute('CREATE TABLE "s.t" (a INTEGER, "B" TEXT)')
    with pytest.raises(TargetRelationError) as raised, target.begin() as connection:
        RelationMap(target, connection).open(relation("s.t", {"a": "int4", "b": "text", "m": "text", "n": "numeric"}))
    error = raised.value
    assert error.detail == ("The publisher has (a integer, b text, m text, n numeric), the target (a INTEGER, B TEXT).")
    assert error.hint == (
        'Use ALTER TABLE main."s.t" ADD COLUMN m TEXT; ALTER TABLE main."s.t" ADD COLUMN n NUMERIC_TEXT in the target,'
        ' or ALTER SUBSCRIPTION ... SET (schema_changes = \'add_columns\'). SQLite treats "b" and "B" as the same name, and'
        ' PostgreSQL does not: rename the target\'s column to "b", or publish the table without one of them.'
    )


def test_a_new_column_can_be_added_by_hand_or_by_the_option(error):
    assert error(None, adds_columns=False).hint == (
        "Use ALTER TABLE main.t ADD COLUMN c TEXT in the target,"
        " or ALTER SUBSCRIPTION ... SET (schema_changes = 'add_columns')."
    )
    assert error(None, adds_columns=True).hint == "Use ALTER TABLE main.t ADD COLUMN c TEXT in the target."


def test_a_column_that_may_have_been_renamed_is_named_with_both_statements(error):
    found = error(BEFORE, adds_columns=True, replaced=("b",))
    assert str(found.detail).startswith(
        'The publisher had (a integer, b text) before. Either "b" was renamed, or it was dropped, and "c" is a different column.'
    )
    assert str(found.hint).startswith(
        "If it was renamed, use ALTER TABLE main.t RENAME COLUMN b TO c in the target."
        " If not, use ALTER TABLE main.t ADD COLUMN c TEXT in the target;"
    )


def test_without_a_former_shape_it_is_not_known_what_was_renamed(error):
    found = error(None, adds_columns=True, replaced=("b",))
    assert str(found.detail).startswith('It is not known whether "b" in the target is the former name of "c".')
    assert str(found.hint).startswith("If it was renamed, rename it in the target with ALTER TABLE ... RENAME COLUMN.")


def test_a_column_that_was_replicated_before_has_disappeared_from_the_target(error):
    found = error(NOW, adds_columns=True)
    assert "a column was renamed or dropped there" in str(found.detail)
    assert str(found.hint).startswith("Rename the column back, or use ALTER TABLE main.t ADD COLUMN c TEXT")


def test_a_column_of_a_user_defined_type_is_added_as_text(target, execute):
    """The stream has only the number of such a type."""
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    with target.begin() as connection:
        table = find_table(target, connection, SAME_NAMES, BEFORE)
    column = m.RelationColumn(0, "e", 16_500, -1)
    assert as_typed(target, addition(target, table, column)) == "ALTER TABLE main.t ADD COLUMN e TEXT"


# What two messages say together, and when the value of older rows is known. On servers:
# test_followed_schema_changes.py.


def columns(names: str) -> tuple[StoredColumn, ...]:
    """Small letters are integers, capital letters are texts."""
    return tuple(StoredColumn(name, OIDS["int4" if name.islower() else "text"], -1) for name in names)


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
    listed = tuple(PublisherColumn(name, number, OIDS["int4"]) for number, name in found)
    files = also.pop("files", {})
    latest = last or max(number for number, _ in found)
    return TableAttributes(listed, latest, files, missing={"c": missing}, **also)  # type: ignore[arg-type]


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
