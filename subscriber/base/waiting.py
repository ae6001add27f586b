"""Reporting which sessions an operation waits for, when it waits for longer than a moment.

::

    with watched(ask):         two seconds ──▶ ask(), in a thread and over another connection ──▶ notify: NOTICE in a command, INFO in a run
        what may wait          and again, for as long as it waits, when the answer is another

One thread watches all registered operations, so a batch that does not wait pays only for a lock.
Only the server, or the kernel, knows which sessions it waits for: ``ask`` returns a text for each,
never with a query, because a query may contain values. It returns nothing when the operation is
slow because of its own work.

*Rejected:* a time limit on every lock. A user who waits for a transaction to end wants to wait, and
wants to know for which session.
"""

from __future__ import annotations

import contextlib
import contextvars
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from subscriber.base.run_log import MAY_REPEAT

logger = logging.getLogger(__name__)

Ask = Callable[[], Sequence[str]]
Notify = Callable[[str], None]

PATIENCE_SECONDS: Final = 2.0
_LONGEST_SECONDS: Final = 30.0
"""The longest time between two calls of ``ask``; the time doubles with each call."""
_ANSWER_SECONDS: Final = 1.0
"""How long a call of ``ask`` may still run after the operation has ended."""
_SHOWN: Final = 5

_notify: contextvars.ContextVar[Notify | None] = contextvars.ContextVar("notify", default=None)


def _log(text: str) -> None:
    logger.info("%s", text, extra=MAY_REPEAT)


@contextlib.contextmanager
def notices_to(notify: Notify) -> Iterator[None]:
    """Inside the block, waits of this thread are given to ``notify``; outside they are logged."""
    token = _notify.set(notify)
    try:
        yield
    finally:
        _notify.reset(token)


@dataclass(slots=True)
class _Wait:
    """An operation that may wait. ``asking`` is held while ``ask`` is running."""

    what: str
    ask: Ask
    notify: Notify
    over: threading.Event = field(default_factory=threading.Event)
    asking: threading.Lock = field(default_factory=threading.Lock)


@contextlib.contextmanager
def watched(what: str, ask: Ask) -> Iterator[None]:
    """Report which sessions the block waits for, if it takes longer than :data:`PATIENCE_SECONDS`.

    ``what`` begins the message: ``creating replication slot "s"`` in ``creating replication slot
    "s" waits for …``. ``ask`` is called in another thread as long as the block lasts; an exception
    that it raises is ignored.
    """
    wait = _Wait(what, ask, _notify.get() or _log)
    _watch.add(wait)
    try:
        yield
    finally:
        wait.over.set()
        # A running ask() uses connections that the caller may be about to close.
        if wait.asking.acquire(timeout=_ANSWER_SECONDS):
            wait.asking.release()


class _Watch:
    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._numbers = itertools.count()
        self._waits: list[tuple[float, int, _Wait]] = []
        self._thread: threading.Thread | None = None

    def add(self, wait: _Wait) -> None:
        with self._condition:
            was_idle = not self._waits  # otherwise the thread wakes up for an earlier operation
            heapq.heappush(self._waits, (time.monotonic() + PATIENCE_SECONDS, next(self._numbers), wait))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="waiting", daemon=True)
                self._thread.start()
            elif was_idle:
                self._condition.notify()

    def _run(self) -> None:
        while True:
            wait = self._next()
            if not wait.over.is_set():
                threading.Thread(target=_report, args=(wait,), name="waiting for", daemon=True).start()

    def _next(self) -> _Wait:
        with self._condition:
            while True:
                while self._waits and self._waits[0][2].over.is_set():
                    heapq.heappop(self._waits)
                left = self._waits[0][0] - time.monotonic() if self._waits else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._waits)[2]
                self._condition.wait(left)


_watch: Final = _Watch()


def _report(wait: _Wait) -> None:
    reported: Sequence[str] = ()
    pause = PATIENCE_SECONDS
    while not wait.over.is_set():
        with wait.asking:
            if wait.over.is_set():
                return
            found = _asked(wait)
            if found and list(found) != list(reported):
                wait.notify(f"{wait.what} waits for {_listed(found)}")
                reported = found
        wait.over.wait(pause)
        pause = min(2 * pause, _LONGEST_SECONDS)


def _asked(wait: _Wait) -> Sequence[str]:
    try:
        return wait.ask()
    except Exception as error:  # the operation that waits reports the error better, whatever the error is
        logger.debug("the sessions that hold the locks cannot be read: %s", type(error).__name__)
        return ()


def _listed(found: Sequence[str]) -> str:
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


def session(
    process: int,
    user: str | None,
    since: object,
    state: str | None,
    *,
    database: str | None = None,
    name: str | None = None,
) -> str:
    """The description of a session; arguments that this role may not see are None."""
    known = [
        "" if user is None else f'user "{user}"',
        "" if not database else f'database "{database}"',
        "" if not name else f'application "{name}"',
        state or "",
        "" if since is None else f"since {since}",
    ]
    details = ", ".join(one for one in known if one)
    return f"process {process}" + (f" ({details})" if details else "")


def prepared(gid: str, owner: str | None, since: object, database: str | None = None) -> str:
    """The description of a prepared transaction."""
    where = "" if database is None else f' in database "{database}"'
    by = "" if owner is None else f' by "{owner}"'
    at = "" if since is None else f" at {since}"
    return f'prepared transaction "{gid}"{where} (prepared{by}{at})'
