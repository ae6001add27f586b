"""A long run under load with one random fault after the other: nothing is lost, nothing is applied
twice, nothing is left behind.

``make chaos`` runs it for an hour, ``make test`` for one minute; CHAOS_SECONDS says how long.
``SEED`` repeats the order of the faults of one that failed. See :mod:`tests.chaos.chaos` for how it
works, and :mod:`tests.chaos.faults` and :mod:`tests.chaos.publisher_faults` for what happens.
"""

from __future__ import annotations

import os
import random
import time

import pytest

import tests.chaos.faults
import tests.chaos.publisher_faults  # noqa: F401 - registers the faults
from tests.chaos.chaos import NAME, Access, Chaos
from tests.crash.conftest import replicating, small_file_system
from tests.crash.harness import PUBLICATIONS, Load, usage, wait_until
from tests.crash.proxy import Proxy
from tests.failover import at, pair_or_skip
from tests.random_seed import random_seed

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.crash]

SECONDS = float(os.environ.get("CHAOS_SECONDS") or 60)
SETTLE_SECONDS = 60.0
"""Seconds between two comparisons. A difference is found near its cause."""


@pytest.fixture
def chaos(tmp_path):
    seed = random_seed()
    print(f"SEED={seed}")  # noqa: T201 - pytest shows it with a failure
    environment = {"SUBSCRIBER_PARTITION_BYTES": "64kB"}  # so that a copy has several jobs
    with (
        pair_or_skip() as pair,
        Proxy(at(pair.primary, NAME)) as first,
        Proxy(at(pair.standby, NAME)) as second,
        small_file_system(tmp_path / "journal", "64m") as small,
    ):
        access = Access(pair, (first, second), tmp_path / "passfile")
        with (
            replicating(
                pair,
                tmp_path,
                NAME,
                parameters=access.parameters,
                create=f"PUBLICATION {PUBLICATIONS} WITH (copy_data = false, failover = true)",
                environment=environment,
            ) as replication,
            Load(replication.conninfo, seed, pause=0.02) as load,
        ):
            replication.journal_is_small = small
            replication.runner.start()
            yield Chaos(pair, access, replication, load, random.Random(seed))


def test_faults_of_every_kind_one_after_the_other_lose_nothing_and_leave_nothing_behind(chaos):
    """Invariants any_crash, progress_with_data, slot_after_disk, commit_order, bounded_memory."""
    try:
        chaos.settle()
        while (left := chaos.begun + SECONDS - time.monotonic()) > 0:
            chaos.go_on(time.monotonic() + min(left, SETTLE_SECONDS))
            chaos.settle()
        nothing_grew(chaos)
        ends_in_order(chaos)
        chaos.note(", ".join(f"{name} {times}" for name, times in sorted(chaos.faults.items())))
    except BaseException as error:
        error.add_note("\n".join(chaos.history))
        raise


def nothing_grew(chaos) -> None:
    """A run that has survived the faults uses no more threads and descriptors than one that has
    just begun.
    """
    runner = chaos.replication.runner
    before = usage(runner.process.pid)
    assert runner.interrupt() == 0, runner.said()[-3000:]
    chaos.settle()
    fresh = usage(runner.process.pid)
    assert before.threads <= fresh.threads + 8
    assert before.descriptors <= fresh.descriptors + 12


def ends_in_order(chaos) -> None:
    runner = chaos.replication.runner
    segments = lambda: [path.name for path in runner.journal.glob("*/*.arrow")]  # noqa: E731
    with chaos.load.paused():  # under load some changes are always waiting
        wait_until(lambda: len(segments()) <= 2, f"the journal to be trimmed: {segments()}")
    (journal,) = runner.journal.iterdir()
    assert len(list(journal.glob("consumer-*"))) == 1
    (status,) = runner.status().values()
    assert set(status["conflicts"]) <= chaos.conflicts
    assert status["last_error"] is None or status["last_error_resolved_at"] is not None
    assert runner.interrupt() == 0, runner.said()[-3000:]
    wait_until(lambda: not runner.processes(), f"all processes to end: {runner.processes()}", 30)
    said = runner.said()
    for bad in ("Traceback", "fault of the program", "has stopped;", "customer "):
        assert bad not in said, said[max(0, said.index(bad) - 1000) : said.index(bad) + 2000]
