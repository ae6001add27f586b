"""Reporting which sessions an operation waits for, when it waits for longer than a moment.

::

    with watched(ask):         two seconds ──▶ ask(), in a thread and over another connection ──▶ tell: NOTICE in a command, INFO in a run
        what may wait          and again, for as long as it waits, when the answer is another

An operation that may wait registers itself. One thread watches all registered operations, so a
batch that does not wait pays only for a lock. Only the server, or the kernel, knows which sessions
it waits for. ``ask`` returns one text for each such session: process id, user, since when, the
first words of its state. The text never contains a query, because a query may contain values.
``ask`` returns nothing when the operation is slow because of its own work.

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

logger = logging.getLogger(__name__)

Ask = Callable[[], Sequence[str]]
Tell = Callable[[str], None]

PATIENCE_SECONDS: Final = 2.0
_LONGEST_SECONDS: Final = 30.0
"""The longest time between two calls of ``ask``; the time doubles with each call."""
_ANSWER_SECONDS: Final = 1.0
"""How long a call of ``ask`` may still run after the operation has ended."""
_SHOWN: Final = 5

_tell: contextvars.ContextVar[Tell | None] = contextvars.ContextVar("tell", default=None)


def _log(text: str) -> None:
    logger.info("%s", text)


@contextlib.contextmanager
def told_by(tell: Tell) -> Iterator[None]:
    """Inside the block, waits of this thread are reported to ``tell``; outside they are logged."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


@dataclass(slots=True)
class _Wait:
    """An operation that may wait.

    ``over`` is set when the operation has ended. ``asking`` is held while ``ask`` is running.
    """

    what: str
    ask: Ask
    tell: Tell
    over: threading.Event = field(default_factory=threading.Event)
    asking: threading.Lock = field(default_factory=threading.Lock)


@contextlib.contextmanager
def watched(what: str, ask: Ask) -> Iterator[None]:
    """Report which sessions the block waits for, if it takes longer than :data:`PATIENCE_SECONDS`.

    Args:
        what: the beginning of the message: ``creating replication slot "s"`` in ``creating
            replication slot "s" waits for …``.
        ask: returns a text for each session that the block waits for; called in another thread as
            long as the block lasts. An exception that it raises is ignored.
    """
    wait = _Wait(what, ask, _tell.get() or _log)
    _watch.add(wait)
    try:
        yield
    finally:
        wait.over.set()
        # A running ask() uses connections that the caller may be about to close.
        if wait.asking.acquire(timeout=_ANSWER_SECONDS):
            wait.asking.release()


class _Watch:
    """A thread that wakes up when a registered operation has taken longer than the patience."""

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
                threading.Thread(target=_say_for_whom, args=(wait,), name="waiting for", daemon=True).start()

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


def _say_for_whom(wait: _Wait) -> None:
    said: Sequence[str] = ()
    pause = PATIENCE_SECONDS
    while not wait.over.is_set():
        with wait.asking:
            if wait.over.is_set():
                return
            found = _asked(wait)
            if found and list(found) != list(said):
                wait.tell(f"{wait.what} waits for {_listed(found)}")
                said = found
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
