"""The conflicts of a batch: counted, logged, and written to ``subscriber_conflict`` (rules
C18-C21).

::

    row missing        ConflictTally ─▶ the batch's transaction    rolled back and repeated with the batch
    key violated       on the error  ─▶ a separate transaction     the batch was rolled back; each further attempt is counted

The size of a tally is limited, as the size of the table is (:mod:`subscriber.catalog.conflicts`).
For each relation and kind, the log shows the first :data:`SAID_ROWS` conflicts of a batch in full,
and the number of the others.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from typing import Final

from subscriber.apply.conflicts.conflict import Conflict, describe, error_context, headline, transaction_context
from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.catalog.conflicts import KEPT_ROWS, ConflictRecord

logger = logging.getLogger(__name__)

SAID_ROWS: Final = 10
"""How many conflicts of the same kind and relation a batch logs one by one."""

_MESSAGE_TYPES: Final = {kind: "D" if kind.startswith("delete_") else "U" for kind in ConflictKind}


@dataclass(slots=True)
class ConflictTally:
    """The conflicts of a transaction or a batch that did not stop it.

    Attributes:
        counts: the number of conflicts of each relation and kind.
        said: the first conflicts of each relation and kind, for the log.
        pending: the last conflicts, each with its number, for the table.
    """

    counts: Counter[tuple[str, ConflictKind]] = field(default_factory=Counter)
    said: dict[tuple[str, ConflictKind], list[Conflict]] = field(default_factory=dict)
    pending: deque[tuple[Conflict, int]] = field(default_factory=partial(deque, maxlen=KEPT_ROWS))

    def add(self, conflict: Conflict, number: int) -> None:
        """Record ``number`` equal conflicts (rule C18)."""
        key = conflict.relation, conflict.kind
        self.counts[key] += number
        said = self.said.setdefault(key, [])
        said.extend([conflict] * min(number, SAID_ROWS - len(said)))
        self.pending.append((conflict, number))

    def merge(self, other: ConflictTally) -> None:
        """Add the conflicts of another tally."""
        self.counts.update(other.counts)
        for key, conflicts in other.said.items():
            said = self.said.setdefault(key, [])
            said.extend(conflicts[: SAID_ROWS - len(said)])
        self.pending.extend(other.pending)

    def by_kind(self) -> Mapping[ConflictKind, int]:
        """The number of conflicts of each kind, for the counters of pg_stat_subscription_stats."""
        totals: Counter[ConflictKind] = Counter()
        for (_, kind), number in self.counts.items():
            totals[kind] += number
        return dict(totals)

    def records(self) -> Iterator[ConflictRecord]:
        """The rows of ``subscriber_conflict`` for :attr:`pending`. For each conflict there are at
        most as many rows as the table keeps.
        """
        for conflict, number in self.pending:
            (record,) = records_of(conflict)
            yield from repeat(record, min(number, KEPT_ROWS))

    def log(self, origin: str) -> None:
        """Log the conflicts as PostgreSQL does (rules C18-C21); ``origin`` is the replication
        origin's name.
        """
        for (relation, kind), conflicts in sorted(self.said.items()):
            for conflict in conflicts:
                place = transaction_context(conflict.place.xid, conflict.place.final_lsn)
                context = error_context(origin, _MESSAGE_TYPES[kind], relation, None, place)
                logger.info("%s\nDETAIL:  %s\nCONTEXT:  %s", headline(kind, relation), describe(conflict), context)
            more = self.counts[relation, kind] - len(conflicts)
            if more:
                logger.info("%s (%d more in this batch)", headline(kind, relation), more)


def records_of(conflict: Conflict) -> list[ConflictRecord]:
    """The rows of ``subscriber_conflict`` for a conflict: a row for each violated key, or a single
    row if no key is violated.
    """
    place, search = conflict.place, conflict.search
    found = ConflictRecord(
        conflict.kind,
        conflict.relation,
        place.final_lsn,
        place.xid,
        place.timestamp,
        columns=None if search is None else search.columns or None,
        values=None if search is None else search.values,
        local_row=conflict.local_row,
        remote_row=conflict.remote_row,
    )
    if not conflict.violated:
        return [found]
    return [
        replace(found, index=key.index, columns=key.keys or None, values=key.values, local_row=key.local_row)
        for key in conflict.violated
    ]
