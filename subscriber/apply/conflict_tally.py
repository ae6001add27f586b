"""The conflicts of a batch: counted, said, and handed to ``subscriber_conflict`` (rules C18-C21).

::

    row missing        ConflictTally ─▶ the batch's transaction      goes and comes again with the batch
    key violated       on the error  ─▶ a transaction of its own     the batch was rolled back; each further attempt counts up

A tally is bounded, as the table is (:mod:`subscriber.catalog.conflicts`): of the first
:data:`SAID_ROWS` of a batch, relation and kind the log has all that is known, of the others the
number.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from typing import Final

from subscriber.apply.conflict import Conflict, describe, error_context, headline, transaction_context
from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.catalog.conflicts import KEPT_ROWS, ConflictRecord

logger = logging.getLogger(__name__)

SAID_ROWS: Final = 10
"""Conflicts of one kind and relation that a batch logs one by one."""

_MESSAGE_TYPES: Final = {kind: "D" if kind.startswith("delete_") else "U" for kind in ConflictKind}


@dataclass(slots=True)
class ConflictTally:
    """The conflicts that did not stop anything, of a transaction or a batch.

    Attributes:
        counts: how many of each relation and kind.
        said: the first of each, for the log.
        pending: the last ones, each with its number, for the table.
    """

    counts: Counter[tuple[str, ConflictKind]] = field(default_factory=Counter)
    said: dict[tuple[str, ConflictKind], list[Conflict]] = field(default_factory=dict)
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

    def by_kind(self) -> Mapping[ConflictKind, int]:
        """Totals for the counters of pg_stat_subscription_stats."""
        totals: Counter[ConflictKind] = Counter()
        for (_, kind), number in self.counts.items():
            totals[kind] += number
        return dict(totals)

    def records(self) -> Iterator[ConflictRecord]:
        """The rows of ``subscriber_conflict`` for :attr:`pending`; of each conflict as many as are
        kept at most.
        """
        for conflict, number in self.pending:
            (record,) = records_of(conflict)
            yield from repeat(record, min(number, KEPT_ROWS))

    def log(self, origin: str) -> None:
        """Say what happened, as PostgreSQL does (rules C18-C21); ``origin`` is the replication
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
    """The rows of ``subscriber_conflict`` for a conflict: one for each key that is violated, else
    one.
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
