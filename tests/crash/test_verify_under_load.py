"""``subscriber verify`` while ``subscriber run`` works and a load writes: no false alarm, and no
damage stays hidden.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess

import pytest

from tests.crash.conftest import replicating
from tests.crash.harness import COMMAND, Load, catch_up, wait_until

NAME = "verified"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def replication(own_server, tmp_path_factory):
    with replicating(own_server, tmp_path_factory.mktemp(NAME), NAME) as replication:
        replication.runner.start()
        yield replication


@pytest.fixture(scope="module")
def load(replication):
    with Load(replication.conninfo, seed=11) as load:
        with load.paused():
            catch_up(replication.conninfo, replication.database, replication.runner)
        yield load


def verified(replication, *options):
    answer = replication.runner.call("verify", "--json", *options)
    assert answer.stdout, answer.stderr
    report = json.loads(answer.stdout)
    assert answer.returncode == (0 if report["equal"] else 1)
    return report, {
        table["table"]: (table["differing"], table["only_publisher"], table["only_target"])
        for table in report["tables"]
    }


def damage(replication, *statements):
    with contextlib.closing(sqlite3.connect(replication.database, timeout=30)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_tables_are_equal_at_one_lsn_however_quickly_they_change(replication, load):
    seen = set()
    for _ in range(5):
        before = load.transactions
        report, counts = verified(replication)
        assert report["equal"], json.dumps(report)
        assert set(counts.values()) == {(0, 0, 0)}
        assert load.transactions > before
        seen.add(report["lsn"])
    assert len(seen) == 5
    replication.settle(load)


def test_damage_is_found_and_repaired_under_load(replication, load):
    damage(
        replication,
        "INSERT INTO orders VALUES (-77777, 'surplus', NULL, NULL)",
        "INSERT INTO audit VALUES (-1, NULL)",
        "INSERT INTO audit VALUES (-1, NULL)",
    )
    report, counts = verified(replication)
    assert not report["equal"]
    assert counts["public.orders"] == (0, 0, 1)
    assert counts["public.audit"] == (0, 0, 2)
    report, _ = verified(replication, "--repair")
    assert report["equal"], report
    assert {one["table"]: one["repaired"] for one in report["tables"]}["public.audit"] == 2
    assert verified(replication)[0]["equal"]
    replication.settle(load)


def test_ctrl_c_releases_the_hold(replication, load):
    process = subprocess.Popen([*COMMAND, "verify"], env=replication.runner.environ(), stdout=subprocess.DEVNULL)

    def is_held():
        with contextlib.closing(sqlite3.connect(replication.database, timeout=30)) as connection:
            return connection.execute("SELECT count(*) FROM subscriber_lease WHERE kind = 'pause'").fetchone()[0]

    wait_until(is_held, "the hold")
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(20) == 130
    assert not is_held()
    replication.settle(load)
