"""The run lock of a target that is a file."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import sqlalchemy as sa

from subscriber.errors import AlreadyRunning, TargetUnavailable
from subscriber.targets.place import obstacle

_PATIENCE_SECONDS: Final = 0.5
"""Seconds to wait for the run lock. A process that calls :func:`is_locked` holds the lock for a
moment, although it is not a run.
"""
_PAUSE_SECONDS: Final = 0.02


@contextmanager
def locked_file(database: str) -> Iterator[None]:
    """Hold an advisory lock on ``<database>.subscriber-lock`` while the block runs.

    The operating system releases the lock when the process ends.

    Args:
        database: the path of the database file.

    Raises:
        AlreadyRunning: another process holds the lock.
        TargetUnavailable: the lock file cannot be opened.
    """
    path = Path(f"{database}.subscriber-lock")
    try:
        handle = path.open("a")
    except OSError as error:
        raise TargetUnavailable(
            f"cannot open the lock file {path}: {error.strerror}",
            hint=obstacle(database) or "The lock file is beside the database file.",
        ) from error
    with handle:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not _try_lock(handle, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise AlreadyRunning(
                    f'another "subscriber run" is already running for {database}',
                    hint="Stop it first; one process runs all subscriptions of a target.",
                )
            time.sleep(_PAUSE_SECONDS)
        handle.truncate(0)
        handle.write(f"{os.getpid()}\n")
        handle.flush()
        yield


def is_locked(database: str) -> bool | None:
    """Whether a process holds the lock of :func:`locked_file`; None if the lock file cannot be
    read.
    """
    try:
        with Path(f"{database}.subscriber-lock").open() as handle:
            return not _try_lock(handle, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False
    except OSError:
        return None


class FileRunLock:
    """The run lock of a target that is a file: an advisory lock on ``<file>.subscriber-lock``.

    See :class:`~subscriber.targets.roles.run_lock.RunLock`.

    Args:
        file: the path of the database file.
    """

    def __init__(self, file: str) -> None:
        self._file = file

    @contextmanager
    def hold(self) -> Iterator[None]:
        """See :meth:`RunLock.hold`."""
        with locked_file(self._file):
            yield

    def is_held(self, connection: sa.Connection) -> bool | None:
        """See :meth:`RunLock.is_held`; None if the lock file cannot be read."""
        del connection  # not needed: the kernel knows the lock's holder
        return is_locked(self._file)


def _try_lock(handle: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
