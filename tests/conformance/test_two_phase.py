"""Prepared transactions of the publisher in targets that can prepare: PostgreSQL, and MariaDB by XA
(rules C40, C41, C49-C52).

What is expected of each step is what PostgreSQL 18 does as a subscriber (scenarios 501 to 547 and
673 are its recordings).
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from subscriber.apply.applier import ApplyResult, Rules
from subscriber.apply.exact import ExactApplier
from subscriber.apply.prepared import prepared_names
from subscriber.base.errors import ApplyError, ConflictError, JournalCorrupt
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.prepared_transactions import PreparedTransaction, list_prepared, write_prepared
from subscriber.catalog.progress import OriginProgress
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import insert_subscription, list_subscriptions
from subscriber.commands.drop_subscription import drop_subscription
from subscriber.commands.subscription_grammar import DropSubscription, parse
from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target, open_target
from subscriber.testing.servers.open_servers import open_postgresql
from tests.conftest import server_or_skip
from tests.failures import applied_before
from tests.frames import finishes_of, frame, relation, transaction, values
from tests.journals import commit_prepared, prepare

T = relation("public.t", {"a": "int4", "b": "text"}, ["a"])
START = LSN(100)
_numbers = count(1)


@dataclass
class Side:
    """A target with the table t, and an applier; a list of messages is one entry of the journal."""

    target: Target
    skip_lsn: LSN = INVALID_LSN
    cleared: list[LSN] = field(default_factory=list)

    def apply(self, *entries: list[m.Message], end: int, start: int = START, before: int | None = None) -> ApplyResult:
        """Apply one batch, by an applier that does not know the earlier ones."""
        applier = ExactApplier(self.target, subscription="sub", subid=1, read_rules=self._rules)
        assert applier.two_phase
        frames = []
        for entry in entries:
            finishes = finishes_of(entry, two_phase=True) | finishes_of(entry)
            text = self.target.capabilities.postgresql_text
            frames.append(frame([T], entry, text=text, finishes=finishes))
        limit = None if before is None else LSN(before)
        return applier.apply(frames, start=LSN(start), end=LSN(end), before=limit)

    def _rules(self, connection: Any) -> Rules:
        list_subscriptions(connection)  # as the worker's rules do
        return Rules(skip_lsn=self.skip_lsn, clear_skip=self._clear_skip)

    def _clear_skip(self, _connection: Any) -> None:
        self.cleared.append(self.skip_lsn)
        self.skip_lsn = INVALID_LSN

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        with self.target.engine.begin() as connection:
            result = connection.exec_driver_sql(sql)
            return [tuple(row) for row in result] if result.returns_rows else []

    @property
    def rows(self) -> list[tuple[int, str | None]]:
        return [(row[0], row[1]) for row in self.execute("SELECT a, b FROM t ORDER BY a")]

    @property
    def gids(self) -> set[str]:
        """The GIDs of the prepared transactions."""
        with self.target.begin() as connection:
            return set(prepared_names(self.target, connection))

    @property
    def known(self) -> list[PreparedTransaction]:
        """The catalog's rows about prepared transactions."""
        with self.target.begin() as connection:
            return list_prepared(connection, 1)

    @property
    def progress(self) -> int:
        with self.target.begin() as connection:
            return OriginProgress(1).read(connection)

    def forget_progress(self, lsn: int) -> None:
        """Set the progress back, as a crash before the commit of the progress does."""
        with self.target.begin() as connection:
            OriginProgress(1).drop(connection)
            OriginProgress(1).create(connection, LSN(lsn))


def _made(target: Target) -> Side:
    with target.begin() as connection:
        OriginProgress(1).create(connection, START)
    side = Side(target)
    side.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(40))")
    return side


@pytest.fixture(params=["postgresql", "mariadb"])
def side(request):
    server = request.getfixturevalue("postgresql18" if request.param == "postgresql" else "mariadb")
    name = f"test_2pc_{os.getpid()}_{next(_numbers)}"
    server.create_database(name)
    try:
        with open_target(server.url(name)) as target:
            ensure_catalog(target.engine)
            made = _made(target)
            yield made
            assert target.prepared is not None
            for gid in made.gids:
                target.prepared.finish(gid, commit=False)
    finally:
        server.drop_database(name)


def insert(*texts: str | None) -> m.Insert:
    return m.Insert(16384, values(*texts))


def rolled_back(end: int, prepared: int, *, xid: int = 731) -> list[m.Message]:
    """The ROLLBACK PREPARED of the transaction that :func:`prepare` creates."""
    return [m.RollbackPrepared(LSN(prepared), LSN(end), 5, 9, xid, "g")]


GID = "pg_gid_1_731"
PREPARED = prepare(200, insert("1", "x"), xid=731)
COMMITTED = commit_prepared(400, xid=731)


