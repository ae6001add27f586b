"""A publisher that may be stopped and killed, and one replication of it for the tests of a
module.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from subscriber.testing.servers.open_servers import PostgreSQLServer, find_postgresql
from tests.conftest import server_or_skip
from tests.crash.harness import (
    PUBLICATIONS,
    PUBLISHER_TABLES,
    SQLITE_TABLES,
    Failpoints,
    Load,
    Runner,
    catch_up,
    differences,
)
from tests.failover import Pair


@dataclass
class Replication:
    """One subscription that replicates from a publisher under load into a SQLite file.

    Attributes:
        conninfo: the publisher's database.
        database: the target.
        runner: what runs it.
        failpoints: to make it crash.
        journal_is_small: the journal is a file system of its own, small enough to fill.
    """

    conninfo: str
    database: Path
    runner: Runner
    failpoints: Failpoints
    journal_is_small: bool = False

    def settle(self, load: Load) -> None:
        """Pause the load, wait until everything is applied, and compare every table."""
        with load.paused():
            catch_up(self.conninfo, self.database, self.runner)
            self.compare()

    def start_with(self, *, full_disk: bool) -> None:
        """Start the run with failpoints: the first one of the journal simulates a full disk, the
        others kill.
        """
        self.runner.environment.update(self.failpoints.environment(full_disk=full_disk))
        self.runner.start()

    def compare(self) -> None:
        found = differences(self.conninfo, self.runner.target)
        assert not found, "\n".join(map(str, found))


@pytest.fixture(scope="session")
def own_server() -> Iterator[PostgreSQLServer]:
    """A server that no other test uses, so that a test may stop and kill it."""
    with server_or_skip(lambda: PostgreSQLServer(find_postgresql(18))) as server:
        yield server


@pytest.fixture(autouse=True)
def _started_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start the server that a test has stopped and, because it failed, not started again."""
    yield
    if "own_server" in request.fixturenames:
        request.getfixturevalue("own_server").start()


@pytest.fixture
def supervisor(replication: Replication, load: Load) -> Iterator[subprocess.Popen[bytes]]:
    """The supervisor's process. It must survive the test; the module has the two fixtures."""
    process = replication.runner.process
    assert process is not None
    yield process
    assert replication.runner.process is process
    assert process.poll() is None


@contextlib.contextmanager
def replicating(
    server: PostgreSQLServer | Pair,
    folder: Path,
    name: str,
    *,
    create: str = f"PUBLICATION {PUBLICATIONS} WITH (copy_data = false)",
    parameters: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
    full_disk: bool = False,
) -> Iterator[Replication]:
    """Tables and a subscription that are ready to run; at the end everything is stopped and
    dropped. ``parameters`` are parameters of its CONNECTION.
    """
    server.create_database(name)
    server.execute(PUBLISHER_TABLES, name)
    database = folder / "target.db"
    with contextlib.closing(sqlite3.connect(database)) as target:
        target.executescript(SQLITE_TABLES)
    failpoints = Failpoints(folder / "failpoints")
    runner = Runner(
        f"sqlite:///{database}", folder, {**failpoints.environment(full_disk=full_disk), **(environment or {})}
    )
    try:
        conninfo = server.conninfo(name, **(parameters or {}))
        runner.sql(f"CREATE SUBSCRIPTION {name} CONNECTION '{conninfo}' {create}")
        yield Replication(server.conninfo(name), database, runner, failpoints)
    finally:
        runner.close()
        server.start()
        server.drop_database(name)


@contextlib.contextmanager
def caught_up_load(replication: Replication, seed: int) -> Iterator[Load]:
    """A load, after the run has started and has applied what the load wrote meanwhile."""
    with Load(replication.conninfo, seed=seed) as load:
        replication.runner.start()
        with load.paused():
            catch_up(replication.conninfo, replication.database, replication.runner)
        yield load


@contextlib.contextmanager
def small_file_system(place: Path, size: str) -> Iterator[bool]:
    """Mount a small tmpfs if that is allowed; returns whether it was mounted."""
    place.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "subscriber-test", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill the file system of ``folder`` to the last byte with a file; space that becomes free
    later stays free.
    """
    filler = folder / "filler"
    page = bytes(os.statvfs(folder).f_frsize)
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(page)
    try:
        yield
    finally:
        filler.unlink()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: it starts Spark, kills processes and is slow."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for mark in ("server", "spark", "crash", "slow"):
                item.add_marker(mark)
