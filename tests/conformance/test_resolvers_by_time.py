"""Conflict resolvers that need the commit times and the origins of rows, on a PostgreSQL target
that keeps them.
"""

from __future__ import annotations

import pytest

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import BulkApplier
from subscriber.base.errors import ConflictError
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.commands.requirements import check_resolvers
from subscriber.postgres.schema.conflict_resolvers import NO_RESOLVERS
from subscriber.targets import open_target
from tests.appliers import obeying
from tests.changes import delete, insert, update
from tests.conftest import fresh_database
from tests.frames import frame, relation, transaction

pytestmark = pytest.mark.server

T = relation("public.t", {"a": "int4", "b": "text", "c": "int4"}, ["a"])
LONG_AGO, IN_FUTURE = 1_000_000, 4_000_000_000_000_000
"""Commit times of the publisher's transactions, in microseconds since 2000."""


class Replica:
    def __init__(self, database, target) -> None:
        self.database = database
        self.target = target
        self._end = 100

    def apply(self, *changes, timestamp=IN_FUTURE, **resolvers):
        rules = obeying(conflict_resolvers=NO_RESOLVERS.altered(resolvers))
        applier = BulkApplier(self.target, subscription="sub", subid=1, read_rules=lambda _: rules)
        start, self._end = self._end, self._end + 100
        messages = transaction(self._end, *changes, timestamp=timestamp)
        frames = [frame([T], messages, text=True)]
        return apply_batch(applier, lambda: frames, LSN(start), LSN(self._end)).conflicts

    def run(self, *statements):
        return self.database.execute("; ".join(statements))

    def rows(self):
        return self.database.execute("SELECT a, b, c FROM t ORDER BY a")

    def recorded(self):
        return self.database.execute(
            "SELECT conflict_type, resolution, remote_applied FROM subscriber_conflict ORDER BY conflictid"
        )


@pytest.fixture
def database(postgresql18):
    yield from fresh_database(postgresql18)


@pytest.fixture
def replica(database):
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text, c int UNIQUE)")
    with open_target(database.url) as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(100))
        yield Replica(database, target)
        with target.begin() as connection:
            assert target.origins is not None
            target.origins.drop(connection, "pg_1")


def test_the_server_keeps_what_the_resolvers_need(replica):
    check_resolvers(
        replica.target,
        NO_RESOLVERS.altered({"insert_exists": "last_update_wins", "update_origin_differs": "keep_local"}),
        Settings(journal=""),
    )


@pytest.mark.parametrize(("timestamp", "row"), [(IN_FUTURE, (1, "remote", 20)), (LONG_AGO, (1, "local", 10))])
def test_the_last_update_wins_against_a_row_that_exists(replica, timestamp, row):
    replica.run("INSERT INTO t VALUES (1, 'local', 10)")
    conflicts = replica.apply(insert("1", "remote", "20"), timestamp=timestamp, insert_exists="last_update_wins")
    assert conflicts == {"insert_exists": 1}
    assert replica.rows() == [row]
    assert replica.recorded() == [("insert_exists", "last_update_wins", timestamp == IN_FUTURE)]


@pytest.mark.parametrize("timestamp", [IN_FUTURE, LONG_AGO])
def test_the_last_update_wins_against_an_update_of_another_origin(replica, timestamp):
    replica.run("INSERT INTO t VALUES (1, 'local', 10), (2, 'local', 20)")
    resolvers = {"update_origin_differs": "last_update_wins", "delete_origin_differs": "last_update_wins"}
    conflicts = replica.apply(update(("1", "remote", "11")), delete("2", None, None), timestamp=timestamp, **resolvers)
    assert conflicts == {"update_origin_differs": 1, "delete_origin_differs": 1}
    unchanged = [(1, "local", 10), (2, "local", 20)]
    assert replica.rows() == ([(1, "remote", 11)] if timestamp == IN_FUTURE else unchanged)


@pytest.mark.parametrize("timestamp", [IN_FUTURE, LONG_AGO])
def test_the_last_update_wins_against_several_rows(replica, timestamp):
    replica.run("INSERT INTO t VALUES (1, 'local', 10), (2, 'local', 20)")
    replica.apply(insert("1", "remote", "20"), timestamp=timestamp, multiple_unique_conflicts="last_update_wins")
    unchanged = [(1, "local", 10), (2, "local", 20)]
    assert replica.rows() == ([(1, "remote", 20)] if timestamp == IN_FUTURE else unchanged)


