"""The machine's clock is set back by a day during a run, and forward again: nothing depends on the
time of day.

Every Python process of the run gets the false time from a ``sitecustomize`` of ours; Java's clock
stays right.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from subscriber.base.lsn import parse_lsn
from tests.crash.conftest import replicating
from tests.crash.harness import COMMAND, PATIENCE, barrier, catch_up, wait_until

NAME = "clock"
DAY = 86_400
FALSE_TIME = """
import ctypes, datetime, gc, os, time

true_time = time.time


def time_ns():
    return int((true_time() - DAY * os.path.exists(os.environ["CLOCK_SET_BACK"])) * 1e9)


time.time, time.time_ns = lambda: time_ns() / 1e9, time_ns
# In the class itself: extension modules look at its size, and another class has another size.
(methods,) = gc.get_referents(datetime.datetime.__dict__)
methods["now"] = classmethod(lambda cls, tz=None: cls.fromtimestamp(time.time(), tz))
ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))
""".replace("DAY", str(DAY))


@pytest.fixture
def replication(own_server, tmp_path):
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(FALSE_TIME)
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(modules), os.environ.get("PYTHONPATH")))),
        "CLOCK_SET_BACK": str(tmp_path / "set back"),
    }
    with replicating(own_server, tmp_path, NAME, environment=environment) as replication:
        yield replication


def set_back(replication) -> None:
    Path(replication.runner.environment["CLOCK_SET_BACK"]).touch()


def set_right(replication) -> None:
    Path(replication.runner.environment["CLOCK_SET_BACK"]).unlink()


def catches_up(replication, server) -> None:
    """Whatever is written now is applied, and the slot is confirmed."""
    mark = barrier(replication.conninfo)
    catch_up(replication.conninfo, replication.database, replication.runner)

    def heard() -> bool:
        ((confirmed,),) = server.execute(
            f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{NAME}'"
        )
        return parse_lsn(confirmed) > mark

    wait_until(heard, "the slot to be confirmed")


def check_lag(replication) -> None:
    """Check the lag in a `status` with the clock of the run, and in one with the real clock."""
    run = [*COMMAND, "status", "--json"]
    false = subprocess.run(run, env=replication.runner.environ(), capture_output=True, check=True, timeout=PATIENCE)
    for status in (*json.loads(false.stdout), *replication.runner.status().values()):
        assert status["lag_bytes"] >= 0
        assert status["lag_seconds"] >= 0


def execute(replication, statement: str) -> list[tuple]:
    with closing(sqlite3.connect(replication.database, timeout=30)) as connection, connection:
        return connection.execute(statement).fetchall()


@pytest.mark.long
def test_a_clock_that_is_set_back_by_a_day_changes_nothing(replication, own_server):
    runner = replication.runner
    runner.start()
    catches_up(replication, own_server)

    set_back(replication)
    (journal,) = runner.journal.iterdir()
    for _ in range(5):
        os.utime(journal, (time.time() - DAY,) * 2)
        catches_up(replication, own_server)
        check_lag(replication)

    # The clock is set back in the supervisor and in the receiver.
    ((moment,),) = execute(replication, "SELECT updated_at FROM subscriber_replication_origin_status")
    assert datetime.now(UTC) - datetime.fromisoformat(moment) > timedelta(hours=23)
    old = f"SELECT reply_time < now() - interval '23 hours' FROM pg_stat_replication WHERE application_name = '{NAME}'"
    wait_until(lambda: own_server.execute(old) == [(True,)], "the receiver's reply to have the false time")

    # A failure is retried, although the clock changes.
    execute(replication, "INSERT INTO orders VALUES (1, 'in the way', NULL, NULL)")
    own_server.execute("INSERT INTO orders VALUES (1, 'theirs', NULL, NULL)", NAME)
    wait_until(lambda: "conflict detected" in runner.said(), "a conflict")
    check_lag(replication)
    set_right(replication)
    check_lag(replication)
    set_back(replication)
    execute(replication, "DELETE FROM orders")
    catches_up(replication, own_server)

    set_right(replication)
    catches_up(replication, own_server)
    check_lag(replication)
    replication.compare()
    assert runner.interrupt() == 0
    assert "Traceback" not in runner.said()
