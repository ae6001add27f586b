"""Measures workloads: all subscribers in the same run, one after the other.

::

    publisher ── database of the workload ──┬─ slot native ──▶ PostgreSQL's own subscription
                     one backlog            ├─ slot ours_sqlite ──▶ …
                                            └─ …                          enabled one at a time

Every subscriber has a slot of its own and applies the same backlog. In each run the next one
begins, so that a machine that becomes slower is not always slow for the same subscriber. A ratio is
the native subscriber's time of the run divided by the other's.

A subscriber that fails or does not finish is reported, and takes no further part in the workload.
The content of every table is compared with the publisher's after each run.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
from sqlalchemy import make_url

from benchmarks.flame_graphs import flame_graphs
from benchmarks.peers import PEERS, Peer
from benchmarks.process_watch import ProcessWatch, Usage, process_with
from benchmarks.subscribers import WATCHED, Native, Remote, Row, Subscriber, integers
from benchmarks.workloads import Workload
from subscriber.testing.servers.mariadb_server import PrivateServer
from subscriber.testing.servers.open_servers import (
    MariaDB,
    PostgreSQL,
    PostgreSQLServer,
    TargetServers,
    fresh_target,
    open_mariadb,
    open_postgresql,
    open_seekdb,
)

NATIVE: Final = "native"
SERVER_SETTINGS: Final = {
    # This is PostgreSQL's default. The 64kB of the tests would make both subscribers slower.
    "logical_decoding_work_mem": "64MB",
    "max_wal_size": "8GB",
    "shared_buffers": "256MB",
    # This is the default, too. Otherwise both subscribers look for rows that others have written.
    "track_commit_timestamp": "off",
    "autovacuum": "on",  # a default, which the servers of the tests do not have
    # For many tables, and for the slots and workers of many subscriptions of all subscribers.
    "max_locks_per_transaction": "512",
    "max_connections": "300",
    "max_wal_senders": "100",
    "max_replication_slots": "200",
    "max_active_replication_origins": "100",
    "max_worker_processes": "80",
    "max_logical_replication_workers": "64",
}
MARIADB_SETTINGS: Final = {"innodb-buffer-pool-size": "256M", "innodb-log-file-size": "1G"}
"""As much memory as PostgreSQL has, and a log that is not full during a run."""
_DATABASE: Final = "bench"
_QUIET_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one subscriber.

    Attributes:
        run: the number of the run, from 1.
        usage: time, memory and processor time.
        latencies: milliseconds from commit to visible, sorted; of kind ``latency`` only.
        idle_cores: processor load of the subscriber and the publisher while nothing happens; of
            kind ``latency`` only.
    """

    run: int
    usage: Usage
    latencies: tuple[float, ...] = ()
    idle_cores: float = 0.0


@dataclass(slots=True)
class Outcome:
    """What a subscriber has done in a workload.

    Attributes:
        samples: one for each run that finished.
        failure: why there are no further samples.
    """

    samples: list[Sample] = field(default_factory=list)
    failure: str | None = None


