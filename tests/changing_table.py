"""A table of a publisher that changes at random, and the feed of its changes, as rows of Spark."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

KEYS = ["id", "part"]
COLUMNS = "id int, part string, note string, total decimal(10,2), `Placed At` timestamp, tags array<string>"
SCHEMA = (
    f"{COLUMNS}, _change_type string, _commit_version long, _commit_timestamp timestamp, _sequence long, _xid long,"
    " _commit_lsn string, _origin string, _unchanged array<string>"
)
OTHERS = ("note", "total", "Placed At", "tags")
START = datetime(2026, 11, 1, tzinfo=UTC)

Key = tuple[int, str]


@dataclass
class ChangingTable:
    """PostgreSQL stores ``note`` and ``tags`` out of line: an UPDATE that does not change them does
    not send them.

    Attributes:
        rows: the publisher's rows, by their key.
        full: REPLICA IDENTITY FULL: preimages and deletes have the whole row.
        updates: option computeUpdates: without it, an update is a delete and an insert.
        commits: the changes of each commit.
    """

    chance: random.Random
    full: bool = False
    updates: bool = True
    keys: int = 6
    truncates: bool = True
    rows: dict[Key, dict[str, Any]] = field(default_factory=dict)
    commits: list[list[tuple[Any, ...]]] = field(default_factory=list)
    _version: int = 0x1000
    _changes: int = 0

    def commit(self, changes: int) -> None:
        self._version += self.chance.randint(1, 300)
        self._changes = 0
        self.commits.append([])
        for _ in range(changes):
            self._change()

    def insert(self, key: Key, row: dict[str, Any]) -> None:
        self.rows[key] = row
        self._emit("insert", key, row, new=True)

    def update(self, key: Key, new_key: Key, changed: dict[str, Any], *, unsent: tuple[str, ...] = ()) -> None:
        old = self.rows.pop(key)
        new = self.rows[new_key] = {**old, **changed}
        kinds = ("update_preimage", "update_postimage") if self.updates else ("delete", "insert")
        self._emit(kinds[0], key, old if self.full else {}, () if self.full else OTHERS)
        sent = {name: new[name] for name in OTHERS if name not in unsent}
        self._emit(kinds[1], new_key, sent, unsent, new=True, same_change=True)

    def delete(self, key: Key) -> None:
        old = self.rows.pop(key)
        self._emit("delete", key, old if self.full else {}, () if self.full else OTHERS)

    def truncate(self) -> None:
        self.rows.clear()
        self._emit("truncate", (None, None), {}, ())

    def stored(self) -> list[tuple[Any, ...]]:
        """The rows as a table of a lakehouse has them, in the order of their key."""
        return [(*key, *(row[name] for name in OTHERS)) for key, row in sorted(self.rows.items())]

    def _change(self) -> None:
        chance = self.chance
        free = [(i, part) for i in range(self.keys) for part in ("a", "b") if (i, part) not in self.rows]
        kinds = ["insert"] * (3 if free else 0) + ["update"] * 5 * bool(self.rows) + ["delete"] * bool(self.rows)
        if self.truncates and chance.random() < 0.02:
            return self.truncate()
        match chance.choice(kinds):
            case "insert":
                return self.insert(chance.choice(free), {name: self._value(name) for name in OTHERS})
            case "delete":
                return self.delete(chance.choice(list(self.rows)))
        key = chance.choice(list(self.rows))
        new_key = chance.choice(free) if free and chance.random() < 0.4 else key
        changed = {name: self._value(name) for name in OTHERS if chance.random() < 0.4}
        unsent = tuple(name for name in ("note", "tags") if name not in changed and self.rows[key][name] is not None)
        return self.update(key, new_key, changed, unsent=unsent)

    def _value(self, name: str) -> Any:
        number = self.chance.randint(0, 10**6)
        values = {
            "note": f"note {number}",
            "total": Decimal(number) / 100,
            "Placed At": START + timedelta(microseconds=number),
            "tags": [f"{number}", None],
        }
        return None if self.chance.random() < 0.2 else values[name]

    def _emit(
        self,
        change: str,
        key: tuple[Any, Any],
        row: dict[str, Any],
        unsent: tuple[str, ...] = (),
        *,
        new: bool = False,
        same_change: bool = False,
    ) -> None:
        """An old row has twice the number of its change as sequence, a new row one more."""
        self._changes += not same_change
        at = START + timedelta(seconds=self._version)
        lsn = f"0/{self._version:X}"
        values = [row.get(name) for name in OTHERS]
        sequence = 2 * self._changes + new
        self.commits[-1].append((*key, *values, change, self._version, at, sequence, 7, lsn, None, list(unsent)))
