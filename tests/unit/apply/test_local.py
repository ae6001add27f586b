"""The transactions of the target in which a batch is applied."""

from __future__ import annotations

import sqlite3

import pytest

from subscriber import failpoints
from subscriber.lsn import LSN
from tests.changes import insert
from tests.frames import transaction

START, END = LSN(100), LSN(1000)
pytestmark = pytest.mark.usefixtures("tables")


def test_the_failpoints_stand_on_both_sides_of_the_commit(run, target, monkeypatch):
    """any_crash, progress_with_data"""
    other = sqlite3.connect(target.url.database)
    seen = []

    def look(name):
        rows = other.execute("SELECT count(*) FROM t").fetchone()
        lsn = other.execute("SELECT remote_lsn FROM subscriber_replication_origin_status").fetchone()
        seen.append((name, *rows, *lsn))

    monkeypatch.setattr(failpoints, "hit", look)
    run(*transaction(200, insert("1", None, None)), end=200)
    other.close()
    assert seen == [("target.commit.before", 0, "0/64"), ("target.commit.after", 1, "0/C8")]