# What PREPARE, COMMIT PREPARED and ROLLBACK PREPARED do -------------------------------------------


def test_what_is_prepared_shows_when_it_is_committed(side):
    """C49, C50: the progress after each step is its end"""
    result = side.apply(PREPARED, end=200)
    assert (side.rows, side.gids, side.progress) == ([], {GID}, 200)
    assert (result.transactions, result.changes) == (0, 1)
    result = side.apply(COMMITTED, start=200, end=400)
    assert (side.rows, side.gids, side.progress) == ([(1, "x")], set(), 400)
    assert (result.transactions, result.changes, result.commit_timestamp) == (1, 0, 9)
    assert side.known == []


def test_what_is_rolled_back_never_shows(side):
    """C50"""
    side.apply(PREPARED, end=200)
    side.apply(rolled_back(300, 200), start=200, end=300)
    assert (side.rows, side.gids, side.known, side.progress) == ([], set(), [], 300)


def test_a_prepared_transaction_without_changes_is_prepared_too(side):
    """C50"""
    side.apply(prepare(200, xid=731), end=200)
    assert side.gids == {GID}
    side.apply(COMMITTED, start=200, end=400)
    assert side.gids == set()


def test_transactions_go_by_one_that_is_prepared(side):
    """commit_order: all in one batch; the row of the transaction in between is visible first"""
    result = side.apply(
        transaction(150, insert("10", None)),
        PREPARED,
        transaction(250, insert("11", None)),
        prepare(300, insert("2", "y"), xid=732),
        COMMITTED,
        transaction(450, insert("12", None)),
        end=450,
    )
    assert [row[0] for row in side.rows] == [1, 10, 11, 12]
    assert side.gids == {"pg_gid_1_732"}
    assert (result.transactions, result.changes, side.progress) == (4, 5, 450)
    # It locks only its own rows: other rows are found, changed or reported as missing.
    update = m.Update(16384, None, None, values("11", "z"))
    gone, missing = m.Delete(16384, "K", values("12", None)), m.Delete(16384, "K", values("99", None))
    result = side.apply(transaction(500, update, gone, missing, insert("3", "after")), start=450, end=500)
    assert result.conflicts == {"delete_missing": 1}
    assert [row[0] for row in side.rows] == [1, 3, 10, 11]


def test_a_rollback_of_another_transaction_of_the_same_number_is_ignored(side):
    """C50: its PREPARE ended at another LSN"""
    side.apply(PREPARED, end=200)
    side.apply(rolled_back(300, 199), start=200, end=300)
    assert (side.gids, side.progress) == ({GID}, 300)


def test_a_rollback_of_what_was_never_prepared_is_ignored(side):
    """C50: it was prepared before two_phase began, or filtered"""
    side.apply(rolled_back(300, 200), transaction(350, insert("1", "x")), end=350)
    assert (side.rows, side.progress) == ([(1, "x")], 350)


def test_a_commit_of_what_is_not_prepared_is_an_error(side):
    """C50: PostgreSQL's text, and the end of what was applied before"""
    with pytest.raises(ApplyError, match=f'prepared transaction with identifier "{GID}" does not exist') as raised:
        side.apply(transaction(350, insert("5", None)), COMMITTED, end=400)
    assert raised.value.sqlstate == "42704"
    assert raised.value.hint
    assert 'during message type "COMMIT PREPARED" in transaction 731, finished at 0/188' in str(raised.value.context)
    assert applied_before(raised.value) == 350


def test_what_was_prepared_before_two_phase_began_comes_whole_with_its_commit(side):
    """C51: its PREPARE ends before the applied LSN"""
    side.apply(transaction(350, insert("5", None)), end=350)
    side.apply([*PREPARED, *COMMITTED], start=350, end=400)
    assert (side.rows, side.gids, side.known, side.progress) == ([(1, "x"), (5, None)], set(), [], 400)


def test_a_batch_that_ends_inside_a_prepared_transaction_is_refused(side):
    """commit_order: nothing of it is prepared"""
    applier = ExactApplier(side.target, subscription="sub", subid=1)
    half = frame([T], PREPARED[:-1], text=side.target.capabilities.postgresql_text, finishes={731: LSN(200)})
    with pytest.raises(JournalCorrupt, match="ends inside transaction 731"):
        applier.apply([half], start=START, end=LSN(200))
    assert side.gids == set()


def test_the_catalog_is_not_locked_by_what_is_prepared(side):
    """C49: its locks last until COMMIT PREPARED or ROLLBACK PREPARED, and the catalog may have to
    be altered before that
    """
    side.apply(PREPARED, end=200)
    postgresql = side.target.capabilities.postgresql_text
    with side.target.engine.begin() as connection:
        connection.exec_driver_sql("SET lock_timeout = '2s'" if postgresql else "SET lock_wait_timeout = 2")
        connection.exec_driver_sql("DROP TABLE subscriber_subscription")


