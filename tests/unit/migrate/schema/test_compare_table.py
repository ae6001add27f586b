"""Comments; everything is compared in its order."""

from __future__ import annotations

from dataclasses import replace

from subscriber.targets.table_changes import FoundObjects
from tests.unit.migrate.compared_tables import indexed


def test_another_comment_is_replaced(missing):
    objects = replace(indexed(), comment="new", column_comments={"a": "same", "missing": "x"})
    found = FoundObjects(comment="old", column_comments={"a": "same"})
    assert [(one.kind, one.name) for one in missing(found, objects=objects)] == [("comment", "")]
