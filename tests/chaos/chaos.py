"""A replication under load, and the faults that happen to it.

A fault is a generator over a :class:`Chaos`: it yields the seconds until its next step, and other
faults happen meanwhile. It names what no other fault may use at that time. So nothing is killed
that has already ended, and no command is run while the publisher is stopped on purpose::

    primary killed, standby promoted      ├── down ──┼── no standby ──┤
    target locked                               ├── locked ──┤
    supervisor killed                         x (starts again)
                                          ───────────────────────────────▶ seconds

The order is that of a seed; the moments are not, since they depend on the machine. Every step is
written down with its second.

The subscription reaches the publisher as a role with a password, through a proxy before each of the
two servers. The load and the comparisons connect directly, as the superuser::

    Load, comparison ───────────────────────────────▶ ┌─ primary ─▶ standby ─┐
    subscriber run ──▶ proxies, role, passfile ─────▶ └──── pg_hba.conf ─────┘
"""

from __future__ import annotations

import collections
import contextlib
import logging
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from subscriber.base.failpoints import FAILPOINTS
from tests.crash.conftest import Replication
from tests.crash.harness import TABLES, Load, catch_up, differences, wait_until
from tests.crash.proxy import Proxy
from tests.failover import Pair

logger = logging.getLogger(__name__)

Steps = Iterator[float]

NAME = "chaos"
ROLE = "replicator"
COMMAND_ATTEMPTS = 30
WAIT_SECONDS = 120.0
COPY_SECONDS = 300.0
"""Seconds to wait for all tables to be copied, on a busy machine."""


class Access:
    """How the subscription reaches the publisher: a role with a password, through proxies.

    Args:
        pair: the publisher.
        proxies: one before each server, in the order of the hosts.
        passfile: where the subscription finds the password.

    Attributes:
        parameters: those of the subscription's connection string that differ from the load's.
        conninfo: the connection string of the subscription.
    """

    def __init__(self, pair: Pair, proxies: tuple[Proxy, Proxy], passfile: Path) -> None:
        self.proxies = proxies
        self._pair = pair
        self._passfile = passfile
        self._passwords = 0
        password = self.next_password()
        pair.execute(f"CREATE ROLE {ROLE} LOGIN REPLICATION PASSWORD '{password}' IN ROLE pg_read_all_data")
        self.write_passfile(password)
        for server in (pair.primary, pair.standby):
            rules = server.data_directory / "pg_hba.conf"
            rules.write_text(f"host all {ROLE} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
            server.reload({})
        self.parameters = {
            "port": ",".join(str(proxy.port) for proxy in proxies),
            "user": ROLE,
            "passfile": str(passfile),
            "sslmode": "disable",
            "gssencmode": "disable",
        }
        self.conninfo = pair.conninfo(NAME, **self.parameters)

    def next_password(self) -> str:
        """A password that was not used before."""
        self._passwords += 1
        return f"secret-{self._passwords}"

    def write_passfile(self, password: str) -> None:
        """Replace the file that the subscription reads the password from."""
        new = self._passfile.with_suffix(".new")
        new.write_text(f"*:*:*:{ROLE}:{password}\n")
        new.chmod(0o600)
        new.replace(self._passfile)

    def set_password(self, password: str) -> None:
        """Change the password of the role."""
        self._pair.execute(f"ALTER ROLE {ROLE} PASSWORD '{password}'")


@dataclass
class Chaos:
    """A replication under load, its current faults, and their history.

    Attributes:
        name: the subscription's current name.
        tables: the names of the tables that were added.
        conflicts: the kinds of conflicts that may have occurred.
        begun: when the run began, in monotonic seconds.
        history: one line for each step.
        faults: how often each fault has begun.
    """

    pair: Pair
    access: Access
    replication: Replication
    load: Load
    random: random.Random
    name: str = NAME
    tables: list[str] = field(default_factory=list)
    conflicts: set[str] = field(default_factory=lambda: {"insert_exists"})
    begun: float = field(default_factory=time.monotonic)
    history: list[str] = field(default_factory=list)
    faults: collections.Counter[str] = field(default_factory=collections.Counter)
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
            ready = f"tables to be ready\n{runner.said()[-3000:]}"
            wait_until(lambda: self.restarted() and self.ready(), ready, COPY_SECONDS)
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
        self.faults[chosen.steps.__name__] += 1
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

    def until(self, condition: Callable[[], bool], what: str) -> Steps:
        """Let other faults go on until ``condition`` returns True."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"waited {WAIT_SECONDS:g} s for {what}"
            yield 0.2

    def alter(self, rest: str) -> Steps:
        yield from self.command(f"ALTER SUBSCRIPTION {self.name} {rest}")

    def end_walsenders(self) -> None:
        """Terminate the sessions of the walreceivers. They connect again."""
        self.pair.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()",
            NAME,
        )

    def standby_ready(self) -> Steps:
        """Wait until the standby could take over what was not written just now."""
        yield from self.until(lambda: self.pair.is_ready(NAME), "the standby to have the slot")
        self.pair.wait_until_caught_up()

    def reports(self, text: str) -> bool:
        """Whether ``status`` shows that the worker tries again because of an error with this
        text.
        """
        worker = self.replication.runner.status()[self.name]["worker"]
        return worker is not None and text in (worker["error"] or "")

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

    steps: Callable[[Chaos], Steps]
    needs: frozenset[str]


FAULTS: list[Fault] = []


def fault(*needs: str, times: int = 1) -> Callable[[Callable[[Chaos], Steps]], Callable[[Chaos], Steps]]:
    """Register a fault. Each round of all faults contains it ``times`` times."""

    def add(steps: Callable[[Chaos], Steps]) -> Callable[[Chaos], Steps]:
        FAULTS.extend([Fault(steps, frozenset(needs))] * times)
        return steps

    return add
