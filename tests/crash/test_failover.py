"""The publisher's primary fails or is switched over while one ``subscriber run`` works and a load
writes (``failover = true``, PostgreSQL 18, two real servers).

The tests of this module follow each other on one replication; each begins and ends with equal
tables. The slot was created on server "one".
"""

from __future__ import annotations

import threading

import pytest

from tests.crash.conftest import caught_up_load, replicating
from tests.crash.harness import PUBLICATIONS, log_grows_by, wait_until
from tests.failover import pair_or_skip

NAME = "failing_over"


@pytest.fixture(scope="module")
def pair():
    with pair_or_skip() as pair:
        yield pair


@pytest.fixture(scope="module")
def replication(pair, tmp_path_factory):
    folder = tmp_path_factory.mktemp(NAME)
    create = f"PUBLICATION {PUBLICATIONS} WITH (copy_data = false, failover = true)"
    with replicating(pair, folder, NAME, create=create) as replication:
        yield replication


@pytest.fixture(scope="module")
def load(pair, replication):
    with caught_up_load(replication, seed=11) as load:
        pair.wait_until_ready(NAME)
        yield load


def connect_to(pair, replication, *servers, **parameters):
    """Name the servers in CONNECTION in this order."""
    ports = ",".join(str(server.port) for server in servers)
    conninfo = pair.conninfo(NAME, port=ports, **parameters)
    replication.runner.sql(f"ALTER SUBSCRIPTION {NAME} CONNECTION '{conninfo}'")


def streaming_from(server):
    """Whether a receiver streams from this server."""
    return server.execute(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{NAME}'") == [(True,)]


def end_stream(server):
    """End the walsender, so that the receiver connects again."""
    server.execute(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{NAME}'")


def assert_nothing_is_said_to_be_lost(runner):
    """`status` asks the wrong server, too, and believes it as little as the receiver does."""
    status = runner.status()[NAME]
    assert (status["publisher_lsn"], status["slot"]) == (None, None)
    assert not status["slot_missing"]
    assert not status["history_diverged"]


def test_a_primary_that_is_stopped_while_its_standby_is_away_or_behind_is_followed_to_the_standby(
    pair, replication, load, supervisor
):
    """A planned switchover. While the standby is away, the walsender ends with an ERROR, 55000
    about synchronized_standby_slots.
    """
    refused = log_grows_by(replication.runner, 'in parameter "synchronized_standby_slots" does not have active_pid')
    pair.standby.stop()
    load.wait_for_transactions(5)
    pair.primary.stop()
    refused()
    pair.primary.start()
    pair.standby.start()
    replication.settle(load)
    pair.wait_until_ready(NAME)
    with pair.lagging():
        load.wait_for_transactions(5)
        stopping = threading.Thread(target=pair.primary.stop)
        stopping.start()
        wait_until(lambda: "received fast shutdown request" in pair.primary.log(), "the shutdown")
    stopping.join()
    pair.switch_over(leftovers=True)
    replication.settle(load)


def test_a_demoted_server_is_not_streamed_from_although_its_old_slot_could_be(pair, replication, load, supervisor):
    """CONNECTION names both servers without target_session_attrs, and the standby is the first."""
    runner = replication.runner
    warned = log_grows_by(runner, "CONNECTION names several hosts without target_session_attrs")
    refused = log_grows_by(runner, f"port {pair.standby.port}: it is a standby (in recovery), on timeline 2")
    connect_to(pair, replication, pair.standby, pair.primary, target_session_attrs="any")
    warned()
    refused()
    assert not streaming_from(pair.standby)
    assert "DROP SUBSCRIPTION" not in runner.said()
    assert_nothing_is_said_to_be_lost(runner)
    # libpq goes on to the next host when the first does not answer.
    pair.primary.reload({"synchronized_standby_slots": ""})
    pair.standby.stop()
    replication.settle(load)
    pair.standby.start()
    pair.primary.reload({"synchronized_standby_slots": pair.standby.name})
    connect_to(pair, replication, pair.standby, pair.primary)
    end_stream(pair.primary)
    replication.settle(load)
    pair.drop_leftovers()


def test_a_primary_that_is_killed_is_followed_to_its_standby(pair, replication, load, supervisor):
    pair.wait_until_ready(NAME)
    pair.kill_primary()
    pair.promote()
    replication.settle(load)


def test_an_old_primary_that_comes_back_as_a_primary_is_refused_until_it_is_gone(pair, replication, load, supervisor):
    """It is on an older timeline, and CONNECTION names it first. Nothing is to be done but to stop
    it.
    """
    old, new = pair.standby, pair.primary
    with load.paused():
        old.settings["synchronized_standby_slots"] = ""
        old.start()
        refused = log_grows_by(replication.runner, f"port {old.port}: it is not in recovery, on timeline 2")
        connect_to(pair, replication, old, new)
        refused()
        said = replication.runner.said()
        assert "the server is on timeline 2, but changes were received on timeline 3" in said
        assert "DROP SUBSCRIPTION" not in said
        assert "RECREATE SLOT" not in said
        assert_nothing_is_said_to_be_lost(replication.runner)
        old.stop()
    replication.settle(load)
    pair.rejoin(synchronize=False)


def test_a_slot_that_was_not_ready_at_the_promotion_is_lost_and_the_error_says_so(pair, replication, load):
    assert pair.standby.execute(f"SELECT FROM pg_replication_slots WHERE slot_name = '{NAME}'") == []
    runner = replication.runner
    lost = log_grows_by(runner, f'replication slot "{NAME}" does not exist')
    pair.kill_primary()
    pair.promote()
    lost()
    assert f"port {pair.primary.port}: it is not in recovery, on timeline 4" in runner.said()
    assert "RECREATE SLOT" in runner.said()
    assert runner.process.wait(60) == 1  # no subscription is left that could go on
