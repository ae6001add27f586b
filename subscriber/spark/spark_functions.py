"""Bundles the apply loops and copies for callers that do not depend on a Spark session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from subscriber.spark.apply_loop import ApplyLoop
from subscriber.spark.copy import CopyTable, copy_table
from subscriber.spark.pending_session import PendingSession
from subscriber.spark.session import END_SECONDS


@dataclass(frozen=True, slots=True)
class SparkFunctions:
    """The functions that run on Spark. ``start_apply`` takes the arguments of
    :class:`~subscriber.spark.apply_loop.ApplyLoop`; ``has_ended`` may wait a moment to be certain;
    ``warm_up`` returns whether it has begun, which needs Spark to have started; ``jvm_pid``, the
    process of the JVM that this program has started, if any; ``fork_server`` is the address of the
    one that forks Python processes, if any.
    """

    start_apply: Callable[..., ApplyLoop]
    copy_table: CopyTable
    has_ended: Callable[[], bool] = lambda: False
    check: Callable[[], None] = lambda: None
    warm_up: Callable[[], bool] = lambda: True
    jvm_pid: Callable[[], int | None] = lambda: None
    fork_server: Path | None = None


def functions_on(spark: PendingSession) -> SparkFunctions:
    return SparkFunctions(
        partial(ApplyLoop, spark),
        partial(copy_table, spark),
        partial(spark.has_ended, END_SECONDS),
        spark.check,
        spark.warm_up,
        spark.jvm_pid,
        spark.fork_server,
    )
