"""PyMySQL's connection that sends local data, on a pair of sockets in the place of a server."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from pymysql import err
from pymysql.constants import CLIENT, SERVER_STATUS

from subscriber.targets.mariadb.target import MariaDBConnection

STATEMENT = "LOAD DATA LOCAL INFILE 'block' INTO TABLE t"
ASKS_FOR_DATA = b"\xfb/etc/passwd"


def ok(rows: int, warnings: int) -> bytes:
    """An OK packet: header, affected rows, last insert id, status, warnings."""
    return bytes([0, rows, 0]) + struct.pack("<HH", 2, warnings)


@dataclass
class Server:
    """The other end of the connection.

    Attributes:
        connection: the client's connection.
        end: the server's socket.
        packets: what the client has sent, up to and including the first empty packet.
    """

    connection: MariaDBConnection
    end: socket.socket
    packets: list[bytes] = field(default_factory=list)

    def answer(self, *payloads: bytes) -> threading.Thread:
        """Answer the statement, and the data that follow it."""

        def run() -> None:
            sequence = self._receive()
            self._send(payloads[0], sequence)
            while len(payloads) > 1 and self.packets[-1]:
                sequence = self._receive()
            if len(payloads) > 1:
                self._send(payloads[1], sequence)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def _receive(self) -> int:
        header = self._exactly(4)
        self.packets.append(self._exactly(int.from_bytes(header[:3], "little")))
        return header[3]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            received = self.end.recv(size - len(data))
            assert received, "the connection was closed"
            data += received
        return data

    def _send(self, payload: bytes, sequence: int) -> None:
        self.end.sendall(len(payload).to_bytes(3, "little") + bytes([sequence + 1]) + payload)


@pytest.fixture
def server() -> Iterator[Server]:
    connection = MariaDBConnection(defer_connect=True)
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as file:
        connection._sock, connection._rfile, connection._current_timeout = ours, file, None
        yield Server(connection, theirs)
        connection._force_close()


def test_the_server_is_told_that_local_data_can_be_sent(server):
    assert server.connection.client_flag & CLIENT.LOCAL_FILES


@pytest.mark.parametrize(
    ("data", "sizes"),
    [(b"", [0]), (b"1\t2\n", [4, 0]), (b"x" * 600 * 1024, [256 * 1024, 256 * 1024, 88 * 1024, 0])],
    ids=["no data", "one packet", "three packets"],
)
def test_the_given_bytes_are_sent_whatever_file_the_server_names(server, data, sizes):
    answering = server.answer(ASKS_FOR_DATA, ok(rows=7, warnings=3))
    assert server.connection.load(STATEMENT, data) == (7, 3)
    answering.join()
    command, *sent = server.packets
    assert command == b"\x03" + STATEMENT.encode()
    assert ([len(packet) for packet in sent], b"".join(sent)) == (sizes, data)


def test_a_server_that_does_not_ask_for_the_data_is_an_error(server):
    answering = server.answer(ok(rows=0, warnings=0))
    with pytest.raises(err.InternalError, match="did not ask for the data"):
        server.connection.load(STATEMENT, b"1\n")
    answering.join()


def test_an_error_of_the_server_is_raised(server):
    answering = server.answer(b"\xff" + struct.pack("<H", 1148) + b"#42000The used command is not allowed")
    with pytest.raises(err.MySQLError) as raised:
        server.connection.load(STATEMENT, b"1\n")
    answering.join()
    assert raised.value.args[0] == 1148


@pytest.mark.parametrize("statement", ["x" * 10, "é" * 5])
def test_a_statement_that_is_too_large_is_not_sent(server, statement):
    """The server would close the connection."""
    server.connection.largest_statement = 10
    with pytest.raises(err.OperationalError, match="max_allowed_packet") as raised:
        server.connection.query(statement)
    assert raised.value.args[0] == 1153
    server.end.setblocking(False)
    with pytest.raises(BlockingIOError):
        server.end.recv(1)


def test_a_statement_below_the_limit_is_sent(server):
    server.connection.largest_statement = 10
    answering = server.answer(ok(rows=1, warnings=0))
    assert server.connection.query("x" * 9) == 1
    answering.join()
    assert server.packets == [b"\x03" + b"x" * 9]


# Several statements in a packet -------------------------------------------------------------------


@dataclass
class Script:
    """A server that answers each command with the next payloads.

    Attributes:
        end: the server's socket.
        commands: what the client has sent.
    """

    end: socket.socket
    commands: list[bytes] = field(default_factory=list)

    def answer(self, *answers: list[bytes]) -> threading.Thread:
        def run() -> None:
            for payloads in answers:
                size = int.from_bytes(self._exactly(4)[:3], "little")
                self.commands.append(self._exactly(size))
                for number, payload in enumerate(payloads, start=1):
                    self.end.sendall(len(payload).to_bytes(3, "little") + bytes([number]) + payload)
            if not answers[-1]:
                self.end.close()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.end.recv(size - len(data))
        return data


ON, OFF = b"\x1b\x00\x00", b"\x1b\x01\x00"
DONE = b"\xfe\x00\x00\x02\x00"


def more(rows: int) -> bytes:
    """An OK packet, after which there is another one."""
    return bytes([0, rows, 0]) + struct.pack("<HH", 2 | SERVER_STATUS.SERVER_MORE_RESULTS_EXISTS, 0)


def test_the_affected_rows_of_several_statements_are_added(server):
    script = Script(server.end)
    answering = script.answer([DONE], [more(1), more(0), ok(rows=2, warnings=0)], [DONE])
    assert server.connection.query_many(b"U 1;U 2;U 3") == 3
    answering.join()
    assert script.commands == [ON, b"\x03U 1;U 2;U 3", OFF]


def test_after_an_error_several_statements_are_no_longer_accepted(server):
    script = Script(server.end)
    error = b"\xff" + struct.pack("<H", 1062) + b"#23000Duplicate entry"
    answering = script.answer([DONE], [more(1), error], [DONE])
    with pytest.raises(err.IntegrityError):
        server.connection.query_many(b"U 1;U 2")
    answering.join()
    assert script.commands[-1] == OFF


def test_a_lost_connection_is_reported_as_such(server):
    """any_crash: the error must not be that of the command after it."""
    answering = Script(server.end).answer([DONE], [])
    with pytest.raises(err.OperationalError) as raised:
        server.connection.query_many(b"U 1;U 2")
    answering.join()
    assert raised.value.args[0] == 2013


def test_several_statements_that_are_too_large_are_not_sent(server):
    server.connection.largest_statement = 10
    script = Script(server.end)
    answering = script.answer([DONE], [DONE])
    with pytest.raises(err.OperationalError, match="max_allowed_packet"):
        server.connection.query_many(b"U 1;U 2;U 3")
    answering.join()
    assert script.commands == [ON, OFF]
