"""The replication connection: what libpq's buffer has is returned together, and a lost connection
is a transient error.
"""

from __future__ import annotations

import os
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg import OperationalError, pq

from subscriber.base.errors import PublisherNotReady, PublisherUnavailable
from subscriber.postgres.protocol.envelope import Notice, decode_notice
from subscriber.publisher.connection import NAP_SECONDS, ReplicationConnection, next_result


class Libpq:
    """libpq's connection, scripted: what get_copy_data gives, one after the other."""

    def __init__(self, *script: Any, result: Any = None) -> None:
        self.script = list(script)
        self.result = result
        self.consumed = 0
        self.error_message = b"server closed the connection unexpectedly\n"
        self.socket = 0

    def get_copy_data(self, _asynchronous: int) -> tuple[int, bytes]:
        step = self.script.pop(0) if self.script else DRY
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, tuple) else (len(step), step)

    def consume_input(self) -> None:
        self.consumed += 1
        if self.script and isinstance(self.script[0], OperationalError):
            raise self.script.pop(0)

    def is_busy(self) -> int:
        return 0

    def get_result(self) -> Any:
        return self.result

    def put_copy_data(self, data: bytes) -> None:
        raise OperationalError("gone")

    def flush(self) -> int:
        return 0


def stream(*script: Any, result: Any = None) -> ReplicationConnection:
    made = ReplicationConnection.__new__(ReplicationConnection)
    made._pg = Libpq(*script, result=result)  # type: ignore[assignment]
    made._failure = None
    made._frames = []
    made.woken_by = None
    return made


DRY = (0, b"")
END = (-1, b"")


def test_what_is_buffered_is_handed_out_together():
    connection = stream(b"one", b"two")
    assert connection.read() == [b"one", b"two"]
    assert connection._pg.consumed == 1  # type: ignore[attr-defined]


def test_no_more_than_a_limit_is_handed_out_at_once():
    """libpq's buffer may have hundreds of megabytes after a large row."""
    row = b"x" * 600_000
    connection = stream(row, row, row)
    assert connection.read() == [row, row]
    assert connection._pg.consumed == 0  # type: ignore[attr-defined]
    assert connection.read() == [row]


def test_what_came_before_the_end_of_the_stream_is_handed_out_first():
    connection = stream(b"one", END)
    assert connection.read() == [b"one"]
    for _ in range(2):
        with pytest.raises(PublisherUnavailable, match="has ended"):
            connection.read()


def test_a_notice_is_returned_at_its_place_among_the_frames():
    connection = stream()
    fields = {pq.DiagnosticField.SEVERITY_NONLOCALIZED: b"WARNING", pq.DiagnosticField.MESSAGE_PRIMARY: b"careful"}
    notice: Any = SimpleNamespace(error_field=fields.get)
    frames = iter([b"one", b"two", b""])

    def get_copy_data(_asynchronous: int) -> tuple[int, bytes]:
        frame = next(frames, b"")
        if frame == b"two":
            connection._hear(notice)  # libpq calls it when it comes upon the notice
        return len(frame), frame

    connection._pg.get_copy_data = get_copy_data  # type: ignore[method-assign, assignment]
    one, said, two = connection.read()
    assert (one, two) == (b"one", b"two")
    assert decode_notice(said) == Notice("WARNING", "", "careful")
    assert connection.read() == []


def test_a_dry_buffer_is_filled_once_before_the_caller_waits():
    assert stream(DRY, b"late").read() == [b"late"]
    connection = stream(DRY, DRY)
    assert connection.read() == []
    assert connection._pg.consumed == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("script", [[OperationalError("x")], [DRY, OperationalError("x")]], ids=["copy", "socket"])
def test_a_lost_connection_is_transient(script):
    with pytest.raises(PublisherUnavailable, match="could not receive data from WAL stream: server closed") as caught:
        stream(*script).read()
    assert caught.value.transient


def test_a_connection_lost_while_sending_is_transient_too():
    with pytest.raises(PublisherUnavailable):
        stream().send(b"r")


@pytest.mark.parametrize("result", [None, SimpleNamespace(status=pq.ExecStatus.COMMAND_OK)])
def test_the_end_of_the_stream_has_postgresql_s_words(result):
    """Rule C36."""
    with pytest.raises(PublisherUnavailable, match=r"^data stream from publisher has ended$"):
        stream(END, result=result).read()


def test_an_error_in_the_stream_is_the_server_s_own():
    fields = {
        pq.DiagnosticField.MESSAGE_PRIMARY: b'publication "p" does not exist',
        pq.DiagnosticField.SQLSTATE: b"42704",
        pq.DiagnosticField.MESSAGE_DETAIL: b"detail",
    }
    result = SimpleNamespace(status=pq.ExecStatus.FATAL_ERROR, error_field=fields.get)
    with pytest.raises(PublisherNotReady) as caught:
        stream(END, result=result).read()
    error = caught.value
    assert (error.message, error.sqlstate, error.detail) == ('publication "p" does not exist', "42704", "detail")


def test_an_error_without_sqlstate_is_a_lost_connection():
    result = SimpleNamespace(status=pq.ExecStatus.FATAL_ERROR, error_field=lambda field: None)
    with pytest.raises(PublisherUnavailable, match="server closed the connection unexpectedly"):
        stream(END, result=result).read()


def test_while_much_arrives_waiting_naps_first_so_that_the_socket_fills(monkeypatch):
    naps: list[float] = []
    monkeypatch.setattr("time.sleep", naps.append)
    monkeypatch.setattr("select.select", lambda *arguments: naps.append(arguments[-1]))
    stream().wait(1.0, more=True)
    stream().wait(0.001, more=True)
    assert naps == [NAP_SECONDS, 1.0 - NAP_SECONDS, 0.001, 0.0]


def test_while_little_arrives_a_commit_is_taken_at_once(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("napped"))
    waits: list[float] = []
    monkeypatch.setattr("select.select", lambda *arguments: waits.append(arguments[-1]))
    stream().wait(1.0, more=False)
    assert waits == [1.0]


def test_a_descriptor_that_can_be_read_ends_the_wait():
    connection = stream()
    silent, _other = socket.socketpair()
    woken_by, wakes = os.pipe()
    connection._pg.socket, connection.woken_by = silent.fileno(), woken_by  # type: ignore[misc]
    threading.Timer(0.05, os.close, [wakes]).start()
    connection.wait(3600.0, more=False)
    os.close(woken_by)


def test_other_threads_run_while_a_server_does_not_answer():
    """psycopg's PGconn.connect keeps the lock of the interpreter: all subscriptions of a run stood
    still, and the run could not be ended. Here the other thread is the server's.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            client, _ = listener.accept()
            client.close()

        server = threading.Thread(target=refuse)
        server.start()
        port = listener.getsockname()[1]
        with pytest.raises(PublisherUnavailable, match="closed the connection unexpectedly"):
            ReplicationConnection(f"host=127.0.0.1 port={port} connect_timeout=5", "s")
        server.join()


def test_a_result_is_taken_only_when_the_server_has_sent_it():
    """psycopg's PGconn.get_result keeps the lock of the interpreter while it waits."""
    client, server = socket.socketpair()

    class Busy(Libpq):
        def is_busy(self) -> int:
            return 0 if self.consumed else 1

        def get_result(self) -> Any:
            assert self.consumed
            return super().get_result()

    with client, server:
        server.send(b"Z")
        result: Any = object()
        pgconn: Any = Busy(result=result)
        pgconn.socket = client.fileno()
        assert next_result(pgconn) is result
