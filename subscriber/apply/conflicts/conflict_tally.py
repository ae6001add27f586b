"""The conflicts of a batch: counted, logged, and written to ``subscriber_conflict`` (rules
C18-C21).

::

    row missing        ConflictTally ─▶ the batch's transaction    rolled back and repeated with the batch
    key violated       on the error  ─▶ a separate transaction     the batch was rolled back; each further attempt is counted

The size of a tally is limited, as the size of the table is (:mod:`subscriber.catalog.statistics`).
For each relation and kind, the log shows the first :data:`LOGGED_ROWS` conflicts of a batch in
full, and the number of the others.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from typing import Any, Final

from subscriber.apply.conflicts.conflict import (
    ORIGIN_DIFFERS,
    Conflict,
    RowText,
    ViolatedKey,
    describe,
    error_context,
    headline,
    transaction_context,
)
from subscriber.base.lsn import format_lsn
from subscriber.base.run_log import MAY_REPEAT
from subscriber.catalog.own_tables import CONFLICT, ConflictKind
from subscriber.catalog.statistics import KEPT_ROWS, ConflictRecord
from subscriber.targets import RowVersion

logger = logging.getLogger(__name__)

LOGGED_ROWS: Final = 10
"""How many conflicts of the same kind and relation a batch logs one by one."""

_IN_TABLE: Final = f"Conflict details are logged to the conflict log table: {CONFLICT.name}"


@dataclass(slots=True)
class ConflictTally:
    """The conflicts of a transaction or a batch that did not stop it: counted, the first ones of
    each relation and kind for the log, and the last ones, each with its number, for the table.
    """

    counts: Counter[tuple[str, ConflictKind]] = field(default_factory=Counter)
    logged: dict[tuple[str, ConflictKind], list[Conflict]] = field(default_factory=dict)
    pending: deque[tuple[Conflict, int]] = field(default_factory=partial(deque, maxlen=KEPT_ROWS))

    def add(self, conflict: Conflict, number: int) -> None:
        """Record ``number`` equal conflicts (rule C18)."""
        key = conflict.relation, conflict.kind
        self.counts[key] += number
        logged = self.logged.setdefault(key, [])
        logged.extend([conflict] * min(number, LOGGED_ROWS - len(logged)))
        self.pending.append((conflict, number))

    def merge(self, other: ConflictTally) -> None:
        self.counts.update(other.counts)
        for key, conflicts in other.logged.items():
            logged = self.logged.setdefault(key, [])
            logged.extend(conflicts[: LOGGED_ROWS - len(logged)])
        self.pending.extend(other.pending)

    def by_kind(self) -> Mapping[ConflictKind, int]:
        """The number of conflicts of each kind, for pg_stat_subscription_stats."""
        totals: Counter[ConflictKind] = Counter()
        for (_, kind), number in self.counts.items():
            totals[kind] += number
        return dict(totals)

    def records(self) -> Iterator[ConflictRecord]:
        """The rows of ``subscriber_conflict``; at most as many as the table keeps."""
        for conflict, number in self.pending:
            for record in records_of(conflict):
                yield from repeat(record, min(number, KEPT_ROWS))

    def log(self, origin: str, version: int = 18, *, in_full: bool = True, subscription: str = "") -> None:
        """Log the conflicts as PostgreSQL of this major version does (rules C18-C21). If not
        ``in_full``, only the table has the details.
        """
        for (relation, kind), conflicts in sorted(self.logged.items()):
            fields = {"subscription": subscription, "relation": relation, "conflict": str(kind)}
            named = f'subscription "{subscription}": ' if subscription else ""
            for conflict in conflicts:
                fields["headline"] = named + headline(kind, relation, conflict.resolution)
                place = transaction_context(conflict.place.xid, conflict.place.final_lsn, version)
                context = error_context(origin, _message_type(conflict), relation, None, place)
                logger.info(
                    "%(headline)s\nDETAIL:  %(detail)s\nCONTEXT:  %(context)s",
                    {
                        **fields,
                        "detail": describe(conflict, version) if in_full else _IN_TABLE,
                        "context": context,
                        "xid": conflict.place.xid,
                        "lsn": format_lsn(conflict.place.final_lsn),
                    },
                    extra=MAY_REPEAT,
                )
            more = self.counts[relation, kind] - len(conflicts)
            if more:
                logger.info(
                    "%(headline)s (%(count)d more in this batch)",
                    {**fields, "count": more},
                    extra=MAY_REPEAT,
                )


def _message_type(conflict: Conflict) -> str:
    if conflict.kind.startswith("delete_"):
        return "D"
    return "I" if conflict.search is None else "U"


def records_of(conflict: Conflict) -> list[ConflictRecord]:
    """The rows of ``subscriber_conflict``: one for each violated key, or a single one."""
    place, search = conflict.place, conflict.search
    names = None if search is None else search.columns or search.row_columns
    found = ConflictRecord(
        conflict.kind,
        conflict.relation,
        place.final_lsn,
        place.xid,
        place.timestamp,
        columns=None if search is None else search.columns or None,
        replica_identity_full=None if search is None else not search.columns,
        replica_identity=None if search is None else _by_name(names, search.values),
        remote_tuple=_by_name(conflict.columns, conflict.remote_row),
        local_conflicts=[_local(conflict, None, conflict.version)] if conflict.kind in ORIGIN_DIFFERS.values() else [],
        resolution=conflict.resolution,
        remote_applied=conflict.applied,
    )
    if not conflict.violated:
        return [found]
    return [
        replace(found, index=key.index, columns=key.keys or None, local_conflicts=[_local(conflict, key, key.version)])
        for key in conflict.violated
    ]


def _local(conflict: Conflict, key: ViolatedKey | None, version: RowVersion | None) -> dict[str, Any]:
    """The existing row as PostgreSQL 20 stores it in ``local_conflicts``."""
    row = conflict.local_row if key is None else key.local_row
    return {
        "xid": None if version is None else str(version.transaction),
        "commit_ts": None if version is None else version.at,
        "origin": None if version is None else version.origin or None,
        "key": None if key is None else _by_name(key.keys, key.values),
        "tuple": _by_name(conflict.columns, row),
    }


def _by_name(names: Sequence[str] | None, values: RowText | None) -> dict[str, str | None] | None:
    """A row or a key as a JSON object; None where values are not to be shown."""
    return None if values is None else dict(zip(names or (), values, strict=True))
