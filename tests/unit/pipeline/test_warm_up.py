"""Spark is warmed up once, when it has started. That the query and the job run is tested with Spark
in tests/conformance/test_spark_source.py.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from subscriber.journal.local_storage import LocalStorage
from subscriber.journal.reader import JournalReader
from subscriber.lsn import LSN
from subscriber.pipeline import warm_up as module
from subscriber.pipeline.spark import Spark
from subscriber.pipeline.warm_up import WarmUp
from tests.waits import PATIENCE, wait_until

SESSION: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=None)))


@pytest.fixture
def warmed(monkeypatch) -> list[tuple[Any, bool]]:
    """The sessions that were warmed up, and whether as local ones."""
    found: list[tuple[Any, bool]] = []
    monkeypatch.setattr(module, "warm_up", lambda session, *, local: found.append((session, local)))
    return found


def test_it_begins_when_spark_has_started_and_only_once(warmed):
    may_start = threading.Event()

    def create() -> Any:
        may_start.wait(PATIENCE)
        return SESSION

    spark = Spark("local[2]", create)
    warm_up = WarmUp(spark)
    assert not warm_up.begin()
    may_start.set()
    spark.session()
    assert warm_up.begin()
    assert warm_up.begin()
    wait_until(lambda: warmed == [(SESSION, True)])


def test_the_executors_of_a_cluster_read_no_file_of_this_machine(warmed):
    spark = Spark("spark://master:7077", lambda: SESSION)
    spark.session()
    WarmUp(spark).begin()
    wait_until(lambda: warmed == [(SESSION, False)])


def test_a_failure_is_no_error_of_the_run(monkeypatch, caplog):
    failed = threading.Event()

    def fail(_session: Any, *, local: bool) -> None:
        failed.set()
        raise ConnectionRefusedError(local)

    monkeypatch.setattr(module, "warm_up", fail)
    caplog.set_level("DEBUG")
    spark = Spark("local[2]", lambda: SESSION)
    spark.session()
    WarmUp(spark).begin()
    assert failed.wait(PATIENCE)
    wait_until(lambda: "Spark was not warmed up: ConnectionRefusedError" in caplog.text)


def test_the_journal_that_is_read_has_one_transaction(tmp_path):
    module._write_journal(tmp_path / "journal")
    journal = JournalReader(LocalStorage(tmp_path / "journal"))
    assert journal.latest(LSN(0x100)) == 0x208
    assert len(journal.entries(LSN(0x100))) == 1
