"""The subscribers that are measured: PostgreSQL's own, and this program with each kind of target.

::

    measure ──▶ Subscriber ─┬─ Native                    PostgreSQL's own subscription
                            └─ Remote ══pipe══▶ Ours     a process of its own: supervisor, warm Spark

Every target has a process of its own, so that its memory and processor time are its own, and so
that a target that hangs can be ended without an effect on the others. The process lives as long as
one workload is measured.

All moments are values of the monotonic clock, which is the same in all processes of a machine. They
are taken by the subscriber, so that the pipe takes no part in them.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg
import sqlalchemy as sa

from benchmarks.process_watch import descendants
from benchmarks.workloads import CARRIER, Workload
from subscriber.base.background import in_background
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.own_tables import SUBSCRIPTION_REL
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.migrate.check_migration import Migration, check_migration
from subscriber.operate.page_sources import PageSources
from subscriber.operate.serve_run import serve_run
from subscriber.spark.session import starting_spark
from subscriber.spark.spark_functions import functions_on
from subscriber.targets import Target, open_target
from subscriber.testing.servers.open_servers import PostgreSQL
from subscriber.verify.verify_subscription import verify_subscription
from subscriber.worker import RECEIVER_MODULE
from subscriber.worker.heartbeat import beating
from subscriber.worker.read_status import subscription_statuses
from subscriber.worker.supervisor import Supervisor

Row = tuple[Any, ...]

_START_SECONDS: Final = 120.0
_END_SECONDS: Final = 60.0
_SCRAPE_SECONDS: Final = 10.0
_TABLES_A_TRANSACTION: Final = 500
WATCHED: Final = "-http"
"""The end of a target's name whose run has a page open and is scraped, as in ``sqlite-http``."""
_LOOK_SECONDS: Final = 0.002
_POLL_SECONDS: Final = 0.02
"""How often a target is asked for a value. A query takes up to a millisecond of the process that
applies; the query of native is another server's.
"""


class Subscriber(Protocol):
    """A subscriber with at most one workload, and its subscriptions."""

    def pid(self) -> int | None:
        """Its main process; None if that is the target's server."""

    def subscribe(self, conninfo: str, workload: Workload) -> None:
        """Create the tables and the subscriptions of a workload, disabled."""

    def unsubscribe(self) -> None:
        """Drop the disabled subscriptions and their tables."""

    def enable(self) -> float:
        """ENABLE. Returns the moment before the command."""

    def disable(self) -> None:
        """DISABLE, and wait until nothing is applied any more."""

    def await_value(self, query: str, value: int, limit: float) -> float:
        """Wait until a query's value is at least ``value``; returns the moment when it was.

        Raises:
            TimeoutError: it was not within ``limit`` seconds.
        """

    def await_ready(self, limit: float) -> float:
        """Wait until every table is ready (state ``r``); returns the moment when it was.

        Raises:
            TimeoutError: it was not within ``limit`` seconds.
        """

    def arrivals(self, query: str, value: int, limit: float) -> list[tuple[int, float]]:
        """The values that a growing query had until it was ``value``, and when each was first seen.

        Raises:
            TimeoutError: it was not ``value`` within ``limit`` seconds.
        """

    def rows(self, query: str) -> list[Row]:
        """The rows of a query. Their numbers are integers."""

    def abandon(self) -> None:
        """Let it use no more processor time, whatever it is doing."""


