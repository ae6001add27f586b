"""``<database>.waiting``: a process that waits for DuckDB's file says so, to the run that keeps it
open (:mod:`subscriber.targets.duckdb.keep_open`).

::

    waiting process     open, shared flock ────────────── has the file: unlock, remove
    run                     ├─ exists, and is locked: somebody waits ─┘  nobody waits

The lock says that somebody waits, not the file: the kernel releases the lock of a process that was
killed. The file makes the run's look cheap, since it mostly does not exist. All processes must be
on one machine, as DuckDB's file requires it in any case.

Removing a file that others may be about to lock needs care. Only a process that has the exclusive
lock removes it, and a process that has got the shared lock checks that the file still has its name.
*Rejected:* a file that is touched again and again: it needs a time limit, and a thread that
touches.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import Final

SUFFIX: Final = ".waiting"
_ATTEMPTS: Final = 10


@contextlib.contextmanager
def said_to_wait(database: str) -> Iterator[None]:
    """Say that this process waits for a database file, while the block runs.

    A process that may not write beside the database file waits without saying so.
    """
    path = f"{database}{SUFFIX}"
    descriptor = _locked(path)
    try:
        yield
    finally:
        if descriptor is not None:
            _remove_if_last(path, descriptor)
            os.close(descriptor)


def somebody_waits(database: str) -> bool:
    """Return whether another process says that it waits for a database file. Without a waiting
    process this takes a few microseconds.
    """
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
    """The descriptor of the file with a shared lock; None if the file cannot be written."""
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
    """Whether the open file still has its name."""
    try:
        there, here = os.stat(path), os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
