"""Records the metrics of real runs that meet each trouble of docs/alerts.md.

    python -m tests.recordings.record_troubles      (about five minutes; as root)

``troubles.json.xz`` has two films. A film is a list of scrapes, one every ten seconds, as is a
sample of the publisher: the seconds since 1970, and the text of /metrics, or None where the run
does not answer. ``tests/unit/test_recorded_troubles.py`` shows them slowly to the alerts. Each
subscription of the first film meets one trouble, after which it has its name. In the second one
the journal is on a small disk.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import lzma
import os
import re
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import psycopg

from subscriber.testing.servers.mariadb_server import MariaDBServer
from subscriber.testing.servers.postgresql_server import PostgreSQLServer
from tests.crash.conftest import small_file_system
from tests.crash.harness import Runner, wait_until
from tests.sockets import sockets

FILE: Final = Path(__file__).parent / "troubles.json.xz"
SCRAPE_SECONDS: Final = 10.0
NAMES: Final = (
    "healthy", "conflict", "skipped", "replaced", "uncopied", "stopped", "abandoned", "killed_receiver", "waiting",
)  # fmt: skip
SEGMENTS: Final = 75
"""Of 16 MB: more than the soft limit of retained WAL."""
SETTINGS: Final = {"max_slot_wal_keep_size": "2000MB", "wal_init_zero": "off", "max_wal_size": "4GB"}
Film = list[tuple[float, str | None]]


class Filmed:
    """A run whose metrics are filmed."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.film: Film = []
        self._due = 0.0
        self._port: int | None = None

    def start(self) -> None:
        self.runner.start("local[2]", "--http", "127.0.0.1:0")
        said = wait_until(lambda: re.search(r"http://127\.0\.0\.1:(\d+)/", self.runner.said()), "the server")
        self._port = int(said[1])

    def scrape(self) -> str | None:
        assert self._port is not None
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        with contextlib.closing(connection):
            try:
                connection.request("GET", "/metrics")
                return connection.getresponse().read().decode()
            except OSError:
                return None

    def shows(self, what: str) -> bool:
        return re.search(what, self.scrape() or "", re.MULTILINE) is not None

    def take(self, scrapes: int) -> None:
        for _ in range(scrapes):
            time.sleep(max(0.0, self._due - time.monotonic()))
            self._due = time.monotonic() + SCRAPE_SECONDS
            self.film.append((round(time.time(), 3), self.scrape()))


def troubles(publisher: PostgreSQLServer, filmed: Filmed, target: MariaDBServer) -> None:
    """Film a healthy time, then all troubles at once, then a lost slot, and a killed run."""
    publisher.create_database("film")
    conninfo = publisher.conninfo("film")
    with psycopg.connect(conninfo, autocommit=True) as connection:

        def do(statement: str) -> None:
            connection.execute(statement)

        for name in NAMES:
            do(f"CREATE TABLE {name} (k int PRIMARY KEY, x float8)")
            do(f"INSERT INTO {name} VALUES (1, 1)")
            do(f"CREATE PUBLICATION {name} FOR TABLE {name}")
            options = "create_tables, unrepresentable_values = null" + (", failover" if name == "waiting" else "")
            filmed.runner.sql(f"CREATE SUBSCRIPTION {name} CONNECTION '{conninfo}' PUBLICATION {name} WITH ({options})")
        target.execute("INSERT INTO uncopied VALUES (1, 7)", "film")
        filmed.start()
        streaming = r'^subscriber_subscription_state\{state="streaming",subscription="healthy"\} 1\.0'
        wait_until(lambda: filmed.shows(streaming), "a run that streams")
        for name in set(NAMES) - {"uncopied"}:
            ready = rf'^subscriber_tables\{{state="r",subscription="{name}"\}} 1\.0'
            wait_until(lambda ready=ready: filmed.shows(ready), f"the table of {name}")  # type: ignore[misc]
        filmed.runner.sql("ALTER SUBSCRIPTION abandoned DISABLE")
        slot = "SELECT active FROM pg_replication_slots WHERE slot_name = '{}'"
        wait_until(
            lambda: connection.execute(slot.format("abandoned")).fetchone() == (False,), "a slot without receiver"
        )
        for _ in range(SEGMENTS):
            do("SELECT pg_logical_emit_message(false, 'film', 'x')")
            do("SELECT pg_switch_wal()")
        filmed.take(3)
        for name in ("conflict", "skipped"):
            target.execute(f"INSERT INTO {name} VALUES (2, 7)", "film")
            do(f"INSERT INTO {name} VALUES (2, 2)")
        do("INSERT INTO replaced VALUES (2, 'NaN')")
        do("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'stopped'")
        wait_until(lambda: dropped(connection, "stopped"), "the slot to be dropped")
        publisher.execute("ALTER SYSTEM SET synchronized_standby_slots = 'nowhere'")
        publisher.execute("SELECT pg_create_physical_replication_slot('nowhere'), pg_reload_conf()")
        wait_until(lambda: failing_lsn(filmed.runner, "skipped"), "a conflict")
        for number in range(12):
            do(f"INSERT INTO healthy VALUES ({number + 10}, 1)")
            do(f"INSERT INTO waiting VALUES ({number + 10}, 1)")
            if number < 6:  # twice in ten seconds
                kill_receiver(connection, filmed.runner)
                time.sleep(SCRAPE_SECONDS / 2)
                kill_receiver(connection, filmed.runner)
            if number == 1:
                filmed.runner.sql(f"ALTER SUBSCRIPTION skipped SKIP (lsn = '{failing_lsn(filmed.runner, 'skipped')}')")
            filmed.take(1)
        publisher.execute("ALTER SYSTEM SET idle_replication_slot_timeout = '1s'")
        publisher.execute("SELECT pg_reload_conf()")
        time.sleep(2)
        publisher.execute("CHECKPOINT")
        filmed.take(2)
    filmed.runner.kill()
    filmed.take(2)