class Native:
    """PostgreSQL's own subscription, in a database of a server."""

    def __init__(self, server: PostgreSQL, database: str) -> None:
        server.create_database(database)
        self._connection = psycopg.connect(server.conninfo(database), autocommit=True)
        self._workload: Workload | None = None

    def pid(self) -> None:
        """See :meth:`Subscriber.pid`."""

    def subscribe(self, conninfo: str, workload: Workload) -> None:
        """See :meth:`Subscriber.subscribe`."""
        self._workload = workload
        for statement in workload.tables_to_create():
            self._execute(statement)
        for number, (name, publication) in enumerate(workload.subscribed(), 1):
            self._execute(
                f"CREATE SUBSCRIPTION {name} CONNECTION '{conninfo}' PUBLICATION {publication}"
                f" WITH (enabled = false, slot_name = native_{number})"
            )

    def unsubscribe(self) -> None:
        """See :meth:`Subscriber.unsubscribe`."""
        self._of_each("DROP SUBSCRIPTION {}")
        assert self._workload is not None
        for name in (*self._workload.table_names, *self._workload.marker_tables):
            self._execute(f"DROP TABLE {name}")

    def enable(self) -> float:
        """See :meth:`Subscriber.enable`."""
        began = time.monotonic()
        self._of_each("ALTER SUBSCRIPTION {} ENABLE")
        return began

    def disable(self) -> None:
        """See :meth:`Subscriber.disable`."""
        self.abandon()
        workers = "SELECT 1 - sign(count(*)) FROM pg_stat_subscription WHERE pid IS NOT NULL"
        self.await_value(workers, 1, _END_SECONDS)

    def await_value(self, query: str, value: int, limit: float) -> float:
        """See :meth:`Subscriber.await_value`."""
        return wait(lambda: int(self.row(query)[0]) >= value, limit, 0.005)

    def await_ready(self, limit: float) -> float:
        """See :meth:`Subscriber.await_ready`."""
        return wait(lambda: self.row("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel") == (1,), limit)

    def arrivals(self, query: str, value: int, limit: float) -> list[tuple[int, float]]:
        """See :meth:`Subscriber.arrivals`."""
        return seen_values(lambda: int(self.row(query)[0]), value, limit, 0.0005)

    def row(self, query: str) -> Row:
        """The only row of a query."""
        return self.rows(query)[0]

    def rows(self, query: str) -> list[Row]:
        """See :meth:`Subscriber.rows`."""
        return [integers(row) for row in self._connection.execute(query.encode())]

    def abandon(self) -> None:
        """See :meth:`Subscriber.abandon`."""
        self._of_each("ALTER SUBSCRIPTION {} DISABLE")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _of_each(self, command: str) -> None:
        for name, _ in self._workload.subscribed() if self._workload else ():
            self._execute(command.format(name))

    def _execute(self, sql: str) -> None:
        self._connection.execute(sql.encode())


