"""Spark starts while others work."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from subscriber.errors import Stopped, UsageError
from subscriber.pipeline.spark import Spark
from tests.waits import PATIENCE, wait_until

SESSION: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=None)))


def test_the_session_is_created_while_the_caller_works():
    may_start = threading.Event()

    def create() -> Any:
        may_start.wait(PATIENCE)
        return SESSION

    spark = Spark("local[2]", create)
    assert (spark.master, spark.created, spark.has_ended()) == ("local[2]", None, False)
    spark.check()
    may_start.set()
    assert spark.session() is SESSION
    assert spark.session_unless(threading.Event()) is SESSION
    assert spark.created is SESSION
    assert not spark.has_ended(), "another program has started the JVM"


def test_who_does_not_need_spark_any_more_does_not_wait_for_it():
    may_start, stop = threading.Event(), threading.Event()
    stop.set()

    def create() -> Any:
        may_start.wait(PATIENCE)
        return SESSION

    with pytest.raises(Stopped):
        Spark("local[2]", create).session_unless(stop)
    may_start.set()


def test_a_failed_start_is_the_programs_error_and_none_of_those_who_wait():
    """Otherwise a subscription with disable_on_error would be disabled."""

    def create() -> Any:
        raise UsageError("could not start Spark")

    spark, stop, ended = Spark("spark://nowhere", create), threading.Event(), threading.Event()

    def wait() -> None:
        with pytest.raises(Stopped):
            spark.session_unless(stop)
        ended.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    with pytest.raises(UsageError):
        spark.session()
    with pytest.raises(UsageError):
        spark.check()
    assert not ended.is_set()
    assert not spark.has_ended()
    stop.set()
    wait_until(ended.is_set)
    waiting.join()
