"""The error for columns that the target's table lacks says what has happened, and what to run."""

from __future__ import annotations

import pytest

from subscriber.apply.relations.find_table import find_table
from subscriber.apply.relations.local_relations import RelationMap
from subscriber.apply.relations.missing_columns import MissingColumns, addition, missing_columns
from subscriber.errors import TargetRelationError
from subscriber.protocol import messages as m
from subscriber.schema.kept_shape import KeptShape, columns_of
from subscriber.schema.relation_names import SAME_NAMES
from subscriber.targets.alter_table import as_typed
from tests.frames import relation

BEFORE = relation("public.t", {"a": "int4", "b": "text"}, ["a"])
NOW = relation("public.t", {"a": "int4", "c": "text"}, ["a"])


@pytest.fixture
def error(target, execute):
    """The error for the columns of ``NOW`` that a table with the columns of ``BEFORE`` lacks."""
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")

    def call(before: m.Relation | None, *, adds_columns: bool, replaced: tuple[str, ...] = ()) -> TargetRelationError:
        with target.begin() as connection:
            table = find_table(target, connection, SAME_NAMES, NOW)
        kept = None if before is None else KeptShape(columns_of(before))
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
