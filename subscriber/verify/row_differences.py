"""The rows in which two streams differ, compared as multisets: each row must occur equally often in
both.

::

    publisher ─▶ row ─┐  equal      ─▶ nothing is kept
                      ├─▶
    target ────▶ row ─┘  different  ─▶ buffer: +1 or -1 a row ─▶ temporary file ─▶ counts, keys, and rows to repair

Equal rows of both streams cancel at once if they are read at the same time; the result does not
depend on the order. Memory does not depend on the number of differences: rows beyond those of the
buffer are written to a temporary file, which the operating system removes when the process ends. It
contains keys and digests of values; values themselves only if a repair is to write them.
"""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice, zip_longest
from typing import Final, Literal

from subscriber.verify.row_digests import ComparedRow, RowTexts

BUFFERED_ROWS: Final = 50_000
"""The number of rows, not cancelled yet, that are held in memory."""
_BUFFERED_CHARACTERS: Final = 32 * 1024 * 1024
"""The number of characters of the values that are held with them."""
_ROWS_AT_ONCE: Final = 1000

_DIGEST_BYTES: Final = 16
_NULL: Final = bytes(_DIGEST_BYTES)
_LONG: Final = 200
"""A text with more than this many characters is held as its digest."""

Key = tuple[str | None, ...]
DifferenceKind = Literal["unexpected", "changed", "missing"]


@dataclass(frozen=True, slots=True)
class RowDifferences:
    """Numbers of rows and first keys, no other values: ``missing`` only at the publisher,
    ``unexpected`` only in the target, ``changed`` with one key and different ``columns``.
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
        return not (self.missing or self.unexpected or self.changed)


class DifferingRows:
    """Rows that have not cancelled: positive numbers for the publisher's, negative for the
    target's. Every method raises OSError or sqlite3.Error if the temporary file fails.
    """

    def __init__(
        self, columns: Sequence[str], key: Sequence[int], *, values: bool = False, buffered: int = BUFFERED_ROWS
    ) -> None:
        self._columns = columns
        self._key = key
        self._values = values
        self._buffered = buffered
        self._buffer: dict[RowTexts, tuple[int, RowTexts]] = {}
        self._size = 0
        # A database without a name is a file in the temporary directory, which SQLite creates when
        # the database outgrows its cache.
        self._database = sqlite3.connect("")
        self._database.execute(
            "CREATE TABLE kept (key TEXT NOT NULL, digests BLOB NOT NULL, number INTEGER NOT NULL, texts TEXT,"
            " PRIMARY KEY (key, digests)) WITHOUT ROWID"
        )

    def close(self) -> None:
        self._database.close()

    def add(self, publisher: Iterable[ComparedRow], target: Iterable[ComparedRow]) -> tuple[int, int]:
        """Add the rows of both sides, and return their numbers."""
        counts = [0, 0]
        for here, there in zip_longest(publisher, target):
            counts[0] += here is not None
            counts[1] += there is not None
            if here is None or there is None or here[0] != there[0]:
                for row, number in ((here, 1), (there, -1)):
                    if row is not None:
                        self._add(row, number)
        return counts[0], counts[1]

    def _add(self, row: ComparedRow, number: int) -> None:
        canonical, stored = row
        short = tuple(map(_shortened, canonical))
        before, texts = self._buffer.get(short, (0, ()))
        if before + number == 0:
            del self._buffer[short]
            return
        if self._values and (not texts or number > 0):  # a repair writes the publisher's form
            texts = stored
            self._size += sum(len(text or "") for text in stored)
        self._buffer[short] = (before + number, texts)
        if len(self._buffer) > self._buffered or self._size > _BUFFERED_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        self._database.executemany(
            "INSERT INTO kept VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number,"
            " texts = CASE WHEN excluded.number > 0 THEN excluded.texts ELSE texts END",
            (
                (
                    json.dumps([row[at] for at in self._key]),
                    b"".join(map(_digest, row)),
                    number,
                    json.dumps(texts) if self._values else None,
                )
                for row, (number, texts) in self._buffer.items()
            ),
        )
        self._database.execute("DELETE FROM kept WHERE number = 0")
        self._buffer.clear()
        self._size = 0

    def rows(self, kind: DifferenceKind) -> Iterator[list[RowTexts]]:
        """The values of the rows of a kind; without a key, a row as often as it is written."""
        assert self._values
        self._flush()
        query = (_ROWS_WITH_KEY if self._key else _ROWS_WITHOUT_KEY)[kind]
        each = (tuple(json.loads(texts)) for texts, number in self._database.execute(query) for _ in range(number))
        while some := list(islice(each, _ROWS_AT_ONCE)):
            yield some

    def differences(self, publisher_rows: int, target_rows: int, *, most_keys: int) -> RowDifferences:
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
            self._changed_columns(),
            self._first_keys("missing", most_keys),
            self._first_keys("unexpected", most_keys),
            self._first_keys("changed", most_keys),
        )

    def _changed_columns(self) -> tuple[str, ...]:
        pairs = self._database.execute(
            "SELECT p.digests, t.digests FROM kept p JOIN kept t USING (key) WHERE p.number > 0 AND t.number < 0"
        )
        differing: set[int] = set()
        for here, there in pairs:
            values = zip(_cut(here), _cut(there), strict=True)
            differing.update(place for place, (ours, theirs) in enumerate(values) if ours != theirs)
        return tuple(name for place, name in enumerate(self._columns) if place in differing)

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


_OTHER: Final = "(SELECT 1 FROM kept o WHERE o.key = kept.key AND o.number {} 0)"
_ROWS_WITH_KEY: Final[dict[DifferenceKind, str]] = {
    "unexpected": f"SELECT texts, 1 FROM kept WHERE number < 0 AND NOT EXISTS {_OTHER.format('>')}",
    "changed": f"SELECT texts, 1 FROM kept WHERE number > 0 AND EXISTS {_OTHER.format('<')}",
    "missing": f"SELECT texts, number FROM kept WHERE number > 0 AND NOT EXISTS {_OTHER.format('<')}",
}
_ROWS_WITHOUT_KEY: Final[dict[DifferenceKind, str]] = {
    "unexpected": "SELECT texts, -number FROM kept WHERE number < 0",
    "changed": "SELECT texts, number FROM kept WHERE false",
    "missing": "SELECT texts, number FROM kept WHERE number > 0",
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
