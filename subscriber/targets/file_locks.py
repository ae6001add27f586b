"""The processes that hold a lock on a database file, from the kernel's list (Linux only)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from subscriber.waiting import session

_LOCKS: Final = Path("/proc/locks")
_SHARED_MEMORY: Final = "-shm"


def holders(database: str) -> list[str]:
    """The other processes that hold a lock on a database file, described for messages.

    Empty if the kernel does not provide this list.
    """
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
    """The process and the file of a line of the kernel's list that holds a write lock.

    An example is ``1: POSIX  ADVISORY  WRITE 4711 08:01:1234 0 EOF``. A line with ``->`` describes
    a process that waits for a lock; it is skipped.
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
