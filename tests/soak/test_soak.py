"""A long run under load with one random fault after the other: nothing is lost, nothing is applied
twice, nothing is left behind.

``make soak`` runs it for an hour, ``make test`` for less than one; SOAK_SECONDS says how long.
``SEED`` repeats the order of the faults of one that failed. See :mod:`tests.soak.faults` for what
happens.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from subscriber.scenario.servers.open_servers import PostgreSQLServer, find_postgresql
from tests.conftest import server_or_skip
from tests.crash.conftest import replicating
from tests.crash.harness import Load, usage, wait_until
from tests.soak.faults import NAME, Soak

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.crash]

SECONDS = float(os.environ.get("SOAK_SECONDS") or 45)
SETTLE_SECONDS = 60.0
"""Seconds between two comparisons. A difference is found near its cause."""


@pytest.fixture
def soak(tmp_path):
    seed = int(os.environ.get("SEED") or random.randrange(2**32))
    print(f"SEED={seed}")  # noqa: T201 - pytest shows it with a failure
    environment = {"SUBSCRIBER_PARTITION_BYTES": "64kB"}  # so that a copy has several jobs
    with (
        server_or_skip(lambda: PostgreSQLServer(find_postgresql(18))) as server,
        replicating(server, tmp_path, NAME, environment=environment) as replication,
        Load(replication.conninfo, seed, pause=0.02) as load,
    ):
        replication.runner.start()
        yield Soak(server, replication, load, random.Random(seed))


def test_faults_of_every_kind_one_after_the_other_lose_nothing_and_leave_nothing_behind(soak):
    """Invariants any_crash, progress_with_data, slot_after_disk, commit_order, bounded_memory."""
    try:
        soak.settle()
        while (left := soak.begun + SECONDS - time.monotonic()) > 0:
            soak.go_on(time.monotonic() + min(left, SETTLE_SECONDS))
            soak.settle()
        nothing_grew(soak)
        ends_in_order(soak)
    except BaseException as error:
        error.add_note("\n".join(soak.history))
        raise


def nothing_grew(soak) -> None:
    """A run that has survived the faults uses no more threads and descriptors than one that has
    just begun.
    """
    runner = soak.replication.runner
    before = usage(runner.process.pid)
    assert runner.interrupt() == 0, runner.said()[-3000:]
    soak.settle()
    fresh = usage(runner.process.pid)
    assert before.threads <= fresh.threads + 8
    assert before.descriptors <= fresh.descriptors + 12


def ends_in_order(soak) -> None:
    runner = soak.replication.runner
    segments = lambda: [path.name for path in runner.journal.glob("*/*.arrow")]  # noqa: E731
    with soak.load.paused():  # under load some changes are always waiting
        wait_until(lambda: len(segments()) <= 2, f"the journal to be trimmed: {segments()}")
    (journal,) = runner.journal.iterdir()
    assert len(list(journal.glob("consumer-*"))) == 1
    (status,) = runner.status().values()
    assert set(status["conflicts"]) <= {"insert_exists"}
    assert runner.interrupt() == 0, runner.said()[-3000:]
    wait_until(lambda: not runner.processes(), f"all processes to end: {runner.processes()}", 30)
    said = runner.said()
    for bad in ("Traceback", "fault of the program", "has stopped;", "_missing", "customer "):
        assert bad not in said, said[max(0, said.index(bad) - 1000) : said.index(bad) + 2000]
