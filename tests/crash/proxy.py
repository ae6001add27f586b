"""A TCP proxy between a PostgreSQL client and its server. It can change the server's messages, and
go away for a while as a pooler that is restarted.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

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
        port: where it listens.
        conninfo: the same database through the proxy, without TLS (what is encrypted cannot be
            changed).
    """

    def __init__(self, conninfo: str) -> None:
        parameters = conninfo_to_dict(conninfo)
        self.transform: Transform | None = None
        self._server = (str(parameters["host"]), int(parameters["port"] or 5432))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._clients: set[socket.socket] = set()
        self.port: int = self._listener.getsockname()[1]
        self.conninfo = make_conninfo(conninfo, port=self.port, sslmode="disable", gssencmode="disable")

    def __enter__(self) -> Proxy:
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Inside the block every connection is closed, and no other is accepted."""
        self._close()
        try:
            yield
        finally:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._listen()

    def _listen(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _close(self) -> None:
        for each in (self._listener, *self._clients):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                self._clients.add(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(self._server) as server:
            answers = threading.Thread(target=self._pumping, args=(self._answers, client, server), daemon=True)
            answers.start()
            self._pumping(self._requests, client, server)
            answers.join()
        self._clients.discard(client)

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
