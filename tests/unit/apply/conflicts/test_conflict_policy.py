"""The policy that decides about conflicts: PostgreSQL's, and another one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.conflicts.conflict import ChangePlace, Conflict
from subscriber.apply.conflicts.conflict_policy import POSTGRESQL_POLICY, Resolution, stopped_by
from subscriber.apply.exact import ExactApplier
from subscriber.catalog import ConflictKind
from subscriber.errors import ConflictError, NotSupportedError
from subscriber.lsn import LSN
from tests.changes import delete, insert
from tests.failures import applied_before, conflict_kind
from tests.frames import frame, relation, transaction

T = relation("public.t", {"a": "int4"}, ["a"])
PLACE = ChangePlace(731, LSN(192), 0)


class Table:
    """Decides by the kind of a conflict, and as PostgreSQL for a kind that is not in the table."""

    def __init__(self, resolutions: Mapping[ConflictKind, Resolution]) -> None:
        self._resolutions = resolutions

    def resolve(self, conflict: Conflict) -> Resolution:
        return self._resolutions.get(conflict.kind) or POSTGRESQL_POLICY.resolve(conflict)


@pytest.fixture
def run(target, execute):
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


def test_a_policy_may_stop_at_a_missing_row(run, execute, stored):
    """C35: the transactions before it are committed."""
    policy = Table({ConflictKind.DELETE_MISSING: Resolution.ERROR})
    good = transaction(200, insert("1"))
    with pytest.raises(ConflictError) as raised:
        run(*good, *transaction(300, insert("2"), delete("9"), xid=732), policy=policy)
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


def test_a_resolution_that_is_not_supported_is_refused(run, execute):
    """refuse_not_guess"""
    policy = Table({ConflictKind.INSERT_EXISTS: Resolution.SKIP})
    execute("INSERT INTO t VALUES (1)")
    with pytest.raises(NotSupportedError, match='resolution "skip" is not supported for conflict "insert_exists"'):
        run(*transaction(200, insert("1")), policy=policy)