class Bench:
    """The servers, and the databases of the subscribers."""

    def __init__(
        self, stack: contextlib.ExitStack, limit: float, say: Callable[[str], None], graphs: Path | None
    ) -> None:
        self._stack = stack
        self._limit = limit
        self._graphs = graphs
        self._say = say
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="subscriber-bench-")))
        self._publisher = stack.enter_context(open_postgresql(18, SERVER_SETTINGS))
        self._subscriber_server = stack.enter_context(open_postgresql(18, SERVER_SETTINGS))
        self._mysql: dict[str, MariaDB] = {}

    def measure(self, workload: Workload, targets: Sequence[str], runs: int) -> dict[str, Outcome]:
        """Measure the native subscriber and each kind of target, ``runs`` times; see
        :attr:`Workload.slowness`.
        """
        runs = max(1, runs // workload.slowness)
        outcomes = {name: Outcome() for name in (NATIVE, *targets)}
        with contextlib.ExitStack() as stack:
            self._prepare(stack, workload)
            members: dict[str, _Member] = {}
            for number, name in enumerate(outcomes):
                with self._noting(outcomes, name, members):
                    members[name] = self._member(stack, name, workload)
                    self._warm(members[name].subscriber, workload, -len(outcomes) + number)
            self._execute(workload.filling())
            for run in range(1, runs + 1):
                expected = self._produce(workload, run)
                for name in rotated([name for name in members if outcomes[name].failure is None], run - 1):
                    with self._noting(outcomes, name, members):
                        sample = self._sample(workload, members[name], run, expected)
                        outcomes[name].samples.append(sample)
                        self._say(f"{workload.name} {name:10} run {run}  {_said(workload, sample)}")
        return outcomes

    @contextlib.contextmanager
    def _noting(self, outcomes: Mapping[str, Outcome], name: str, members: Mapping[str, _Member]) -> Iterator[None]:
        """Note a failure, end the subscriber, and go on."""
        try:
            yield
        except Exception as error:  # whatever a target raises is a result of the measurement
            outcomes[name].failure = f"{error}".partition("\n")[0] or type(error).__name__
            self._say(f"{name}: {error}")
            if name in members:
                members[name].subscriber.abandon()

    def _limit_of(self, workload: Workload) -> float:
        return self._limit * workload.slowness

    # The publisher --------------------------------------------------------------------------------

    def _prepare(self, stack: contextlib.ExitStack, workload: Workload) -> None:
        self._publisher.create_database(_DATABASE)
        stack.callback(self._publisher.drop_database, _DATABASE)
        self._execute(workload.preparation())

    def _execute(self, statements: Sequence[str]) -> None:
        with psycopg.connect(self._publisher.conninfo(_DATABASE), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _produce(self, workload: Workload, run: int) -> list[Row]:
        """Commit the backlog of a run and its marker; returns what the checks give."""
        if workload.kind == "stream":
            # The marker's commit flushes what these commits have not.
            with psycopg.connect(
                self._publisher.conninfo(_DATABASE, options="-c synchronous_commit=off"), autocommit=True
            ) as connection:
                connection.execute(workload.backlog(run).encode())
            self._publisher.execute(workload.marks(run), _DATABASE)
        self._publisher.execute("CHECKPOINT")  # not during a measurement
        return self._check(workload)

    def _check(self, workload: Workload) -> list[Row]:
        queries = workload.checks(published=True)
        return [integers(row) for query in queries for row in self._publisher.execute(query, _DATABASE)]

    # Subscribers ----------------------------------------------------------------------------------

    def _member(self, stack: contextlib.ExitStack, name: str, workload: Workload) -> _Member:
        roots = server_process(self._publisher, "publisher")
        if name == NATIVE:
            native = Native(self._subscriber_server, "native")
            stack.callback(self._subscriber_server.drop_database, "native")
            stack.callback(native.close)
            return _Member(name, native, roots | server_process(self._subscriber_server, "target"))
        if name in PEERS:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="subscriber-bench-")))
            peer = Peer(name, folder, copies=workload.kind == "copy")
            stack.callback(peer.abandon)
            return _Member(name, peer, roots)
        servers = TargetServers(
            lambda: self._subscriber_server,
            lambda: self._open("mariadb", partial(open_mariadb, MARIADB_SETTINGS)),
            lambda: self._open("seekdb", open_seekdb),
        )
        kind, identifier = name.removesuffix(WATCHED), name.replace("-", "_")
        fresh = stack.enter_context(fresh_target(kind, f"{_DATABASE}_{identifier}", self._folder, servers))
        remote = Remote(fresh.url, self._limit_of(workload), identifier, is_watched=kind != name)
        stack.callback(remote.close)
        if kind == "postgresql":
            roots |= server_process(self._subscriber_server, "target")
        elif kind in self._mysql:
            roots |= server_process(self._mysql[kind], "target")
        return _Member(name, remote, roots)

    def _open(self, kind: str, start: Callable[[], MariaDB]) -> MariaDB:
        if kind not in self._mysql:
            self._mysql[kind] = self._stack.enter_context(start())
        return self._mysql[kind]

    def _warm(self, subscriber: Subscriber, workload: Workload, number: int) -> None:
        """Copy the tables and apply one transaction, so that every process is warm."""
        subscriber.subscribe(self._publisher.conninfo(_DATABASE), workload)
        subscriber.enable()
        subscriber.await_ready(self._limit_of(workload))
        if workload.kind != "copy":
            self._publisher.execute(workload.marks(number), _DATABASE)
            subscriber.await_value(workload.marked(number), workload.subscriptions, self._limit_of(workload))
        subscriber.disable()
        if workload.kind == "copy":
            subscriber.unsubscribe()

    # Measurements ---------------------------------------------------------------------------------

    def _sample(self, workload: Workload, member: _Member, run: int, expected: Sequence[Row]) -> Sample:
        subscriber = member.subscriber
        if workload.kind == "latency":
            return self._latency(workload, member, run)
        if workload.kind == "copy":
            subscriber.subscribe(self._publisher.conninfo(_DATABASE), workload)
        name = f"{workload.name}-{member.name}-{run}"
        with flame_graphs(self._graphs, name, member.processes()), ProcessWatch(member.processes()) as watch:
            began = subscriber.enable()
            if workload.kind == "copy":
                ended = subscriber.await_ready(self._limit_of(workload))
            else:
                ended = subscriber.await_value(workload.marker, run, self._limit_of(workload))
        watch.usage.seconds = ended - began
        subscriber.disable()
        _compare(subscriber, workload, expected)
        if workload.kind == "copy":
            subscriber.unsubscribe()
        return Sample(run, watch.usage)

    def _latency(self, workload: Workload, member: _Member, run: int) -> Sample:
        subscriber = member.subscriber
        subscriber.enable()
        keys = "SELECT coalesce(max(a), 0) FROM t"
        first = int(self._publisher.execute(keys, _DATABASE)[0][0]) + 1
        self._commit(first, 1, workload.rate)
        subscriber.await_value(keys, first, self._limit_of(workload))
        count = workload.amount
        name = f"{workload.name}-{member.name}-{run}"
        with (
            flame_graphs(self._graphs, name, member.processes()),
            ProcessWatch(member.processes()) as watch,
            ThreadPoolExecutor(1) as pool,
        ):
            seen = pool.submit(subscriber.arrivals, keys, first + count, self._limit_of(workload))
            committed = self._commit(first + 1, count, workload.rate)
            arrived = seen.result()
        expected = self._check(workload)
        time.sleep(_QUIET_SECONDS / 4)
        with ProcessWatch(member.processes()) as quiet:
            time.sleep(_QUIET_SECONDS)
        subscriber.disable()
        _compare(subscriber, workload, expected)
        idle = sum(quiet.usage.cpu_seconds.values()) / quiet.usage.seconds
        return Sample(run, watch.usage, tuple(sorted(latencies(committed, arrived))), idle)

    def _commit(self, first: int, count: int, rate: int) -> dict[int, float]:
        """Commit so many single rows a second; returns the moment after each commit."""
        committed = {}
        with psycopg.connect(self._publisher.conninfo(_DATABASE), autocommit=True) as connection:
            began = time.monotonic()
            for number in range(count):
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
                connection.execute("INSERT INTO t VALUES (%s)", (first + number,))
                committed[first + number] = time.monotonic()
        return committed


