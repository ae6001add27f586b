"""A publisher that goes away during a cutover: the command says so and keeps what was done. The
same command goes on when the publisher is back.
"""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conftest import fresh_database
from tests.crash.harness import COMMAND, Runner, wait_until
from tests.cutovers import SHOP, Shop

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.crash, pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def shop(own_server, tmp_path_factory) -> Iterator[Shop]:
    with contextlib.contextmanager(fresh_database)(own_server) as publisher:
        publisher.execute(SHOP)
        folder = tmp_path_factory.mktemp("outage")
        url = f"sqlite:///{folder / 'shop.db'}"
        runner = Runner(url, folder)
        made = Shop(publisher, runner, url, "shop")
        with contextlib.closing(runner):
            runner.sql(
                f"CREATE SUBSCRIPTION shop CONNECTION '{publisher.conninfo}' PUBLICATION shop"
                " WITH (create_tables = true)"
            )
            runner.start()
            wait_until(lambda: made.status()["tables"] == {"r": 2}, "the tables to be ready")
            yield made


def is_resolved(shop: Shop) -> bool:
    status = shop.status()
    return status["last_error"] is None or status["last_error_resolved_at"] is not None


def has_stopped_between_transactions(run: subprocess.Popen[bytes], database: Path) -> bool:
    """Stop a run, unless it has a lock of the target, which the test needs, too."""
    run.send_signal(signal.SIGSTOP)
    with (
        contextlib.suppress(sqlite3.OperationalError),
        contextlib.closing(sqlite3.connect(database, timeout=0.1, isolation_level=None)) as connection,
    ):
        connection.execute("BEGIN IMMEDIATE")
        return True
    run.send_signal(signal.SIGCONT)
    return False


def test_a_publisher_that_goes_away_ends_the_command_and_the_same_command_goes_on(shop, own_server):
    late = psycopg.connect(shop.publisher.conninfo)
    late.execute("INSERT INTO orders (customer) VALUES (1)")  # the cutover waits for its end
    with subprocess.Popen(
        [*COMMAND, "cutover", shop.name, "--fence", "--verify"],
        env=shop.runner.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as command:  # fmt: skip
        wait_until(shop.fence, "the fence")
        own_server.stop()
        out, errors = command.communicate(timeout=90)
    assert command.returncode == 1, out + errors
    assert "ERROR:" in errors
    # The outage ends a query of the command, or meets it between two connections.
    assert "the connection to the publisher was lost" in errors or "could not connect to the publisher" in errors
    assert "HINT:" in errors
    assert "The same command goes on: subscriber cutover" in out
    assert "Traceback" not in errors
    late.close()
    dropped = shop.cutover("--abandon")
    assert dropped.returncode == 1, "without the publisher the fence cannot be lifted"
    assert "Traceback" not in dropped.stderr
    assert shop.status()["cutover"]["process"] is None

    own_server.start()
    wait_until(lambda: is_resolved(shop), "the run to stream again")
    on = shop.cutover("--fence", "--verify")
    assert on.returncode == 0, on.stdout + on.stderr
    assert shop.status()["cutover"]["state"] == "switched"
    back = shop.cutover("--abandon")
    assert back.returncode == 0, back.stdout + back.stderr
    assert shop.fence() == []


def test_a_server_that_is_killed_during_verify_proves_nothing(shop, own_server):
    run = shop.runner.process
    assert run is not None
    # verify waits for its answer
    wait_until(lambda: has_stopped_between_transactions(run, shop.runner.folder / "shop.db"), "the run to stop")
    with subprocess.Popen(
        [*COMMAND, "verify", shop.name], env=shop.runner.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:  # fmt: skip
        wait_until(lambda: shop.status()["hold"] is not None, "the hold")
        own_server.kill()
        run.send_signal(signal.SIGCONT)
        out, errors = command.communicate(timeout=120)
    assert command.returncode == 1, out + errors
    assert "Traceback" not in errors
    own_server.start()
    wait_until(lambda: shop.status()["hold"] is None, "the hold to end")
    wait_until(lambda: shop.runner.call("verify", shop.name).returncode == 0, "publisher and target to be equal")
