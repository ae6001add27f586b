"""Conflicts and apply errors in PostgreSQL's words (sections C.4 and C.8).

A missing row is counted, logged and skipped (C18); a constraint stops the transaction (C22). What is said
names the relation, the transaction and its finish LSN, and never a value.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from subscriber.errors import SubscriberError
from subscriber.lsn import LSN, format_lsn

logger = logging.getLogger(__name__)

MISSING: Final = {"U": "update_missing", "D": "delete_missing"}
EXISTS: Final = {"I": "insert_exists", "U": "update_exists"}
_DETAILS: Final = {
    "update_missing": "Could not find the row to be updated.",
    "delete_missing": "Could not find the row to be deleted.",
}
_MESSAGE_TYPES: Final = {
    "I": "INSERT",
    "U": "UPDATE",
    "D": "DELETE",
    "T": "TRUNCATE",
    "B": "BEGIN",
    "C": "COMMIT",
    "O": "ORIGIN",
    "b": "BEGIN PREPARE",
    "P": "PREPARE",
    "K": "COMMIT PREPARED",
}
_UNIQUE_VIOLATION: Final = "23505"


@dataclass(slots=True)
class ConflictTally:
    """How many conflicts of each kind each relation had: bounded by the number of relations."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, relation: str, kind: str, number: int) -> None:
        """Count ``number`` conflicts of ``kind`` (rule C18)."""
        self.counts[relation, kind] += number

    def merge(self, other: ConflictTally) -> None:
        """Add what another tally counted."""
        self.counts.update(other.counts)

    def by_kind(self) -> Mapping[str, int]:
        """Totals for the counters of pg_stat_subscription_stats."""
        totals: Counter[str] = Counter()
        for (_, kind), number in self.counts.items():
            totals[kind] += number
        return dict(totals)

    def log(self) -> None:
        """Say once for each relation and kind what happened (rules C18-C20)."""
        for (relation, kind), number in sorted(self.counts.items()):
            logger.info(
                'conflict detected on relation "%s": conflict=%s (%d in this batch). %s',
                relation,
                kind,
                number,
                _DETAILS[kind],
            )


def error_context(origin: str, message_type: str, relation: str | None, column: str | None, at: str) -> str:
    """The CONTEXT line of an apply error (rule C37); ``at`` is :func:`transaction_context`'s."""
    text = f'processing remote data for replication origin "{origin}"'
    if message_type in _MESSAGE_TYPES:
        text += f' during message type "{_MESSAGE_TYPES[message_type]}"'
    if relation is not None:
        text += f' for replication target relation "{relation}"'
        if column is not None:
            text += f' column "{column}"'
    return text + at


def transaction_context(xid: int, final_lsn: LSN) -> str:
    """The end of the CONTEXT line: which transaction, and the LSN that SKIP takes."""
    return f" in transaction {xid}, finished at {format_lsn(final_lsn)}"


def as_conflict(error: SubscriberError, action: str, relation: str) -> None:
    """Word a unique violation as PostgreSQL 18 does (rules C19, C22) and note its kind on the error."""
    if error.sqlstate == _UNIQUE_VIOLATION and action in EXISTS:
        vars(error)["conflict"] = EXISTS[action]
        error.message = f'conflict detected on relation "{relation}": conflict={EXISTS[action]}'
        error.args = (error.message,)


def conflict_kind(error: SubscriberError) -> str | None:
    """The conflict that an apply error is, such as ``insert_exists``; for the counters (rule C22)."""
    return vars(error).get("conflict")


def applied_before(error: SubscriberError) -> LSN | None:
    """Where the last transaction before the failing one finished: what can still be committed.

    None when the error is no change's fault: then the whole batch is to be tried again.
    """
    return vars(error).get("applied_before")


def note_applied_before(error: SubscriberError, lsn: LSN) -> None:
    """Remember on ``error`` what :func:`applied_before` returns; transient errors have no such place."""
    if not error.transient:
        vars(error)["applied_before"] = lsn
