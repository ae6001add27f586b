"""A whole replication for tests: a publisher under load, ``subscriber run`` as a subprocess, and a
comparison of both sides.

::

    Load (thread) ──SQL──▶ publisher ──▶ Runner: subscriber run ──▶ target
         │                     └──────────────┬─────────────────────┘
         └─ pause                    compare_tables: row by row

A :class:`Runner` marks what it starts with an environment variable of its own, which every
descendant inherits: so a test can see in /proc that nothing was left behind, whoever the parent is
by then.

:class:`Failpoints` arms every failpoint at the start and keeps each one locked by its once-file:
removing the file lets it fire the next time it is passed, and its return tells that it has.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from subscriber.base.failpoints import ENVIRONMENT as FAILPOINTS_VARIABLE
from subscriber.base.failpoints import FAILPOINTS
from subscriber.base.lsn import LSN, parse_lsn
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.targets import open_target
from subscriber.verify.compare_tables import TableComparison, compare_tables
from subscriber.worker import RECEIVER_NAME
from tests.commands import run_command
from tests.sockets import sockets

PATIENCE = 120.0
"""Seconds to wait for a condition on a busy machine."""

COMMAND = [sys.executable, "-c", "from subscriber.cli import main; main()"]
TAG = "SUBSCRIBER_TEST_TAG"


def wait_until(
    condition: Callable[[], Any], what: str, patience: float = PATIENCE, *, runner: Runner | None = None
) -> Any:
    """Wait until ``condition`` returns something true, and return that; fail with ``what`` after a
    timeout, and with the end of the log of ``runner``.
    """
    deadline = time.monotonic() + patience
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:g} s for: {what}\n{runner.said()[-3000:] if runner else ''}")
        time.sleep(0.05)


# Running ------------------------------------------------------------------------------------------


@dataclass
class Runner:
    """``subscriber`` as a user starts it, with a separate journal, temporary folder and log below
    ``folder``.

    Attributes:
        target: SQLAlchemy's URL.
        folder: a directory of this runner's.
        environment: over the test's own.
        journal: where the journal is.
        tag: what marks its processes.
    """

    target: str
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    tag: str = field(default_factory=lambda: uuid.uuid4().hex)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.temporary.mkdir(parents=True, exist_ok=True)

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def log(self) -> Path:
        return self.folder / "run.log"

    def environ(self) -> dict[str, str]:
        return {
            **os.environ,
            "SUBSCRIBER_TARGET": self.target,
            "SUBSCRIBER_JOURNAL": str(self.journal),
            "SUBSCRIBER_WAL_RETRIEVE_RETRY_INTERVAL": "500ms",
            "SUBSCRIBER_WAL_RECEIVER_STATUS_INTERVAL": "1s",
            "TMPDIR": str(self.temporary),
            TAG: self.tag,
            **self.environment,
        }

    def call(self, *arguments: str, timeout: float = PATIENCE, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end. Only ``run`` needs a new interpreter and Spark."""
        environment = {**self.environ(), **variables}
        if arguments[0] != "run":
            return run_command(arguments, environment, self.folder, timeout)
        return subprocess.run(
            [*COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=timeout
        )

    def sql(self, statement: str) -> str:
        """Run ``subscriber sql -c``, which must succeed; returns its output."""
        answer = self.call("sql", "-c", statement)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def status(self) -> dict[str, dict[str, Any]]:
        """The output of ``subscriber status --json``, by subscription."""
        answer = self.call("status", "--json")
        assert answer.returncode == 0, answer.stderr
        return {one["name"]: one for one in json.loads(answer.stdout)}

    def once(self) -> subprocess.CompletedProcess[str]:
        """Run ``subscriber run --once``."""
        return self.call("run", "--once", "--master", "local[2]")

    def start(self, master: str = "local[2]", *options: str) -> None:
        """Start ``subscriber run`` in a separate process group, as a terminal does."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "run", "--master", master, *options],
                env=self.environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def restart_if_dead(self) -> None:
        """Start the run again if it has ended, as systemd does."""
        if not self.running:
            self.start()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def interrupt(self) -> int:
        """Send SIGINT to the process group, as Ctrl-C does; returns the exit code."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(PATIENCE)

    def terminate(self, *, everybody: bool = False) -> int:
        """Send SIGTERM as systemd does, either to the supervisor only (KillMode=mixed) or to all
        processes (the default); returns the exit code.
        """
        assert self.process is not None
        for pid in self.processes() if everybody else [self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def java(self) -> int:
        """The process ID of Spark's Java process."""
        (pid,) = (pid for pid in self.processes() if executable(pid).endswith("/java"))
        return pid

    def kill(self) -> None:
        """Send SIGKILL to the supervisor only."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def processes(self) -> dict[int, str]:
        """Every live process that descends from this runner, whatever its parent is now: process ID
        → command line.
        """
        found = {}
        mark = f"{TAG}={self.tag}".encode()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100]
        return found

    def walreceivers(self) -> list[int]:
        """The walreceivers that are connected to the publisher."""
        return [pid for pid in self.processes() if name_of(pid) == RECEIVER_NAME and sockets(pid)]

    def close(self) -> None:
        """Stop all processes, by SIGTERM if possible."""
        if self.running:
            assert self.process is not None
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
        if self.running:
            self.kill()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def said(self) -> str:
        """The log of the processes that ``start`` has started."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def name_of(pid: int) -> str:
    """The name of a process; empty if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def log_grows_by(runner: Runner, text: str) -> Callable[[], None]:
    """Return a function that waits until the run has logged ``text`` once more than now."""
    before = runner.said().count(text)

    def wait() -> None:
        wait_until(lambda: runner.said().count(text) > before, f"the log to say: {text}", runner=runner)

    return wait


@dataclass
class Failpoints:
    """Every failpoint; one fires only while its file does not exist
    (:mod:`subscriber.base.failpoints`).
    """

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in FAILPOINTS:
            self._file(name).touch()

    def environment(self, *, full_disk: bool = False) -> dict[str, str]:
        """The variable that arms the failpoints: all kill, or the first one of the journal
        simulates a full disk.
        """
        actions = dict.fromkeys(sorted(FAILPOINTS), "kill")
        if full_disk:
            actions["journal.sync.before"] = "enospc"
        return {FAILPOINTS_VARIABLE: ",".join(f"{name}={do}:{self._file(name)}" for name, do in actions.items())}

    def unlock(self, name: str) -> None:
        self._file(name).unlink()

    def lock(self, name: str) -> None:
        self._file(name).touch()

    def fired(self, name: str) -> bool:
        return self._file(name).exists()

    def _file(self, name: str) -> Path:
        return self.folder / name


class Locked:
    """Another process that holds an exclusive lock on the SQLite file."""

    def __init__(self, database: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _HOLD_LOCK, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Locked:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "locked\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


_HOLD_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
"""


# What a process uses ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Usage:
    """The resources of a process; memory in bytes, now and at its peak."""

    threads: int
    descriptors: int
    memory: int
    highest_memory: int


def executable(pid: int) -> str:
    """The path of the program that the process runs; empty if the process has ended."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def usage(pid: int) -> Usage:
    process = Path(f"/proc/{pid}")
    pages = int((process / "statm").read_text().split()[1])
    (highest,) = (line for line in (process / "status").read_text().splitlines() if line.startswith("VmHWM:"))
    return Usage(
        threads=len(os.listdir(process / "task")),
        descriptors=len(os.listdir(process / "fd")),
        memory=pages * os.sysconf("SC_PAGE_SIZE"),
        highest_memory=int(highest.split()[1]) * 1024,
    )


# Tables and load ----------------------------------------------------------------------------------

PUBLISHER_TABLES = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, amount numeric(12,2), created timestamptz);
CREATE TABLE order_lines (order_id bigint, line int, sku text, quantity int, PRIMARY KEY (order_id, line));
CREATE TABLE readings (sensor int, value float8, label text);
ALTER TABLE readings REPLICA IDENTITY FULL;
CREATE TABLE documents (id int PRIMARY KEY, title text, body text);
ALTER TABLE documents ALTER body SET STORAGE EXTERNAL;
CREATE TABLE audit (at int, what text);
CREATE PUBLICATION everything FOR TABLE orders, order_lines, readings, documents;
CREATE PUBLICATION appended FOR TABLE audit WITH (publish = 'insert');
"""

SQLITE_TABLES = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, amount numeric_text, created timestamptz_text);
CREATE TABLE order_lines (order_id bigint, line int, sku text, quantity int, PRIMARY KEY (order_id, line));
CREATE TABLE readings (sensor int, value real, label text);
CREATE TABLE documents (id int PRIMARY KEY, title text, body text);
CREATE TABLE audit (at int, what text);
"""

TABLES = ("public.orders", "public.order_lines", "public.readings", "public.documents", "public.audit")
PUBLICATIONS = "everything, appended"


class Load:
    """A thread that writes at a limited rate, from a seed, until it is stopped. It waits for a
    publisher that is not available.

    ``with Load(conninfo, seed): …`` runs it; :meth:`paused` holds it between two transactions. A
    transaction whose commit was not answered may have happened or not: the publisher's tables are
    the truth, not this thread's memory. ``pause`` is the seconds between two transactions.
    """

    def __init__(self, conninfo: str, seed: int, pause: float = 0.01) -> None:
        self.transactions = 0
        self.error: BaseException | None = None
        self._conninfo = conninfo
        self._pause = pause
        self._random = random.Random(seed)
        self._next = 1
        self._ending = threading.Event()
        self._may_write = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        assert self.error is None, self.error

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the load inside the block, with no open transaction."""
        with self._may_write:
            yield

    def wait_for_transactions(self, count: int) -> None:
        """Wait until so many further transactions have committed."""
        wanted = self.transactions + count
        wait_until(lambda: self.transactions >= wanted, f"{count} transactions of the load")

    @property
    def next_order(self) -> int:
        """The number of the next order."""
        return self._next

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                with contextlib.suppress(psycopg.OperationalError), self._connect() as connection:
                    self._write(connection)
                self._ending.wait(0.1)
        except BaseException as error:  # the owner of the thread raises it
            self.error = error

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._conninfo, autocommit=True, connect_timeout=5)

    def _write(self, connection: psycopg.Connection[Any]) -> None:
        """Write one transaction; the eighth of every sixty is large enough to be streamed."""
        choices = (self._insert, self._insert, self._update, self._move, self._readings, self._document, self._delete)
        while not self._ending.is_set():
            with self._may_write, connection.transaction():
                number = self.transactions % 60
                if number == 7:
                    self._streamed(connection)
                elif number == 31:
                    connection.execute(self._random.choice(["TRUNCATE order_lines", "TRUNCATE readings, order_lines"]))
                else:
                    self._random.choice(choices)(connection)
                connection.execute("INSERT INTO audit VALUES (%s, 'transaction')", (self.transactions,))
            self.transactions += 1
            self._ending.wait(self._pause)

    def _some_id(self) -> int:
        return self._random.randrange(max(1, self._next - 200), self._next + 1)

    def _insert(self, connection: psycopg.Connection[Any]) -> None:
        for _ in range(self._random.randint(1, 5)):
            connection.execute(
                "INSERT INTO orders VALUES (%s, %s, %s, now()) ON CONFLICT DO NOTHING",
                (self._next, f"customer {self._random.randrange(50)}", self._random.choice([None, "12.50", "0.00"])),
            )
            connection.execute(
                "INSERT INTO order_lines SELECT %s, n, 'sku ' || n, n FROM generate_series(1, 3) n ON CONFLICT DO NOTHING",
                (self._next,),
            )
            self._next += 1

    def _update(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            "UPDATE orders SET amount = coalesce(amount, 0) + 1.25, customer = customer || '!' WHERE id = %s",
            (self._some_id(),),
        )

    def _move(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            "UPDATE orders SET id = -id WHERE id = %s AND NOT EXISTS (SELECT FROM orders WHERE id = %s)",
            (one := self._some_id(), -one),
        )
        connection.execute("UPDATE order_lines SET line = line + 10 WHERE order_id = %s AND line < 10", (one,))

    def _readings(self, connection: psycopg.Connection[Any]) -> None:
        sensor = self._random.randrange(4)
        # Insert the same row twice, then change one of the two.
        for _ in range(2):
            connection.execute("INSERT INTO readings VALUES (%s, %s, NULL)", (sensor, sensor / 7))
        chosen = "WHERE ctid = (SELECT max(ctid) FROM readings WHERE sensor = %s)"
        connection.execute(f"UPDATE readings SET label = 'seen' {chosen}", (sensor,))
        connection.execute(f"DELETE FROM readings {chosen}", (self._random.randrange(4),))

    def _document(self, connection: psycopg.Connection[Any]) -> None:
        number = self._random.randrange(20)
        connection.execute(
            "INSERT INTO documents VALUES (%s, 'new', repeat(md5(%s), 300)) ON CONFLICT (id)"
            " DO UPDATE SET title = 'revised ' || documents.id",
            (number, str(self.transactions)),
        )

    def _delete(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("DELETE FROM orders WHERE id = %s", (self._some_id(),))
        connection.execute("DELETE FROM documents WHERE id = %s", (self._random.randrange(20),))

    def _streamed(self, connection: psycopg.Connection[Any]) -> None:
        many = "INSERT INTO order_lines SELECT -%s, n, repeat('s', 40), n FROM generate_series(%s::int, %s::int) n"
        first = self._next
        self._next += 1
        connection.execute(many, (first, 1, 800))
        with contextlib.suppress(_Undo), connection.transaction():
            connection.execute(many, (first, 801, 1600))
            connection.execute("UPDATE orders SET customer = 'never'")
            raise _Undo
        connection.execute("UPDATE order_lines SET quantity = 0 WHERE order_id = -%s AND line %% 3 = 0", (first,))
        connection.execute("DELETE FROM order_lines WHERE order_id < 0 AND order_id <> -%s", (first,))


class _Undo(Exception):
    """Rolls back to a savepoint."""


# The judge ----------------------------------------------------------------------------------------


def barrier(conninfo: str) -> LSN:
    """A position that the progress of a subscription passes only after everything that is committed
    now.
    """
    with psycopg.connect(conninfo, autocommit=True) as connection:
        ((lsn,),) = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
        connection.execute("INSERT INTO audit VALUES (-1, 'barrier')")
    return parse_lsn(lsn)


def applied(database: Path, number: int = 1) -> LSN:
    """The progress in a SQLite target."""
    with contextlib.closing(sqlite3.connect(database, timeout=30)) as connection:
        row = connection.execute(
            "SELECT remote_lsn FROM subscriber_replication_origin_status WHERE external_id = ?", (f"pg_{number}",)
        ).fetchone()
    return parse_lsn(row[0])


def catch_up(conninfo: str, database: Path, runner: Runner, number: int = 1) -> None:
    """Wait until all that is committed by now is in the SQLite target; ``runner`` is started again
    when it is dead.

    ``number`` is the subscription's.
    """
    mark = barrier(conninfo)

    def passed() -> bool:
        runner.restart_if_dead()
        return applied(database, number) > mark

    wait_until(passed, f"the target to pass {mark:X}", runner=runner)


def differences(conninfo: str, target: str, tables: tuple[PublishedTable | str, ...] = TABLES) -> list[TableComparison]:
    """The tables that are not equal; a name without a schema is a table of schema public."""
    whole = [one if isinstance(one, PublishedTable) else PublishedTable(*qualified(one)) for one in tables]
    with open_target(target) as opened:
        return [one for one in compare_tables(conninfo, opened, whole) if not one.is_equal]


def qualified(name: str) -> tuple[str, str]:
    schema, dot, table = name.partition(".")
    return (schema, table) if dot else ("public", schema)
