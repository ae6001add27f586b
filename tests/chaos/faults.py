"""What happens to the processes of a run, to its target and to its journal, and commands under load
(:mod:`tests.chaos.chaos`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
from collections.abc import Callable

from tests.chaos.chaos import NAME, Chaos, Steps, fault
from tests.crash.conftest import filled
from tests.crash.harness import Locked

MOST_TABLES = 10
"""The most tables that are added and copied during a run."""

# Processes ----------------------------------------------------------------------------------------


@fault("run")
def supervisor_killed(chaos: Chaos) -> Steps:
    chaos.note("SIGKILL to the supervisor")
    chaos.replication.runner.kill()
    yield chaos.random.uniform(2, 20)


@fault("run")
def spark_killed(chaos: Chaos) -> Steps:
    with contextlib.suppress(ValueError, ProcessLookupError, FileNotFoundError):  # it may not have started yet
        os.kill(chaos.replication.runner.java(), signal.SIGKILL)
        chaos.note("SIGKILL to Spark's Java process")
    yield chaos.random.uniform(2, 20)


@fault("run")
def run_terminated(chaos: Chaos) -> Steps:
    everybody = chaos.random.random() < 0.5
    chaos.note(f"SIGTERM to {'everybody' if everybody else 'the supervisor'}")
    code = chaos.replication.runner.terminate(everybody=everybody)
    chaos.note(f"it ended with {code}")
    # A failpoint has killed it meanwhile, or the signal came before it handled signals. On a busy
    # machine it ends in time, but not always in order.
    late = code == 1 and "some workers have not ended within" in chaos.replication.runner.said()
    assert late or code in {0, -signal.SIGKILL, -signal.SIGTERM}, chaos.replication.runner.said()[-3000:]
    chaos.replication.start_with(full_disk=chaos.random.random() < 0.5)
    yield chaos.random.uniform(2, 20)


@fault()
def walreceiver_killed(chaos: Chaos) -> Steps:
    for pid in chaos.replication.runner.walreceivers():
        chaos.note("SIGKILL to a walreceiver")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    yield 0


@fault("publisher")
def walreceiver_stopped(chaos: Chaos) -> Steps:
    stopped = chaos.replication.runner.walreceivers()
    for number in (signal.SIGSTOP, signal.SIGCONT):
        chaos.note(f"{number.name} to the walreceivers {stopped}")
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        yield chaos.random.uniform(1, 10) if number is signal.SIGSTOP else 0


@fault(times=4)
def failpoint_unlocked(chaos: Chaos) -> Steps:
    name = chaos.next_failpoint()
    chaos.note(f"failpoint {name} is unlocked")
    chaos.replication.failpoints.unlock(name)
    yield 0


# Target and journal -------------------------------------------------------------------------------


@fault("target")
def target_locked(chaos: Chaos) -> Steps:
    with Locked(chaos.replication.database):
        chaos.note("the target is locked")
        yield chaos.random.uniform(1, 8)
    chaos.note("the target is unlocked")


@fault("target")
def row_in_the_way(chaos: Chaos) -> Steps:
    number = chaos.load.next_order + chaos.random.randrange(20)
    try:
        chaos.in_target(f"INSERT INTO orders VALUES ({number}, 'in the way', NULL, NULL)")
    except sqlite3.IntegrityError:
        return  # the publisher's was faster
    chaos.note(f"order {number} is in the way")
    yield chaos.random.uniform(1, 8)
    chaos.in_target(f"DELETE FROM orders WHERE id = {number} AND customer = 'in the way'")
    chaos.note(f"order {number} is out of the way")


@fault("journal")
def journal_disk_full(chaos: Chaos) -> Steps:
    if not chaos.replication.journal_is_small:
        return  # mounting a tmpfs is not allowed here
    with filled(chaos.replication.runner.journal):
        chaos.note("the disk of the journal is full")
        yield chaos.random.uniform(1, 8)
    chaos.note("the disk of the journal has space")


# Commands -----------------------------------------------------------------------------------------


def command_fault(steps: Callable[[Chaos], Steps]) -> Callable[[Chaos], Steps]:
    return fault("publisher", "target", "subscription")(steps)


@command_fault
def disabled_and_enabled(chaos: Chaos) -> Steps:
    yield from chaos.alter("DISABLE")
    yield chaos.random.uniform(0, 4)
    yield from chaos.alter("ENABLE")


@command_fault
def renamed(chaos: Chaos) -> Steps:
    new = f"{NAME}_{chaos.random.randrange(1000)}"
    if new != chaos.name:
        yield from chaos.alter(f"RENAME TO {new}")
        chaos.name = new


@command_fault
def options_set(chaos: Chaos) -> Steps:
    streaming, binary = chaos.random.choice(["on", "off", "parallel"]), chaos.random.choice(["true", "false"])
    yield from chaos.alter(f"SET (streaming = {streaming}, binary = {binary})")


@command_fault
def connection_changed(chaos: Chaos) -> Steps:
    conninfo = f"{chaos.access.conninfo} application_name=chaos_{chaos.random.randrange(1000)}"
    yield from chaos.alter(f"CONNECTION '{conninfo}'")


@command_fault
def refreshed(chaos: Chaos) -> Steps:
    yield from chaos.alter("REFRESH PUBLICATION")


@command_fault
def slot_handed_on(chaos: Chaos) -> Steps:
    if not chaos.ready():
        return  # rows that are not copied would be lost, as with PostgreSQL
    yield from chaos.alter("DISABLE")
    yield chaos.random.uniform(0, 2)
    yield from chaos.alter("SET (slot_name = NONE)")
    yield chaos.random.uniform(0, 2)
    yield from chaos.command(f"DROP SUBSCRIPTION {chaos.name}")
    yield chaos.random.uniform(0, 2)
    yield from chaos.command(
        f"CREATE SUBSCRIPTION {chaos.name} CONNECTION '{chaos.access.conninfo}' PUBLICATION everything, appended"
        f" WITH (create_slot = false, slot_name = {NAME}, copy_data = false, failover = true)"
    )


@command_fault
def table_added(chaos: Chaos) -> Steps:
    if len(chaos.tables) == MOST_TABLES:
        return
    table = f"more_{len(chaos.tables)}"
    chaos.tables.append(table)
    chaos.in_target(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)")
    execute = chaos.pair.execute
    execute(
        f"CREATE TABLE {table} (id int PRIMARY KEY, v text);"
        f" INSERT INTO {table} SELECT n, repeat('x', 100) FROM generate_series(1, 3000) n;"
        f" ALTER PUBLICATION everything ADD TABLE {table}",
        NAME,
    )
    yield from chaos.alter("REFRESH PUBLICATION")
    for number in range(3001, 3011):
        yield 0.3
        execute(f"INSERT INTO {table} VALUES ({number}, 'y'); DELETE FROM {table} WHERE id = {number} - 3000", NAME)
        execute(f"UPDATE {table} SET v = v || 'z' WHERE id % 100 = {number % 100}", NAME)


# Status -------------------------------------------------------------------------------------------


@fault("publisher", "target")
def status_asked(chaos: Chaos) -> Steps:
    answer = chaos.replication.runner.call("status", "--json")
    assert answer.returncode == 0, answer.stderr
    for status in json.loads(answer.stdout):
        chaos.note(f"status: {status['lag_bytes']} B behind, {status['apply_errors']} errors, {status['conflicts']}")
        assert status["lag_bytes"] is None or status["lag_bytes"] >= 0
        assert status["lag_seconds"] is None or status["lag_seconds"] >= 0
        assert set(status["conflicts"]) <= chaos.conflicts
    yield 0


@fault()
def journals_listed(chaos: Chaos) -> Steps:
    answer = chaos.replication.runner.call("journal", "ls")
    assert answer.returncode == 0, answer.stderr
    yield 0
