"""Notices that a job waits because the cluster gives no executors.

Spark itself waits for ever, and says so only in its own log: the workers of a standalone cluster
may be too small for an executor, or others use them. Code that waits for the result of a job
therefore asks, once a second, whether there is an executor. After a while without one the wait ends
with an error: it is recorded as every error is, the job is cancelled, and the work is tried again
later. Spark goes on to ask the cluster for executors meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from subscriber.errors import PipelineError

if TYPE_CHECKING:
    from pyspark import SparkContext

PATIENCE_SECONDS: Final = 15.0
"""How long to wait for an executor. Spark's own warning comes after the same time."""
_LOOK_SECONDS: Final = 1.0


def lacks_executors(context: SparkContext) -> bool:
    """Return whether a job is waiting and there is no executor. Without a job, a cluster may have
    taken the executors back (``spark.dynamicAllocation``), and threads of a local master need none.
    """
    jvm: Any = context._jsc.sc()  # noqa: SLF001 - it has no other name
    if jvm.isLocal() or not len(jvm.statusTracker().getActiveJobIds()):
        return False
    return int(jvm.getExecutorMemoryStatus().size()) <= 1  # the driver


class ExecutorWatch:
    """Watches whether there are executors, while a job is waited for.

    Args:
        context: the Spark context.
        lacks: returns whether a job is waiting and there is no executor.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        context: SparkContext,
        lacks: Callable[[SparkContext], bool] = lacks_executors,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._lacks = lacks
        self._clock = clock
        self._lock = threading.Lock()
        self._looked = clock()
        self._since: float | None = None

    def check(self) -> None:
        """Return if there are executors, or have been none only for a short time. Called several
        times a second while a job is waited for; a pause between two calls is the end of a wait.

        Raises:
            PipelineError: there have been no executors for :data:`PATIENCE_SECONDS`.
        """
        with self._lock:
            now = self._clock()
            if now - self._looked < _LOOK_SECONDS:
                return
            if now - self._looked > PATIENCE_SECONDS / 2:
                self._since = None
            self._looked = now
            if not self._lacks(self._context):
                self._since = None
            elif self._since is None:
                self._since = now
            elif now - self._since >= PATIENCE_SECONDS:
                self._since = None
                raise self._error()

    def _error(self) -> PipelineError:
        return PipelineError(
            f'Spark has no executors: master "{self._context.master}" has given none for {PATIENCE_SECONDS:.0f} s',
            detail="No worker has room for an executor: it asks for spark.executor.memory (1g unless it is set) and, in a"
            " standalone cluster, for all cores of the worker or for spark.executor.cores.",
            hint="The page of the master shows its workers and who uses them. Start a worker, or set spark.executor.memory"
            " and spark.executor.cores in the spark-defaults.conf of this machine to what a worker has; or use --master"
            " 'local[*]'. It is tried again.",
        )