# Replays (C50a, any_crash) ------------------------------------------------------------------------


def test_a_prepare_that_is_met_again_is_read_past(side):
    """C50a: killed between PREPARE and its progress"""
    side.apply(PREPARED, end=200)
    side.forget_progress(100)
    result = side.apply(PREPARED, transaction(300, insert("7", None)), end=300)
    assert (side.gids, side.rows, side.progress) == ({GID}, [(7, None)], 300)
    assert (result.transactions, result.changes) == (1, 1)
    side.apply(COMMITTED, start=300, end=400)
    assert [row[0] for row in side.rows] == [1, 7]


def test_a_transaction_that_was_written_down_and_not_prepared_is_prepared(side):
    """C50a: killed before PREPARE; an older row of a transaction with the same number is
    overwritten
    """
    with side.target.begin() as connection:
        write_prepared(connection, PreparedTransaction(1, 731, "old", LSN(5), 6))
    side.apply(PREPARED, end=200)
    assert side.gids == {GID}
    assert side.known == [PreparedTransaction(1, 731, GID, LSN(200), 5)]


def test_a_commit_that_is_met_again_moves_the_progress(side):
    """C50a: killed between COMMIT PREPARED and its progress"""
    side.apply(PREPARED, end=200)
    side.target.prepared.finish(GID, commit=True)
    assert [one.committed for one in side.known] == [True]
    side.apply(COMMITTED, start=200, end=400)
    assert (side.rows, side.known, side.progress) == ([(1, "x")], [], 400)


def test_a_whole_entry_that_is_met_again_after_its_commit_is_read_past(side):
    """C50a, C51"""
    side.apply([*PREPARED, *COMMITTED][:-1], end=400)
    side.target.prepared.finish(GID, commit=True)
    side.forget_progress(100)
    side.apply([*PREPARED, *COMMITTED], end=400)
    assert (side.rows, side.known, side.progress) == ([(1, "x")], [], 400)


def test_a_rollback_that_is_met_again_moves_the_progress(side):
    """C50a: killed between ROLLBACK PREPARED and its progress"""
    side.apply(PREPARED, end=200)
    side.target.prepared.finish(GID, commit=False)
    side.apply(rolled_back(300, 200), start=200, end=300)
    assert (side.known, side.progress) == ([], 300)


def test_a_batch_that_is_applied_again_changes_nothing(side):
    """progress_with_data"""
    batch = (PREPARED, transaction(300, insert("7", None)), COMMITTED, rolled_back(420, 410))
    side.apply(*batch, end=420)
    result = side.apply(*batch, end=420)
    assert (result.transactions, result.changes) == (0, 0)
    result = side.apply(*batch, transaction(500, insert("8", None)), end=500)
    assert (result.transactions, [row[0] for row in side.rows]) == (1, [1, 7, 8])


def test_a_name_that_is_in_use_is_an_error(side):
    """C50a: the existing transaction is not taken for the one that must be prepared"""
    side.apply(PREPARED, end=200)
    other = prepare(300, insert("2", "y"), xid=731)
    with pytest.raises(ApplyError, match=f'transaction identifier "{GID}" is already in use') as raised:
        side.apply(other, start=200, end=300)
    assert (raised.value.sqlstate, applied_before(raised.value)) == ("42710", 200)
    side.target.prepared.finish(GID, commit=False)
    side.apply(other, start=200, end=300)
    assert side.gids == {GID}


# Conflicts and SKIP -------------------------------------------------------------------------------


def test_a_conflict_shows_at_prepare(side):
    """C35, C37: nothing is prepared; the transactions before it can be committed"""
    side.execute("INSERT INTO t VALUES (1, 'mine')")
    batch = (transaction(150, insert("9", None)), PREPARED, COMMITTED)
    with pytest.raises(ConflictError, match="conflict=insert_exists") as raised:
        side.apply(*batch, end=400)
    assert 'during message type "INSERT" for replication target relation "public.t"' in str(raised.value.context)
    assert "in transaction 731, finished at 0/C0" in str(raised.value.context)
    assert applied_before(raised.value) == 150
    assert (side.gids, side.progress) == (set(), 150)
    assert side.apply(*batch, end=150, before=150).transactions == 0
    side.execute("DELETE FROM t WHERE a = 1")
    side.apply(*batch, start=150, end=400)
    assert [row[0] for row in side.rows] == [1, 9]


