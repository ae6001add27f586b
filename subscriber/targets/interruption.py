"""Stopping the work that another thread does in a target, between two statements or during one.

::

    thread that requests the stop        thread that works
    stop.set()     ──── flag ──────────▶ check() between statements raises Stopped
    interrupt()    ──── Transactions.interrupt ─▶ the running statement ends with an error
    interrupt()    …                     the transaction is rolled back without interruption

Both steps are needed. The flag alone has no effect while a statement waits for a lock. An interrupt
alone is lost if it arrives between two statements. Therefore the caller repeats
:meth:`Interruption.interrupt` until the work has ended. COMMIT and ROLLBACK are never interrupted:
a lock ensures that an interrupt does not reach a connection that has already been released.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import sqlalchemy as sa

from subscriber.errors import Stopped
from subscriber.targets.target import Target


class Interruption:
    """Stops the work in a target on request of another thread; see the module.

    Args:
        target: the target in which the work is done.

    Attributes:
        stop: the flag that requests the end of the work.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._connections: list[sa.Connection] = []

    def interrupt(self) -> None:
        """Interrupt the statement that runs now, if there is one."""
        with self._lock:
            for connection in self._connections:
                self._target.transactions.interrupt(connection)

    def check(self) -> None:
        """Return if no stop has been requested, and raise otherwise.

        Raises:
            Stopped: a stop has been requested.
        """
        if self.stop.is_set():
            raise Stopped("the work was stopped")

    @contextlib.contextmanager
    def of(self, connection: sa.Connection) -> Iterator[None]:
        """Allow interrupts of the statements of ``connection`` while the block runs.

        Raises:
            Stopped: a stop has been requested. This error also replaces the error of an interrupted
                statement.
        """
        with self._lock:
            self._connections.append(connection)
        try:
            self.check()
            yield
        except Exception:
            self.check()
            raise
        finally:
            with self._lock:
                self._connections.remove(connection)
