"""An object that the target has with another definition, with the statements that replace it."""

from __future__ import annotations

from subscriber.migrate.schema.schema_object import different
from subscriber.postgres.schema.shape import IndexKey, IndexShape
from subscriber.targets.table_changes import NewCheck, NewIndex


def test_what_is_different_is_left_to_the_user_with_statements_that_replace_it(missing):
    change = NewIndex(IndexShape(name="i", keys=(IndexKey("a"),)), "i", ("a",))
    one = different(missing.both(), "different index", "i", change, ("there", "(b)"), "CREATE INDEX i")
    assert (one.change, one.reason, one.publisher_ddl) == (None, "the target has (b)", "CREATE INDEX i")
    assert one.by_hand == ("DROP INDEX there", "CREATE INDEX i ON t (a)")


def test_what_the_target_cannot_replace_has_the_reason(missing):
    one = different(missing.both(), "different check", "c", NewCheck("c", "a > 1"), ("c", "CHECK (a > 0)"), "")
    assert one.by_hand == ()
    assert one.reason.startswith("the target has CHECK (a > 0); SQLite cannot remove a constraint")