@pytest.mark.parametrize(("before", "gids", "keys"), [(200, {GID}, [9]), (300, {GID}, [8, 9]), (400, set(), [1, 8, 9])])
def test_a_second_pass_stops_where_it_is_asked_to(side, before, gids, keys):
    """C35"""
    batch = (
        transaction(150, insert("9", None)), PREPARED, transaction(300, insert("8", None)), COMMITTED,
        prepare(450, insert("2", "y"), xid=732), rolled_back(460, 450, xid=732),
    )  # fmt: skip
    side.apply(*batch, end=before, before=before)
    assert (side.gids, [row[0] for row in side.rows], side.progress) == (gids, keys, before)


def test_a_skipped_prepared_transaction_is_prepared_without_its_changes(side):
    """C40, C41: by the LSN of its PREPARE; COMMIT PREPARED then finds an empty prepared
    transaction
    """
    side.execute("INSERT INTO t VALUES (1, 'mine')")
    side.skip_lsn = LSN(192)
    side.apply(transaction(150), PREPARED, end=200)
    assert (side.gids, side.cleared) == ({GID}, [192])
    side.apply(COMMITTED, start=200, end=400)
    assert (side.gids, side.rows) == (set(), [(1, "mine")])


@pytest.mark.parametrize("entry", [prepare(300, xid=735), commit_prepared(300, xid=731), rolled_back(300, 200)])
def test_each_step_of_another_prepared_transaction_clears_the_skip(side, entry, caplog):
    """C41: an empty PREPARE, COMMIT PREPARED, and ROLLBACK PREPARED of what was prepared here"""
    side.apply(PREPARED, end=200)
    side.skip_lsn = LSN(999)
    side.apply(entry, start=200, end=300)
    assert side.cleared == [999]
    assert 'skip-LSN of subscription "sub" cleared' in caplog.text


# A subscription that goes away --------------------------------------------------------------------


def test_a_dropped_subscription_leaves_what_it_has_prepared_and_says_so(side, tmp_path):
    """C49: PostgreSQL 18 leaves it, too, and uses no number twice; the row of a finished
    transaction is removed
    """
    options = SubscriptionOptions(slot_name=None, enabled=False)
    with side.target.begin() as connection:
        OriginProgress(1).drop(connection)
        assert insert_subscription(connection, "s", "dbname=none", ("p",), options).subid == 1
        OriginProgress(1).create(connection, START)
    side.apply(PREPARED, end=200)
    with side.target.begin() as connection:
        write_prepared(connection, PreparedTransaction(1, 740, "never", LSN(5), 6))
    command = parse("DROP SUBSCRIPTION s")
    assert isinstance(command, DropSubscription)
    said: list[str] = []
    drop_subscription(side.target, command, Settings(journal=str(tmp_path)), said.append)
    assert [line.splitlines()[0] for line in said] == [f'WARNING:  prepared transaction "{GID}" is left in the target']
    assert (side.gids, [one.xid for one in side.known]) == ({GID}, [731])
    with side.target.begin() as connection:
        assert insert_subscription(connection, "s", "dbname=none", ("p",), options).subid == 2


# Servers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["postgresql18", "mariadb"])
def test_two_databases_of_a_server_prepare_each_for_itself(request, kind):
    """C49: the names belong to the server; MariaDB's names contain the database, PostgreSQL's only
    if necessary
    """
    server = request.getfixturevalue(kind)
    names = [f"test_2pc_{os.getpid()}_{next(_numbers)}" for _ in range(2)]
    with contextlib.ExitStack() as stack:
        sides = []
        for name in names:
            server.create_database(name)
            stack.callback(server.drop_database, name)
            target = stack.enter_context(open_target(server.url(name)))
            ensure_catalog(target.engine)
            sides.append(_made(target))
            sides[-1].apply(PREPARED, end=200)
        second = GID if kind == "mariadb" else f"{GID}_{names[1]}"
        assert [one.gids for one in sides] == [{GID}, {second}]
        for one in sides:
            one.apply(COMMITTED, start=200, end=400)
        assert [(one.rows, one.known) for one in sides] == [([(1, "x")], []), ([(1, "x")], [])]


def test_a_server_that_forbids_prepared_transactions_is_said_so():
    """C52: as in the native subscriber; it is retried until they are allowed"""
    with server_or_skip(lambda: open_postgresql(18, {"max_prepared_transactions": "0"})) as server:
        server.create_database("none")
        with open_target(server.url("none")) as target:
            ensure_catalog(target.engine)
            side = _made(target)
            with pytest.raises(ApplyError, match="prepared transactions are disabled") as raised:
                side.apply(transaction(150, insert("9", None)), PREPARED, end=200)
            assert 'Set "max_prepared_transactions"' in str(raised.value.hint)
            assert (applied_before(raised.value), [row[0] for row in side.rows]) == (150, [9])
