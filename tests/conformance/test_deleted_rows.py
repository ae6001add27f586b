"""update_deleted as PostgreSQL 19 finds it (worker.c, FindDeletedTupleInLocalRel): the row of an
UPDATE is missing, and the last version of it was deleted by another origin while the subscription
retains deleted rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from subscriber.apply.applier import ApplyResult, Rules
from subscriber.apply.exact import ExactApplier
from subscriber.base.lsn import LSN
from subscriber.catalog import deleted_rows
from subscriber.catalog.own_tables import DELETED_ROW
from subscriber.catalog.progress import OriginProgress
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import insert_subscription, set_retention
from subscriber.catalog.table_states import RelationState, set_relation_states
from subscriber.postgres.protocol import messages as m
from tests.changes import T, U, delete, insert, update
from tests.frames import frame, relation, transaction
from tests.target_databases import AppliedTo, applied_to

pytestmark = pytest.mark.server

TABLES = (
    "CREATE TABLE t (a integer PRIMARY KEY, b text, c text)",
    "CREATE TABLE u (a integer, b text)",
    "CREATE TABLE n (k bigint PRIMARY KEY, v text)",
    "CREATE TABLE d (k double precision, j varchar(40), v text, PRIMARY KEY (k, j))",
)
N = relation("public.n", {"k": "int8", "v": "text"}, ["k"], oid=3)
D = relation("public.d", {"k": "float8", "j": "text", "v": "text"}, ["k", "j"], oid=4)


class Retaining:
    """Two subscriptions of one target, of which the first retains deleted rows."""

    def __init__(self, on: AppliedTo) -> None:
        self.on = on
        self.target = on.target
        self.table = "public.t" if on.kind == "postgresql" else "t"
        exact = " COLLATE utf8mb4_nopad_bin" if on.kind == "mariadb" else ""
        on.execute(*(table.replace("varchar(40)", f"varchar(40){exact}") for table in TABLES))
        self._rules = Rules(retains=True, records=True)
        self._end = {1: LSN(100), 2: LSN(100)}
        with self.target.begin() as connection:
            OriginProgress(2).create(connection, LSN(100))
            for name in ("s", "other"):
                options = SubscriptionOptions(slot_name=name, retain_dead_tuples=name == "s")
                made = insert_subscription(connection, name, "", ["p"], options)
                tables = [("public", table) for table in "tund"]
                set_relation_states(connection, made.subid, tables, RelationState.READY)
                deleted_rows.record_relations(connection, self.target, made)

    def apply(self, *changes: m.Message, subid: int = 1, rules: Rules | None = None) -> ApplyResult:
        start = self._end[subid]
        self._end[subid] = LSN(start + 1000)
        rules = rules or self._rules
        applier = ExactApplier(self.target, subscription="s", subid=subid, read_rules=lambda _: rules)
        text = self.target.capabilities.postgresql_text
        frames = [frame([T, U, N, D], transaction(self._end[subid], *changes), text=text)]
        return applier.apply(frames, start=start, end=self._end[subid])

    def kinds(self, *changes: m.Message, rules: Rules | None = None) -> list[str]:
        return sorted(map(str, self.apply(*changes, rules=rules).conflicts))

    def recorded(self) -> list[str | None]:
        """The origins of the recorded rows."""
        with self.target.engine.connect() as connection:
            return list(connection.execute(sa.select(DELETED_ROW.c.origin)).scalars())


@pytest.fixture(params=["sqlite", "mariadb", "postgresql"])
def retaining(request, tmp_path) -> Iterator[Retaining]:
    with applied_to(request.param, request, tmp_path) as on:
        yield Retaining(on)


UPDATE = update(("1", "new", None))


def test_a_row_that_a_user_has_deleted_is_update_deleted_and_one_that_never_was_is_missing(retaining):
    retaining.on.execute("INSERT INTO t VALUES (1, 'x', NULL)", "DELETE FROM t WHERE a = 1")
    assert retaining.kinds(UPDATE) == ["update_deleted"]
    assert retaining.kinds(update(("2", "new", None))) == ["update_missing"]
    assert retaining.kinds(delete("1", None, None)) == ["delete_missing"]


def test_a_row_that_the_subscription_has_deleted_itself_is_missing(retaining):
    retaining.apply(insert("1", "x", None), delete("1", None, None))
    assert retaining.recorded() == ["pg_1"]
    assert retaining.kinds(UPDATE) == ["update_missing"]


def test_a_row_that_another_subscription_has_deleted_is_update_deleted(retaining):
    retaining.apply(insert("1", "x", None))
    retaining.apply(delete("1", None, None), subid=2)
    assert retaining.recorded() == ["pg_2"]
    assert retaining.kinds(UPDATE) == ["update_deleted"]


def test_the_last_deletion_decides(retaining):
    retaining.on.execute("INSERT INTO t VALUES (1, 'x', NULL)", "DELETE FROM t WHERE a = 1")
    retaining.apply(insert("1", "x", None), delete("1", None, None))
    assert retaining.kinds(UPDATE) == ["update_missing"]
    retaining.on.execute("INSERT INTO t VALUES (1, 'x', NULL)", "DELETE FROM t WHERE a = 1")
    assert retaining.kinds(UPDATE) == ["update_deleted"]


def test_a_row_with_another_key_counts_as_deleted_and_one_with_other_values_does_not(retaining):
    """The old version of an updated row is a dead row, too."""
    retaining.on.execute("INSERT INTO t VALUES (1, 'x', NULL)", "UPDATE t SET b = 'y'")
    assert retaining.recorded() == []
    retaining.on.execute("UPDATE t SET a = 5")
    assert retaining.kinds(UPDATE) == ["update_deleted"]


def test_a_rollback_records_nothing(retaining):
    retaining.on.execute("INSERT INTO t VALUES (1, 'x', NULL)")
    with pytest.raises(ZeroDivisionError), retaining.target.begin() as connection:
        connection.exec_driver_sql(f"DELETE FROM {retaining.table}")
        raise ZeroDivisionError
    assert retaining.recorded() == []


def test_without_the_retention_the_row_is_missing(retaining):
    retaining.on.execute("INSERT INTO t VALUES (1, 'x', NULL)", "DELETE FROM t WHERE a = 1")
    assert retaining.kinds(UPDATE, rules=Rules(records=True)) == ["update_missing"]


def test_a_row_is_found_by_all_its_values_without_a_key(retaining):
    """REPLICA IDENTITY FULL"""
    retaining.on.execute("INSERT INTO u VALUES (1, 'x'), (1, NULL)", "DELETE FROM u")
    found = [retaining.kinds(update(("1", "new"), old=old, of=2)) for old in (("1", "x"), ("1", None), ("1", "y"))]
    assert found == [["update_deleted"], ["update_deleted"], ["update_missing"]]


def test_keys_compare_as_those_of_the_table(retaining):
    retaining.on.execute("INSERT INTO n VALUES (9007199254740993, 'x')", "DELETE FROM n")
    retaining.on.execute("INSERT INTO d VALUES (0.1, 'j''\"', 'x')", "DELETE FROM d")
    assert retaining.kinds(update(("9007199254740993", "new"), of=3)) == ["update_deleted"]
    assert retaining.kinds(update(("0.1", "j'\"", "new"), of=4)) == ["update_deleted"]
    assert retaining.kinds(update(("0.1", "j", "new"), of=4)) == ["update_missing"]


# Rounds -------------------------------------------------------------------------------------------


def test_a_row_is_forgotten_when_its_round_is_over_for_all_subscriptions_that_retain(retaining):
    retaining.on.execute("INSERT INTO t VALUES (1, 'x', NULL), (2, 'x', NULL)", "DELETE FROM t WHERE a = 1")
    with retaining.target.begin() as connection:
        first = deleted_rows.mark(connection, retaining.target)
    retaining.on.execute("DELETE FROM t WHERE a = 2")
    with retaining.target.begin() as connection:
        deleted_rows.pass_round(connection, retaining.target, 1, first)
    assert retaining.kinds(UPDATE) == ["update_missing"]
    assert retaining.kinds(update(("2", "new", None))) == ["update_deleted"]
    with retaining.target.begin() as connection:
        deleted_rows.pass_round(connection, retaining.target, 1, deleted_rows.mark(connection, retaining.target))
    assert retaining.recorded() == []


def test_nothing_is_kept_when_the_retention_has_stopped(retaining):
    retaining.on.execute("INSERT INTO t VALUES (1, 'x', NULL)", "DELETE FROM t WHERE a = 1")
    with retaining.target.begin() as connection:
        set_retention(connection, 1, active=False)
        deleted_rows.delete_passed(connection, retaining.target)
    assert retaining.recorded() == []


def test_replaced_rows_are_not_recorded_and_those_of_others_stay(retaining):
    retaining.on.execute("INSERT INTO t VALUES (1, 'x', NULL), (2, 'x', NULL)", "DELETE FROM t WHERE a = 1")
    with retaining.target.begin() as connection, deleted_rows.deleted_by(connection, retaining.target, None):
        connection.exec_driver_sql(f"DELETE FROM {retaining.table}")
    assert retaining.recorded() == [None]
