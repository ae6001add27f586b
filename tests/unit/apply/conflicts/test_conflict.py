"""Conflicts and apply errors in the words of PostgreSQL 18 and 19 (errdetail_apply_conflict,
apply_error_callback).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.conflicts.conflict import (
    POSTGRESQL_POLICY,
    ApplyFailure,
    ChangePlace,
    Conflict,
    PostgreSQLPolicy,
    Resolution,
    SearchKey,
    ViolatedKey,
    as_conflict,
    describe,
    error_context,
    failing_at,
    headline,
    placed,
    row_text,
    stopped_by,
    transaction_context,
    violation,
    with_failure,
)
from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import (
    ConflictError,
    NotSupportedError,
    SubscriberError,
    TargetRelationError,
    TargetUnavailable,
)
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import ConflictKind
from subscriber.targets import RowVersion
from tests.changes import delete, insert
from tests.conflicts import AT
from tests.failures import applied_before, conflict_kind
from tests.frames import frame, relation, transaction


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


def test_version_19_writes_the_change_first_and_then_a_sentence_for_each_key():
    """C20, C21"""
    keys = (
        ViolatedKey("t_pkey", ("a",), values=("2",), local_row=("2", "2", "2"), version=RowVersion(704)),
        ViolatedKey("t_b_key", ("b",), values=("3",), local_row=("3", "3", "3"), version=RowVersion(705, "now")),
    )
    kind = ConflictKind.MULTIPLE_UNIQUE_CONFLICTS
    assert describe(Conflict(kind, "public.t", AT, keys, remote_row=("2", "3", "4")), 19) == (
        "Could not apply remote change: remote row (2, 3, 4).\n"
        'Key already exists in unique index "t_pkey", modified in transaction 704: key (a)=(2), local row (2, 2, 2).\n'
        'Key already exists in unique index "t_b_key", modified locally in transaction 705 at now: key (b)=(3),'
        " local row (3, 3, 3)."
    )
    assert describe(Conflict(kind, "public.t", AT, (ViolatedKey("t_pkey", ("a",)),)), 19) == (
        'Could not apply remote change.\nKey already exists in unique index "t_pkey": key (a).'
    )
    assert describe(Conflict(kind, "public.t", AT), 19) == ""


@pytest.mark.parametrize(
    ("conflict", "detail"),
    [
        (
            Conflict(
                ConflictKind.UPDATE_ORIGIN_DIFFERS,
                "public.t",
                AT,
                search=SearchKey(("a",), ("1",)),
                remote_row=("1", "rem"),
                local_row=("1", "loc"),
                version=RowVersion(704, "now"),
            ),
            (
                "Updating the row that was modified locally in transaction 704 at now: local row (1, loc), remote row (1, rem),"
                " replica identity (a)=(1)."
            ),
        ),
        (
            Conflict(
                ConflictKind.UPDATE_MISSING, "public.t", AT, search=SearchKey(("a",), ("1",)), remote_row=("1", "rem2")
            ),
            "Could not find the row to be updated: remote row (1, rem2), replica identity (a)=(1).",
        ),
        (
            Conflict(ConflictKind.DELETE_MISSING, "public.t", AT, search=SearchKey((), ("1", None))),
            "Could not find the row to be deleted: replica identity full (1, null).",
        ),
        (Conflict(ConflictKind.DELETE_MISSING, "public.t", AT), "Could not find the row to be deleted."),
    ],
    ids=lambda one: one.kind if isinstance(one, Conflict) else "",
)
def test_version_19_writes_values_into_the_sentence(conflict, detail):
    """C21"""
    assert describe(conflict, 19) == detail


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
    assert transaction_context(731, LSN(0x16B3778), 19) == " in transaction 731, finished at 0/016B3778"
    place = transaction_context(731, LSN(0x16B3778))
    assert error_context("pg_16394", message_type, relation, column, place) == (
        f'processing remote data for replication origin "pg_16394"{words} in transaction 731, finished at 0/16B3778'
    )


# What the error that ended a batch carries.


PLACE = ChangePlace(731, LSN(192), 0)
CONFLICT = Conflict(ConflictKind.INSERT_EXISTS, "public.t", PLACE)


def test_an_error_that_no_applier_raised_carries_nothing():
    error = SubscriberError("other")
    assert ApplyFailure.of(error) == ApplyFailure(applied_before=None, conflict=None, at_commit=False)
    error.failure = "the data of another stage"
    assert ApplyFailure.of(error) == ApplyFailure()


def test_data_is_added_to_a_copy_of_the_error():
    error = TargetRelationError("no such table")
    once = with_failure(error, applied_before=LSN(100))
    twice = with_failure(once, at_commit=True)
    assert ApplyFailure.of(error) == ApplyFailure()
    assert ApplyFailure.of(once) == ApplyFailure(applied_before=LSN(100))
    assert ApplyFailure.of(twice) == ApplyFailure(applied_before=LSN(100), at_commit=True)
    assert (type(twice), twice.message) == (TargetRelationError, "no such table")


def test_a_transient_error_gets_no_data():
    """The whole batch is tried again."""
    error = TargetUnavailable("away")
    assert with_failure(error, applied_before=LSN(100)) is error
    assert ApplyFailure.of(error) == ApplyFailure()


@pytest.mark.parametrize(
    ("sqlstate", "action", "kind"),
    [
        ("23505", "I", ConflictKind.INSERT_EXISTS),
        ("23505", "U", ConflictKind.UPDATE_EXISTS),
        ("23505", "D", None),
        ("23505", "T", None),
        ("23502", "I", None),
        ("23503", "U", None),
        ("23514", "I", None),
    ],
)
def test_only_a_unique_violation_of_an_insert_or_update_is_a_conflict(sqlstate, action, kind):
    """C22: 23505 is unique_violation."""
    found = violation(ConflictError("refused", sqlstate=sqlstate), action, "public.t", PLACE)
    assert found == (None if kind is None else Conflict(kind, "public.t", PLACE))


def test_a_conflict_has_postgresqls_message_and_names_its_key():
    """C19, C20"""
    keyed = Conflict(ConflictKind.INSERT_EXISTS, "public.t", PLACE, (ViolatedKey("t_pkey", ("a",)),))
    refused = with_failure(ConflictError("UNIQUE constraint failed", detail="the target's"), applied_before=LSN(100))
    error = as_conflict(refused, keyed)
    assert error.message == 'conflict detected on relation "public.t": conflict=insert_exists'
    assert error.detail == 'Key already exists in unique index "t_pkey".\nKey (a).'
    assert error.sqlstate == "23505"
    assert ApplyFailure.of(error) == ApplyFailure(applied_before=LSN(100), conflict=keyed)


def test_the_targets_detail_stays_where_nothing_else_is_known():
    error = as_conflict(ConflictError("UNIQUE constraint failed", detail="Key (a) already exists."), CONFLICT)
    assert error.detail == "Key (a) already exists."


def test_an_error_gets_its_place_in_the_stream():
    """C37"""
    error = placed(ConflictError("refused", column="a"), "pg_1", "I", 731, LSN(192), relation="public.t")
    assert error.lsn == 192
    assert str(error.context) == (
        'processing remote data for replication origin "pg_1" during message type "INSERT" for replication target'
        ' relation "public.t" column "a" in transaction 731, finished at 0/C0'
    )


def test_the_errors_of_a_block_get_its_place():
    with pytest.raises(ConflictError) as raised, failing_at("pg_1", "P", 9, LSN(192)):
        raise ConflictError("refused")
    assert 'during message type "PREPARE" in transaction 9' in str(raised.value.context)
    assert raised.value.__cause__ is None


def test_a_transient_error_gets_no_place():
    error = TargetUnavailable("away")
    assert placed(error, "pg_1", "I", 731, LSN(192)) is error


# The policy that decides about conflicts: PostgreSQL's, and another one.


T = relation("public.t", {"a": "int4"}, ["a"])


class Table:
    """Decides by the kind of a conflict, and as PostgreSQL for a kind that is not in the table."""

    version = 18

    def __init__(self, resolutions: Mapping[ConflictKind, Resolution]) -> None:
        self._resolutions = resolutions

    def resolve(self, conflict: Conflict) -> Resolution:
        return self._resolutions.get(conflict.kind) or POSTGRESQL_POLICY.resolve(conflict)


@pytest.fixture
def run_policy(target, execute):
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")

    def call(*messages, policy):
        applier = ExactApplier(target, subscription="sub", subid=1, policy=policy)
        return apply_batch(applier, lambda: [frame([T], messages)], LSN(100), LSN(1000))

    return call


@pytest.mark.parametrize("kind", ConflictKind)
def test_postgresql_stops_only_at_a_key_that_already_exists(kind):
    """C18-C22"""
    error = stopped_by(Conflict(kind, "public.t", PLACE), POSTGRESQL_POLICY)
    exists = {ConflictKind.INSERT_EXISTS, ConflictKind.UPDATE_EXISTS, ConflictKind.MULTIPLE_UNIQUE_CONFLICTS}
    assert (error is not None) == (kind in exists)


def test_a_policy_may_stop_at_a_missing_row(run_policy, execute, stored):
    """C35: the transactions before it are committed."""
    policy = Table({ConflictKind.DELETE_MISSING: Resolution.ERROR})
    good = transaction(200, insert("1"))
    with pytest.raises(ConflictError) as raised:
        run_policy(*good, *transaction(300, insert("2"), delete("9"), xid=732), policy=policy)
    error = raised.value
    assert error.report() == (
        'ERROR:  conflict detected on relation "public.t": conflict=delete_missing\n'
        "DETAIL:  Could not find the row to be deleted.\nReplica identity (a).\n"
        'CONTEXT:  processing remote data for replication origin "pg_1" during message type "DELETE"'
        ' for replication target relation "public.t" in transaction 732, finished at 0/124'
    )
    assert (error.sqlstate, conflict_kind(error), applied_before(error)) == ("40001", "delete_missing", 200)
    assert (execute("SELECT a FROM t"), stored()) == ([(1,)], 200)
    assert execute("SELECT count(*) FROM subscriber_conflict") == [(0,)]


def test_a_resolution_that_is_not_supported_is_refused(run_policy, execute):
    """refuse_not_guess"""
    policy = Table({ConflictKind.INSERT_EXISTS: Resolution.SKIP})
    execute("INSERT INTO t VALUES (1)")
    with pytest.raises(NotSupportedError, match='resolution "skip" is not supported for conflict "insert_exists"'):
        run_policy(*transaction(200, insert("1")), policy=policy)


def test_the_policys_version_words_the_error(run_policy):
    """C20, C21, A19a"""
    twice = [*transaction(200, insert("1")), *transaction(300, insert("1"))]
    with pytest.raises(ConflictError) as raised:
        run_policy(*twice, policy=PostgreSQLPolicy(19))
    assert str(raised.value.detail).startswith("Could not apply remote change.\nKey already exists in unique index")
    assert str(raised.value.context).endswith("finished at 0/00000124")


def test_a_deleted_row_is_described_by_the_one_who_has_deleted_it():
    """C18a"""
    search, version = SearchKey(("a",), ("1",)), RowVersion(7, "now")
    conflict = Conflict(ConflictKind.UPDATE_DELETED, "public.t", AT, search=search, remote_row=("r",), version=version)
    assert describe(conflict, 19) == (
        "Could not find the row to be updated: remote row (r), replica identity (a)=(1).\n"
        "The row to be updated was deleted locally in transaction 7 at now."
    )
    unnumbered = replace(conflict, version=RowVersion(0, "now", "pg_2"), remote_row=None, search=SearchKey(("a",)))
    assert describe(unnumbered) == (
        'The row to be updated was deleted by a different origin "pg_2" at now.\nReplica identity (a).'
    )
