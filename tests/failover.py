"""A primary and a physical standby, set up for the failover of logical slots (PostgreSQL 18).

::

    with Pair() as pair:                two servers; the standby synchronizes the slots
        pair.create_database("shop")    and everything else that a PostgreSQL of tests can
        pair.conninfo("shop")           both hosts, and target_session_attrs=primary
        pair.wait_until_ready("slot")   the standby could take the slot over now
        pair.kill_primary()             SIGKILL
        pair.promote()                  the standby becomes the primary
        pair.rejoin()                   the old primary gets a new copy, as a standby
        pair.primary, pair.standby      the servers in their roles of now

`Pair` is a `PostgreSQL`, so ``replicating(pair, …)`` of tests/crash and ``Load(…)`` of the harness
work with it. Parameters of `conninfo` override those of libpq: ``target_session_attrs="any"``. The
first host is the one that was the primary at first, whatever the roles are now.

A planned switchover is :meth:`Pair.switch_over`. The old primary keeps its data, and with them a
slot that blocks the synchronization; ``leftovers=True`` leaves it there.

Each server has a physical slot at the other one, named after itself (``one``, ``two``). The primary
lists the slot in ``synchronized_standby_slots``, so nothing is sent to a subscriber that the
standby does not have.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import make_conninfo

from subscriber.testing.servers.open_servers import PostgreSQL, PostgreSQLServer
from subscriber.testing.servers.processes import GuardedProcesses, find_postgresql
from tests.conftest import server_or_skip

PATIENCE: Final = 60.0
_COPY_SECONDS: Final = 60.0

SETTINGS: Final = {
    "hot_standby_feedback": "on",
    "sync_replication_slots": "on",
    "wal_receiver_status_interval": "100ms",
    "wal_retrieve_retry_interval": "200ms",
}


class Node(PostgreSQLServer):
    """One of the two servers.

    Attributes:
        name: its name, which is also the name of its physical slot.
        source: the server whose data it begins with, as its standby; None for a new cluster.
    """

    def __init__(self, name: str, source: Node | None = None) -> None:
        super().__init__(find_postgresql(18), SETTINGS)
        self.name = name
        self.source = source

    def follow(self, primary: Node) -> None:
        """Be a standby of ``primary`` from the next start on, with the data that is there."""
        self.settings |= {
            "primary_conninfo": primary.conninfo("postgres", application_name=self.name),
            "primary_slot_name": self.name,
            "synchronized_standby_slots": "",
        }
        signal_file = self.data_directory / "standby.signal"
        signal_file.touch()
        self._prepared().hand_over(signal_file)

    def sigkill(self) -> None:
        """Send SIGKILL to the server, as the kernel does when memory is exhausted."""
        os.kill(int((self.data_directory / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        self._prepared().wait(PATIENCE)

    def log(self) -> str:
        """What the server has logged since it was created."""
        return self._prepared().log.read_text(errors="replace")

    def _initialise(self, processes: GuardedProcesses) -> None:
        if self.source is None:
            super()._initialise(processes)
            return
        data = processes.directory / "data"
        copy: list[str | Path] = [self.bin / "pg_basebackup", "-D", data, "-d", self.source.conninfo(), "-c", "fast"]
        assert processes.run(copy, _COPY_SECONDS) == 0, processes.last_lines()
        self.follow(self.source)


class Pair(PostgreSQL):
    """A primary and its standby; see the module.

    Attributes:
        primary: the server that is the primary now, or was until it was stopped.
        standby: the other one.
    """

    def __init__(self) -> None:
        self.primary = Node("one")
        self.standby = Node("two")
        super().__init__("", self.primary.major)

    def __enter__(self) -> Pair:
        self.primary.start()
        self._join(self.standby)
        # A host of the connection string keeps its place when the roles change.
        servers = (self.primary, self.standby)
        self._parameters = {
            "host": "127.0.0.1,127.0.0.1",
            "port": ",".join(str(server.port) for server in servers),
            "user": "postgres",
            "target_session_attrs": "primary",
        }
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop both servers and remove their data."""
        for server in (self.standby, self.primary):
            server.close()

    def start(self) -> None:
        """Start the primary if it is not running."""
        self.primary.start()

    def kill_primary(self) -> None:
        """Kill the primary with SIGKILL."""
        self.primary.sigkill()

    def promote(self) -> None:
        """Make the standby the primary, and the other server the one that is to become a
        standby.
        """
        self.standby.execute("SELECT pg_promote()")
        self.primary, self.standby = self.standby, self.primary

    def switch_over(self, *, leftovers: bool = False) -> None:
        """Stop the primary in order, promote the standby, and let the old primary follow it with
        its own data.
        """
        self.primary.stop()
        self.promote()
        self._make_slot(self.standby.name)
        self.standby.follow(self.primary)
        self.standby.start()
        if not leftovers:
            self.drop_leftovers()

    def drop_leftovers(self) -> None:
        """Drop the slots of the standby that it had as a primary."""
        self.standby.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT synced AND NOT active"
        )

    def rejoin(self, *, synchronize: bool = True) -> None:
        """Give the old primary a new copy of the primary's data, and start it as a standby, which
        synchronizes the slots or does not.
        """
        self.standby.close()
        self.standby.settings["sync_replication_slots"] = "on" if synchronize else "off"
        self._join(self.standby)

    def is_ready(self, slot: str) -> bool:
        """Return whether the standby could take the slot over, by the condition of PostgreSQL's
        manual. A slot becomes permanent at the standby when the primary's has moved, which needs
        WAL to decode.
        """
        ready = (
            "SELECT synced AND NOT temporary AND invalidation_reason IS NULL FROM pg_replication_slots"
            f" WHERE slot_name = '{slot}'"
        )
        if self.standby.execute(ready) == [(True,)]:
            return True
        self.primary.execute("SELECT pg_log_standby_snapshot()")
        return False

    def wait_until_ready(self, slot: str, *, confirm_in: str | None = None) -> None:
        """Wait until :meth:`is_ready`.

        A slot that nobody receives from stays behind. ``confirm_in`` is its database if this
        method is to confirm everything, as a receiver does.
        """
        deadline = time.monotonic() + PATIENCE
        while not self.is_ready(slot):
            if confirm_in is not None:
                self.confirm(slot, confirm_in)
            assert time.monotonic() < deadline, self.standby.execute("SELECT * FROM pg_replication_slots")
            time.sleep(0.1)

    def confirm(self, slot: str, dbname: str) -> None:
        """Confirm everything that the primary has written, as a receiver does."""
        self.primary.execute("SELECT pg_log_standby_snapshot()")
        self.primary.execute(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_flush_lsn())", dbname)

    def wait_until_caught_up(self) -> None:
        """Wait until the standby has replayed everything that the primary has written by now."""
        ((end,),) = self.primary.execute("SELECT pg_current_wal_flush_lsn()::text")
        deadline = time.monotonic() + PATIENCE
        while self.standby.execute(f"SELECT pg_last_wal_replay_lsn() >= '{end}'") != [(True,)]:
            assert time.monotonic() < deadline, f"the standby has not reached {end}"
            time.sleep(0.05)

    @contextlib.contextmanager
    def lagging(self) -> Iterator[None]:
        """Inside the block the standby receives no WAL, but stays connected."""
        ((receiver,),) = self.standby.execute("SELECT pid FROM pg_stat_wal_receiver")
        os.kill(receiver, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(receiver, signal.SIGCONT)

    def _join(self, server: Node) -> None:
        """Start a server without data as a standby of the primary."""
        self._make_slot(server.name)
        server.source = self.primary
        server.start()

    def _make_slot(self, name: str) -> None:
        """Let the primary keep WAL for a standby, and send nothing that the standby does not
        have.
        """
        with contextlib.suppress(psycopg.errors.DuplicateObject):
            self.primary.execute(f"SELECT pg_create_physical_replication_slot('{name}', true)")
        self.primary.reload({"synchronized_standby_slots": name})


@contextlib.contextmanager
def pair_or_skip() -> Iterator[Pair]:
    """A started pair; the test is skipped where PostgreSQL 18 is not installed."""
    with server_or_skip(Pair) as pair:
        yield pair


def at(server: PostgreSQLServer, dbname: str, **parameters: str) -> str:
    """The connection string of one server alone, without its port in a list."""
    return make_conninfo(server.conninfo(dbname), **parameters)
