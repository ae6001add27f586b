"""How one ``subscriber run`` takes over from another.

::

    run 1   run lock ───────────── killed, or its machine is gone ✗        stopped and woken: a later run has the lease ──▶ ends with 1
    run 2   --standby: waits for the run lock ──────────────────── run lock ──▶ lease, receivers, apply loops

The run lock of the target decides which run works; it ends with the process or session that holds
it. A run that was stopped (SIGSTOP) or cut off from the target may have lost it without knowing.
Until it finds the lease of the later run, at most some seconds after it woke, nothing that it does
counts: the progress in the target moves by compare-and-set, the slot has one receiver, and the
journal one writer.

*Rejected:* a lease of Kubernetes or of another service. It would be a second opinion on who may
write the target, and only the target's counts.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

from subscriber.base.errors import AlreadyRunning, TargetUnavailable
from subscriber.catalog.leases import Lease
from subscriber.targets import Target

logger = logging.getLogger(__name__)

_ASK_SECONDS: Final = 0.5
_NEEDED_SOON: Final = ("subscriber.spark.spark_functions", "subscriber.worker.supervisor")
"""Modules that a run needs first. A standby imports them before it takes over."""


@contextlib.contextmanager
def holding_run_lock(
    target: Target, stop: threading.Event, waiting: Callable[[], AbstractContextManager[object]] | None = None
) -> Iterator[None]:
    """Hold the run lock of the target while the block runs.

    If another run has it: AlreadyRunning; with ``waiting``, wait inside that context until the lock
    is free, or until ``stop`` is set, which runs the block without the lock.
    """
    with contextlib.ExitStack() as held, contextlib.ExitStack() as wait:
        logged = ""
        while True:
            try:
                held.enter_context(target.running())
                break
            except (AlreadyRunning, TargetUnavailable) as error:
                if waiting is None:
                    raise
                if not logged:
                    wait.enter_context(waiting())
                if error.message != logged:
                    logged = error.message
                    logger.info("standby: %(error)s; waiting for the run lock", {"error": logged})
                    for module in _NEEDED_SOON:
                        importlib.import_module(module)
            if stop.wait(_ASK_SECONDS):
                break
        wait.close()
        if logged and not stop.is_set():
            logger.info("standby: the run lock is free, this run takes over")
        yield


class StopWhenTakenOver:
    """Ends a run that another one has taken over from."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._by: Lease | None = None

    def by(self, other: Lease) -> None:
        self._by = other
        self._stop.set()

    def check(self) -> None:
        """Raise AlreadyRunning if another run has taken over."""
        if self._by is not None:
            raise AlreadyRunning(
                f"another `subscriber run` has taken over: {self._by.holder_in_words}",
                detail="This run was stopped or cut off from the target for a while, and has lost the target's run lock.",
                hint="Start it again with --standby.",
            )
