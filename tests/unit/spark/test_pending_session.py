"""Spark starts while others work."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from subscriber.base.errors import PipelineError, Stopped, UsageError
from subscriber.spark.pending_session import PendingSession
from tests.waits import PATIENCE, wait_until

SESSION: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=None)))


def test_the_session_is_created_while_the_caller_works():
    may_start = threading.Event()

    def create() -> Any:
        may_start.wait(PATIENCE)
        return SESSION

    spark = PendingSession("local[2]", create)
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
        PendingSession("local[2]", create).session_unless(stop)
    may_start.set()


def test_a_failed_start_is_the_programs_error_and_none_of_those_who_wait():
    """Otherwise a subscription with disable_on_error would be disabled."""

    def create() -> Any:
        raise UsageError("could not start Spark")

    spark, stop, ended = PendingSession("spark://nowhere", create), threading.Event(), threading.Event()

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


def test_the_end_of_the_jvm_is_an_error_of_the_program(tmp_path):
    ended: Any = SimpleNamespace(wait=lambda _seconds: None, returncode=137)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=ended)))
    spark = PendingSession("local[2]", lambda: session, tmp_path / "spark.log")
    spark.session()
    with pytest.raises(PipelineError, match="Spark's Java process has ended") as raised:
        spark.check()
    assert "spark.log may say more" in str(raised.value.hint)


# Warming up ---------------------------------------------------------------------------------------


def test_it_is_warmed_up_when_it_has_started_and_only_once():
    may_start, run = threading.Event(), []
    rdd = SimpleNamespace(mapPartitions=lambda task: SimpleNamespace(collect=lambda: run.append(task(()))))
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(parallelize=lambda _values, _partitions: rdd))

    def create() -> Any:
        may_start.wait(PATIENCE)
        return session

    spark = PendingSession("local[2]", create)
    assert not spark.warm_up()
    may_start.set()
    spark.session()
    assert spark.warm_up()
    assert spark.warm_up()
    wait_until(lambda: run == [[]])


def test_a_warm_up_that_fails_is_no_error_of_the_run(caplog):
    caplog.set_level("DEBUG")
    spark = PendingSession("local[2]", lambda: SESSION)
    spark.session()
    assert spark.warm_up()
    wait_until(lambda: "Spark was not warmed up: AttributeError" in caplog.text)
