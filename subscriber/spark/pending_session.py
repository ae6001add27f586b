"""Spark, which starts while others already work.

::

    Spark ──▶ thread: the JVM, then the session ─────────────────────▶ session
    workers ──▶ receivers, tables, what waits in the journal             ▲
           └──▶ large ranges, copies ──────────────── wait for it ───────┘

On two cores Spark takes about five seconds to start. The workers need it for large tables and large
backlogs only.

The first job loads Spark's classes and starts a Python worker. So the supervisor asks for a warm-up
once, as soon as Spark has started and no worker has work. *Rejected:* the same when Spark starts:
at that time the run usually has work for few cores.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from subscriber.base.errors import PipelineError, Stopped, SubscriberError

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.05


class PendingSession:
    """A Spark session that is created in a thread of its own. ``fork_server`` is the address of the
    one that forks Python processes, if there is one (:mod:`subscriber.base.forked_process`).
    """

    def __init__(
        self,
        master: str,
        create: Callable[[], SparkSession],
        log_file: Path | None = None,
        fork_server: Path | None = None,
    ) -> None:
        self.master = master
        self.fork_server = fork_server
        self._log_file = log_file
        self._warming: threading.Thread | None = None
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
        return self._session

    def check(self) -> None:
        """Raise the error if Spark cannot be started, or if the JVM has ended (PipelineError)."""
        if self._error is not None:
            raise self._error
        if self.has_ended():
            raise self.ended_error()

    def ended_error(self) -> PipelineError:
        return PipelineError(
            "Spark's Java process has ended",
            detail="It ran out of memory, or another process has ended it.",
            hint=f"{self._log_file or 'Its log'} may say more. Start again: changes that are not in the target are applied then.",
        )

    def session(self) -> SparkSession:
        """Wait for the session, and return it; raise the error if Spark cannot be started."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._session is not None
        return self._session

    def session_unless(self, stop: threading.Event) -> SparkSession:
        """Wait for the session. If Spark cannot be started, this waits for ``stop`` (error
        Stopped): the error ends the program (:meth:`check`), and is none of those who wait.
        """
        while (session := self._session) is None:
            if stop.wait(_POLL_SECONDS):
                raise Stopped("stopped before Spark had started")
        return session

    def has_ended(self, seconds: float = 0) -> bool:
        """Whether the JVM that pyspark has started is gone, or ends within ``seconds``: its sockets
        are closed a moment before. A JVM of another program is not checked, nor one that starts.
        """
        process = self._jvm()
        if process is None:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None

    def jvm_pid(self) -> int | None:
        """The process of the JVM that pyspark has started; None before, and for another JVM."""
        process = self._jvm()
        return None if process is None else process.pid

    def _jvm(self) -> subprocess.Popen[bytes] | None:
        if self._session is None:
            return None
        gateway: Any = self._session.sparkContext._gateway  # noqa: SLF001 - it has no other name
        process: subprocess.Popen[bytes] | None = gateway.proc
        return process

    def warm_up(self) -> bool:
        """Run a job in the background once Spark has started; whether that has begun."""
        if self._warming is None and self._session is not None:
            self._warming = threading.Thread(
                target=self._run_job, args=(self._session,), name="warm-up of Spark", daemon=True
            )
            self._warming.start()
        return self._warming is not None

    @staticmethod
    def _run_job(session: SparkSession) -> None:
        try:
            session.sparkContext.parallelize([], 1).mapPartitions(list).collect()
        except Exception as error:  # whatever fails here fails again, and is reported, where it is needed
            logger.debug("Spark was not warmed up: %s", type(error).__name__)
