"""Changes of tables with a history, as the rows that they add to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from subscriber.apply.frame_order import FrameOrder
from subscriber.apply.history_frames import HistoryFrames
from subscriber.base.errors import NotSupportedError
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.schema.history_rules import OPEN_LSN, HistoryRules, parse_history_tables
from tests.changes import T, U, delete, insert, update
from tests.frames import frame, prepared, transaction

APPEND = HistoryRules("append")


def turned(*parts: Sequence[m.Message], rules: HistoryRules = APPEND, text: bool = False) -> list[Frame]:
    frames = [frame([T, U], part, text=text) for part in parts]
    return list(HistoryFrames(rules, as_text=text).of(frames))


def rows(frames: Sequence[Frame]) -> list[dict[str, Any]]:
    """The rows in the order in which they are written, without columns that are NULL."""
    found = []
    for one in frames:
        order = FrameOrder.of(one)
        for item in order.at.tolist():
            owner = int(order.owner[item])
            if owner:
                group = one.groups[owner - 1]
                assert group.action == "I" and group.new is not None
                row = group.new.slice(item - int(order.first[owner]), 1).to_pylist()[0]
                found.append({name: value for name, value in row.items() if value is not None})
    return found


def test_each_change_is_a_row_that_says_which_change_it_is():
    messages = transaction(1000, insert("1", "x", "y"), delete("1", None, None), xid=7, timestamp=5)
    assert rows(turned(messages)) == [
        {
            "a": 1,
            "b": "x",
            "c": "y",
            "_op": "insert",
            "_lsn": 992,
            "_commit_timestamp": "2000-01-01 00:00:00.000005+00",
            "_xid": 7,
            "_sequence": 3,
        },
        {
            "a": 1,
            "_op": "delete",
            "_lsn": 992,
            "_commit_timestamp": "2000-01-01 00:00:00.000005+00",
            "_xid": 7,
            "_sequence": 4,
            "_unchanged": "b, c",
        },
    ]


def test_a_changed_key_gives_the_old_key_before_the_new_row():
    old, new = rows(turned(transaction(1000, update(("2", "x", m.UNCHANGED), key=("1", None, None)))))
    assert (old["_op"], old["a"], old["_sequence"], old["_unchanged"]) == ("update_preimage", 1, 2, "b, c")
    assert (new["_op"], new["a"], new["_sequence"], new["_unchanged"]) == ("update_postimage", 2, 3, "c")


def test_an_unchanged_value_comes_from_the_old_row_where_that_was_sent():
    old, new = rows(turned(transaction(1000, update(("1", "x", m.UNCHANGED), old=("1", "w", "large")))))
    assert (old["b"], old["c"], "_unchanged" in old) == ("w", "large", False)
    assert (new["b"], new["c"], "_unchanged" in new) == ("x", "large", False)


def test_changes_are_numbered_over_the_frames_of_their_transaction():
    first, second = (
        transaction(1000, *(insert(str(k), "", "") for k in range(4)), xid=1),
        transaction(2000, insert("9", "", ""), xid=2),
    )
    found = rows(turned(first[:3], first[3:4], [*first[4:], *second]))
    assert [(row["_xid"], row["_sequence"]) for row in found] == [(1, 3), (1, 5), (1, 7), (1, 9), (2, 3)]


def test_a_truncate_is_a_row_of_each_table_with_a_history():
    rules = HistoryRules("append", parse_history_tables("public.u = off"))
    truncate = m.Truncate((T.relation_id, U.relation_id), cascade=False, restart_identity=False)
    (one,) = turned(transaction(1000, insert("1", "", ""), truncate, insert("2", "", "")), rules=rules)
    assert [row["_op"] for row in rows([one])] == ["insert", "truncate", "insert"]
    assert [control.relations for control in one.controls] == [(), (U,), ()]
    (one,) = turned(transaction(1000, truncate))
    assert [control.message[:1] for control in one.controls] == [b"B", b"C"]
    assert [row["_op"] for row in rows([one])] == ["truncate", "truncate"]


def test_other_tables_keep_their_changes_in_their_places():
    rules = HistoryRules("off", parse_history_tables("public.t = append"))
    (one,) = turned(
        transaction(
            1000,
            insert(
                "1",
                "",
                "",
            ),
            insert("1", "x", into=2),
            insert("2", "", ""),
        ),
        rules=rules,
    )
    by_relation = {group.relation.name: group for group in one.groups}
    assert by_relation["u"].relation is U
    assert by_relation["t"].positions[0] < by_relation["u"].positions[0] < by_relation["t"].positions[1]


def test_values_are_text_where_the_target_reads_text():
    (row,) = rows(turned(transaction(1000, insert("1", "", ""), timestamp=1_500_000), text=True))
    assert (row["a"], row["_lsn"], row["_commit_timestamp"]) == ("1", "992", "2000-01-01 00:00:01.5+00")


def test_a_prepared_transaction_is_refused():
    with pytest.raises(NotSupportedError, match="prepared transaction"):
        turned(prepared(1000, insert("1", "", "")))


# Versions -----------------------------------------------------------------------------------------

VERSIONS = HistoryRules("scd2")


def groups(*messages: m.Message) -> dict[str, list[Any]]:
    """The changes of versions by action, each with the old row and the new one."""
    (one,) = turned(transaction(1000, *messages, timestamp=0), rules=VERSIONS)
    found: dict[str, list[Any]] = {}
    for group in one.groups:
        parts = [[None] * len(group) if part is None else part.to_pylist() for part in (group.old, group.new)]
        found.setdefault(group.action, []).extend(zip(*parts, strict=True))
    return found


def test_a_change_of_a_version_brings_its_begin_and_finds_the_open_one():
    opened = {"_to_lsn": OPEN_LSN, "_to_sequence": 0}
    begun = {"_valid_from": "2000-01-01 00:00:00+00", "_from_lsn": 992}
    found = groups(
        insert("1", "x", "y"), update(("2", "z", m.UNCHANGED), key=("1", None, None)), delete("2", None, None)
    )
    assert found["I"] == [(None, {"a": 1, "b": "x", "c": "y", **begun, "_from_sequence": 2, **opened})]
    assert found["U"] == [({"a": 1, **opened}, {"a": 2, "b": "z", **begun, "_from_sequence": 4, **opened})]
    assert found["D"] == [({"a": 2, **opened, **begun, "_from_sequence": 6}, None)]


def test_a_truncate_of_versions_is_a_delete_without_a_key():
    found = groups(m.Truncate((T.relation_id,), cascade=False, restart_identity=False))
    ((old, new),) = found["D"]
    assert "a" not in old and old["_to_lsn"] == OPEN_LSN and new is None
