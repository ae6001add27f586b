"""Changes become what pgoutput would have sent: the truth table, borrowed values, projection,
names.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from subscriber.base.errors import RowFilterError
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import ChangeGroup
from subscriber.postgres.publication import transform as module
from subscriber.postgres.publication.combine import ROW_OPERATIONS, RelationPlan
from subscriber.postgres.publication.definition import OPERATIONS
from subscriber.postgres.publication.transform import SENT, RowFilter, transform
from tests.frames import frame, relation, values
from tests.publications import python_filter

COLUMNS = {"a": "int4", "b": "text", "c": "int4"}
KEYED = relation("public.t", COLUMNS, key=["a"])
FULL = relation("public.t", COLUMNS, identity="f")
C = python_filter("c", lambda row: None if row["c"] is None else row["c"] > 0)
A = python_filter("a", lambda row: row["a"] > 0)

YES, NO, UNKNOWN = "1", "-1", None
"""Values of c for which the filter is true, false and null."""


def sent(
    shape: m.Relation,
    change: m.Message,
    row_filter: RowFilter | None,
    publish_as: m.Relation | None = None,
    operations=OPERATIONS,
) -> list[ChangeGroup]:
    (group,) = frame([shape], [change]).groups
    plan = RelationPlan(shape, publish_as or shape, None, frozenset(operations))
    filters = {} if row_filter is None else dict.fromkeys(ROW_OPERATIONS, row_filter)
    return list(transform(group, plan, filters))


def insert(*new: str | m.Absence | None, shape: m.Relation = FULL) -> m.Insert:
    return m.Insert(shape.relation_id, values(*new))


def update(old: tuple | None, new: tuple, kind: m.OldKind | None = "O") -> m.Update:
    return m.Update(
        FULL.relation_id, None if old is None else kind, None if old is None else values(*old), values(*new)
    )


def delete(*old: str | None, kind: m.OldKind = "O") -> m.Delete:
    return m.Delete(FULL.relation_id, kind, values(*old))


# The table ----------------------------------------------------------------------------------------

TABLE = [
    ("INSERT", "-", "false", "nothing"),
    ("INSERT", "-", "true", "INSERT"),
    ("DELETE", "false", "-", "nothing"),
    ("DELETE", "true", "-", "DELETE"),
    ("UPDATE, no old row", "-", "false", "nothing"),
    ("UPDATE, no old row", "-", "true", "UPDATE"),
    ("UPDATE", "false", "false", "nothing"),
    ("UPDATE", "false", "true", "INSERT"),
    ("UPDATE", "true", "false", "DELETE"),
    ("UPDATE", "true", "true", "UPDATE"),
]


@pytest.mark.parametrize("unmatched", [NO, UNKNOWN], ids=["false", "null"])
@pytest.mark.parametrize(("change", "old", "new", "expected"), TABLE)
def test_the_table_holds_and_null_is_false(change, old, new, expected, unmatched):
    """Rules B11, B15, B16, B17."""
    value = {"true": YES, "false": unmatched, "-": None}
    before, after = ("1", "x", value[old]), ("1", "x", value[new])
    message: m.Message
    match change:
        case "INSERT":
            message = insert(*after)
        case "DELETE":
            message = delete(*before)
        case "UPDATE":
            message = update(before, after)
        case _:
            message = update(None, after)
    actions = [{"I": "INSERT", "U": "UPDATE", "D": "DELETE"}[group.action] for group in sent(FULL, message, C)]
    assert actions == ([] if expected == "nothing" else [expected])


def test_the_docstring_and_the_code_have_the_same_table():
    drawn = re.findall(
        r"^    ([A-Z]+(?:, no old row)?) +(-|true|false) +(-|true|false) +([A-Z]+|nothing)\b",
        str(module.__doc__),
        re.MULTILINE,
    )
    assert drawn == TABLE
    truth: dict[str, bool | None] = {"true": True, "false": False, "-": None}
    assert {(change[0], truth[old], truth[new]): expected for change, old, new, expected in TABLE} == {
        key: {"I": "INSERT", "U": "UPDATE", "D": "DELETE", None: "nothing"}[action] for key, action in SENT.items()
    }


@pytest.mark.parametrize(
    ("operation", "old", "new", "action"),
    [("insert", NO, YES, None), ("update", NO, YES, "I"), ("update", YES, NO, "D")],
)
def test_what_is_published_is_asked_of_the_change_as_it_was(operation, old, new, action):
    """Rule B19: with publish = 'update' an INSERT and a DELETE may be sent all the same."""
    groups = sent(FULL, update(("1", "x", old), ("1", "x", new)), C, operations=[operation])
    assert [group.action for group in groups] == ([] if action is None else [action])


def test_an_update_is_judged_by_the_filter_for_updates_whatever_it_becomes():
    """Rule B10."""
    (group,) = frame([FULL], [update(("1", "x", NO), ("1", "x", YES))]).groups
    plan = RelationPlan(FULL, FULL, None, frozenset(OPERATIONS))
    never = python_filter("c", lambda _row: False)
    assert [one.action for one in transform(group, plan, {"insert": never, "delete": never, "update": C})] == ["I"]
    assert transform(group, plan, {"insert": C, "delete": C, "update": never}) == ()


def test_a_relation_that_is_not_published_sends_nothing():
    (group,) = frame([FULL], [insert("1", "x", YES)]).groups
    assert transform(group, RelationPlan(FULL), {}) == ()


def test_rows_of_one_group_part_and_keep_their_positions():
    """Invariant commit_order."""
    changes = [
        update(("1", "x", old), ("2", "y", new))
        for old, new in [(YES, YES), (NO, YES), (YES, NO), (NO, NO), (YES, YES)]
    ]
    (group,) = frame([FULL], changes).groups
    parts = transform(group, RelationPlan(FULL, FULL, None, frozenset(OPERATIONS)), {"update": C})
    assert {part.action: part.positions.tolist() for part in parts} == {"I": [1], "D": [2], "U": [0, 4]}


# Old rows and borrowed values ---------------------------------------------------------------------


def test_an_update_that_becomes_an_insert_has_the_values_borrowed_from_the_old_row():
    """Rule B17."""
    (group,) = sent(FULL, update(("1", "long", NO), ("2", m.UNCHANGED, YES)), C)
    assert (group.action, group.old_kind, group.old) == ("I", None, None)
    assert group.new is not None
    assert group.new.to_pylist() == [{"a": 2, "b": "long", "c": 1}]


def test_what_came_in_binary_form_is_known_of_what_is_published():
    """C5: of the values that were borrowed too."""
    (group,) = frame([FULL], [update(("1", "old", NO), ("1", m.UNCHANGED, YES))], binary=("b",)).groups
    (published,) = transform(
        group, RelationPlan(FULL, FULL, None, frozenset(OPERATIONS)), dict.fromkeys(ROW_OPERATIONS, C)
    )
    assert published.action == "I"
    assert published.binary == {"b"}


def test_an_update_that_stays_one_does_not_borrow():
    """Rule B17: the markers stay."""
    (group,) = sent(FULL, update(("1", "long", YES), ("2", m.UNCHANGED, YES)), C)
    assert group.new is not None and group.old is not None
    assert group.new.to_pylist() == [{"a": 2, "c": 1}]
    assert group.old.to_pylist() == [{"a": 1, "b": "long", "c": 1}]


def test_a_filter_sees_borrowed_values():
    """Rule B17."""
    long = python_filter("b", lambda row: row["b"] == "long")
    (group,) = sent(FULL, update(("1", "long", NO), ("2", m.UNCHANGED, NO)), long)
    assert group.action == "U"


def test_what_cannot_be_borrowed_stays_unsent_in_an_insert():
    """Rules B18, C6."""
    change = update(("-1", None, None), ("2", m.UNCHANGED, YES), kind="K")
    (group,) = sent(KEYED, change, A)
    assert (group.action, group.relation) == ("I", KEYED)
    assert group.new is not None
    assert group.new.to_pylist() == [{"a": 2, "c": 1}]


def test_a_delete_keeps_the_kind_of_its_old_row():
    """Rule A10."""
    (key,) = sent(KEYED, update(("1", None, None), ("-1", "x", YES), kind="K"), A)
    (row,) = sent(FULL, update(("1", "x", YES), ("1", "x", NO)), C)
    assert key.old is not None and row.old is not None
    assert (key.action, key.old_kind, key.new, key.old.to_pylist()) == ("D", "K", None, [{"a": 1}])
    assert (row.action, row.old_kind, row.new, row.old.to_pylist()) == ("D", "O", None, [{"a": 1, "b": "x", "c": 1}])


@pytest.mark.parametrize(
    ("change", "side"),
    [
        (update(("1", None, None), ("2", "x", YES), kind="K"), "old"),
        (delete("1", None, None, kind="K"), "old"),
        (update(None, ("1", "x", m.UNCHANGED)), "new"),
    ],
)
def test_what_a_filter_needs_and_the_stream_does_not_have_is_an_error(change, side):
    """Rules B13, B33, absence_is_typed: a column outside of the key is not NULL, it is unknown."""
    with pytest.raises(RowFilterError, match=f'needs column "c" of the {side} row') as caught:
        sent(KEYED, change, C)
    assert (caught.value.sqlstate, caught.value.relation, caught.value.column) == ("42P10", "public.t", "c")
    assert "REPLICA IDENTITY FULL" in str(caught.value.hint)


def test_what_is_not_filtered_needs_no_old_row():
    """Rule B9."""
    (group,) = sent(KEYED, delete("1", None, None, kind="K"), None)
    assert (group.action, group.positions.tolist()) == ("D", [0])


# Names and columns --------------------------------------------------------------------------------


def test_columns_are_left_out_after_the_filter_has_seen_them():
    """Rule B12a."""
    narrow = m.Relation(FULL.relation_id, "public", "t", "f", FULL.columns[:2])
    (group,) = sent(FULL, update(("1", "x", YES), ("2", "y", YES)), C, narrow)
    assert group.relation == narrow
    assert group.new is not None and group.old is not None
    assert (group.old.to_pylist(), group.new.to_pylist()) == ([{"a": 1, "b": "x"}], [{"a": 2, "b": "y"}])


def test_a_change_without_any_column_left_is_still_a_change():
    nothing = m.Relation(FULL.relation_id, "public", "t", "f", ())
    (group,) = sent(FULL, insert("1", "x", YES), C, nothing)
    assert group.new is not None
    assert (group.new.num_rows, group.new.num_columns) == (1, 0)


ROOT = relation("public.root", {"c": "int4", "a": "int4", "b": "text"}, key=["a"], oid=10)
FULL_ROOT = relation("public.root", {"c": "int4", "a": "int4", "b": "text"}, identity="f", oid=10)


def test_via_root_a_row_is_mapped_by_name():
    """Rule B12."""
    (group,) = sent(FULL, insert("1", "x", YES), C, ROOT)
    assert group.relation == ROOT
    assert group.new is not None
    assert group.new.schema.names == ["c", "a", "b"]
    assert group.new.to_pylist() == [{"c": 1, "a": 1, "b": "x"}]


def test_via_root_the_kind_of_an_old_row_is_the_root_s():
    """Rule A10: what the leaf's key does not hold is NULL in the root's whole row."""
    (whole,) = sent(KEYED, delete("1", None, None, kind="K"), None, FULL_ROOT)
    assert whole.old is not None
    assert (whole.old_kind, whole.old.to_pylist()) == ("O", [{"c": None, "a": 1, "b": None}])
    assert whole.old.schema.types == [pa.int32(), pa.int32(), pa.string()]
    (key,) = sent(FULL, delete("1", "x", YES), None, ROOT)
    assert key.old is not None
    assert (key.old_kind, key.old.to_pylist()) == ("K", [{"a": 1}])


def test_via_root_a_key_column_that_the_leaf_s_key_does_not_have_is_null():
    """The leaf has another replica identity than the table it is published as."""
    other = relation("public.root", {"a": "int4", "b": "text", "c": "int4"}, key=["c"], oid=10)
    (group,) = sent(KEYED, update(("1", None, None), ("2", "x", "5"), kind="K"), None, other)
    assert group.old is not None
    assert (group.old_kind, group.old.to_pylist()) == ("K", [{"c": None}])
