"""The conflicts of a batch: counted, said, and kept in ``subscriber_conflict`` (rules C18-C21).

::

    row missing        ConflictTally ─▶ the batch's transaction      goes and comes again with the batch
    key violated       on the error  ─▶ a transaction of its own     the batch was rolled back; each further attempt counts up

A tally is bounded, and so is the table: the newest :data:`KEPT_ROWS` of each subscription are kept, and of the first
:data:`SAID_ROWS` of a batch, relation and kind the log has all that is known, of the others the number.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from subscriber.apply.conflict import (
    Conflict,
    RowText,
    ViolatedKey,
    describe,
    error_context,
    headline,
    transaction_context,
)
from subscriber.apply.progress import CONFLICT, CONFLICT_KINDS
from subscriber.lsn import format_lsn

logger = logging.getLogger(__name__)

KEPT_ROWS: Final = 10_000
"""Rows of ``subscriber_conflict`` that are kept for each subscription, the newest."""
SAID_ROWS: Final = 10
"""Conflicts of one kind and relation that a batch logs one by one."""

_PIECE: Final = 1_000
_MESSAGE_TYPES: Final = {kind: "D" if kind.startswith("delete_") else "U" for kind in CONFLICT_KINDS}
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class ConflictTally:
    """The conflicts that did not stop anything, of a transaction or a batch.

    Attributes:
        counts: how many of each relation and kind.
        said: the first of each, for the log.
        pending: the last ones, each with its number, for the table.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    said: dict[tuple[str, str], list[Conflict]] = field(default_factory=dict)
    pending: deque[tuple[Conflict, int]] = field(default_factory=partial(deque, maxlen=KEPT_ROWS))

    def add(self, conflict: Conflict, number: int) -> None:
        """Take note of ``number`` conflicts that are alike (rule C18)."""
        key = conflict.relation, conflict.kind
        self.counts[key] += number
        said = self.said.setdefault(key, [])
        said.extend([conflict] * min(number, SAID_ROWS - len(said)))
        self.pending.append((conflict, number))

    def merge(self, other: ConflictTally) -> None:
        """Add what another tally has."""
        self.counts.update(other.counts)
        for key, conflicts in other.said.items():
            said = self.said.setdefault(key, [])
            said.extend(conflicts[: SAID_ROWS - len(said)])
        self.pending.extend(other.pending)

    def by_kind(self) -> Mapping[str, int]:
        """Totals for the counters of pg_stat_subscription_stats."""
        totals: Counter[str] = Counter()
        for (_, kind), number in self.counts.items():
            totals[kind] += number
        return dict(totals)

    def log(self, origin: str) -> None:
        """Say what happened, as PostgreSQL does (rules C18-C21); ``origin`` is the replication origin's name."""
        for (relation, kind), conflicts in sorted(self.said.items()):
            for conflict in conflicts:
                place = transaction_context(conflict.place.xid, conflict.place.final_lsn)
                context = error_context(origin, _MESSAGE_TYPES[kind], relation, None, place)
                logger.info("%s\nDETAIL:  %s\nCONTEXT:  %s", headline(kind, relation), describe(conflict), context)
            more = self.counts[relation, kind] - len(conflicts)
            if more:
                logger.info("%s (%d more in this batch)", headline(kind, relation), more)


class ConflictLog:
    """Writes ``subscriber_conflict`` for one subscription.

    Args:
        connection: in the transaction that the rows belong to.
        subid: the subscription's number.
        name: its name.
    """

    def __init__(self, connection: sa.Connection, subid: int, name: str) -> None:
        self._connection = connection
        self._subid = subid
        self._name = name

    def write(self, conflicts: Iterable[tuple[Conflict, int]]) -> None:
        """Write conflicts; of more than are kept, the last ones."""
        rows = deque(self._rows(conflicts), maxlen=KEPT_ROWS)
        while rows:
            piece = [rows.popleft() for _ in range(min(len(rows), _PIECE))]
            self._connection.execute(sa.insert(CONFLICT), piece)
            if not rows:
                self._trim()

    def write_stop(self, conflict: Conflict) -> None:
        """Write a conflict that has stopped the transaction, or count one more attempt of the same."""
        table = CONFLICT.c
        for key in conflict.violated or (None,):
            row = self._row(conflict, key)
            same = [
                table[name].is_not_distinct_from(row[name])
                for name in ("subid", "relation", "conflict_type", "remote_commit_lsn", "index_name")
            ]
            again = sa.update(CONFLICT).where(*same)
            moved_on = {"attempts": table.attempts + 1, "recorded_at": row["recorded_at"]}
            if self._connection.execute(again.values(moved_on)).rowcount == 0:
                self._connection.execute(sa.insert(CONFLICT).values(row))
                self._trim()

    def _trim(self) -> None:
        """Delete the oldest rows beyond those that are kept."""
        mine = CONFLICT.c.subid == self._subid
        newest = sa.select(CONFLICT.c.conflictid).where(mine).order_by(CONFLICT.c.conflictid.desc())
        oldest = self._connection.execute(newest.offset(KEPT_ROWS).limit(1)).scalar_one_or_none()
        if oldest is not None:
            self._connection.execute(sa.delete(CONFLICT).where(mine, CONFLICT.c.conflictid <= oldest))

    def _rows(self, conflicts: Iterable[tuple[Conflict, int]]) -> Iterator[dict[str, Any]]:
        for conflict, number in conflicts:
            for _ in range(min(number, KEPT_ROWS)):
                yield self._row(conflict, None)

    def _row(self, conflict: Conflict, key: ViolatedKey | None) -> dict[str, Any]:
        search, place = conflict.search, conflict.place
        columns = key.keys if key is not None else search.columns if search is not None else ()
        values = key.values if key is not None else search.values if search is not None else None
        local_row = key.local_row if key is not None else conflict.local_row
        return {
            "conflictid": next_id(),
            "recorded_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "subid": self._subid,
            "subname": self._name,
            "relation": conflict.relation,
            "conflict_type": conflict.kind,
            "remote_commit_lsn": format_lsn(place.final_lsn),
            "remote_xid": place.xid,
            "remote_commit_ts": (_EPOCH + timedelta(microseconds=place.timestamp)).isoformat(timespec="microseconds"),
            "index_name": None if key is None else key.index,
            "key_columns": _json(columns or None),
            "attempts": 1,
            "key_values": _json(values),
            "local_row": _json(local_row),
            "remote_row": _json(conflict.remote_row),
        }


def forget_conflicts(connection: sa.Connection, subid: int) -> None:
    """Delete a subscription's rows: its number is given again."""
    connection.execute(sa.delete(CONFLICT).where(CONFLICT.c.subid == subid))


def _json(values: RowText | None) -> str | None:
    return None if values is None else json.dumps(list(values), ensure_ascii=False)


_last_id = 0


def next_id() -> int:
    """Nanoseconds since 1970, and always more than before: one process writes what it numbers."""
    global _last_id
    _last_id = max(_last_id + 1, time.time_ns())
    return _last_id
