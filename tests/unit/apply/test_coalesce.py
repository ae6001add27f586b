"""The changes of a row become one change or two, with the last value of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.apply import coalesce
from subscriber.apply.coalesce import coalesced, holds_all
from subscriber.apply.frame_order import FrameOrder
from subscriber.apply.relations.target_relations import RelationMap
from subscriber.base.errors import UnsupportedValue
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import ChangeGroup
from tests.changes import T, delete, insert, update
from tests.frames import frame

SAME = m.UNCHANGED


def fold(*changes: m.Message, text: bool = False) -> tuple[ChangeGroup, ...] | None:
    """The coalesced changes of the table ``t``."""
    messages = FrameOrder.of(frame([T], changes, text=text))
    owners = messages.owner[messages.at] - 1
    rows = messages.at - messages.first[owners + 1]
    keys = np.concatenate([batch_of(group).column("a").cast(pa.int64()) for group in messages.groups])
    return coalesced(messages.groups, owners, rows, keys[messages.at])


def batch_of(group: ChangeGroup) -> pa.RecordBatch:
    batch = group.old if group.new is None else group.new
    assert batch is not None
    return batch


def shown(groups: tuple[ChangeGroup, ...] | None) -> list[tuple[str, dict[str, Any]]]:
    """Each change: its action, and its new values or those of its key."""
    assert groups is not None
    return [(group.action, values) for group in groups for values in batch_of(group).to_pylist()]


def row(a: int, b: str | None, c: str | None) -> dict[str, Any]:
    return {"a": a, "b": b, "c": c}


UPDATES: list[m.Message] = [update(("1", "b", "c")), update(("1", "x", SAME))]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (UPDATES, [("U", row(1, "x", "c"))]),
        ([update(("1", SAME, "c")), update(("1", SAME, None))], [("U", {"a": 1, "c": None})]),
        ([insert("1", "b", "c"), update(("1", None, SAME))], [("I", row(1, None, "c"))]),
        ([*UPDATES, delete("1")], [("D", {"a": 1})]),
        ([delete("1"), insert("1", "b", "c")], [("D", {"a": 1}), ("I", row(1, "b", "c"))]),
        (
            [*UPDATES, delete("1"), insert("1", "b", "i"), update(("1", "u", SAME))],
            [("D", {"a": 1}), ("I", row(1, "u", "i"))],
        ),
        (
            [insert("1", "b", "c"), update(("1", "x", "x")), delete("1")],
            [("I", row(1, "b", "c")), ("D", {"a": 1})],
        ),
        (
            [insert("1", "b", "c"), delete("1"), insert("1", "x", "y")],
            [("I", row(1, "x", "y"))],
        ),
        ([delete("1"), insert("1", "b", "c"), delete("1")], [("D", {"a": 1})]),
    ],
    ids=["UU", "UU unchanged", "IU", "UUD", "DI", "UUDIU", "IUD", "IDI", "DID"],
)
def test_a_chain_of_changes(changes: list[m.Message], expected: list[tuple[str, object]]):
    """absence_is_typed: a column that no change has sent stays unchanged."""
    assert shown(fold(*changes)) == expected


def test_chains_with_different_columns_are_different_groups():
    """Deletes come first, then updates, then inserts; a row that is replaced is inserted last."""
    changes: list[m.Message] = [
        update(("1", "b", SAME)),
        update(("2", SAME, "c")),
        insert("3", "b", "c"),
        update(("1", SAME, "c")),
        delete("4"),
        update(("5", "x", SAME)),
        insert("4", "n", "n"),
        update(("2", SAME, "d")),
    ]
    assert shown(fold(*changes)) == [
        ("D", {"a": 4}),
        ("U", {"a": 2, "c": "d"}),
        ("U", {"a": 5, "b": "x"}),
        ("U", row(1, "b", "c")),
        ("I", row(3, "b", "c")),
        ("I", row(4, "n", "n")),
    ]


def test_the_old_values_of_a_row_are_not_needed():
    """The row is found by its key, which no change alters."""
    made = fold(update(("1", "x", SAME), old=("1", "o", "p")), update(("1", SAME, "y"), old=("1", "x", "p")))
    assert shown(made) == [("U", row(1, "x", "y"))]
    assert made is not None
    assert made[0].old is None
    assert made[0].positions.tolist() == [1]


@pytest.mark.parametrize(
    "changes",
    [
        [insert("1", "b", "c"), insert("1", "x", "y")],
        [update(("1", "b", "c")), insert("1", "x", "y")],
        [delete("1"), update(("1", "b", "c"))],
        [delete("1"), delete("1")],
    ],
    ids=["II", "UI", "DU", "DD"],
)
def test_changes_that_are_no_chain_are_not_folded(changes: list[m.Message]):
    """fast_equals_exact: one of them is a conflict."""
    assert fold(update(("7", "b", "c")), *changes) is None


def test_a_column_in_two_forms_is_not_folded():
    groups = [frame([T], [update(("1", "b", "c"))], text=text).groups[0] for text in (False, True)]
    assert coalesced(groups, np.array([0, 1]), np.array([0, 0]), np.array([1, 1])) is None


one_change = st.tuples(
    st.sampled_from("IUUD"), st.integers(0, 3), st.none() | st.sampled_from("xyz"), st.sampled_from(["x", None, SAME])
)


@given(st.lists(one_change, max_size=24), st.sets(st.integers(0, 3)))
def test_the_folded_changes_leave_the_same_rows(history, there):
    """fast_equals_exact: each change finds its row, and each INSERT finds none."""
    exact = {key: row(key, "old", "old") for key in there}
    fast = {key: dict(one) for key, one in exact.items()}
    changes: list[m.Message] = []
    for action, key, b, c in history:
        if (action == "I") == (key in exact):
            continue
        if action == "D":
            del exact[key]
            changes.append(delete(str(key)))
        elif action == "I":
            exact[key] = row(key, b, None if c is SAME else c)
            changes.append(insert(str(key), b, None if c is SAME else c))
        else:
            exact[key] |= {"b": b} if c is SAME else {"b": b, "c": c}
            changes.append(update((str(key), b, c)))
    made = fold(*changes) if changes else ()
    for action, new in shown(made):
        assert (new["a"] in fast) == (action != "I")
        if action == "D":
            del fast[new["a"]]
        else:
            fast[new["a"]] = fast.get(new["a"], {}) | new
    assert fast == exact
    assert len(shown(made)) <= 2 * len({change[1] for change in history})


# Values are left unwritten only if the target's columns accept all of them (invariant
# fast_equals_exact).


@pytest.fixture
def holds(target, tables):
    """Whether the columns of ``t`` accept all values of one change."""

    def ask(change: m.Message, *, binary: Sequence[str] = (), **columns: dict[str, Any]) -> bool:
        with target.begin() as connection:
            local = RelationMap(target, connection).open(T)
        changed = tuple(replace(one, **columns.get(one.name, {})) for one in local.columns)
        (group,) = frame([T], [change], binary=binary).groups
        return holds_all(target, replace(local, columns=changed), group)

    return ask


def test_a_column_of_the_same_type_accepts_every_value(holds):
    assert holds(insert("1", "x", None))
    assert holds(update(("1", "x", m.UNCHANGED)))
    assert holds(delete("1"))


@pytest.mark.parametrize("column", [{"nullable": False}, {"null_is_generated": True}], ids=["NOT NULL", "generated"])
def test_a_null_may_be_refused(holds, column):
    assert holds(update(("1", "x", m.UNCHANGED)), c=column)
    assert holds(update(("1", "x", "y")), c=column)
    assert not holds(update(("1", "x", None)), c=column)


def test_a_value_that_the_column_may_not_accept_is_written(holds):
    assert not holds(update(("1", "x", "y")), b={"declared_type": "CHARACTER VARYING(10)"})
    assert holds(update(("1", m.UNCHANGED, "y")), b={"declared_type": "CHARACTER VARYING(10)"})


def test_a_row_without_its_key_or_an_insert_without_a_column_is_written(holds):
    assert not holds(update((m.UNCHANGED, "x", "y"), old=("1", "x", "y")))
    assert not holds(insert("1", "x", m.UNCHANGED))


def test_long_rows_are_written(holds, monkeypatch):
    """A target may limit the length of a row."""
    monkeypatch.setattr(coalesce, "_MOST_BYTES", 100)
    assert holds(update(("1", "x", "y")))
    assert not holds(update(("1", "x" * 100, "y")))


def test_a_value_in_binary_format_may_be_refused(holds, target, monkeypatch):
    """C5"""
    assert holds(update(("1", "x", "y")), binary=["b"])
    refused = UnsupportedValue("incorrect binary data format", sqlstate="22P03")
    monkeypatch.setattr(target.values, "refused_binary", lambda oid, column, number=None: refused)
    assert not holds(update(("1", "x", "y")), binary=["b"])
    assert not holds(delete("1"), binary=["a"])
    assert holds(update(("1", "x", "y")), binary=[])