def test_rows_that_the_batch_has_written_are_older(replica):
    changes = [insert("1", "first", "10"), insert("1", "second", "20")]
    replica.apply(*changes, timestamp=LONG_AGO, insert_exists="last_update_wins")
    assert replica.rows() == [(1, "second", 20)]


def test_keep_local_protects_rows_of_another_origin_only(replica):
    replica.apply(insert("1", "mine", "10"), insert("2", "mine", "20"), insert("3", "mine", "30"))
    replica.run("UPDATE t SET b = 'local' WHERE a = 1", "UPDATE t SET b = 'local' WHERE a = 3")
    resolvers = {"update_origin_differs": "keep_local", "delete_origin_differs": "keep_local"}
    conflicts = replica.apply(
        update(("1", "remote", "11")),
        update(("2", "remote", "21")),
        update(("1", "again", "12")),
        delete("3", None, None),
        **resolvers,
    )
    assert conflicts == {"update_origin_differs": 2, "delete_origin_differs": 1}
    assert replica.rows() == [(1, "local", 10), (2, "remote", 21), (3, "local", 30)]
    assert replica.recorded() == [
        ("update_origin_differs", "keep_local", False),
        ("update_origin_differs", "keep_local", False),
        ("delete_origin_differs", "keep_local", False),
    ]


def test_a_row_of_another_origin_may_be_an_error(replica):
    replica.run("INSERT INTO t VALUES (1, 'local', 10)")
    with pytest.raises(ConflictError, match="conflict=update_origin_differs") as caught:
        replica.apply(insert("2", "b", "20"), update(("1", "remote", "11")), update_origin_differs="error")
    assert caught.value.sqlstate == "40001"
    assert replica.rows() == [(1, "local", 10)]


def test_without_a_resolver_for_it_a_row_of_another_origin_is_changed(replica):
    replica.run("INSERT INTO t VALUES (1, 'local', 10), (2, 'local', 20)")
    conflicts = replica.apply(update(("1", "remote", "20")), update_exists="apply_remote")
    assert conflicts == {"update_origin_differs": 1, "update_exists": 1}
    assert replica.rows() == [(1, "remote", 20)]
    assert replica.recorded() == [
        ("update_origin_differs", None, None),
        ("update_exists", "apply_remote", True),
    ]


def test_keys_of_expressions_and_a_part_of_the_rows_are_resolved(replica):
    replica.run("CREATE UNIQUE INDEX t_lower ON t (lower(b)) WHERE c > 0", "INSERT INTO t VALUES (1, 'Local', 10)")
    assert replica.apply(insert("2", "LOCAL", "20"), insert_exists="apply_remote") == {"insert_exists": 1}
    assert replica.rows() == [(2, "LOCAL", 20)]


def test_rows_of_partitions_are_resolved(replica):
    replica.run(
        "DROP TABLE t",
        "CREATE TABLE t (a int PRIMARY KEY, b text, c int) PARTITION BY RANGE (a)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO t VALUES (1, 'local', 10), (11, 'local', 20)",
    )
    replica.apply(insert("11", "remote", "30"), insert_exists="apply_remote")
    replica.apply(update(("11", "moved", "40"), key=("1", None, None)), update_exists="apply_remote")
    assert replica.rows() == [(11, "moved", 40)]
    assert replica.run("SELECT conflict_type, relation FROM subscriber_conflict ORDER BY conflictid") == [
        ("insert_exists", "public.t_2"),
        ("update_origin_differs", "public.t_1"),
        ("update_exists", "public.t_2"),
    ]


def test_identity_columns_that_are_always_generated_are_kept(replica):
    replica.run(
        "DROP TABLE t",
        "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, b text, c int UNIQUE)",
        "INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (1, 'local', 10)",
    )
    replica.apply(insert("1", "remote", "20"), insert_exists="apply_remote")
    assert replica.rows() == [(1, "remote", 20)]
    with pytest.raises(ConflictError, match="GENERATED ALWAYS AS IDENTITY"):
        replica.apply(insert("2", "other", "20"), insert_exists="apply_remote")