def dropped(connection: psycopg.Connection[Any], slot: str) -> bool:
    """Drop a slot; False while a receiver uses it."""
    try:
        connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
    except psycopg.errors.ObjectInUse:
        terminate = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s"
        connection.execute(terminate, (slot,))
        return False
    return True


def failing_lsn(runner: Runner, name: str) -> str | None:
    found = re.search(r"[0-9A-F]+/[0-9A-F]+", runner.status()[name]["last_error"] or "")
    return None if found is None else found[0]


def kill_receiver(connection: psycopg.Connection[Any], runner: Runner) -> None:
    """Kill the receiver of one subscription: the process with the socket that its walsender has."""
    query = (
        "SELECT client_port FROM pg_stat_replication JOIN pg_replication_slots ON active_pid = pid"
        " WHERE slot_name = 'killed_receiver'"
    )
    ((port,),) = wait_until(lambda: connection.execute(query).fetchall(), "a receiver to kill")
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {fields[9] for fields in lines if fields[1].endswith(f":{port:04X}")}
    (receiver,) = (pid for pid in runner.walreceivers() if inodes & sockets(pid))
    os.kill(receiver, signal.SIGKILL)


def small_disk(publisher: PostgreSQLServer, filmed: Filmed) -> None:
    """Film a run that receives, while its journal's disk has a few megabytes."""
    publisher.create_database("disk")
    publisher.execute("CREATE TABLE t (k int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t", "disk")
    filmed.runner.sql(
        f"CREATE SUBSCRIPTION disk CONNECTION '{publisher.conninfo('disk')}' PUBLICATION p WITH (create_tables)"
    )
    filmed.start()
    wait_until(lambda: filmed.shows(r'^subscriber_tables\{state="r",subscription="disk"\} 1\.0'), "the table")
    filmed.take(4)


def main() -> None:
    films = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        publisher = stack.enter_context(PostgreSQLServer(settings=SETTINGS))
        target = stack.enter_context(MariaDBServer())
        target.create_database("film")
        first = Filmed(Runner(target.url("film"), folder / "first"))
        stack.callback(first.runner.close)
        troubles(publisher, first, target)
        first.runner.close()
        films["troubles"] = first.film
        assert stack.enter_context(small_file_system(folder / "second" / "journal", "64m")), "a tmpfs is needed"
        second = Filmed(Runner(f"sqlite:///{folder}/disk.db", folder / "second"))
        stack.callback(second.runner.close)
        small_disk(publisher, second)
        films["small disk"] = second.film
    FILE.write_bytes(lzma.compress(json.dumps(films).encode()))


if __name__ == "__main__":
    main()
