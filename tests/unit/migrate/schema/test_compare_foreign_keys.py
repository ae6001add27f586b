"""Foreign keys that the target lacks or has with other actions."""

from __future__ import annotations

import pytest

from subscriber.postgres.schema.shape import ForeignKey
from subscriber.targets.table_changes import FoundForeignKey, FoundObjects
from subscriber.targets.target_table import TargetColumn, TargetTable

KEY = ForeignKey(("a",), "public", "u", ("id",), on_delete="CASCADE", name="f")


OTHER = TargetTable("main", "u", (TargetColumn("id", "INT", "INTEGER"),), ("id",))


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (FoundForeignKey(("a",), "u", ("id",), "CASCADE"), None),
        (FoundForeignKey(("a",), "u", (), "CASCADE", "RESTRICT"), None),
        (FoundForeignKey(("a",), "u", ("id",)), "the target's foreign key has ON DELETE NO ACTION ON UPDATE NO ACTION"),
        (FoundForeignKey(("b",), "u", ("id",), "CASCADE"), ""),
        (FoundForeignKey(("a",), "w", ("id",), "CASCADE"), ""),
    ],
)
def test_a_foreign_key_is_there_by_its_columns_and_actions(missing, found, reason):
    listed = missing(FoundObjects(foreign_keys=(found,)), foreign_keys=(KEY,), references={("public", "u"): OTHER})
    assert [one.reason for one in listed] == ([] if reason is None else [reason])
    assert all((one.change is None) == bool(reason) for one in listed)


def test_a_foreign_key_to_a_table_that_the_target_lacks_is_left_out(missing):
    (one,) = missing(foreign_keys=(KEY,))
    assert (one.change, one.reason) == (None, 'the target has no table "public.u"')
