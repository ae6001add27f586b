"""Ending what another thread does in a target: between two statements, and in the middle of one.

::

    whoever stops it                     the thread that works
    stop.set()     ──── flag ──────────▶ check() between statements raises Stopped
    interrupt()    ──── Transactions.interrupt ─▶ the statement that runs ends with an error
    interrupt()    …                     the transaction is rolled back; nobody interrupts that

The flag alone would wait for a statement that waits for a lock; an interrupt alone is lost when it
comes between two statements. So :meth:`Interruption.interrupt` is called again until the work has
ended. What is under way while a transaction ends - COMMIT, ROLLBACK - is left alone: the lock keeps
an interrupt from reaching a connection that is no longer ours.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import sqlalchemy as sa

from subscriber.errors import Stopped
from subscriber.targets.target import Target


class Interruption:
    """See the module.

    Args:
        target: what the work is done in.

    Attributes:
        stop: set once the work is to end.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._connections: list[sa.Connection] = []

    def interrupt(self) -> None:
        """End the statement that runs now, if one does."""
        with self._lock:
            for connection in self._connections:
                self._target.transactions.interrupt(connection)

    def check(self) -> None:
        """Go on only while nobody has asked for the end.

        Raises:
            Stopped: somebody has.
        """
        if self.stop.is_set():
            raise Stopped("the work was stopped")

    @contextlib.contextmanager
    def of(self, connection: sa.Connection) -> Iterator[None]:
        """Inside, the statements of ``connection`` may be interrupted.

        Raises:
            Stopped: the work is to end; also in the place of what an interrupt has made of a
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
