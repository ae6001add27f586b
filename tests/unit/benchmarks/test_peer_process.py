"""The events of Debezium's engine become changes, and changes become rows."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from benchmarks.peer_process import Change, changes_of, write_rows


def event(operation, before, after):
    return json.dumps({"op": operation, "before": before, "after": after, "source": {"table": "t"}})


def test_an_event_has_its_new_row_and_a_delete_its_old_one():
    events = [event("c", None, {"a": 1}), None, event("u", {"a": 1}, {"a": 2}), event("d", {"a": 2}, None)]
    assert list(changes_of(iter(events))) == [("t", False, {"a": 1}), ("t", False, {"a": 2}), ("t", True, {"a": 2})]


def test_changes_are_written_in_their_order():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
        changes: list[Change] = [
            ("t", False, {"b": "x", "a": 1}),
            ("t", False, {"b": "y", "a": 2}),
            ("t", True, {"a": 1, "b": None}),
            ("t", False, {"b": "z", "a": 2}),
        ]
        write_rows(connection, {"t": ["a", "b"]}, iter(changes))
        assert connection.execute("SELECT * FROM t").fetchall() == [(2, "z")]
        assert not connection.in_transaction
