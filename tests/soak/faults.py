"""Faults that occur while a subscription replicates. Each fault breaks something, and repairs it
some seconds later.

A fault is a generator over a :class:`Soak`: it yields the seconds until its next step, and other
faults happen meanwhile. It names what no other fault may use at that time. So nothing is killed
that has already ended, and no command is run while the publisher is stopped on purpose::

    publisher killed      ├── down ──┤
    target locked               ├── locked ──┤
    supervisor killed         x (starts again)
                          ─────────────────────────▶ seconds

The order is that of a seed; the moments are not, since they depend on the machine. Every step is
written down with its second.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from subscriber.failpoints import FAILPOINTS
from subscriber.scenario.servers.open_servers import PostgreSQLServer
from tests.crash.conftest import Replication
from tests.crash.harness import TABLES, Load, Locked, catch_up, differences, wait_until

logger = logging.getLogger(__name__)

Steps = Iterator[float]

NAME = "soak"
COMMAND_ATTEMPTS = 30
MOST_TABLES = 10
"""The most tables that are added and copied during a run."""


@dataclass
class Soak:
    """A replication under load, its current faults, and their history.

    Attributes:
        name: the subscription's current name.
        tables: the names of the tables that were added.
        begun: when the run began, in monotonic seconds.
        history: one line for each step.
    """

    server: PostgreSQLServer
    replication: Replication
    load: Load
    random: random.Random
    name: str = NAME
    tables: list[str] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    history: list[str] = field(default_factory=list)
    _waiting: list[tuple[float, Fault, Steps]] = field(default_factory=list)
    _bag: list[Fault] = field(default_factory=list)
    _failpoints: list[str] = field(default_factory=list)

    # What happens ---------------------------------------------------------------------------------

    def go_on(self, until: float) -> None:
        """Begin a fault every few seconds, and let each go on, until this moment (monotonic
        seconds).
        """
        next_fault = time.monotonic()
        while (now := time.monotonic()) < until:
            self._look_after()
            if now >= next_fault and self._begin_one():
                next_fault = time.monotonic() + self.random.uniform(0, 4)
            time.sleep(0.05)

    def settle(self) -> None:
        """Let every fault end and hold the load. Then everything must arrive, and be equal."""
        self.note("settling")
        while self._waiting:
            self._look_after()
            time.sleep(0.05)
        for name in FAILPOINTS:
            self.replication.failpoints.lock(name)
        with self.load.paused():
            runner = self.replication.runner
            catch_up(self.replication.conninfo, self.replication.database, runner, self.subid())
            wait_until(lambda: self.restarted() and self.ready(), f"tables to be ready\n{runner.said()[-3000:]}")
            found = differences(self.replication.conninfo, runner.target, self.compared)
            assert not found, "\n".join(map(str, found))
        self.note(f"equal, after {self.load.transactions} transactions")

    def _look_after(self) -> None:
        self.restarted()
        now = time.monotonic()
        for step in [step for step in self._waiting if step[0] <= now]:
            self._waiting.remove(step)
            self._advance(*step[1:])

    def _begin_one(self) -> bool:
        if not self._bag:
            self._bag = list(FAULTS)
            self.random.shuffle(self._bag)
        busy = frozenset[str]().union(*(fault.needs for _, fault, _ in self._waiting))
        chosen = next((fault for fault in self._bag if not fault.needs & busy), None)
        if chosen is None:
            return False
        self._bag.remove(chosen)
        self._advance(chosen, chosen.steps(self))
        return True

    def _advance(self, fault: Fault, steps: Steps) -> None:
        seconds = next(steps, None)
        if seconds is not None:
            self._waiting.append((time.monotonic() + seconds, fault, steps))

    def note(self, what: str) -> None:
        self.history.append(f"{time.monotonic() - self.begun:7.1f} s  {what}")
        logger.info(self.history[-1])

    # What tests ask for ---------------------------------------------------------------------------

    @property
    def compared(self) -> tuple[str, ...]:
        return (*TABLES, *(f"public.{table}" for table in self.tables))

    def restarted(self) -> bool:
        """Restart the run if it has ended, as systemd does. Returns True."""
        runner = self.replication.runner
        if not runner.running:
            if runner.process is not None:
                self.note(f"the run had ended with {runner.process.returncode}, and starts again")
            runner.start()
        return True

    def command(self, statement: str) -> Steps:
        """Run a command of ``subscriber sql``. Repeat it while something that it needs is away."""
        for _ in range(COMMAND_ATTEMPTS):
            answer = self.replication.runner.call("sql", "-c", statement)
            said = (answer.stdout + answer.stderr).partition("\nDETAIL")[0].strip().replace("\n", " | ")
            self.note(f"{statement.partition('CONNECTION')[0]}: {answer.returncode}, {said}")
            assert "Traceback" not in answer.stderr, answer.stderr
            if answer.returncode == 0:
                return
            yield 1.0
        raise AssertionError(f"given {COMMAND_ATTEMPTS} times in vain: {statement}\n{answer.stderr}")

    def alter(self, rest: str) -> Steps:
        yield from self.command(f"ALTER SUBSCRIPTION {self.name} {rest}")

    def in_target(self, statement: str) -> list[tuple]:
        """Run a statement in the target as another user."""
        with contextlib.closing(sqlite3.connect(self.replication.database, timeout=60)) as connection, connection:
            return connection.execute(statement).fetchall()

    def subid(self) -> int:
        ((number,),) = self.in_target("SELECT subid FROM subscriber_subscription")
        return int(number)

    def ready(self) -> bool:
        """Whether every table is ready."""
        return self.in_target("SELECT DISTINCT srsubstate FROM subscriber_subscription_rel") == [("r",)]

    def next_failpoint(self) -> str:
        if not self._failpoints:
            self._failpoints = sorted(
                name
                for name in FAILPOINTS
                if not name.startswith(("hold.", "target.a", "target.p", "target.f", "cutover.", "recreate."))
            )
            self.random.shuffle(self._failpoints)
        return self._failpoints.pop()


@dataclass(frozen=True)
class Fault:
    """``steps`` does it. ``needs`` names what no other fault may use at the same time."""

    steps: Callable[[Soak], Steps]
    needs: frozenset[str]


FAULTS: list[Fault] = []


def fault(*needs: str, times: int = 1) -> Callable[[Callable[[Soak], Steps]], Callable[[Soak], Steps]]:
    """Register a fault. Each round of all faults contains it ``times`` times."""

    def add(steps: Callable[[Soak], Steps]) -> Callable[[Soak], Steps]:
        FAULTS.extend([Fault(steps, frozenset(needs))] * times)
        return steps

    return add


# Processes ----------------------------------------------------------------------------------------


@fault("run")
def supervisor_killed(soak: Soak) -> Steps:
    soak.note("SIGKILL to the supervisor")
    soak.replication.runner.kill()
    yield soak.random.uniform(2, 20)


@fault("run")
def spark_killed(soak: Soak) -> Steps:
    with contextlib.suppress(ValueError, ProcessLookupError, FileNotFoundError):  # it may not have started yet
        os.kill(soak.replication.runner.java(), signal.SIGKILL)
        soak.note("SIGKILL to Spark's Java process")
    yield soak.random.uniform(2, 20)


@fault("run")
def run_terminated(soak: Soak) -> Steps:
    everybody = soak.random.random() < 0.5
    soak.note(f"SIGTERM to {'everybody' if everybody else 'the supervisor'}")
    code = soak.replication.runner.terminate(everybody=everybody)
    soak.note(f"it ended with {code}")
    # A failpoint has killed it meanwhile, or the signal came before it handled signals. On a busy
    # machine it ends in time, but not always in order.
    late = code == 1 and "some workers have not ended within" in soak.replication.runner.said()
    assert late or code in {0, -signal.SIGKILL, -signal.SIGTERM}, soak.replication.runner.said()[-3000:]
    soak.replication.start_with(full_disk=soak.random.random() < 0.5)
    yield soak.random.uniform(2, 20)


@fault()
def walreceiver_killed(soak: Soak) -> Steps:
    for pid in soak.replication.runner.walreceivers():
        soak.note("SIGKILL to a walreceiver")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    yield 0


@fault(times=4)
def failpoint_unlocked(soak: Soak) -> Steps:
    name = soak.next_failpoint()
    soak.note(f"failpoint {name} is unlocked")
    soak.replication.failpoints.unlock(name)
    yield 0


# Publisher and target -----------------------------------------------------------------------------


@fault("publisher")
def publisher_killed(soak: Soak) -> Steps:
    soak.note("the publisher is killed")
    soak.server.kill()
    yield soak.random.uniform(0, 3)
    soak.server.start()
    soak.note("the publisher is back")


@fault("publisher")
def publisher_stopped(soak: Soak) -> Steps:
    soak.note("the publisher is stopped")
    soak.server.stop()
    yield soak.random.uniform(1, 6)
    soak.server.start()
    soak.note("the publisher is back")


@fault("publisher")
def walsender_terminated(soak: Soak) -> Steps:
    soak.note("the walsenders are terminated")
    soak.server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
    yield 0


@fault("target")
def target_locked(soak: Soak) -> Steps:
    with Locked(soak.replication.database):
        soak.note("the target is locked")
        yield soak.random.uniform(1, 8)
    soak.note("the target is unlocked")


@fault("target")
def row_in_the_way(soak: Soak) -> Steps:
    number = soak.load.next_order + soak.random.randrange(20)
    try:
        soak.in_target(f"INSERT INTO orders VALUES ({number}, 'in the way', NULL, NULL)")
    except sqlite3.IntegrityError:
        return  # the publisher's was faster
    soak.note(f"order {number} is in the way")
    yield soak.random.uniform(1, 8)
    soak.in_target(f"DELETE FROM orders WHERE id = {number} AND customer = 'in the way'")
    soak.note(f"order {number} is out of the way")


# Commands -----------------------------------------------------------------------------------------


def command_fault(steps: Callable[[Soak], Steps]) -> Callable[[Soak], Steps]:
    return fault("publisher", "target", "subscription")(steps)


@command_fault
def disabled_and_enabled(soak: Soak) -> Steps:
    yield from soak.alter("DISABLE")
    yield soak.random.uniform(0, 4)
    yield from soak.alter("ENABLE")


@command_fault
def renamed(soak: Soak) -> Steps:
    new = f"{NAME}_{soak.random.randrange(1000)}"
    if new != soak.name:
        yield from soak.alter(f"RENAME TO {new}")
        soak.name = new


@command_fault
def options_set(soak: Soak) -> Steps:
    streaming, binary = soak.random.choice(["on", "off", "parallel"]), soak.random.choice(["true", "false"])
    yield from soak.alter(f"SET (streaming = {streaming}, binary = {binary})")


@command_fault
def connection_changed(soak: Soak) -> Steps:
    conninfo = f"{soak.replication.conninfo} application_name=soak_{soak.random.randrange(1000)}"
    yield from soak.alter(f"CONNECTION '{conninfo}'")


@command_fault
def refreshed(soak: Soak) -> Steps:
    yield from soak.alter("REFRESH PUBLICATION")


@command_fault
def slot_handed_on(soak: Soak) -> Steps:
    if not soak.ready():
        return  # rows that are not copied would be lost, as with PostgreSQL
    yield from soak.alter("DISABLE")
    yield soak.random.uniform(0, 2)
    yield from soak.alter("SET (slot_name = NONE)")
    yield soak.random.uniform(0, 2)
    yield from soak.command(f"DROP SUBSCRIPTION {soak.name}")
    yield soak.random.uniform(0, 2)
    yield from soak.command(
        f"CREATE SUBSCRIPTION {soak.name} CONNECTION '{soak.replication.conninfo}' PUBLICATION everything, appended"
        f" WITH (create_slot = false, slot_name = {NAME}, copy_data = false)"
    )


@command_fault
def table_added(soak: Soak) -> Steps:
    if len(soak.tables) == MOST_TABLES:
        return
    table = f"more_{len(soak.tables)}"
    soak.tables.append(table)
    soak.in_target(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)")
    execute = soak.server.execute
    execute(
        f"CREATE TABLE {table} (id int PRIMARY KEY, v text);"
        f" INSERT INTO {table} SELECT n, repeat('x', 100) FROM generate_series(1, 3000) n;"
        f" ALTER PUBLICATION everything ADD TABLE {table}",
        NAME,
    )
    yield from soak.alter("REFRESH PUBLICATION")
    for number in range(3001, 3011):
        yield 0.3
        execute(f"INSERT INTO {table} VALUES ({number}, 'y'); DELETE FROM {table} WHERE id = {number} - 3000", NAME)
        execute(f"UPDATE {table} SET v = v || 'z' WHERE id % 100 = {number % 100}", NAME)


# Status -------------------------------------------------------------------------------------------


@fault("publisher", "target")
def status_asked(soak: Soak) -> Steps:
    answer = soak.replication.runner.call("status", "--json")
    assert answer.returncode == 0, answer.stderr
    for status in json.loads(answer.stdout):
        soak.note(f"status: {status['lag_bytes']} B behind, {status['apply_errors']} errors, {status['conflicts']}")
        assert status["lag_bytes"] is None or status["lag_bytes"] >= 0
        assert status["lag_seconds"] is None or status["lag_seconds"] >= 0
        assert set(status["conflicts"]) <= {"insert_exists"}
    yield 0


@fault()
def journals_listed(soak: Soak) -> Steps:
    answer = soak.replication.runner.call("journal", "ls")
    assert answer.returncode == 0, answer.stderr
    yield 0
