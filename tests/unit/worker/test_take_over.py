"""A standby waits for the run lock, and a run that was taken over from ends."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace

import pytest

from subscriber.base.errors import AlreadyRunning
from subscriber.catalog.leases import Lease, LeaseKind, find_run, new_lease, write_run
from subscriber.targets import open_target
from subscriber.worker.heartbeat import beating
from subscriber.worker.take_over import StopWhenTakenOver, holding_run_lock
from tests.waits import wait_until


def test_without_standby_a_second_run_is_refused(target):
    with (
        open_target(target.url) as other,
        target.running(),
        pytest.raises(AlreadyRunning),
        holding_run_lock(other, threading.Event()),
    ):
        pass


def test_a_standby_gets_the_lock_when_it_is_free(target, caplog):
    caplog.set_level("INFO")
    holds, ended = threading.Event(), threading.Event()

    def stand_by():
        with open_target(target.url) as other, holding_run_lock(other, threading.Event(), contextlib.nullcontext):
            holds.set()
            ended.wait(30)

    thread = threading.Thread(target=stand_by)
    with target.running():
        thread.start()
        wait_until(lambda: "waiting for the run lock" in caplog.text)
        assert not holds.is_set()
    assert holds.wait(30)
    with pytest.raises(AlreadyRunning), target.running():
        pass
    ended.set()
    thread.join()
    assert caplog.messages[-1] == "standby: the run lock is free, this run takes over"


def test_a_standby_that_is_stopped_runs_without_the_lock(target):
    """`subscriber run` sees the stop first."""
    stop = threading.Event()
    stop.set()
    with open_target(target.url) as other, target.running(), holding_run_lock(other, stop, contextlib.nullcontext):
        assert target.run_lock.is_held(None)


def test_a_run_ends_when_a_later_run_has_the_lease_and_leaves_it(target):
    stop = threading.Event()
    deposed = StopWhenTakenOver(stop)
    deposed.check()
    with beating(target, lambda: None, on_taken_over=deposed.by):
        wait_until(lambda: found(target) is not None)
        later = replace(new_lease(LeaseKind.RUN), since="9999-01-01T00:00:00Z", host="db2", process_id=4711)
        with target.begin() as connection:
            write_run(connection, later)
        assert stop.wait(30)
    assert found(target).holder == later.holder
    with pytest.raises(AlreadyRunning, match="has taken over: process 4711 on host db2"):
        deposed.check()


def test_the_lease_of_an_earlier_run_is_replaced(target):
    with target.begin() as connection:
        write_run(connection, replace(new_lease(LeaseKind.RUN), since="2000-01-01T00:00:00Z"))
    before = found(target)
    taken_over: list[Lease] = []
    with beating(target, lambda: None, on_taken_over=taken_over.append):
        wait_until(lambda: found(target).holder != before.holder)
    assert taken_over == []


def found(target):
    with target.reporting(), target.engine.connect() as connection:
        return find_run(connection)
