"""Where each subtransaction of a streamed transaction began: what it takes to cut it off (rule
C43).

A transaction may have millions of subtransactions (a loop with an EXCEPTION clause has one a turn),
and any of them may still be rolled back. So the newest are kept in memory and the others in a
temporary database of SQLite's, whose cache is bounded and whose file is gone when it is closed,
also when the process is killed.

Invariant: what is in memory began after all that is in the database. So what began at or after a
place is the newest of both.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from subscriber.errors import JournalUnavailable

IN_MEMORY: Final = 10_000
"""Subtransactions; about 1 MB."""


class SubtransactionIndex:
    """Raw xid → position of the first change; positions only grow, but for what was cut off.

    Args:
        in_memory: how many are kept in memory.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._newest: dict[bytes, int] = {}
        self._older: sqlite3.Connection | None = None

    def begin(self, xid: bytes, position: int) -> None:
        """A subtransaction has made a change at ``position``; only its first one counts.

        Raises:
            JournalUnavailable: there is no space for a temporary file.
        """
        if self.position(xid) is not None:
            return
        if len(self._newest) >= self._in_memory:
            self._move_to_disk()
        self._newest[xid] = position

    def position(self, xid: bytes) -> int | None:
        """Where a subtransaction began; None of one that has changed nothing."""
        position = self._newest.get(xid)
        if position is None and self._older is not None:
            row = self._older.execute("SELECT position FROM began WHERE xid = ?", (int.from_bytes(xid),)).fetchone()
            position = None if row is None else row[0]
        return position

    def forget_from(self, position: int) -> None:
        """Forget those that began at ``position`` or later.

        Raises:
            JournalUnavailable: there is no space for a temporary file.
        """
        while self._newest:
            xid, began = self._newest.popitem()
            if began < position:
                self._newest[xid] = began
                return
        if self._older is not None:
            with _writing():
                self._older.execute("DELETE FROM began WHERE position >= ?", (position,))

    def close(self) -> None:
        """Let go of the temporary database."""
        self._newest.clear()
        if self._older is not None:
            self._older.close()
            self._older = None

    def _move_to_disk(self) -> None:
        with _writing():
            if self._older is None:
                self._older = sqlite3.connect("", isolation_level=None)
                self._older.execute("PRAGMA journal_mode = OFF")
                self._older.execute("CREATE TABLE began (xid INTEGER PRIMARY KEY, position INTEGER NOT NULL)")
                self._older.execute("CREATE INDEX began_position ON began (position)")
            self._older.execute("BEGIN")
            rows = ((int.from_bytes(xid), position) for xid, position in self._newest.items())
            self._older.executemany("INSERT INTO began VALUES (?, ?)", rows)
            self._older.execute("COMMIT")
        self._newest.clear()


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise JournalUnavailable(
            f"could not write the positions of subtransactions to a temporary file: {error}",
            hint="Free space in the folder for temporary files (SQLITE_TMPDIR or TMPDIR); the transaction is received again.",
        ) from error
