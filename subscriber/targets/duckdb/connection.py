"""Opening DuckDB's file so that the connection sees what the previous process wrote.

Only one process at a time may have the file open. DuckDB (2.0) reads a file's headers before it
locks the file, and does not read them again afterwards::

    other process                          this process
                                           read the headers
    checkpoint: new headers, no WAL
    close, which releases the lock
                                           lock the file, look for a WAL: there is none

This process would then see the database as it was before the checkpoint: tables would be missing,
and its writes would make the file unusable. Therefore the headers, which count checkpoints, are
read before DuckDB opens the file, and again while DuckDB holds its lock. If they have changed, the
connection is closed before it is used, and the file is opened again.

The second read uses the file descriptor of DuckDB. POSIX releases a process's lock when the process
closes *any* descriptor of the file, so this module never opens a file that is already open in this
process. For the same reason only one thread at a time opens the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import duckdb

from subscriber.base.waiting import watched
from subscriber.targets.database_files import holders
from subscriber.targets.duckdb.errors import is_busy

RUN_PATIENCE: Final = 10.0
COMMAND_PATIENCE: Final = 30.0
"""Seconds to wait for another process to close the file before the target counts as unavailable. A
command waits longer than a run, which tries again: a run that is busy hands the file over after its
batch.
"""

_BUSY_PAUSE: Final = 0.05
_HEADERS: Final = 3 * 4096
"""The main header and two database headers, of which the newer is valid."""
_DESCRIPTORS: Final = "/dev/fd"
"""Lists the process's file descriptors. A system without it (Windows) has no POSIX locks."""

_opening: Final = threading.Lock()


def open_file(
    path: str, connect: Callable[[], Any], patience: float = COMMAND_PATIENCE, *, says_so: bool = True
) -> Any:
    """Open the file; wait up to ``patience`` seconds while another process has it open or changes
    it, and raise DuckDB's error then.

    A process says that it waits, so that a run hands the file over. The run itself does not say so:
    it could not tell its own sign from that of another process.
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
    """None if the file does not exist or cannot be read; DuckDB then reports the reason."""
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


# Waiting file ----------------------------------------------------------------------------------
#
# A process that waits for DuckDB's file says so, to the run that keeps it open:
#
#     waiting process     open, shared flock ────────────── has the file: unlock, remove
#     run                     ├─ exists, and is locked: somebody waits ─┘  nobody waits
#
# The lock says that somebody waits, not the file: the kernel releases the lock of a process that
# was killed. The file makes the run's look cheap, since it mostly does not exist. All processes
# must be on one machine, as DuckDB's file requires it in any case.
#
# Removing a file that others may be about to lock needs care. Only a process that has the
# exclusive lock removes it, and a process that has got the shared lock checks that the file still
# has its name. *Rejected:* a file that is touched again and again: it needs a time limit, and a
# thread that touches.

SUFFIX: Final = ".waiting"
_ATTEMPTS: Final = 10


@contextlib.contextmanager
def said_to_wait(database: str) -> Iterator[None]:
    """A process that may not write beside the database file waits without saying so."""
    path = f"{database}{SUFFIX}"
    descriptor = _locked(path)
    try:
        yield
    finally:
        if descriptor is not None:
            _remove_if_last(path, descriptor)
            os.close(descriptor)


def somebody_waits(database: str) -> bool:
    """Whether another process waits for the file; without one, this takes a few microseconds."""
    path = f"{database}{SUFFIX}"
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        if _is_at(path, descriptor):
            with contextlib.suppress(OSError):
                os.unlink(path)  # a process that was killed has left it
        return False
    finally:
        os.close(descriptor)


def _locked(path: str) -> int | None:
    for _ in range(_ATTEMPTS):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        except OSError:
            os.close(descriptor)
            return None
        if _is_at(path, descriptor):
            return descriptor
        os.close(descriptor)  # it was removed before it was locked
    return None


def _remove_if_last(path: str, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(path, descriptor):
            os.unlink(path)


def _is_at(path: str, descriptor: int) -> bool:
    try:
        there, here = os.stat(path), os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


# Checkpoints -----------------------------------------------------------------------------------

LOG_BYTES: Final = 32 * 1024 * 1024
"""Twice DuckDB's threshold: the run also writes a checkpoint when the file was slow to open."""
LOG_BYTES_OPEN: Final = 4 * LOG_BYTES
"""While the file stays open, nobody reads the log. A run that is killed leaves about this much."""
THRESHOLD: Final = "SET checkpoint_threshold = '256MB'"
"""DuckDB's threshold is raised. It also limits how many changed columns are in memory."""
SLOW_SECONDS: Final = 0.1
"""A file that takes longer to open needs a checkpoint; otherwise it takes 0.02 s."""


class Checkpoints:
    """Writes the checkpoints of one file: merges DuckDB's write-ahead log into the file. Only
    ``subscriber run`` writes them; a command that reads does not write.

    DuckDB writes a checkpoint with a commit, if the log and what it expects of the commit have 16
    MB together. Two kinds of transactions are far from what it expects:

    - *Updates of many places.* DuckDB expects 2,048 values to be written for each value that is
      changed, but writes one. So a thousand updates of a table of a million rows cost a checkpoint
      of the whole column: 0.44 s instead of 0.07 s. Therefore DuckDB's own threshold is raised, and
      this module writes a checkpoint when the log really has 32 MB and the file is closed, or 128
      MB. Each checkpoint writes the last row group of a table again: one after each batch took a
      third of the processor time of inserting rows of 40 columns.
    - *Large INSERTs.* DuckDB writes their rows into the file itself, and only a reference to them
      into the log. Whoever opens the file before the next checkpoint reads these rows, and adds
      their keys to the index again: 0.16 s for a million rows, at each opening. A checkpoint before
      a run closes a file that has grown, or that was slow to open, takes 0.05 s.

    While another transaction writes, DuckDB refuses a checkpoint; it is tried again when the next
    connection is closed. *Rejected:* FORCE CHECKPOINT, which waits for the other transaction.
    """

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._log = Path(f"{file}.wal")
        self._size: int | None = None
        self._was_slow = False

    def opened(self, seconds: float) -> None:
        self._was_slow = self._was_slow or seconds > SLOW_SECONDS
        if self._size is None:
            self._size = _size(self._file)

    def before_close(self, connection: Any, *, closes_file: bool) -> None:
        """Write a checkpoint if the log is large, or the file would be slow to open again."""
        log = _size(self._log)
        is_slow = self._was_slow or _size(self._file) > (self._size or 0)
        if log >= (LOG_BYTES if closes_file else LOG_BYTES_OPEN) or (log and closes_file and is_slow):
            with contextlib.suppress(duckdb.Error):  # another transaction writes, or the disk is full
                connection.execute("CHECKPOINT")
                self._size, self._was_slow = _size(self._file), False


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
