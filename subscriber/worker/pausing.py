"""The part of a worker that obeys a pause of the apply (:mod:`subscriber.commands.hold_apply`).

::

    lease in the catalog    limit of the batches        what the worker does
    none                    none                        applies
    requested               0/0: nothing                waits for the batch in progress, then writes "paused"
    paused                  0/0: nothing                waits for the bound
    paused, bound L         L                           applies up to L; when L is received and applied, writes "held"
    held                    0/0: nothing                waits until the lease is gone

The limit is set before the worker looks for a batch in progress, and a batch asks for the limit
after it has announced itself (:mod:`subscriber.spark.apply_pause`). A worker reads the catalog
before its first query starts, so a run that was killed while it was paused starts again paused.

The supervisor's reads of the catalog decide. The worker uses its own write only if no newer read
has arrived. If the holder is dead (:class:`subscriber.catalog.leases.LeaseWatch`), the lease is
deleted first, and the apply goes on after that. If it is alive after all, it sees the missing row
before the target changes.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final

from subscriber.base import failpoints
from subscriber.base.background import Background
from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.catalog.apply_pauses import PauseState, acknowledge_bound, acknowledge_pause
from subscriber.catalog.leases import STALE_SECONDS, Lease, LeaseKind, LeaseWatch, delete_dead, find_lease
from subscriber.spark.apply_pause import ApplyPause
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.segment import ends_within
from subscriber.stream.journal.storage import open_storage
from subscriber.worker.worker_state import WorkerState

logger = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.1
"""The shortest time between two looks whether the bound is reached."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The lease after the worker has answered to it; None if it is gone."""

    lease: Lease | None


class Pausing:
    """Obeys the pause of one subscription; ``answering`` writes in the background."""

    def __init__(self, state: WorkerState, pause: ApplyPause) -> None:
        self.lease: Lease | None = None
        self.answering = Background(self._answer, f"pause of {state.subscription.name}", state.wake)
        self._state = state
        self._pause = pause
        self._watch = LeaseWatch()
        self._journal: JournalReader | None = None
        self._asked = False
        self._is_outdated = False
        self._not_before = 0.0

    def update(self, lease: Lease | None) -> None:
        self._watch.update(lease)
        self._is_outdated = self._asked
        self._obey(lease)

    def catalog_unreachable(self) -> None:
        """The catalog cannot be read now: the lease is obeyed further."""
        self._watch.catalog_unreachable()

    def tick(self) -> None:
        """Answer to the pause, if an answer is due, without waiting for the target."""
        if not self._asked and not self._is_due():
            return
        if not self._asked:
            self._asked, self._is_outdated = True, False
        try:
            answered = self.answering.take()
        except SubscriberError as error:
            self._asked = False
            self._not_before = time.monotonic() + _PAUSE_SECONDS
            logger.debug("a pause could not be answered: %s", error.message)
            return
        if answered is None:
            return
        self._asked = False
        self._not_before = time.monotonic() + _PAUSE_SECONDS
        if not self._is_outdated:
            self._obey(answered.lease)

    def _is_due(self) -> bool:
        lease = self.lease
        if lease is None or time.monotonic() < self._not_before:
            return False
        if self._watch.is_dead():
            return True
        if lease.state == PauseState.REQUESTED:
            return not self._pause.busy
        return lease.state == PauseState.PAUSED and lease.bound is not None

    def _obey(self, lease: Lease | None) -> None:
        before, self.lease = self.lease, lease
        if lease is None:
            self._pause.limit = None
        elif lease.state == PauseState.PAUSED and lease.bound is not None:
            self._pause.limit = lease.bound
        else:
            self._pause.limit = INVALID_LSN
        if (before and before.holder, before and before.state) != (lease and lease.holder, lease and lease.state):
            self._log(lease)

    def _log(self, lease: Lease | None) -> None:
        name = self._state.subscription.name
        if lease is None:
            logger.info('the apply of subscription "%(subscription)s" goes on', {"subscription": name})
        elif lease.state == PauseState.HELD:
            assert lease.reached is not None
            logger.info(
                'the apply of subscription "%(subscription)s" is held at %(lsn)s by %(holder)s',
                {"subscription": name, "lsn": format_lsn(lease.reached), "holder": lease.holder_in_words},
            )
        else:
            logger.info(
                'the apply of subscription "%(subscription)s" is %(state)s by %(holder)s',
                {
                    "subscription": name,
                    "state": _WORDS[PauseState(lease.state or "")],
                    "holder": lease.holder_in_words,
                },
            )

    # In the background ----------------------------------------------------------------------------

    def _answer(self) -> _Answer:
        """Write what is due, by the row as the catalog has it now."""
        lease = self.lease
        if lease is None:
            return _Answer(None)
        if self._watch.is_dead():
            return self._remove(lease)
        if lease.state == PauseState.REQUESTED:
            return self._acknowledge(lease)
        return self._reach(lease)

    def _remove(self, lease: Lease) -> _Answer:
        with self._state.target.begin() as connection:
            removed = delete_dead(connection, lease)
            now = find_lease(connection, LeaseKind.PAUSE, lease.subid)
        if removed:
            logger.warning(
                'the hold of the apply of subscription "%(subscription)s" was removed: its holder, %(holder)s, has ended, or has not'
                " renewed it for %(seconds).0f s",
                {
                    "subscription": self._state.subscription.name,
                    "holder": lease.holder_in_words,
                    "seconds": STALE_SECONDS,
                },
            )
        return _Answer(now)

    def _acknowledge(self, lease: Lease) -> _Answer:
        failpoints.hit("hold.pause.before")
        with self._state.target.begin() as connection:
            acknowledge_pause(connection, lease)
            now = find_lease(connection, LeaseKind.PAUSE, lease.subid)
        failpoints.hit("hold.pause.after")
        return _Answer(now)

    def _reach(self, lease: Lease) -> _Answer:
        bound = lease.bound
        assert bound is not None
        if not self._has_applied_up_to(bound):
            return _Answer(lease)
        failpoints.hit("hold.reach.before")
        with self._state.target.begin() as connection:
            if self._state.subscription.progress.read(connection) <= bound:
                acknowledge_bound(connection, lease, bound)
            now = find_lease(connection, LeaseKind.PAUSE, lease.subid)
        failpoints.hit("hold.reach.after")
        return _Answer(now)

    def _has_applied_up_to(self, bound: LSN) -> bool:
        state = self._state
        # The received position is read first: what was received up to it is listed after that.
        reach = state.reach()
        if reach.received < bound or reach.applied == INVALID_LSN or state.consumers is None or self._pause.busy:
            return False
        if reach.has(bound):
            return True
        if self._journal is None:
            self._journal = JournalReader(open_storage(state.consumers.journal))
        return next(ends_within(self._journal.entries(reach.applied), bound), None) is None


_WORDS: Final = {PauseState.REQUESTED: "to be paused", PauseState.PAUSED: "paused"}
