"""Checkpoints: when DuckDB's write-ahead log is merged into the file.

DuckDB writes a checkpoint with a commit, if the log and what it expects of the commit have 16 MB
together. Two kinds of transactions are far from what it expects:

- *Updates of many places.* DuckDB expects 2,048 values to be written for each value that is
  changed, but writes one. So a thousand updates of a table of a million rows cost a checkpoint of
  the whole column: 0.44 s instead of 0.07 s. Therefore DuckDB's own threshold is raised, and this
  module writes a checkpoint when the log really has 32 MB.
- *Large INSERTs.* DuckDB writes their rows into the file itself, and only a reference to them into
  the log. Whoever opens the file before the next checkpoint reads these rows, and adds their keys
  to the index again: 0.16 s for a million rows, at each opening. Therefore ``subscriber run``
  writes a checkpoint before it closes a file that has grown, or that was slow to open. It takes
  0.05 s then.

Only ``subscriber run`` writes checkpoints; a command that reads does not write.

While another transaction writes, DuckDB refuses a checkpoint; it is tried again when the next
connection is closed. *Rejected:* FORCE CHECKPOINT, which waits for the other transaction.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Final

import duckdb

LOG_BYTES: Final = 32 * 1024 * 1024
"""The size of the log from which on a checkpoint is written: twice that of DuckDB, since the run
also writes one when the file was slow to open.
"""
THRESHOLD: Final = "SET checkpoint_threshold = '256MB'"
"""The setting of DuckDB that is raised. What DuckDB expects also limits how many changed columns
are in memory.
"""
SLOW_SECONDS: Final = 0.1
"""A file that takes longer to open needs a checkpoint; otherwise it takes 0.02 s."""


class Checkpoints:
    """Writes the checkpoints of one file.

    Args:
        file: the path of the file.
    """

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._log = Path(f"{file}.wal")
        self._size: int | None = None
        self._was_slow = False

    def opened(self, seconds: float) -> None:
        """Note how long it took to open the file."""
        self._was_slow = self._was_slow or seconds > SLOW_SECONDS
        if self._size is None:
            self._size = _size(self._file)

    def before_close(self, connection: Any, *, closes_file: bool) -> None:
        """Write a checkpoint, if the log is large, or if the file is closed and would be slow to
        open.

        Args:
            connection: DuckDB's connection, which has no transaction and is about to be closed.
            closes_file: whether it is the last connection to the file.
        """
        log = _size(self._log)
        is_slow = self._was_slow or _size(self._file) > (self._size or 0)
        if log >= LOG_BYTES or (log and closes_file and is_slow):
            with contextlib.suppress(duckdb.Error):  # another transaction writes, or the disk is full
                connection.execute("CHECKPOINT")
                self._size, self._was_slow = _size(self._file), False


def _size(file: Path) -> int:
    """The size of a file; 0 if there is none."""
    try:
        return file.stat().st_size
    except OSError:
        return 0
