"""Opening DuckDB's file so that the connection sees what the previous process wrote.

Only one process at a time may have the file open. DuckDB (2.0) reads a file's headers before it
locks the file, and does not read them again afterwards::

    other process                          this process
                                           read the headers
    checkpoint: new headers, no WAL
    close, which releases the lock
                                           lock the file, look for a WAL: there is none

This process would then see the database as it was before the checkpoint: tables would be missing,
and its writes would make the file unusable. Therefore the headers are read before DuckDB opens the
file, and again while DuckDB holds its lock. The headers count checkpoints: if they have not
changed, DuckDB has read these headers. If they have changed, the connection is closed before it is
used, and the file is opened again.

The second read uses the file descriptor of DuckDB. POSIX releases a process's lock when the process
closes *any* descriptor of the file, so this module never opens a file that is already open in this
process. For the same reason only one thread at a time opens the file.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import duckdb

from subscriber.targets.duckdb.checkpoints import THRESHOLD
from subscriber.targets.duckdb.errors import is_busy
from subscriber.targets.duckdb.waiting_file import said_to_wait
from subscriber.targets.file_locks import holders
from subscriber.waiting import watched

BUSY_TIMEOUT: Final = 10.0
"""Seconds to wait for another process to close the file before the target counts as unavailable."""

_BUSY_PAUSE: Final = 0.05
_HEADERS: Final = 3 * 4096
"""The size of the headers in bytes: the main header and two database headers, of which the newer is
valid.
"""
_DESCRIPTORS: Final = "/dev/fd"
"""The folder that lists the process's file descriptors. A system without it (Windows) does not have
POSIX locks.
"""

_opening: Final = threading.Lock()


def open_file(path: str, connect: Callable[[], Any], patience: float = BUSY_TIMEOUT, *, says_so: bool = True) -> Any:
    """Open the file; wait while another process has it open or changes it.

    Args:
        path: the path of the file.
        connect: the function that opens the file.
        patience: the number of seconds to wait for other processes.
        says_so: whether to say that this process waits, so that a run hands the file over
            (:mod:`subscriber.targets.duckdb.waiting_file`). The run itself does not say so: it
            could not tell its own sign from that of another process.

    Raises:
        duckdb.Error: ``connect`` raised it. The error for a file that another process has open is
            raised after ``patience``.
        duckdb.IOException: other processes changed the file in every attempt until ``patience`` had
            passed.
    """
    deadline = time.monotonic() + patience
    with contextlib.ExitStack() as waiting:
        waiting.enter_context(watched("opening the target's file (DuckDB)", lambda: holders(path)))
        has_said_so = not says_so
        while True:
            try:
                connection = _attempt(path, connect)
            except duckdb.Error as error:
                if not is_busy(type(error).__name__, str(error)) or time.monotonic() > deadline:
                    raise
                if not has_said_so:
                    waiting.enter_context(said_to_wait(path))
                    has_said_so = True
            else:
                if connection is not None:
                    return connection
                if time.monotonic() > deadline:
                    raise duckdb.IOException(f"other processes changed {path} whenever it was opened")
            time.sleep(_BUSY_PAUSE)


def _attempt(path: str, connect: Callable[[], Any]) -> Any | None:
    """A connection, or None if another process changed the file during the attempt."""
    with _opening:
        before = _headers(path)
        connection = connect()
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute(THRESHOLD)
        connection.execute("PRAGMA disable_progress_bar")  # it would be written to standard output
        if before is None or _headers(path) == before:
            return connection
        connection.close()
        return None


def _headers(path: str) -> bytes | None:
    """The headers of a file.

    None if the file does not exist or cannot be read; DuckDB then reports the reason.
    """
    if not os.path.exists(_DESCRIPTORS):
        return None
    try:
        place = os.stat(path)
    except OSError:
        return None
    for name in os.listdir(_DESCRIPTORS):
        with contextlib.suppress(OSError):  # the descriptor may be closed by now
            found = os.fstat(int(name))
            if (found.st_dev, found.st_ino) == (place.st_dev, place.st_ino):
                return os.pread(int(name), _HEADERS, 0)
    try:
        with open(path, "rb") as file:
            return file.read(_HEADERS)
    except OSError:
        return None