class Ours:
    """This program: commands as in ``subscriber sql``, a supervisor as in ``subscriber run``."""

    def __init__(self, target: Target, settings: Settings, supervisor: Supervisor, name: str) -> None:
        self._name = name
        self._target = target
        self._settings = settings
        self._supervisor = supervisor
        self._workload: Workload | None = None
        # Every look at DuckDB opens a connection: fifty in a second take a tenth of a core.
        self._poll, self._poll_of_value = (
            (0.02, 0.1) if target.engine.dialect.name == "duckdb" else (0.005, _POLL_SECONDS)
        )

    def pid(self) -> int:
        """See :meth:`Subscriber.pid`."""
        return os.getpid()

    def subscribe(self, conninfo: str, workload: Workload) -> None:
        """See :meth:`Subscriber.subscribe`. The tables have the publisher's columns."""
        self._workload = workload
        for statement in workload.emulated_publications():
            self._run(statement, conninfo)
        carrier = f", carrier = '{CARRIER}'" if workload.filter else ""
        for number, (name, publication) in enumerate(workload.subscribed(), 1):
            self._run(
                f"CREATE SUBSCRIPTION {name} CONNECTION '{conninfo}' PUBLICATION {publication}"
                f" WITH (enabled = false, create_tables = true, slot_name = ours_{self._name}_{number}{carrier})"
            )

    def unsubscribe(self) -> None:
        """See :meth:`Subscriber.unsubscribe`."""
        with self._target.engine.connect() as connection:
            copied = connection.execute(sa.select(SUBSCRIPTION_REL.c.srrelname)).scalars().all()
        self.drop()
        # A write transaction of a PostgreSQL target has an empty search path.
        schema = "public." if self._target.capabilities.postgresql_text else ""
        for first in range(0, len(copied), _TABLES_A_TRANSACTION):
            with self._target.begin() as connection:
                for name in copied[first : first + _TABLES_A_TRANSACTION]:
                    connection.exec_driver_sql(f"DROP TABLE {schema}{name}")

    def drop(self) -> None:
        """Drop the disabled subscriptions."""
        self._of_each("DROP SUBSCRIPTION {}")

    def enable(self) -> float:
        """See :meth:`Subscriber.enable`."""
        began = time.monotonic()
        self._of_each("ALTER SUBSCRIPTION {} ENABLE")
        return began

    def disable(self) -> None:
        """See :meth:`Subscriber.disable`."""
        self._of_each("ALTER SUBSCRIPTION {} DISABLE")
        wait(lambda: not self._supervisor.workers, _END_SECONDS)

    def await_value(self, query: str, value: int, limit: float) -> float:
        """See :meth:`Subscriber.await_value`."""
        return wait(lambda: self.row(query)[0] >= value, limit, self._poll_of_value)

    def await_ready(self, limit: float) -> float:
        """See :meth:`Subscriber.await_ready`."""
        unready = "SELECT count(*) FROM subscriber_subscription_rel WHERE srsubstate <> 'r'"
        return wait(lambda: self.row(unready) == (0,), limit)

    def arrivals(self, query: str, value: int, limit: float) -> list[tuple[int, float]]:
        """See :meth:`Subscriber.arrivals`."""
        return seen_values(lambda: int(self.row(query)[0]), value, limit, self._poll)

    def row(self, query: str) -> Row:
        """The only row of a query."""
        return self.rows(query)[0]

    def rows(self, query: str) -> list[Row]:
        """See :meth:`Subscriber.rows`."""
        with self._target.engine.connect() as connection:
            found = connection.execution_options(no_parameters=True).exec_driver_sql(query)
            return [integers(row) for row in found]

    def check(self, conninfo: str) -> None:
        """What ``subscriber check`` does for the publication ``p``."""
        options = SubscriptionOptions(create_tables=True)
        for _ in check_migration(self._target, Migration(conninfo, ("p",), options), self._settings):
            pass

    def status(self) -> None:
        """What ``subscriber status`` does."""
        assert subscription_statuses(self._target, self._settings)

    def verify(self) -> None:
        """What ``subscriber verify`` does; every table must be equal."""
        assert verify_subscription(self._target, "bench", self._settings).is_equal

    def _of_each(self, command: str) -> None:
        for name, _ in self._workload.subscribed() if self._workload else ():
            self._run(command.format(name))

    def _run(self, sql: str, publisher: str | None = None) -> None:
        command = parse(sql)
        assert not isinstance(command, Query)
        run_command(self._target, command, self._settings, lambda _: None, publisher)


@contextlib.contextmanager
def ours(url: str, folder: Path, name: str, *, is_watched: bool) -> Iterator[Ours]:
    """This program with a target that is an empty database. The journal is in ``folder``.
    ``is_watched``: with its HTTP server, a page that is open, and a scrape every ten seconds.
    """
    settings = Settings.from_environment({**os.environ, "SUBSCRIBER_JOURNAL": str(folder / "journal")})
    stop = threading.Event()
    with (
        open_target(url) as target,
        target.running(),
        starting_spark("local[*]", folder / "spark.log", [RECEIVER_MODULE]) as spark,
    ):
        ensure_catalog(target.engine)
        spark.session()  # the run is warm
        supervisor = Supervisor(target, functions_on(spark), settings, once=False)
        thread = threading.Thread(target=supervisor.run, args=(stop,), daemon=True)
        thread.start()
        try:
            with (
                beating(target, lambda: supervisor.busy_since, partial(supervisor.snapshots, look=False)),
                watching(supervisor, target, settings) if is_watched else contextlib.nullcontext(),
            ):
                yield Ours(target, settings, supervisor, name)
        finally:
            stop.set()
            thread.join(_END_SECONDS)


