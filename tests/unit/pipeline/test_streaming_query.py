"""The streaming query: what its errors become, and what it does before Spark has started. The query
itself is tested with Spark in tests/conformance/test_spark_source.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JError

from subscriber.apply.exact import ExactApplier
from subscriber.errors import ConflictError, PipelineError, SubscriberError, UsageError
from subscriber.lsn import LSN
from subscriber.pipeline.spark import Spark
from subscriber.pipeline.streaming_query import ApplyQuery, JournalStream, missing_module
from subscriber.settings import Settings
from subscriber.targets import Target
from tests.journals import three_transactions
from tests.waits import PATIENCE, wait_until


@pytest.fixture
def started(tmp_path, target) -> Iterator[Callable[[Callable[[], Any]], ApplyQuery]]:
    """Starts a query over a journal that inserts 1, 2 and 3, with a function that creates the Spark
    session.
    """
    journal = tmp_path / "journal"
    three_transactions(journal)
    with contextlib.ExitStack() as end:

        def start(create: Callable[[], Any]) -> ApplyQuery:
            query = ApplyQuery(
                Spark("local[2]", create),
                "apply",
                JournalStream(str(journal), LSN(0x100)),
                ExactApplier(target, subscription="s", subid=1),
                Settings(str(tmp_path)),
                on_applied=lambda _result: None,
                turn=contextlib.nullcontext(),
            )
            end.callback(query.stop)
            return query

        yield start


def rows(target: Target) -> list[int]:
    with target.engine.connect() as connection:
        return [key for (key,) in connection.exec_driver_sql("SELECT a FROM t ORDER BY a")]


def test_what_waits_is_applied_before_spark_has_started(started, target):
    never = threading.Event()
    query = started(never.wait)
    wait_until(lambda: rows(target) == [1, 2, 3])
    assert query.running
    assert query.failure() is None
    query.stop()
    assert not query.running
    assert query.applied == LSN(0x400)
    never.set()


def test_an_error_before_spark_has_started_ends_the_query(started, target):
    with target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (2, 'local')")
    never = threading.Event()
    query = started(never.wait)
    wait_until(lambda: not query.running)
    assert isinstance(query.failure(), ConflictError)
    query.stop()
    assert rows(target) == [1, 2]
    never.set()


def test_a_failed_start_of_spark_is_no_error_of_the_query(started):
    def create() -> Any:
        raise UsageError("could not start Spark")

    query = started(create)
    query.cancel()
    query.stop()
    assert query.failure() is None


@pytest.mark.parametrize("error", [Py4JError("gone"), ConnectionRefusedError()])
def test_the_end_of_spark_while_a_query_starts_is_raised(started, error):
    """The supervisor then ends the run."""

    class Ended:
        @property
        def sparkContext(self) -> Any:  # noqa: N802 - Spark's name
            raise error

    query = started(Ended)
    wait_until(lambda: not query.running, PATIENCE)
    with pytest.raises(type(error)) as raised:
        query.failure()
    assert not isinstance(raised.value, SubscriberError)


def test_a_worker_that_lacks_a_module_is_explained():
    text = "PythonException: Traceback …\nModuleNotFoundError: No module named 'subscriber.protocol'\n"
    error = missing_module(RuntimeError(text))
    assert isinstance(error, PipelineError)
    assert error.message == 'Spark\'s Python workers have no module "subscriber.protocol"'
    assert "PYSPARK_PYTHON" in (error.hint or "")


@pytest.mark.parametrize("text", ["", "Job aborted due to stage failure", "No module named subscriber"])
def test_other_errors_of_spark_have_another_cause(text):
    assert missing_module(RuntimeError(text)) is None
