"""The initial copy and the hand-over under load, killed at every failpoint, and without the
publisher or its snapshot.

One ``subscriber run`` serves them all. Table audit is ready and streams on while the others are
copied, so that a table that has been copied is behind the stream and has to catch up.
"""

from __future__ import annotations

import contextlib
import sqlite3

import psycopg
import pytest

from subscriber.base.failpoints import FAILPOINTS
from tests.crash.conftest import replicating
from tests.crash.harness import PATIENCE, Load, wait_until

COPIED = ("orders", "order_lines", "readings", "documents")
HERE = sorted(name for name in FAILPOINTS if name.startswith(("copy.", "handover.")))


@pytest.fixture(scope="module")
def replication(own_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("copies")
    # The ranges are small, so that a copy has several jobs and takes a second or two.
    environment = {"SUBSCRIBER_PARTITION_BYTES": "64kB"}
    with replicating(
        own_server, folder, "copies", environment=environment, create="PUBLICATION appended"
    ) as replication:
        own_server.execute(
            "INSERT INTO orders SELECT -n, 'customer', n, now() FROM generate_series(1, 3000) n;"
            "INSERT INTO readings SELECT -n, n, 'before' FROM generate_series(1, 3000) n",
            "copies",
        )
        yield replication


@pytest.fixture(scope="module")
def load(replication):
    with Load(replication.conninfo, seed=20261122, pause=0.05) as load:
        replication.runner.start()
        wait_until(lambda: states(replication) == {"audit": "r"}, "audit to be ready\n" + replication.runner.said())
        yield load


def states(replication) -> dict[str, str]:
    with contextlib.closing(sqlite3.connect(replication.database, timeout=30)) as connection:
        return dict(connection.execute("SELECT srrelname, srsubstate FROM subscriber_subscription_rel"))


def copy_again(replication) -> None:
    """Remove the tables from the subscription, empty them, and copy them again (D11)."""
    if len(states(replication)) > 1:
        replication.runner.sql("ALTER SUBSCRIPTION copies DROP PUBLICATION everything")
    wait_until(lambda: states(replication) == {"audit": "r"}, "the tables to be dropped")
    with contextlib.closing(sqlite3.connect(replication.database, timeout=60)) as connection:
        for table in COPIED:
            connection.execute(f"DELETE FROM {table}")
        connection.commit()
    replication.runner.sql("ALTER SUBSCRIPTION copies ADD PUBLICATION everything")


def wait_until_ready(replication) -> None:
    def ready() -> bool:
        replication.runner.restart_if_dead()
        return set(states(replication).values()) == {"r"}

    wait_until(ready, f"all tables to be ready\n{replication.runner.said()[-3000:]}", patience=3 * PATIENCE)


def test_a_kill_at_any_failpoint_of_copy_and_hand_over_loses_nothing_and_copies_nothing_twice(replication, load):
    """any_crash, D2-D6: each failpoint kills the process the first time that it is reached"""
    for failpoint in HERE:
        replication.failpoints.unlock(failpoint)
    copy_again(replication)
    wait_until_ready(replication)
    assert [name for name in HERE if not replication.failpoints.fired(name)] == []
    replication.settle(load)


@pytest.mark.long
def test_a_kill_at_any_failpoint_of_a_copy_that_replaces_rows_leaves_the_old_rows_or_the_new_ones(replication, load):
    """any_crash: REFRESH TABLE, of tables of which some rows are wrong"""
    if len(states(replication)) == 1:
        copy_again(replication)
    wait_until_ready(replication)
    with contextlib.closing(sqlite3.connect(replication.database, timeout=60)) as connection:
        connection.execute("DELETE FROM orders WHERE id BETWEEN -500 AND -1")
        connection.execute("INSERT INTO readings VALUES (-1, 0.5, 'surplus')")
        connection.commit()
    for failpoint in HERE:
        replication.failpoints.unlock(failpoint)
    replication.runner.sql(f"ALTER SUBSCRIPTION copies REFRESH TABLE {', '.join(COPIED)}")
    few = 0

    def ready() -> bool:
        nonlocal few
        replication.runner.restart_if_dead()
        with contextlib.closing(sqlite3.connect(replication.database, timeout=30)) as connection:
            few += connection.execute("SELECT count(*) FROM orders").fetchone()[0] < 2000
        return set(states(replication).values()) == {"r"}

    wait_until(ready, f"all tables to be ready\n{replication.runner.said()[-3000:]}", patience=3 * PATIENCE)
    assert [name for name in HERE if not replication.failpoints.fired(name)] == []
    assert few == 0
    replication.settle(load)


def in_mid_copy(replication):
    """Wait until a round has its snapshot; returns the process that holds it."""
    copy_again(replication)
    with psycopg.connect(replication.conninfo, autocommit=True) as connection:
        query = "SELECT active_pid FROM pg_replication_slots WHERE temporary AND confirmed_flush_lsn IS NOT NULL"
        ((walsender,),) = wait_until(lambda: connection.execute(query).fetchall(), "a snapshot")
    return walsender


@pytest.mark.long
def test_a_snapshot_that_is_lost_is_followed_by_a_new_one(replication, load):
    """D3"""
    walsender = in_mid_copy(replication)
    with psycopg.connect(replication.conninfo, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", (walsender,))
    wait_until_ready(replication)
    assert "the snapshot of the initial copy is no longer there" in replication.runner.said()
    replication.settle(load)


@pytest.mark.long
def test_a_publisher_that_dies_in_mid_copy_is_copied_from_when_it_is_back(replication, own_server, load):
    """D3"""
    in_mid_copy(replication)
    own_server.kill()
    own_server.start()
    wait_until_ready(replication)
    replication.settle(load)