@dataclass(frozen=True, slots=True)
class _Member:
    """A subscriber, and the root processes of its publisher and its target's server."""

    name: str
    subscriber: Subscriber
    servers: Mapping[int, str]

    def processes(self) -> dict[int, str]:
        """All its root processes, with their parts."""
        pid = self.subscriber.pid()
        return {**self.servers, **({} if pid is None else {pid: "driver"})}


@contextlib.contextmanager
def bench(limit: float, say: Callable[[str], None], graphs: Path | None = None) -> Iterator[Bench]:
    """Start the servers.

    Args:
        limit: the seconds that a measurement may take.
        say: called with a line for each measurement.
        graphs: the folder into which flame graphs are written.
    """
    with contextlib.ExitStack() as stack:
        yield Bench(stack, limit, say, graphs)


def latencies(committed: Mapping[int, float], arrived: Sequence[tuple[int, float]]) -> list[float]:
    """Milliseconds from each commit until its row was seen.

    Args:
        committed: when each key was committed; the keys grow.
        arrived: the greatest key that was seen, and when it was first seen.
    """
    found, place = [], 0
    for key, moment in sorted(committed.items()):
        while arrived[place][0] < key:
            place += 1
        # A row can be seen before the publisher's client has its answer.
        found.append(max(0.0, arrived[place][1] - moment) * 1000)
    return found


def _compare(subscriber: Subscriber, workload: Workload, expected: Sequence[Row]) -> None:
    found = [row for query in workload.checks() for row in subscriber.rows(query)]
    for ours, theirs in itertools.zip_longest(found, expected):
        if ours != theirs:
            raise AssertionError(f"the target differs from the publisher: {ours} is not {theirs}")


def rotated(names: Sequence[str], by: int) -> list[str]:
    """The names, from the one at ``by`` on and around."""
    start = by % len(names) if names else 0
    return [*names[start:], *names[:start]]


def server_process(server: PostgreSQL | MariaDB, part: str) -> dict[int, str]:
    """The root process of a server with its part; nothing if another program has started it."""
    if isinstance(server, PostgreSQLServer):
        pid = process_with(str(server.data_directory))
    else:
        pid = process_with(f"--port={make_url(server.url()).port}") if isinstance(server, PrivateServer) else None
    return {} if pid is None else {pid: part}


def _said(workload: Workload, sample: Sample) -> str:
    if workload.kind == "latency":
        half = sample.latencies[len(sample.latencies) // 2]
        return f"median {half:.1f} ms, idle {sample.idle_cores:.3f} cores"
    return f"{sample.usage.seconds:8.2f} s  {workload.amount / sample.usage.seconds:12,.0f}/s"
