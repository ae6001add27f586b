"""Bundles the Spark queries and copies for callers that do not depend on a Spark session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from subscriber.pipeline.copy import CopyTable, copy_table
from subscriber.pipeline.session import END_SECONDS
from subscriber.pipeline.spark import Spark
from subscriber.pipeline.streaming_query import ApplyQuery, StartQuery
from subscriber.pipeline.warm_up import WarmUp


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The functions that run on Spark.

    Attributes:
        start_query: starts a query that applies a journal from a position on until it is stopped.
        copy_table: copies one table from a snapshot.
        has_ended: returns whether Spark has ended, so that neither can work any more; it may wait a
            moment to be certain.
        check: raises the error if Spark cannot be started.
        warm_up: warms up Spark once, in the background. Returns whether that has begun: before
            Spark has started, it cannot.
    """

    start_query: StartQuery
    copy_table: CopyTable
    has_ended: Callable[[], bool] = lambda: False
    check: Callable[[], None] = lambda: None
    warm_up: Callable[[], bool] = lambda: True


def spark_pipeline(spark: Spark) -> Pipeline:
    """Return the pipeline of Spark, which may still be starting."""
    return Pipeline(
        partial(ApplyQuery, spark),
        partial(copy_table, spark),
        partial(spark.has_ended, END_SECONDS),
        spark.check,
        WarmUp(spark).begin,
    )
