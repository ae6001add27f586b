"""Keeps the part of the journal that the tables that are copied or catch up still need."""

from __future__ import annotations

import contextlib

from subscriber.catalog import RelationState
from subscriber.errors import SubscriberError
from subscriber.lsn import LSN
from subscriber.positions.consumers import JournalConsumers
from subscriber.runtime.sync_catalog import SyncCatalog


class KeptJournal:
    """Keeps entries of the journal from being trimmed while tables of a subscription need them.

    Args:
        consumers: the consumers of the subscription in its journal.
        states: the states of the tables.
    """

    def __init__(self, consumers: JournalConsumers, states: SyncCatalog) -> None:
        self._consumers = consumers
        self._states = states
        self._may_be_kept = True  # a run that was killed may have left a consumer

    def keep(self, snapshot_lsn: LSN | None) -> None:
        """Keep what is needed by the tables of this round, and by the tables that have not caught
        up yet.

        Args:
            snapshot_lsn: the LSN of the round's snapshot; None if there is no snapshot.

        Raises:
            TargetUnavailable: the states of the tables cannot be read.
            JournalUnavailable: the journal cannot be written.
        """
        self._may_be_kept = True
        needed = [
            one.lsn
            for one in self._states.relations()
            if one.state is RelationState.FINISHEDCOPY and one.lsn is not None
        ]
        if snapshot_lsn is not None:
            needed.append(snapshot_lsn)
        if needed:
            self._consumers.keep(min(needed))
        else:
            self._consumers.release()

    def release(self) -> None:
        """Let the journal be trimmed, since no table is to be copied or to catch up.

        A round that was killed, or whose target could not be reached, has not released what it
        kept. A REFRESH PUBLICATION may have removed the tables that the journal was kept for.
        """
        if self._may_be_kept:
            with contextlib.suppress(SubscriberError):
                self._consumers.release()
                self._may_be_kept = False
