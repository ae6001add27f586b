"""A runner's lock for a target that is a file."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from subscriber.errors import AlreadyRunning, TargetUnavailable
from subscriber.target.place import obstacle


@contextmanager
def locked_file(database: str) -> Iterator[None]:
    """Hold an advisory lock on ``<database>.subscriber-lock``, which ends with the process.

    Args:
        database: path of the database's file.

    Raises:
        AlreadyRunning: another process holds it.
        TargetUnavailable: the lock file cannot be opened.
    """
    path = Path(f"{database}.subscriber-lock")
    try:
        handle = path.open("a")
    except OSError as error:
        raise TargetUnavailable(
            f"cannot open the lock file {path}: {error.strerror}",
            hint=obstacle(database) or "It stands beside the database.",
        ) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(
                f'another "subscriber run" is at work on {database}',
                hint="Stop it first; one process runs all subscriptions of a target.",
            ) from None
        handle.truncate(0)
        handle.write(f"{os.getpid()}\n")
        handle.flush()
        yield
