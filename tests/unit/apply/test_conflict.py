"""Conflicts in PostgreSQL's words."""

from __future__ import annotations

import pytest

from subscriber.apply.conflict import (
    Conflict,
    SearchKey,
    ViolatedKey,
    describe,
    row_text,
)
from subscriber.catalog import ConflictKind
from subscriber.lsn import LSN
from subscriber.targets import RowVersion
from tests.changes import insert
from tests.conflicts import AT

START, END = LSN(100), LSN(1000)
pytestmark = pytest.mark.usefixtures("conflict_tables")


KEY = ViolatedKey("t_pkey", ("a",), ("1",), ("x",))


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (None, ""),
        (RowVersion(779), ", modified in transaction 779"),
        (RowVersion(779, "2026-01-01 00:00:00+00"), ", modified locally in transaction 779 at 2026-01-01 00:00:00+00"),
        (RowVersion(779, "now", "pg_1"), ', modified by origin "pg_1" in transaction 779 at now'),
        (RowVersion(779, "now", ""), ", modified by a non-existent origin in transaction 779 at now"),
    ],
)
def test_who_wrote_the_row_is_said_as_far_as_it_is_known(version, words):
    """C20"""
    conflict = Conflict(ConflictKind.INSERT_EXISTS, "public.t", AT, (ViolatedKey("t_pkey", ("a",), version=version),))
    assert describe(conflict).splitlines()[0] == f'Key already exists in unique index "t_pkey"{words}.'


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (RowVersion(7, "now"), "locally in transaction 7 at now"),
        (RowVersion(7, "now", "pg_2"), 'by a different origin "pg_2" in transaction 7 at now'),
        (RowVersion(7, "now", ""), "by a non-existent origin in transaction 7 at now"),
    ],
)
def test_whose_row_is_touched_is_said(version, words):
    """C20, C21"""
    search = SearchKey(("a",), ("1",))
    touched = Conflict(ConflictKind.UPDATE_ORIGIN_DIFFERS, "public.t", AT, (), search, ("r",), ("l",), version)
    assert describe(touched) == (
        f"Updating the row that was modified {words}.\n"
        "Existing local row (l); remote row (r); replica identity (a)=(1)."
    )


def test_a_value_of_a_row_is_cut_to_64_bytes_and_between_characters(stopped, execute, kept):
    """C21, bounded_memory: in the table too; a key's is not"""
    assert row_text(["x" * 64, "x" * 63 + "é", "é" * 1000, None]) == (
        "x" * 64,
        "x" * 63 + "...",
        "é" * 32 + "...",
        None,
    )
    execute("CREATE UNIQUE INDEX t_b ON t (b)")
    execute(f"INSERT INTO t VALUES ('o', 1, 2, '{'k' * 100}')")
    assert str(stopped(insert("3", "k" * 100, "4"), show=True).detail).splitlines()[1] == (
        f"Key (b)=({'k' * 100}); existing local row (o, 1, 2, {'k' * 64}...); remote row (default, 4, 3, {'k' * 64}...)."
    )
