"""A TCP proxy between a PostgreSQL client and its server that can change the server's messages."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Transform = Callable[[bytes], bytes]
"""A whole message of the server (type byte, length, body) → the message that the client gets
instead.
"""

_RECEIVE = 65536


class Proxy:
    """``with Proxy(conninfo) as proxy: connect(proxy.conninfo)``; `transform` may change at any
    time.

    Attributes:
        transform: applied to every message of the server; None passes them on.
        conninfo: the same database through the proxy, without TLS (what is encrypted cannot be
            changed).
    """

    def __init__(self, conninfo: str) -> None:
        parameters = conninfo_to_dict(conninfo)
        self.transform: Transform | None = None
        self._server = (str(parameters["host"]), int(parameters["port"] or 5432))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self.conninfo = make_conninfo(
            conninfo, port=self._listener.getsockname()[1], sslmode="disable", gssencmode="disable"
        )

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._open += [client, server]
                for pump in (self._requests, self._answers):
                    threading.Thread(target=self._pumping, args=(pump, client, server), daemon=True).start()

    def _pumping(self, pump: Callable[[socket.socket, socket.socket], None], *ends: socket.socket) -> None:
        """Forward one direction; when it ends, the other direction ends, too."""
        with contextlib.suppress(OSError):
            pump(*ends)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        while data := client.recv(_RECEIVE):
            server.sendall(data)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        buffer = b""
        while data := server.recv(_RECEIVE):
            buffer += data
            while len(buffer) >= 5 and len(buffer) > (length := int.from_bytes(buffer[1:5])):
                message, buffer = buffer[: length + 1], buffer[length + 1 :]
                client.sendall(message if self.transform is None else self.transform(message))


def flip_tuple_kind(marker: bytes) -> Transform:
    """Flip one bit of the byte that precedes the tuple of an INSERT, for INSERTs that contain
    ``marker``.

    CopyData: ``d``, length, then XLogData: ``w``, 24 bytes, then ``I``, relation (4 bytes), ``N``,
    the row.
    """
    insert = 5 + 25

    def transform(message: bytes) -> bytes:
        if message[:1] == b"d" and message[insert : insert + 1] == b"I" and marker in message:
            kind = insert + 5
            assert message[kind : kind + 1] == b"N"
            return message[:kind] + bytes([message[kind] ^ 1]) + message[kind + 1 :]
        return message

    return transform
