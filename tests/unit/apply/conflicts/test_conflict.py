"""Conflicts and apply errors in PostgreSQL 18's words (errdetail_apply_conflict,
apply_error_callback).
"""

from __future__ import annotations

import pytest

from subscriber.apply.conflicts.conflict import (
    Conflict,
    SearchKey,
    ViolatedKey,
    describe,
    error_context,
    headline,
    row_text,
    transaction_context,
)
from subscriber.catalog import ConflictKind
from subscriber.lsn import LSN
from subscriber.targets import RowVersion
from tests.changes import insert
from tests.conflicts import AT


@pytest.mark.parametrize("kind", ConflictKind)
def test_the_message_names_the_relation_and_the_kind(kind):
    """C19"""
    assert headline(kind, "public.t") == f'conflict detected on relation "public.t": conflict={kind.value}'


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (None, ""),
        (RowVersion(779), ", modified in transaction 779"),
        (RowVersion(779, "2026-01-01 00:00:00+00"), ", modified locally in transaction 779 at 2026-01-01 00:00:00+00"),
        (RowVersion(779, "now", "pg_1"), ', modified by origin "pg_1" in transaction 779 at now'),
        (RowVersion(779, "now", ""), ", modified by a non-existent origin in transaction 779 at now"),
    ],
    ids=["unknown", "without commit timestamps", "locally", "by an origin", "by a dropped origin"],
)
def test_the_writer_of_the_existing_row_is_named_as_far_as_it_is_known(version, words):
    """C20"""
    conflict = Conflict(ConflictKind.INSERT_EXISTS, "public.t", AT, (ViolatedKey("t_pkey", ("a",), version=version),))
    assert describe(conflict).splitlines()[0] == f'Key already exists in unique index "t_pkey"{words}.'


@pytest.mark.parametrize(
    ("kind", "verb"),
    [(ConflictKind.UPDATE_ORIGIN_DIFFERS, "Updating"), (ConflictKind.DELETE_ORIGIN_DIFFERS, "Deleting")],
)
@pytest.mark.parametrize(
    ("version", "words"),
    [
        (RowVersion(7, "now"), "locally in transaction 7 at now"),
        (RowVersion(7, "now", "pg_2"), 'by a different origin "pg_2" in transaction 7 at now'),
        (RowVersion(7, "now", ""), "by a non-existent origin in transaction 7 at now"),
    ],
    ids=["locally", "by an origin", "by a dropped origin"],
)
def test_the_writer_of_a_row_that_is_changed_is_named(kind, verb, version, words):
    """C20, C21"""
    search = SearchKey(("a",), ("1",))
    conflict = Conflict(kind, "public.t", AT, search=search, remote_row=("r",), local_row=("l",), version=version)
    assert describe(conflict) == (
        f"{verb} the row that was modified {words}.\nExisting local row (l); remote row (r); replica identity (a)=(1)."
    )


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (ConflictKind.UPDATE_MISSING, "Could not find the row to be updated."),
        (ConflictKind.DELETE_MISSING, "Could not find the row to be deleted."),
    ],
)
@pytest.mark.parametrize(
    ("search", "remote_row", "parts"),
    [
        (None, None, ""),
        (SearchKey(("a", "b")), None, "\nReplica identity (a, b)."),
        (SearchKey(("a", "b"), ("1", None)), ("2", None), "\nRemote row (2, null); replica identity (a, b)=(1, null)."),
        (SearchKey(()), None, "\nReplica identity full."),
        (SearchKey((), ("1", None)), None, "\nReplica identity full (1, null)."),
    ],
    ids=["nothing is known", "names", "values", "whole row", "values of the whole row"],
)
def test_a_missing_row_is_described_by_its_replica_identity(kind, sentence, search, remote_row, parts):
    """C20, C21"""
    assert describe(Conflict(kind, "public.t", AT, search=search, remote_row=remote_row)) == sentence + parts


def test_each_violated_key_has_two_lines():
    """C20, C21"""
    keys = (
        ViolatedKey("t_pkey", ("a",), values=("1",), local_row=("1", "x")),
        ViolatedKey("t_lower", ("lower(b)", "c"), values=("y", "2"), local_row=("2", "Y")),
    )
    conflict = Conflict(ConflictKind.MULTIPLE_UNIQUE_CONFLICTS, "public.t", AT, keys, remote_row=("1", "y"))
    assert describe(conflict) == (
        'Key already exists in unique index "t_pkey".\n'
        "Key (a)=(1); existing local row (1, x); remote row (1, y).\n"
        'Key already exists in unique index "t_lower".\n'
        "Key (lower(b), c)=(y, 2); existing local row (2, Y); remote row (1, y)."
    )


def test_nothing_is_said_of_keys_that_the_target_does_not_report():
    assert describe(Conflict(ConflictKind.INSERT_EXISTS, "public.t", AT)) == ""


def test_a_value_of_a_row_is_cut_to_64_bytes_between_two_characters():
    """C21, bounded_memory"""
    assert row_text(["x" * 64, "x" * 63 + "é", "é" * 1000, None, ""]) == (
        "x" * 64,
        "x" * 63 + "...",
        "é" * 32 + "...",
        None,
        "",
    )


def test_the_values_of_a_key_are_not_cut(stopped, execute):
    """C21"""
    execute("CREATE UNIQUE INDEX t_b ON t (b)")
    execute(f"INSERT INTO t VALUES ('o', 1, 2, '{'k' * 100}')")
    assert str(stopped(insert("3", "k" * 100, "4"), show=True).detail).splitlines()[1] == (
        f"Key (b)=({'k' * 100}); existing local row (o, 1, 2, {'k' * 64}...); remote row (default, 4, 3, {'k' * 64}...)."
    )


@pytest.mark.parametrize(
    ("message_type", "relation", "column", "words"),
    [
        ("I", "public.t", "a", ' during message type "INSERT" for replication target relation "public.t" column "a"'),
        ("U", "public.t", None, ' during message type "UPDATE" for replication target relation "public.t"'),
        ("T", "public.t", None, ' during message type "TRUNCATE" for replication target relation "public.t"'),
        ("K", None, None, ' during message type "COMMIT PREPARED"'),
        ("C", None, "a", ' during message type "COMMIT"'),
        ("?", None, None, ""),
    ],
    ids=["a column", "a relation", "TRUNCATE", "COMMIT PREPARED", "a column of no relation", "an unknown type"],
)
def test_the_context_of_an_error_is_the_place_in_the_stream(message_type, relation, column, words):
    """C37"""
    place = transaction_context(731, LSN(0x16B3778))
    assert error_context("pg_16394", message_type, relation, column, place) == (
        f'processing remote data for replication origin "pg_16394"{words} in transaction 731, finished at 0/16B3778'
    )
