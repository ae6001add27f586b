"""Transactions of a DuckDB target, which are optimistic. The file is kept open between those that
follow each other closely, and handed over to a process that waits for it.

::

    waiting process                     says that it waits ────────────────── has it ─ closes it
    transactions A  ▂▂▂▂▂▂▂  ▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂│                                │        ▂▂▂▂▂▂▂
    transactions B  ▂▂▂  ▂▂▂▂▂▂▂▂▂▂  ▂▂▂▂│ ··│································│········▂▂▂▂▂▂
    file            █████████████████████████│▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁████████
                                         ├ drain ┤├ closed, until nobody waits ┤

To open the file takes several times as long as a small transaction. But a process that has it open
locks it for all others. Therefore only ``subscriber run`` keeps it open, by a connection that has
no transaction; it closes the file when no transaction has followed for a moment.

A process that uses this package says that it waits (:mod:`subscriber.targets.duckdb.connection`).
The run then hands the file over:

- It lets its transactions finish, and lets no other thread begin one. A thread that has a
  connection may open another one: it may need it to finish.
- When no connection is left, it closes the file, and leaves it closed until nobody waits, at most
  for :data:`CLOSED_SECONDS`.
- If a transaction lasts longer than :data:`DRAIN_SECONDS`, the others go on. The same limit ends a
  deadlock of threads that wait for each other.
- A thread whose transaction was too long does not begin another one before the hand-over, for at
  most :data:`HOLD_SECONDS`. So the file is handed over although several threads copy one large
  table after the other.
- Between two hand-overs the run has the file for :data:`OWN_SECONDS`, so that a process that asks
  all the time does not stop it.

Other programs do not say that they wait. For them, the file is closed now and then for
:data:`PAUSE_SECONDS`, if no connection happens to be open.

*Rejected:* longer or more frequent pauses without a sign. With several busy threads, some
connection is always open, so the pause never begins; and without anybody who waits, it is lost
time. *Rejected:* one lock for all transactions of the run. DuckDB lets several write at the same
time. *Rejected:* signals or sockets between the processes: they need rights, names and an end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import sqlalchemy as sa
from sqlalchemy import exc
from typing_extensions import override

from subscriber.targets.base.errors import Errors
from subscriber.targets.base.transactions import Transactions
from subscriber.targets.database_files import holders


class DuckDBTransactions(Transactions):
    def __init__(self, engine: sa.Engine, errors: Errors, file: str) -> None:
        super().__init__(engine, errors)
        self._file = file

    @override
    def interrupt(self, connection: sa.Connection) -> None:
        import duckdb

        with suppress(exc.SQLAlchemyError, duckdb.Error):  # it may just be closed
            driver: Any = connection.connection.driver_connection
            driver.interrupt()

    @override
    def waits_for(self, session: int | None) -> Sequence[str]:
        return holders(self._file)


# Keep open -------------------------------------------------------------------------------------

IDLE_SECONDS: Final = 0.2
"""The file is closed when nobody has had a connection for so long. A transaction may take longer;
if it then closed the file, each would end with a checkpoint.
"""
LONGEST_SECONDS: Final = 2.0
"""The file is closed after so long, even if it is used all the time."""
PAUSE_SECONDS: Final = 0.1
"""The file then stays closed for so long: twice the interval at which other processes try."""
LOOK_SECONDS: Final = 0.05
"""How often it is checked whether somebody waits, while the file is open."""
DRAIN_SECONDS: Final = 5.0
"""How long transactions may be held up until those in progress have ended."""
HOLD_SECONDS: Final = 35.0
"""A thread with a long transaction waits so long for the hand-over: longer than a command does."""
CLOSED_SECONDS: Final = 2.0
"""How long the file stays closed for those who wait."""
OWN_SECONDS: Final = 0.25
"""How long the run has the file before it hands it over again."""


class BeforeClose(Protocol):
    def __call__(self, connection: Any, *, closes_file: bool) -> None: ...


def _nothing(connection: Any, *, closes_file: bool) -> None:
    del connection, closes_file


def _nobody() -> bool:
    return False


class FileConnections:
    """See the module; for any thread. ``before_close`` gets each connection before it is closed,
    and whether it is the file's last one in a run that may keep the file open.
    """

    def __init__(
        self,
        before_close: BeforeClose = _nothing,
        somebody_waits: Callable[[], bool] = _nobody,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._before_close = before_close
        self._somebody_waits = somebody_waits
        self._clock = clock
        self._sleep = sleep
        self._changed = threading.Condition()
        self._keeps = False
        self._keeper: Any = None
        self._since = self._used = self._closed_until = self._own_until = 0.0
        self._opening = 0
        self._threads: dict[int, int] = {}
        self._too_long: set[int] = set()
        self._held: dict[int, float] = {}
        self._pauses = False
        self._hands_over = False

    @property
    def keeps(self) -> bool:
        """Whether this process is a run, which keeps the file open and hands it over."""
        return self._keeps

    @contextmanager
    def keeping(self) -> Iterator[None]:
        with self._changed:
            self._keeps = True
        thread = threading.Thread(target=self._close_in_time, name="closes DuckDB's file", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._keeps = False
                self._changed.notify_all()
            thread.join()
            with self._changed:
                self._hands_over = False
                self._changed.notify_all()
                self._close()

    def opening(self) -> None:
        """Wait for other processes' turn. :meth:`opened` or :meth:`not_opened` must follow."""
        with self._changed:
            thread = threading.get_ident()
            while (self._hands_over or self._is_held(thread)) and thread not in self._threads.values():
                self._changed.wait(LOOK_SECONDS)
            self._opening += 1
            pause = self._closed_until - self._clock() if not self._threads else 0.0
        if pause > 0:
            self._sleep(pause)

    def not_opened(self) -> None:
        with self._changed:
            self._opening -= 1
            self._changed.notify_all()

    def opened(self, connection: Any, open_another: Callable[[], Any]) -> None:
        with self._changed:
            self._opening -= 1
            self._used = self._clock()
            if self._keeps and self._keeper is None and not (self._pauses or self._hands_over):
                self._keeper = open_another()
                self._since = self._used
            self._threads[id(connection)] = threading.get_ident()
            self._changed.notify_all()

    def closed(self, connection: Any) -> None:
        with self._changed:
            thread = self._threads.pop(id(connection), None)
            if id(connection) in self._too_long:
                # A later connection may get the same number.
                self._too_long.discard(id(connection))
                if thread is not None:
                    self._held[thread] = self._clock() + HOLD_SECONDS
                self._hands_over = self._hands_over or (not self._too_long and self._is_asked())
            if self._keeps:
                self._before_close(connection, closes_file=self._keeper is None and not self._threads)
            self._used = self._clock()
            self._begin_pause()
            self._changed.notify_all()

    def _close_in_time(self) -> None:
        with self._changed:
            while self._keeps:
                if self._hands_over:
                    self._hand_over()
                elif self._keeper is None and not self._threads:
                    self._changed.wait()
                elif self._clock() >= self._own_until and self._is_asked():
                    self._hand_over()
                elif self._keeper is None:
                    self._changed.wait(LOOK_SECONDS)
                else:
                    self._close_when_due()

    def _close_when_due(self) -> None:
        now, latest = self._clock(), self._since + LONGEST_SECONDS
        due = latest if self._threads else min(self._used + IDLE_SECONDS, latest)
        if now < due:
            self._changed.wait(min(due - now, LOOK_SECONDS))
            return
        self._pauses = now >= latest
        self._close()
        self._begin_pause()

    # The hand-over --------------------------------------------------------------------------------

    def _is_held(self, thread: int) -> bool:
        """Whether the thread's last transaction was too long for the hand-over before."""
        until = self._held.get(thread)
        if until is None:
            return False
        if self._keeps and self._clock() < until and self._somebody_waits():
            return True
        del self._held[thread]
        return False

    def _is_asked(self) -> bool:
        """Whether another process waits, and no transaction goes on that was too long before."""
        return self._keeps and not self._too_long and self._somebody_waits()

    def _hand_over(self) -> None:
        """Close the file when no transaction is in progress, for those who wait."""
        self._hands_over = True
        try:
            deadline = self._clock() + DRAIN_SECONDS
            while self._keeps and (self._threads or self._opening) and self._clock() < deadline:
                self._changed.wait(LOOK_SECONDS)
            self._too_long = set(self._threads)
            if self._threads or self._opening:
                return
            self._held.clear()
            self._close()
            until = self._clock() + CLOSED_SECONDS
            while self._keeps and self._clock() < until and self._somebody_waits():
                self._changed.wait(LOOK_SECONDS)
        finally:
            self._hands_over = False
            self._own_until = self._clock() + OWN_SECONDS
            self._changed.notify_all()

    def _close(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            self._before_close(keeper, closes_file=not self._threads)
            keeper.close()

    def _begin_pause(self) -> None:
        if self._pauses and not self._threads:
            self._pauses = False
            self._closed_until = self._clock() + PAUSE_SECONDS