@contextlib.contextmanager
def watching(supervisor: Supervisor, target: Target, settings: Settings) -> Iterator[None]:
    """Serve the run, with a page that is open and a Prometheus that scrapes it."""
    with contextlib.ExitStack() as stack:
        sources = PageSources(target, settings)
        port = stack.enter_context(serve_run(supervisor, sources, address=("127.0.0.1", 0), token=None))

        def look() -> None:
            """Read what the open page is sent, until the server ends."""
            with (
                contextlib.suppress(OSError, http.client.HTTPException),
                urllib.request.urlopen(f"http://127.0.0.1:{port}/events") as events,
            ):
                for _ in events:
                    pass

        threading.Thread(target=look, daemon=True).start()

        def scrape(end: threading.Event) -> None:
            while not end.wait(_SCRAPE_SECONDS):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read()

        stack.enter_context(in_background("scrapes", scrape, _END_SECONDS))
        yield


class Remote:
    """A subscriber in another process. Its methods are those of :class:`Subscriber`; an error of
    theirs is raised here. A method that takes longer than ``limit`` seconds, although it has a
    limit of its own, ends the process and raises TimeoutError.
    """

    def __init__(self, url: str, limit: float, name: str, *, is_watched: bool = False) -> None:
        self._limit = limit + _START_SECONDS
        self._url = url
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, url, name, is_watched))
        self._process.start()
        there.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments: self._ask(name, *arguments)

    def arrivals(self, query: str, value: int, limit: float) -> list[tuple[int, float]]:
        """See :meth:`Subscriber.arrivals`. This process looks, so that its queries take none of the
        program's processor time; but only one process may open DuckDB's file.
        """
        if sa.make_url(self._url).get_backend_name() == "duckdb":
            seen: list[tuple[int, float]] = self._ask("arrivals", query, value, limit)
            return seen
        with open_target(self._url) as target:

            def look() -> int:
                with target.engine.connect() as connection:
                    return int(connection.exec_driver_sql(query).scalar_one())

            return seen_values(look, value, limit, _LOOK_SECONDS)

    def close(self) -> None:
        """End the process; in order, if it answers."""
        with contextlib.suppress(OSError, EOFError):
            self._pipe.send(None)
        self._process.join(_END_SECONDS)
        self.abandon()

    def abandon(self) -> None:
        """End the process and its descendants at once."""
        for pid in descendants({self._process.pid or 0: ""}) if self._process.is_alive() else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.join()

    def _ask(self, name: str, *arguments: object) -> Any:
        self._pipe.send((name, arguments))
        if not self._pipe.poll(self._limit):
            self.abandon()
            raise TimeoutError(f"{name} did not answer within {self._limit:.0f} s")
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(pipe: Connection, url: str, name: str, is_watched: bool) -> None:
    """What the process of a :class:`Remote` does."""
    logging.basicConfig(level=logging.ERROR)
    with (
        tempfile.TemporaryDirectory(prefix="subscriber-bench-", ignore_cleanup_errors=True) as folder,
        ours(url, Path(folder), name, is_watched=is_watched) as subscriber,
    ):
        while (request := pipe.recv()) is not None:
            method, arguments = request
            try:
                pipe.send(getattr(subscriber, method)(*arguments))
            except TimeoutError as error:
                pipe.send(error)
            except Exception as error:  # whatever a target raises is a result of the measurement
                pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))
    # Everything is closed. DuckDB's module would print at the end what Python has not freed.
    os._exit(0)


def wait(condition: Callable[[], bool], limit: float, poll: float = 0.05) -> float:
    """Wait until a condition holds; returns the moment when it did.

    Raises:
        TimeoutError: it did not within ``limit`` seconds.
    """
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"did not finish within {limit:.0f} s")
        time.sleep(poll)
    return time.monotonic()


def seen_values(look: Callable[[], int], value: int, limit: float, poll: float) -> list[tuple[int, float]]:
    """The values that ``look`` returned until one was ``value``, and when each was first seen.

    Raises:
        TimeoutError: it was not ``value`` within ``limit`` seconds.
    """
    deadline = time.monotonic() + limit
    seen: list[tuple[int, float]] = []
    while not seen or seen[-1][0] < value:
        found, now = look(), time.monotonic()
        if not seen or found > seen[-1][0]:
            seen.append((found, now))
        if now > deadline:
            raise TimeoutError(f"did not finish within {limit:.0f} s")
        time.sleep(poll)
    return seen


def integers(row: Any) -> Row:
    """A row with integers: sums are decimals in some databases."""
    return tuple(None if value is None else int(value) for value in row)
