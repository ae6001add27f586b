"""Targets that are files: obstacles in the file system, who holds a lock (from the kernel's list,
on Linux only), and the run lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import sqlalchemy as sa
from typing_extensions import override

from subscriber.base.errors import AlreadyRunning, TargetUnavailable
from subscriber.base.waiting import session
from subscriber.targets.base.transactions import RunLock


def obstacle(database: str) -> str | None:
    """Why the file system prevents opening a database file, as a sentence."""
    path = Path(database)
    folder = path.parent
    if not folder.exists():
        return f"There is no folder {folder}."
    if not folder.is_dir():
        return f"{folder} is not a folder."
    if path.is_dir():
        return f"{path} is a folder; a file is needed."
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        return f"{path} may not be read and written by this user."
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"This user may not create files in folder {folder}, and the database must."
    return None


def hint_at(obstacle: str, scheme: str) -> str:
    return f"{obstacle} Correct that, or the target URL: {scheme}:////absolute/path or {scheme}:///relative/path."


# File locks ------------------------------------------------------------------------------------

_LOCKS: Final = Path("/proc/locks")
_SHARED_MEMORY: Final = "-shm"


def holders(database: str) -> list[str]:
    """Other processes with a lock on a database file, for messages, as far as the kernel says."""
    files = {(place.st_dev, place.st_ino) for place in _places(database)}
    try:
        listed = _LOCKS.read_text().splitlines()
    except OSError:
        return []
    found = {process for line in listed for process, file in _writers(line) if file in files}
    return [session(process, None, None, _name(process)) for process in sorted(found - {os.getpid()})]


def _places(database: str) -> Iterator[os.stat_result]:
    for path in (database, f"{database}{_SHARED_MEMORY}"):
        try:
            yield os.stat(path)
        except OSError:
            continue


def _writers(line: str) -> Iterator[tuple[int, tuple[int, int]]]:
    """The process and the file of a line of the kernel's list that holds a write lock, such as ``1:
    POSIX ADVISORY WRITE 4711 08:01:1234 0 EOF``. A line with ``->`` is about a process that waits.
    """
    fields = line.split()
    if len(fields) < 6 or fields[1] not in ("POSIX", "OFDLCK") or fields[3] != "WRITE":
        return
    major, minor, inode = fields[5].split(":")
    yield int(fields[4]), (os.makedev(int(major, 16), int(minor, 16)), int(inode))


def _name(process: int) -> str | None:
    """The program's name, without its arguments."""
    try:
        return Path(f"/proc/{process}/comm").read_text().strip() or None
    except OSError:
        return None


# Run lock --------------------------------------------------------------------------------------

_PATIENCE_SECONDS: Final = 0.5
"""A process that calls :func:`is_locked` holds the lock for a moment, although it is not a run."""
_PAUSE_SECONDS: Final = 0.02


def is_locked(database: str) -> bool | None:
    """Whether the lock of :class:`FileRunLock` is held; None if the lock file cannot be read."""
    try:
        with Path(f"{database}.subscriber-lock").open() as handle:
            return not _try_lock(handle, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False
    except OSError:
        return None


class FileRunLock(RunLock):
    """An advisory lock on ``<file>.subscriber-lock``, which ends with the process."""

    def __init__(self, file: str) -> None:
        self._file = file

    @override
    @contextmanager
    def hold(self) -> Iterator[None]:
        """If the lock file cannot be opened, the target is not available (TargetUnavailable)."""
        path = Path(f"{self._file}.subscriber-lock")
        try:
            handle = path.open("a")
        except OSError as error:
            raise TargetUnavailable(
                f"cannot open the lock file {path}: {error.strerror}",
                hint=obstacle(self._file) or "The lock file is beside the database file.",
            ) from error
        with handle:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while not _try_lock(handle, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise AlreadyRunning(
                        f'another "subscriber run" is already running for {self._file}',
                        hint="Stop it first; one process runs all subscriptions of a target.",
                    )
                time.sleep(_PAUSE_SECONDS)
            handle.truncate(0)
            handle.write(f"{os.getpid()}\n")
            handle.flush()
            yield

    @override
    def is_held(self, connection: sa.Connection) -> bool | None:
        return is_locked(self._file)


def _try_lock(handle: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
