"""The rows that a repair writes and deletes: what is left when equal rows of both sides have
cancelled.

Memory does not depend on the number of rows: they are kept in a temporary file, which the operating
system removes when the process ends. Unlike the file of :mod:`subscriber.verify.row_differences` it
contains the values of the rows, because a repair writes them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Final, Literal

from subscriber.verify.row_batch import Row

_ROWS_AT_ONCE: Final = 1000
_DIGEST_BYTES: Final = 16

Texts = tuple[str | None, ...]
Kind = Literal["surplus", "changed", "missing"]

_WITHOUT_KEY: Final = {
    "surplus": "SELECT texts, -number FROM kept WHERE number < 0",
    "changed": "SELECT texts, number FROM kept WHERE false",
    "missing": "SELECT texts, number FROM kept WHERE number > 0",
}
_THERE: Final = "(SELECT 1 FROM kept o WHERE o.key = kept.key AND o.number {} 0)"
_WITH_KEY: Final = {
    "surplus": f"SELECT texts, 1 FROM kept WHERE number < 0 AND NOT EXISTS {_THERE.format('>')}",
    "changed": f"SELECT texts, 1 FROM kept WHERE number > 0 AND EXISTS {_THERE.format('<')}",
    "missing": f"SELECT texts, number FROM kept WHERE number > 0 AND NOT EXISTS {_THERE.format('<')}",
}


class RowsToRepair:
    """The rows that differ.

    Args:
        key: the places of the key's columns; empty for a table without a key.
    """

    def __init__(self, key: Sequence[int]) -> None:
        self._key = key
        # A database without a name is a file in the temporary directory.
        self._database = sqlite3.connect("")
        self._database.execute(
            "CREATE TABLE kept (row BLOB PRIMARY KEY, key BLOB NOT NULL, texts TEXT NOT NULL, number INTEGER NOT NULL)"
            " WITHOUT ROWID"
        )

    def close(self) -> None:
        """Remove the temporary file."""
        self._database.close()

    def add(self, rows: Iterable[Row], number: Literal[1, -1]) -> None:
        """Add rows of the publisher (1) or of the target (-1).

        Raises:
            sqlite3.Error: the temporary file cannot be written.
        """
        self._database.executemany(
            "INSERT INTO kept VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number,"
            " texts = CASE WHEN excluded.number > 0 THEN excluded.texts ELSE texts END",
            (
                (_digest(row), _digest([row[place] for place in self._key]), json.dumps(stored), number)
                for row, stored in rows
            ),
        )

    def cancel(self) -> None:
        """Remove the rows that both sides have, after all rows were added."""
        self._database.execute("DELETE FROM kept WHERE number = 0")
        self._database.execute("CREATE INDEX keys ON kept (key, number)")

    def rows(self, kind: Kind) -> Iterator[list[Texts]]:
        """The rows of a kind, some at a time: a row without a key as often as it is to be written
        or deleted.
        """
        query = (_WITH_KEY if self._key else _WITHOUT_KEY)[kind]
        each = (tuple(json.loads(texts)) for texts, number in self._database.execute(query) for _ in range(number))
        while some := list(islice(each, _ROWS_AT_ONCE)):
            yield some


def _digest(texts: Sequence[str | None]) -> bytes:
    return blake2b(json.dumps(list(texts)).encode(), digest_size=_DIGEST_BYTES).digest()
