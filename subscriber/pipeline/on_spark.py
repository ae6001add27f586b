"""What a subscription has done by Spark, for callers that need not know that there is a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from subscriber.pipeline.copy import CopyTable, copy_table
from subscriber.pipeline.session import END_SECONDS, has_ended
from subscriber.pipeline.streaming_query import ApplyQuery, StartQuery


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The two kinds of work.

    Attributes:
        start_query: applies a journal from a position on, until it is stopped.
        copy_table: loads one table as it is in a snapshot.
        has_ended: whether nothing of it can work any more, whatever one does; it may wait a moment
            to be sure.
    """

    start_query: StartQuery
    copy_table: CopyTable
    has_ended: Callable[[], bool] = lambda: False


def spark_pipeline(spark: SparkSession) -> Pipeline:
    """The pipeline on a Spark session."""
    return Pipeline(partial(ApplyQuery, spark), partial(copy_table, spark), partial(has_ended, spark, END_SECONDS))
