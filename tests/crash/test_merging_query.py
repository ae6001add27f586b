"""A query that merges a change feed into Delta Lake is killed at each place between batch, commit
and checkpoint, and started again: the table has the publisher's rows, and each change is there
once.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from subscriber.postgres.protocol import messages as m
from tests.frames import relation, transaction, values
from tests.journals import publish, writing

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.crash]

ROOT = Path(__file__).resolve().parents[2]
T = relation("public.t", {"id": "int4", "note": "text", "n": "int4"}, key=["id"])
TRANSACTIONS, CHANGES = 9, 12
KILLED_AT = (("begin", 1), ("append", 3), ("merge", 5), ("end", 7))

Rows = dict[int, tuple[str, int]]


def transaction_of(chance: random.Random, rows: Rows) -> list[m.Message]:
    """Random changes, and the publisher's ``rows`` after them. Half of the updates do not send the
    note, and some change the key.
    """
    changes: list[m.Message] = []
    for _ in range(CHANGES):
        free = chance.choice([key for key in range(40) if key not in rows])
        kind = chance.choice(("insert", "update", "update", "move", "delete")) if rows else "insert"
        old = chance.choice(list(rows)) if rows else 0
        if kind == "insert":
            rows[free] = (f"note {chance.random()}", 0)
            changes.append(m.Insert(T.relation_id, values(str(free), rows[free][0], "0")))
        elif kind == "delete":
            del rows[old]
            changes.append(m.Delete(T.relation_id, "K", values(str(old), None, None)))
        else:
            key = free if kind == "move" else old
            note, n = rows.pop(old)
            is_sent = chance.random() < 0.5
            rows[key] = (f"note {chance.random()}" if is_sent else note, n + 1)
            new = values(str(key), rows[key][0] if is_sent else m.UNCHANGED, str(n + 1))
            if kind == "move":
                changes.append(m.Update(T.relation_id, "K", values(str(old), None, None), new))
            else:
                changes.append(m.Update(T.relation_id, None, None, new))
    return changes


def run(journal: Path, folder: Path, *killed: str) -> int:
    command = [sys.executable, str(ROOT / "tests" / "merging_query.py"), str(journal), str(folder), *killed]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "output").open("ab") as output:
        return subprocess.run(
            command, env=environment, check=False, stdout=output, stderr=output, start_new_session=True
        ).returncode


def contents(table: Path) -> list[dict[str, Any]]:
    return list(pa.table(DeltaTable(str(table)).scan()).to_pylist())


def test_a_query_that_is_killed_anywhere_writes_each_change_once(tmp_path):
    """Invariant any_crash."""
    chance, rows = random.Random(1), Rows()
    journal = tmp_path / "journal"
    journal.mkdir()
    count = 0
    with writing(journal) as written:
        for number in range(1, TRANSACTIONS + 1):
            changes = transaction_of(chance, rows)
            count += sum(1 + isinstance(change, m.Update) for change in changes)
            described = [T, *changes] if number == 1 else changes
            end = 0x100 * (number + 1)
            known = {T.relation_id: T} if number > 1 else None
            publish(written, end, transaction(end, *described, xid=700 + number), relations=known)
    for place, batch in KILLED_AT:
        assert run(journal, tmp_path, place, str(batch)) == -signal.SIGKILL, (place, (tmp_path / "output").read_text())
    assert run(journal, tmp_path) == 0, (tmp_path / "output").read_text()
    assert {row["id"]: (row["note"], row["n"]) for row in contents(tmp_path / "rows")} == rows
    assert len(contents(tmp_path / "rows")) == len(rows)
    changes_there = {(row["_commit_version"], row["_sequence"]) for row in contents(tmp_path / "changes")}
    assert len(changes_there) == len(contents(tmp_path / "changes")) == count
