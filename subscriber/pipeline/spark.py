"""Spark, which starts while others already work.

::

    Spark ──▶ thread: the JVM, then the session ─────────────────────▶ session
    workers ──▶ receivers, tables, what waits in the journal             ▲
           └──▶ queries and copies ────────────────── wait for it ───────┘

On two cores Spark takes about five seconds to start. The workers need it for large tables and large
backlogs only: they receive at once, and the driver itself applies what waits in the journal
(:mod:`subscriber.pipeline.tail`).
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import SparkSession

from subscriber.errors import Stopped, SubscriberError

_POLL_SECONDS: Final = 0.05


class Spark:
    """A Spark session that is created in a thread of its own.

    Args:
        master: the Spark master.
        create: creates the session; it raises SubscriberError if it cannot.

    Attributes:
        master: the Spark master.
    """

    def __init__(self, master: str, create: Callable[[], SparkSession]) -> None:
        self.master = master
        self._create = create
        self._session: SparkSession | None = None
        self._error: SubscriberError | None = None
        self._thread = threading.Thread(target=self._start, name="start of Spark", daemon=True)
        self._thread.start()

    def _start(self) -> None:
        try:
            self._session = self._create()
        except SubscriberError as error:
            self._error = error

    @property
    def created(self) -> SparkSession | None:
        """The session; None if it is not created yet, or cannot be."""
        return self._session

    def check(self) -> None:
        """Do nothing if Spark starts, or has started.

        Raises:
            SubscriberError: Spark cannot be started.
        """
        if self._error is not None:
            raise self._error

    def session(self) -> SparkSession:
        """Wait for the session, and return it.

        Raises:
            SubscriberError: Spark cannot be started.
        """
        self._thread.join()
        self.check()
        assert self._session is not None
        return self._session

    def session_unless(self, stop: threading.Event) -> SparkSession:
        """Wait for the session, and return it. If Spark cannot be started, this waits for ``stop``:
        the error ends the program (:meth:`check`), and is none of those who wait.

        Raises:
            Stopped: ``stop`` was set.
        """
        while (session := self._session) is None:
            if stop.wait(_POLL_SECONDS):
                raise Stopped("stopped before Spark had started")
        return session

    def has_ended(self, seconds: float = 0) -> bool:
        """Return whether the JVM that pyspark has started is gone, or ends within ``seconds``. Its
        sockets are closed a moment before it is gone.

        A JVM that another program has started is not checked, nor one that starts.
        """
        if self._session is None:
            return False
        gateway: Any = self._session.sparkContext._gateway  # noqa: SLF001 - it has no other name
        process: subprocess.Popen[bytes] | None = gateway.proc
        if process is None:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None
