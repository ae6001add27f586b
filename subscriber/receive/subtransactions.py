"""Where each subtransaction of a streamed transaction began, to truncate it there (rule C43).

A transaction may have millions of subtransactions (a loop with an EXCEPTION clause has one in each
iteration), and any of them may still be rolled back. The newest are therefore kept in memory, and
the others in a temporary SQLite database. Its cache is bounded, and its file is deleted when it is
closed, also when the process is killed.

Invariant: every subtransaction in memory began after all those in the database. Those that began at
or after a position are therefore the newest ones of memory and of the database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from subscriber.errors import JournalUnavailable

IN_MEMORY: Final = 10_000
"""Number of subtransactions; they take about 1 MB."""


class SubtransactionIndex:
    """Maps a raw xid to the position of the subtransaction's first change.

    Positions only grow, except after a truncation.

    Args:
        in_memory: how many subtransactions are kept in memory.
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
        """The position at which a subtransaction began; None for a subtransaction without
        changes.
        """
        position = self._newest.get(xid)
        if position is None and self._older is not None:
            row = self._older.execute("SELECT position FROM began WHERE xid = ?", (int.from_bytes(xid),)).fetchone()
            position = None if row is None else row[0]
        return position

    def forget_from(self, position: int) -> None:
        """Remove the subtransactions that began at ``position`` or later.

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
        """Close the temporary database, which deletes it."""
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
