"""Opening DuckDB's file, which one process at a time may have open, so that what is in it is what
the process before has left.

DuckDB (2.0) reads a file's headers before it locks the file, and not again::

    other process                          ours
                                           read the headers
    checkpoint: new headers, no WAL
    close, which gives up the lock
                                           lock the file, look for a WAL: there is none

Ours then has the database as it was before that checkpoint: tables are missing, and what it writes
makes the file one that nobody can open any more. So the headers are looked at before DuckDB does,
and once more under its lock; they count checkpoints, and when they are still the same DuckDB has
seen these. If not, the connection is closed before anything is done with it, and opened anew.

The second look uses the descriptor that DuckDB has: POSIX takes a process's lock away when the
process closes *any* descriptor of the file, so a file that is open here is never opened beside it.
For the same reason one thread at a time opens.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import duckdb

from subscriber.targets.file_locks import holders
from subscriber.waiting import watched

BUSY_TIMEOUT: Final = 10.0
"""Seconds to wait for another process to close the file before the target counts as unavailable."""

_BUSY_PAUSE: Final = 0.05
_HEADERS: Final = 3 * 4096
"""The main header and the two of which the newer one counts."""
_DESCRIPTORS: Final = "/dev/fd"
"""Lists a process's own; where there is none (Windows) locks are not POSIX's, either."""

_opening: Final = threading.Lock()


def open_file(path: str, connect: Callable[[], Any]) -> Any:
    """A connection to the file, which is waited for while another process has it open.

    Args:
        path: the file's.
        connect: opens it.

    Raises:
        duckdb.Error: what ``connect`` raised; of a file that is open elsewhere after
            :data:`BUSY_TIMEOUT`.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT
    with watched("opening the target's file (DuckDB)", lambda: holders(path)):
        while True:
            try:
                connection = _attempt(path, connect)
            except duckdb.Error as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
            else:
                if connection is not None:
                    return connection
            time.sleep(_BUSY_PAUSE)


def _attempt(path: str, connect: Callable[[], Any]) -> Any | None:
    """A connection, or None where another process has changed the file meanwhile."""
    with _opening:
        before = _headers(path)
        connection = connect()
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        if before is None or _headers(path) == before:
            return connection
        connection.close()
        return None


def _headers(path: str) -> bytes | None:
    """The headers of a file; None where there is none yet, or no telling (DuckDB itself will say
    why).
    """
    if not os.path.exists(_DESCRIPTORS):
        return None
    try:
        place = os.stat(path)
    except OSError:
        return None
    for name in os.listdir(_DESCRIPTORS):
        with contextlib.suppress(OSError):  # one that has been closed since
            found = os.fstat(int(name))
            if (found.st_dev, found.st_ino) == (place.st_dev, place.st_ino):
                return os.pread(int(name), _HEADERS, 0)
    try:
        with open(path, "rb") as file:
            return file.read(_HEADERS)
    except OSError:
        return None


def _is_busy(error: Exception) -> bool:
    """Whether the file is open in another process, or another thread of this one is just about to
    close it.
    """
    kind = type(error).__name__
    return kind == "ResourceInUseException" or (kind == "IOException" and "lock" in str(error))
