"""What the journal keeps for the tables that are copied or catch up."""

from __future__ import annotations

import contextlib

from subscriber.catalog import RelationState
from subscriber.errors import SubscriberError
from subscriber.lsn import LSN
from subscriber.positions.consumers import JournalConsumers
from subscriber.runtime.sync_catalog import SyncCatalog


class KeptJournal:
    """See the module.

    Args:
        consumers: the subscription's, in its journal.
        states: the states of its tables.
    """

    def __init__(self, consumers: JournalConsumers, states: SyncCatalog) -> None:
        self._consumers = consumers
        self._states = states
        self._may_be_kept = True  # a run that was killed may have left something

    def keep(self, snapshot_lsn: LSN | None) -> None:
        """Let the journal keep what the tables of this round, and those that have not caught up,
        still need.

        Args:
            snapshot_lsn: of the round's snapshot; None where it has none.

        Raises:
            TargetUnavailable: the tables' states cannot be read.
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

        A round that was killed, or whose target went away, could not do so; a REFRESH may have
        removed what it kept it for.
        """
        if self._may_be_kept:
            with contextlib.suppress(SubscriberError):
                self._consumers.release()
                self._may_be_kept = False
