"""Asks :mod:`subscriber.base.fork_server` for a process, and stands for it until it ends: ``python
fork_client.py SOCKET -m MODULE …``. If there is no server, it becomes the process itself.

Spark starts this program instead of Python, without the packages of the environment, so that it
starts in some milliseconds. It may only import the standard library.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
from typing import Any

NUMBER = struct.Struct("<i")
"""What both sides send: the length of the request, the process ID, the exit code."""
_SIGNAL_EXIT = 128


def main() -> int:
    path, *arguments = sys.argv[1:]
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError:
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - without a server this program becomes Python
    # The process can run before its ID is here. A SIGTERM that arrives meanwhile waits until it can
    # be passed on.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    request = json.dumps({"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}).encode()
    socket.send_fds(connection, [NUMBER.pack(len(request))], [0, 1, 2])
    connection.sendall(request)
    process = _number(connection)

    def pass_on(received: int, _frame: Any) -> None:
        os.kill(process, received)
        os._exit(_SIGNAL_EXIT + received)

    signal.signal(signal.SIGTERM, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return _number(connection)


def _number(connection: socket.socket) -> int:
    """The next number from the process; ends this program if the process has ended before."""
    data = connection.recv(NUMBER.size, socket.MSG_WAITALL)
    if len(data) < NUMBER.size:
        sys.exit(1)
    number: int = NUMBER.unpack(data)[0]
    return number


if __name__ == "__main__":
    sys.exit(main())
