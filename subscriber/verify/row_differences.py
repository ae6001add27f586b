"""Two streams of rows, compared as bags: how often each row is there must agree.

::

    publisher ─▶ row ─┐  equal      ─▶ nothing is kept
                      ├─▶
    target ────▶ row ─┘  different  ─▶ buffer: +1 or -1 a row ─▶ temporary file: digests ─▶ counts, keys

Both streams should have the order of the key. Then equal rows meet, and cancel at once. The order
is only an economy: two collations that disagree cost time and space, and change no result.

Memory does not depend on how many rows differ: beyond :data:`BUFFERED_ROWS` they go to a temporary
file, which the operating system removes with the process. It holds keys and digests of values, no
other values. *Rejected:* checksums of ranges of keys, which read only ranges that
differ, but need one order on both sides.
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
"""So many rows that have not cancelled yet are held in memory."""

_DIGEST_BYTES: Final = 16
_NULL: Final = bytes(_DIGEST_BYTES)
_LONG: Final = 200
"""Texts beyond this many characters are held as their digest."""

Row = Sequence[str | None]
Key = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class RowDifferences:
    """What differs: counts and keys, no other values.

    Attributes:
        publisher_rows: number of rows at the publisher.
        target_rows: number of rows in the target.
        missing: rows that only the publisher has.
        unexpected: rows that only the target has.
        changed: rows that both have by their key, with other values.
        columns: the columns in which changed rows differ.
        missing_keys: the first keys of missing rows; empty for a table without a key, as the next
            two.
        unexpected_keys: the first keys of unexpected rows.
        changed_keys: the first keys of changed rows.
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
        """Both sides have the same rows."""
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
        publisher: the rows that should be there.
        target: the rows that are there.
        columns: the names of the rows' columns.
        key: those that identify a row; empty for a table without a key.
        most_keys: this many keys of each kind are named.
        buffered: this many rows that differ are held in memory.

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
    """Rows that have not cancelled: positive numbers for the publisher's, negative ones for the
    target's.
    """

    def __init__(self, key: Sequence[int], buffered: int) -> None:
        self._key = key
        self._buffered = buffered
        self._buffer: Counter[Key] = Counter()
        # A database without a name is a file in the temporary folder, opened when it outgrows
        # SQLite's cache.
        self._database = sqlite3.connect("")
        self._database.execute(
            "CREATE TABLE kept (key TEXT NOT NULL, digests BLOB NOT NULL, number INTEGER NOT NULL,"
            " PRIMARY KEY (key, digests)) WITHOUT ROWID"
        )

    def close(self) -> None:
        """Remove the temporary file."""
        self._database.close()

    def add(self, row: Row, number: int) -> None:
        """Note a row; one of each side cancel."""
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
        """What is left when all rows have been added."""
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
    """The order in which keys are named: numbers by their size, NULL last."""
    return tuple((text is None, len(text or ""), text or "") for text in key)


def _shortened(text: str | None) -> str | None:
    if text is None or len(text) <= _LONG:
        return text
    return f"{len(text)} characters {_digest(text).hex()}"


def _digest(text: str | None) -> bytes:
    """A value's digest; NULL has one that no text has."""
    if text is None:
        return _NULL
    return blake2b(text.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _cut(digests: bytes) -> Iterator[bytes]:
    return (digests[at : at + _DIGEST_BYTES] for at in range(0, len(digests), _DIGEST_BYTES))
