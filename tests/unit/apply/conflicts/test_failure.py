"""What the error that ended a batch carries."""

from __future__ import annotations

import pytest

from subscriber.apply.conflicts.conflict import ChangePlace, Conflict, ViolatedKey
from subscriber.apply.conflicts.failure import ApplyFailure, as_conflict, failing_at, placed, violation, with_failure
from subscriber.catalog import ConflictKind
from subscriber.errors import ConflictError, SubscriberError, TargetRelationError, TargetUnavailable
from subscriber.lsn import LSN

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
