"""A query is started with the source's options, and ended with what it has opened. The query itself
is tested with Spark in tests/conformance/test_spark_source.py.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JError

from subscriber.errors import Stopped
from subscriber.pipeline import frame_query
from subscriber.pipeline.frame_query import FrameQuery
from subscriber.pipeline.frame_source import FrameSource


@pytest.fixture
def session() -> MagicMock:
    found = MagicMock()
    found.sparkContext.defaultParallelism = 2
    return found


def query(session: MagicMock, tmp_path: Path, **options: str) -> FrameQuery:
    return FrameQuery(
        session, "apply", {"partitionBytes": 1024, **options}, tmp_path / "checkpoint", lambda _batch, _number: None
    )


def running(session: MagicMock) -> MagicMock:
    """Spark's query, as the session's mock gives it."""
    stream = session.readStream.format.return_value.options.return_value.load.return_value.writeStream
    found: MagicMock = stream.queryName.return_value.option.return_value.foreachBatch.return_value.start.return_value
    return found


def test_a_query_that_was_not_started_is_not_active_and_has_no_exception(session, tmp_path):
    one = query(session, tmp_path)
    assert not one.active
    assert one.exception() is None
    one.stop()


def test_it_reads_the_frames_of_the_journal_with_the_sources_options(session, tmp_path):
    one = query(session, tmp_path, journal="/j")
    one.start()
    session.dataSource.register.assert_called_once_with(FrameSource)
    session.readStream.format.assert_called_once_with("pgoutput_frames")
    session.readStream.format.return_value.options.assert_called_once_with(partitionBytes=1024, journal="/j")
    assert one.active
    assert one.exception() is running(session).exception.return_value
    one.stop()
    running(session).stop.assert_called_once_with()


def test_a_query_that_is_stopped_while_others_start_does_not_start(session, tmp_path):
    """A run with twenty subscriptions that was told to end started twenty queries first, which took
    longer than the seconds that it has to end in order.
    """
    stop, raised = threading.Event(), []

    def check() -> None:
        if stop.is_set():
            raise Stopped("stopped")

    one = FrameQuery(session, "apply", {"partitionBytes": 1024}, tmp_path / "checkpoint", lambda *_: None, check)

    def start() -> None:
        with pytest.raises(Stopped) as stopped:
            one.start()
        raised.append(stopped)

    with frame_query._starting:
        thread = threading.Thread(target=start)
        thread.start()
        stop.set()
    thread.join()
    assert raised
    assert not one.active
    one.stop()


def test_frames_that_nobody_has_taken_are_removed_before_the_next_micro_batch(session, tmp_path):
    folder = tmp_path / "frames"
    folder.mkdir()
    (folder / "left").write_bytes(b"x")
    one = query(session, tmp_path, frameFolder=str(folder))
    one.rows(MagicMock())
    assert list(folder.iterdir()) == []
    one.stop()


def test_the_connection_of_sparks_thread_is_closed_with_the_query(session, tmp_path):
    socket = MagicMock()
    batch: Any = MagicMock()
    gateway = batch.sparkSession.sparkContext._gateway
    gateway._gateway_client.get_thread_connection.return_value = SimpleNamespace(socket=socket)
    one = query(session, tmp_path)
    one.start()
    one._call(batch, 0)
    one.stop()
    socket.shutdown.assert_called_once()


def test_a_query_ends_with_the_jvm_too(session, tmp_path):
    one = query(session, tmp_path)
    one.start()
    running(session).stop.side_effect = Py4JError("gone")
    one.stop()
