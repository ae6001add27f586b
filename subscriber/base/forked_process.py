"""The fork server (:mod:`subscriber.base.fork_server`), as the program that starts it sees it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from subscriber.base.fork_client import NUMBER

_LONGEST_SOCKET: Final = 96
"""The bytes of the path of a Unix socket. Systems allow 104 or 108, and the server appends four."""
_END_SECONDS: Final = 5.0


@contextlib.contextmanager
def fork_server(address: Path, log_file: Path, modules: Sequence[str]) -> Iterator[Path | None]:
    """Run a fork server that imports the modules, in a session of its own, so that Ctrl-C does not
    end it. Gives its address; None without modules, or if a socket cannot have such a path.
    """
    if not modules or len(os.fsencode(address)) > _LONGEST_SOCKET:
        yield None
        return
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "subscriber.base.fork_server", str(address), *modules],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # Spark's processes must agree about hashes of text.
            env={**os.environ, "PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
    finally:
        os.close(log)
    try:
        yield address
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:  # it is still importing
            process.kill()
            process.wait()


class ForkedProcess:
    """``python -m module``, forked by a fork server, with the part of :class:`subprocess.Popen`
    that is needed. Its standard error is that of this process.

    ``pid`` is None until the process runs, which may take until the server has imported its
    modules. ``returncode`` is None until it has ended, and -9 if it was killed, or if the server
    has ended before. No method waits for the server, except :meth:`wait`.

    Raises:
        OSError: there is no fork server at the address, or it has too much to do.
    """

    def __init__(self, address: Path, module: str, environment: Mapping[str, str]) -> None:
        self.pid: int | None = None
        self.returncode: int | None = None
        self._lock = threading.Lock()
        request = json.dumps(
            {"arguments": ["-m", module], "environment": dict(environment), "folder": os.getcwd()}
        ).encode()
        with contextlib.ExitStack() as opened:
            self._connection = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self._connection.setblocking(False)
            self._connection.connect(str(address))
            there_reads, writes = os.pipe()
            self.stdin = opened.enter_context(open(writes, "w"))
            with open(there_reads, "rb") as input_there:
                reads, there_writes = os.pipe()
                self.stdout = opened.enter_context(open(reads))
                with open(there_writes, "wb") as output_there:
                    ends = [input_there.fileno(), output_there.fileno(), 2]
                    socket.send_fds(self._connection, [NUMBER.pack(len(request))], ends)
                    self._connection.sendall(request)
            opened.pop_all()

    def poll(self) -> int | None:
        """The exit code, if the process has ended."""
        with self._lock:
            self._take_numbers()
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process; subprocess.TimeoutExpired after so many seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired("fork server", timeout or 0.0)
            poller = select.poll()
            poller.register(self._connection, select.POLLIN)
            poller.poll(None if left is None else left * 1000)
        return code

    def kill(self) -> None:
        """End the process at once. One that does not run yet ends when it would begin."""
        with self._lock:
            self._take_numbers()
            if self.returncode is not None:
                return
            if self.pid is None:
                self._ended(-signal.SIGKILL)
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def _take_numbers(self) -> None:
        """Take what the process has sent: its ID, and at its end the exit code."""
        while self.returncode is None:
            try:
                data = self._connection.recv(NUMBER.size)
            except BlockingIOError:
                return
            except ConnectionError:  # the server has ended with requests that it had not taken
                data = b""
            if len(data) < NUMBER.size:
                self._ended(-signal.SIGKILL)
            elif self.pid is None:
                (self.pid,) = NUMBER.unpack(data)
            else:
                self._ended(NUMBER.unpack(data)[0])

    def _ended(self, code: int) -> None:
        self.returncode = code
        self._connection.close()
