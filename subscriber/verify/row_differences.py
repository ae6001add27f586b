"""Comparison of two streams of rows as multisets: each row must occur equally often in both.

::

    publisher ─▶ row ─┐  equal      ─▶ nothing is kept
                      ├─▶
    target ────▶ row ─┘  different  ─▶ buffer: +1 or -1 a row ─▶ temporary file: digests ─▶ counts, keys

Both streams should be in the order of the key. Then equal rows are read at the same time and cancel
at once. The order only saves time and space: if two collations disagree, the comparison takes more
of both, but its result is the same.

Memory does not depend on the number of differences: rows beyond :data:`BUFFERED_ROWS` are written
to a temporary file, which the operating system removes when the process ends. The file contains
keys and digests of values, and no other values. *Rejected:* checksums of ranges of keys, which read
only ranges that differ, but need the same order on both sides.
"""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest
from typing import Final

BUFFERED_ROWS: Final = 50_000
"""The number of rows, not cancelled yet, that are held in memory."""

_DIGEST_BYTES: Final = 16
_NULL: Final = bytes(_DIGEST_BYTES)
_LONG: Final = 200
"""A text with more than this many characters is held as its digest."""

Row = Sequence[str | None]
Key = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class RowDifferences:
    """The differences between two streams of rows: counts and keys, no other values.

    Attributes:
        publisher_rows: number of rows at the publisher.
        target_rows: number of rows in the target.
        missing: number of rows that only the publisher has.
        unexpected: number of rows that only the target has.
        changed: number of rows with the same key on both sides and different values.
        columns: the columns in which changed rows differ.
        missing_keys: the first keys of missing rows; empty for a table without a key.
        unexpected_keys: the first keys of unexpected rows; empty for a table without a key.
        changed_keys: the first keys of changed rows; empty for a table without a key.
    """

    publisher_rows: int
    target_rows: int
    missing: int = 0
    unexpected: int = 0
    changed: int = 0
    columns: tuple[str, ...] = ()
    missing_keys: tuple[Key, ...] = ()
    unexpected_keys: tuple[Key, ...] = ()
    changed_keys: tuple[Key, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether both sides have the same rows."""
        return not (self.missing or self.unexpected or self.changed)


def compare_rows(
    publisher: Iterable[Row],
    target: Iterable[Row],
    columns: Sequence[str],
    key: Sequence[str] = (),
    *,
    most_keys: int,
    buffered: int = BUFFERED_ROWS,
) -> RowDifferences:
    """Compare two streams of rows.

    Args:
        publisher: the publisher's rows.
        target: the target's rows.
        columns: the names of the rows' columns.
        key: the columns that identify a row; empty for a table without a key.
        most_keys: the largest number of keys that are reported of each kind.
        buffered: the largest number of differing rows that are held in memory.

    Raises:
        OSError, sqlite3.Error: the temporary file cannot be written.
    """
    at = [columns.index(name) for name in key]
    counts = [0, 0]
    with closing(_Left(at, buffered)) as left:
        for here, there in zip_longest(publisher, target):
            counts[0] += here is not None
            counts[1] += there is not None
            if here != there:
                for row, number in ((here, 1), (there, -1)):
                    if row is not None:
                        left.add(row, number)
        return left.differences(counts[0], counts[1], columns, most_keys)


class _Left:
    """Rows that have not cancelled: positive numbers for the publisher's, negative numbers for the
    target's.
    """

    def __init__(self, key: Sequence[int], buffered: int) -> None:
        self._key = key
        self._buffered = buffered
        self._buffer: Counter[Key] = Counter()
        # A database without a name is a file in the temporary directory, which SQLite creates when
        # the database outgrows its cache.
        self._database = sqlite3.connect("")
        self._database.execute(
            "CREATE TABLE kept (key TEXT NOT NULL, digests BLOB NOT NULL, number INTEGER NOT NULL,"
            " PRIMARY KEY (key, digests)) WITHOUT ROWID"
        )

    def close(self) -> None:
        """Remove the temporary file."""
        self._database.close()

    def add(self, row: Row, number: int) -> None:
        """Add a row with its number; a row of the publisher and an equal row of the target
        cancel.
        """
        short = tuple(map(_shortened, row))
        self._buffer[short] += number
        if not self._buffer[short]:
            del self._buffer[short]
        elif len(self._buffer) > self._buffered:
            self._flush()

    def _flush(self) -> None:
        self._database.executemany(
            "INSERT INTO kept VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number",
            (
                (json.dumps([row[at] for at in self._key]), b"".join(map(_digest, row)), number)
                for row, number in self._buffer.items()
            ),
        )
        self._database.execute("DELETE FROM kept WHERE number = 0")
        self._buffer.clear()

    def differences(
        self, publisher_rows: int, target_rows: int, columns: Sequence[str], most_keys: int
    ) -> RowDifferences:
        """The differences that are left when all rows have been added."""
        self._flush()
        ((missing, unexpected),) = self._database.execute(
            "SELECT COALESCE(SUM(MAX(number, 0)), 0), COALESCE(SUM(MAX(-number, 0)), 0) FROM kept"
        )
        if not self._key:
            return RowDifferences(publisher_rows, target_rows, missing, unexpected)
        ((changed,),) = self._database.execute(f"SELECT COUNT(*) FROM ({_KEYS_OF['changed']})")
        return RowDifferences(
            publisher_rows,
            target_rows,
            missing - changed,
            unexpected - changed,
            changed,
            self._changed_columns(columns),
            self._first_keys("missing", most_keys),
            self._first_keys("unexpected", most_keys),
            self._first_keys("changed", most_keys),
        )

    def _changed_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        pairs = self._database.execute(
            "SELECT p.digests, t.digests FROM kept p JOIN kept t USING (key) WHERE p.number > 0 AND t.number < 0"
        )
        differing: set[int] = set()
        for here, there in pairs:
            values = zip(_cut(here), _cut(there), strict=True)
            differing.update(place for place, (ours, theirs) in enumerate(values) if ours != theirs)
        return tuple(name for place, name in enumerate(columns) if place in differing)

    def _first_keys(self, kind: str, most: int) -> tuple[Key, ...]:
        keys = (tuple(json.loads(text)) for (text,) in self._database.execute(_KEYS_OF[kind]))
        return tuple(heapq.nsmallest(most, keys, key=in_order))


_KEYS_OF: Final = {
    kind: f"SELECT key FROM kept GROUP BY key HAVING {condition}"
    for kind, condition in (
        ("missing", "MIN(number) > 0"),
        ("unexpected", "MAX(number) < 0"),
        ("changed", "MIN(number) < 0 AND MAX(number) > 0"),
    )
}


def in_order(key: Key) -> tuple[tuple[bool, int, str], ...]:
    """The sort key of reported keys: numbers by their value, NULL last."""
    return tuple((text is None, len(text or ""), text or "") for text in key)


def _shortened(text: str | None) -> str | None:
    if text is None or len(text) <= _LONG:
        return text
    return f"{len(text)} characters {_digest(text).hex()}"


def _digest(text: str | None) -> bytes:
    """The digest of a value; the digest of NULL is not the digest of any text."""
    if text is None:
        return _NULL
    return blake2b(text.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _cut(digests: bytes) -> Iterator[bytes]:
    return (digests[at : at + _DIGEST_BYTES] for at in range(0, len(digests), _DIGEST_BYTES))
