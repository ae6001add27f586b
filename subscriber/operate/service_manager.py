"""Tells systemd that a run is ready, what it does, and that it is alive (sd_notify(3)).

A message is a datagram to the socket that ``NOTIFY_SOCKET`` names. Without it nothing is sent. The
watchdog is told from the supervisor's loop, or while a receiver goes round its loop, so a loop that
hangs is noticed.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from subscriber.worker.supervisor import Supervisor  # it imports Spark, which a receiver does not need

_STATUS_SECONDS: Final = 5.0


class ServiceManager:
    """Tells what changes at each :meth:`tick`; the supervisor's loop calls it."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        watchdog = environment.get("WATCHDOG_USEC", "")
        mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._watchdog = int(watchdog) / 2e6 if watchdog.isdigit() and mine else None
        self._alive_at = self._told_at = float("-inf")
        self._is_ready = False
        self._status = ""

    def tick(self, supervisor: Supervisor) -> None:
        def status() -> str:
            return _in_words(one.state for one in supervisor.snapshots(look=False).values())

        self.tell(lambda: is_ready(supervisor) is None, status)

    def tell(self, ready: Callable[[], bool], status: Callable[[], str]) -> None:
        """Tell whether a service is ready, that it is alive, and its status, if these are due."""
        if not self._address:
            return
        now = time.monotonic()
        lines = []
        if not self._is_ready and ready():
            self._is_ready = True
            lines.append("READY=1")
        if self._watchdog is not None and now - self._alive_at >= self._watchdog:
            self._alive_at = now
            lines.append("WATCHDOG=1")
        if now - self._told_at >= _STATUS_SECONDS:
            self._told_at = now
            text = status()
            if text != self._status:
                self._status = text
                lines.append(f"STATUS={text}")
        self._send(lines)

    def close(self) -> None:
        self._send(["STOPPING=1"])

    def _send(self, lines: list[str]) -> None:
        if not (lines and self._address):
            return
        # An abstract socket has a name that begins with a zero byte.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to_manager:
                to_manager.setblocking(False)
                to_manager.sendto("\n".join(lines).encode(), address)
        except OSError:
            pass  # a manager that does not listen must not stop the run


def is_ready(supervisor: Supervisor) -> str | None:
    """None if the workers of all enabled subscriptions are started; else what is missing. The run
    lock is held before there is a supervisor. Neither lag nor copies matter: a copy of ten hours
    must not block a rollout.
    """
    watch = supervisor.catalog_watch
    if not watch.polls:
        return "the catalog was not read yet"
    missing = [one.name for one in watch.subscriptions if one.enabled and one.subid not in supervisor.workers]
    return f"no worker yet: {', '.join(missing)}" if missing else None


def _in_words(states: Iterable[str]) -> str:
    counts = Counter(states)
    return ", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "no subscription is enabled"
