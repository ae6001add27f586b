"""Pages that are open: what they are sent, and that they cost no memory (bounded_memory)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import http.client
import itertools
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from types import AsyncGeneratorType

import pytest

from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.operate.dashboard import Pages, dashboard_routes
from subscriber.operate.http_server import serving
from subscriber.operate.lag_history import History
from subscriber.operate.observation import RunObservation
from subscriber.operate.page_sources import PageSources
from subscriber.operate.web_app import Served, web_app
from subscriber.targets import open_target
from tests.dashboards import pages_of
from tests.observations import observation, run_of
from tests.waits import wait_until

PAGES = 10
ROUNDS = 10
KIBIBYTE = 1024


@pytest.mark.parametrize("later", [0.0, 0.01, 0.5, 0.89, 0.95, 0.999])
@pytest.mark.parametrize("committed", [104.0, 104.02, 104.5, 104.9, 104.96, 104.9999])
def test_a_commit_is_sent_to_every_open_page_within_two_seconds(later, committed, monkeypatch):
    """By a simulated clock. The second page was opened ``later``, and shares fragments with the
    first.
    """
    now = [0.0]

    def run() -> RunObservation:
        return run_of(observation(worker={"applied": LSN(0xABC if now[0] >= committed else 0x900)}))

    shown = pages_of(run)
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def sent_at() -> list[float]:
        streams = [(100.0, shown.events(1, "subscription")), (100.0 + later, shown.events(1, "subscription"))]
        sent = [0.0, 0.0]
        for second in range(10):
            for number, (opened, stream) in enumerate(streams):
                now[0] = opened + second
                if b"0/ABC" in await anext(stream):
                    sent[number] = sent[number] or now[0]
        return sent

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert [committed <= moment < committed + 2 for moment in asyncio.run(sent_at())] == [True, True]
    assert set(waited) == {1.0}


def test_a_number_that_is_no_subscription_is_not_remembered():
    shown = pages_of(lambda: run_of(observation()))
    for subid in range(100):
        shown.fragment(subid)
    assert list(shown._kept) == [(1, "subscription")]


def changing_run() -> Iterator[RunObservation]:
    """A run that has applied something more at every look, so that every event has content."""
    for number in itertools.count():
        run = (observation(name, subid, worker={"applied": LSN(900 + number)}) for subid, name in enumerate("abc", 1))
        yield run_of(*run, looped_at=time.monotonic())


@pytest.fixture
def port(tmp_path) -> Iterator[int]:
    looks = changing_run()
    served = Served(lambda: next(looks), lambda: None)
    with (
        open_target(f"sqlite:///{tmp_path}/target.db") as target,
        serving(
            web_app(served, dashboard_routes(served, History(), PageSources(target, Settings(f"{tmp_path}/journal")))),
            "127.0.0.1",
            0,
        ) as number,
    ):
        yield number


def open_pages(port: int, number: int) -> None:
    """Open pages as a browser does, read an event on each, and close them all."""
    with contextlib.ExitStack() as opened:
        for page in range(number):
            subid = page % 4  # 0: the overview
            connection = opened.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)))
            connection.request("GET", f"/subscriptions/{subid}" if subid else "/")
            assert connection.getresponse().read().startswith(b"<!doctype html>")
            connection.request("GET", f"/events?subscription={subid}" if subid else "/events")
            events = opened.enter_context(contextlib.closing(connection.getresponse()))
            assert events.readline().startswith(b"data: ")


def test_a_page_that_is_open_when_the_server_ends_is_no_error(tmp_path, caplog):
    served = Served(lambda: run_of(observation(), looped_at=time.monotonic()), lambda: None)
    with contextlib.ExitStack() as opened:
        target = opened.enter_context(open_target(f"sqlite:///{tmp_path}/target.db"))
        routes = dashboard_routes(served, History(), PageSources(target, Settings(f"{tmp_path}/journal")))
        with serving(web_app(served, routes), "127.0.0.1", 0) as port:
            connection = opened.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)))
            connection.request("GET", "/events")
            events = opened.enter_context(contextlib.closing(connection.getresponse()))
            assert events.readline().startswith(b"data: ")
    assert [record.message for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


@dataclass(frozen=True)
class Used:
    threads: int
    descriptors: int
    memory: int


def used() -> Used:
    gc.collect()
    return Used(threading.active_count(), len(os.listdir("/proc/self/fd")), tracemalloc.get_traced_memory()[0])


def streams() -> int:
    """The streams of events that the server has not ended yet."""
    running = (one for one in gc.get_objects() if isinstance(one, AsyncGeneratorType) and one.ag_frame is not None)
    return sum(one.ag_code is Pages.events.__code__ for one in running)


@pytest.mark.slow
def test_ten_pages_that_are_opened_and_closed_again_and_again_leave_nothing(port):
    def open_and_close(rounds: int) -> Used:
        for _ in range(rounds):
            open_pages(port, PAGES)
        wait_until(lambda: not streams())
        return used()

    open_and_close(3)
    tracemalloc.start()
    try:
        before = open_and_close(3)
        after = open_and_close(ROUNDS)
    finally:
        tracemalloc.stop()
    assert after.threads <= before.threads + 1, "the pool of the server may have one more"
    assert after.descriptors <= before.descriptors
    assert after.memory < before.memory + 64 * KIBIBYTE
