"""What the publisher of a subscription says on its replication connection: NOTICE and WARNING.

::

    walsender ──WARNING──▶ receiver ──event──▶ on_notice: the log, once for each text, and a counter
                                          └──▶ a publication is skipped: record ──▶ subscriber_schema_change ──▶ "go": the receiver goes on

From version 18 on, a walsender goes on without a publication that does not exist at the point of
the WAL that it decodes, and sends a WARNING at the first change. The rows that are written until
the publication exists again are lost, with no error and no lag. The WARNING has the LSN of the
first such change. So each table of the subscription gets a record that rows may be missing from
there on. Before version 18, a walsender ends with an error instead.

A record is resolved when the table was copied again, or compared and found equal, and the
publication existed at the snapshot.

*Rejected:* comparing the OIDs of the publications at each start of a receiver. The walsender sends
the WARNING again until the position after it was confirmed. If it sends none, nothing is missing,
although a publication that was replaced in one transaction has another OID. *Rejected:* records
only for the tables that no other publication of the subscription publishes. Only the publisher's
current catalog could say so, and it may have been changed since.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import Final

from subscriber.base.background import Background
from subscriber.base.errors import TargetUnavailable
from subscriber.base.lsn import LSN, format_lsn
from subscriber.catalog.schema_changes import Alteration, SchemaChanges, skipped_publication
from subscriber.catalog.table_states import RelationState, relations_of
from subscriber.worker.worker_state import WorkerState

logger = logging.getLogger(__name__)

_TEXTS: Final = 100
"""So many different texts are remembered."""
_LEVELS: Final = {"WARNING": logging.WARNING}
"""The levels of the severities; the others are logged as information."""
_COPYING: Final = (RelationState.INIT, RelationState.DATASYNC)


@dataclass(frozen=True, slots=True)
class SkippedPublications:
    """Publications that the walsender skips, and the first change that was decoded without them."""

    names: tuple[str, ...]
    lsn: LSN


class PublisherNotices:
    def __init__(self, state: WorkerState) -> None:
        self.recording = Background(self._record, f"notices of {state.subscription.name}", state.wake)
        self._state = state
        self._said: set[str] = set()
        self._skipped = SkippedPublications((), LSN(0))

    def on_notice(self, severity: str, report: str) -> None:
        """Count a notice, and log its text once; the thread of the receiver calls this."""
        self._state.count("notices")
        if report in self._said:
            return
        if len(self._said) >= _TEXTS:
            self._said.clear()
        self._said.add(report)
        level = _LEVELS.get(severity, logging.INFO)
        logger.log(
            level,
            'the publisher of subscription "%(subscription)s" says: %(error)s',
            {"subscription": self._state.subscription.name, "error": report},
        )

    def record(self, skipped: SkippedPublications) -> bool:
        """Whether the record that rows may be missing is committed; the receiver waits for it."""
        self._skipped = skipped
        with contextlib.suppress(TargetUnavailable):  # the worker that applies reports it
            return self.recording.take() == skipped  # or of a receiver that has ended meanwhile
        return False

    def _record(self) -> SkippedPublications:
        state, skipped = self._state, self._skipped
        subscription = state.subscription
        changes = SchemaChanges(subscription.subid, subscription.name)
        with state.target.begin() as connection:
            relations = relations_of(connection, subscription.subid)
            new = changes.record_new(
                connection,
                [
                    Alteration(
                        subscription.options.map.qualified(relation.schema, relation.name),
                        (relation.schema, relation.name),
                        skipped_publication(name),
                        difference="If it published the table, the rows that were written meanwhile are missing.",
                        lsn=skipped.lsn,
                    )
                    for name in skipped.names
                    for relation in relations
                ],
                copying=[(one.schema, one.name) for one in relations if one.state in _COPYING],
            )
        if new:
            logger.warning(
                'subscription "%(subscription)s": publication %(publications)s did not exist at the publisher at %(lsn)s: rows that were'
                " written since then are missing"
                "\nDETAIL:  The publisher skips a publication that does not exist. Tables of the subscription: %(tables)d.\nHINT:  Create the"
                " publication. Then copy the tables again that it publishes (ALTER SUBSCRIPTION ... REFRESH TABLE); `subscriber"
                " status` has the statement. `subscriber verify` shows which tables differ.",
                {
                    "subscription": subscription.name,
                    "publications": ", ".join(f'"{name}"' for name in skipped.names),
                    "lsn": format_lsn(skipped.lsn),
                    "tables": len(relations),
                },
            )
        return skipped
