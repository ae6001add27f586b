"""The part of a worker that obeys a hold of the apply (:mod:`subscriber.commands.hold_apply`).

::

    row in the catalog      bound of the batches        what the worker does
    none                    none                        applies
    requested               0/0: nothing                waits for the batch in progress, then writes "paused"
    paused                  0/0: nothing                waits for the bound
    paused, bound L         L                           applies up to L; when L is received and applied, writes "held"
    held                    0/0: nothing                waits until the row is gone

The bound is set before the worker looks for a batch in progress, and a batch asks for the bound
after it has announced itself (:mod:`subscriber.pipeline.apply_bound`). A worker reads the catalog
before its first query starts, so a run that was killed while it was held starts again held.

The supervisor's reads of the catalog decide. What the worker has written itself counts only if the
catalog was not read meanwhile, so that an older reading never replaces a newer one.

If the holder is dead (:mod:`subscriber.runtime.stale_holds`), the row is deleted first, and the
apply goes on after that. So a holder that is alive nevertheless finds that its row is gone before
anything changes that it has not read yet.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final

from subscriber import catalog, failpoints
from subscriber.catalog import ApplyHold, HoldState
from subscriber.errors import SubscriberError
from subscriber.journal.reader import JournalReader
from subscriber.journal.segment import ends_within
from subscriber.journal.storage import open_storage
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.pipeline.apply_bound import ApplyBound
from subscriber.runtime.background import Background
from subscriber.runtime.gate import Gate
from subscriber.runtime.stale_holds import STALE_SECONDS, StaleHold
from subscriber.runtime.worker_state import WorkerState

logger = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.1
"""The shortest time between two looks whether the bound is reached."""


@dataclass(frozen=True, slots=True)
class _Answered:
    """The row after the worker has answered to it; None if it is gone."""

    hold: ApplyHold | None


class HoldHalf:
    """Obeys the hold of one subscription; see the module's docstring.

    Args:
        state: the state of the worker.
        gate: the gate that every batch passes.

    Attributes:
        bound: the bound that the batches ask for.
        hold: the hold as it was last read; None if there is none.
        answering: writes the answer to the hold, in the background.
    """

    def __init__(self, state: WorkerState, gate: Gate) -> None:
        self.bound = ApplyBound()
        self.hold: ApplyHold | None = None
        self.answering = Background(self._answer, f"hold of {state.subscription.name}", state.wake)
        self._state = state
        self._gate = gate
        self._stale = StaleHold()
        self._journal: JournalReader | None = None
        self._asked = False
        self._is_outdated = False
        self._not_before = 0.0

    def take_up(self, hold: ApplyHold | None) -> None:
        """Obey the hold that the catalog has now."""
        self._stale.note(hold)
        self._is_outdated = self._asked
        self._obey(hold)

    def lose_sight(self) -> None:
        """Note that the catalog cannot be read now: the hold is obeyed further."""
        self._stale.lose_sight()

    def tick(self) -> None:
        """Answer to the hold, if an answer is due. This does not wait for the target."""
        if not self._asked and not self._is_due():
            return
        if not self._asked:
            self._asked, self._is_outdated = True, False
        try:
            answered = self.answering.take()
        except SubscriberError as error:
            self._asked = False
            self._not_before = time.monotonic() + _PAUSE_SECONDS
            logger.debug("a hold could not be answered: %s", error.message)
            return
        if answered is None:
            return
        self._asked = False
        self._not_before = time.monotonic() + _PAUSE_SECONDS
        if not self._is_outdated:
            self._obey(answered.hold)

    def _is_due(self) -> bool:
        hold = self.hold
        if hold is None or time.monotonic() < self._not_before:
            return False
        if self._stale.is_stale():
            return True
        if hold.state is HoldState.REQUESTED:
            return not self._gate.busy
        return hold.state is HoldState.PAUSED and hold.bound is not None

    def _obey(self, hold: ApplyHold | None) -> None:
        before, self.hold = self.hold, hold
        self._state.is_held = hold is not None
        if hold is None:
            self.bound.position = None
        elif hold.state is HoldState.PAUSED and hold.bound is not None:
            self.bound.position = hold.bound
        else:
            self.bound.position = INVALID_LSN
        if (before and before.holder, before and before.state) != (hold and hold.holder, hold and hold.state):
            self._log(hold)

    def _log(self, hold: ApplyHold | None) -> None:
        name = self._state.subscription.name
        if hold is None:
            logger.info('the apply of subscription "%s" goes on', name)
        elif hold.state is HoldState.HELD:
            assert hold.reached is not None
            at, by = format_lsn(hold.reached), hold.holder_in_words
            logger.info('the apply of subscription "%s" is held at %s by %s', name, at, by)
        else:
            logger.info('the apply of subscription "%s" is %s by %s', name, _WORDS[hold.state], hold.holder_in_words)

    # In the background ----------------------------------------------------------------------------

    def _answer(self) -> _Answered:
        """Write what is due, by the row as the catalog has it now.

        Raises:
            SubscriberError: the target or the journal cannot be reached.
        """
        hold = self.hold
        if hold is None:
            return _Answered(None)
        if self._stale.is_stale():
            return self._remove(hold)
        if hold.state is HoldState.REQUESTED:
            return self._pause(hold)
        return self._reach(hold)

    def _remove(self, hold: ApplyHold) -> _Answered:
        with self._state.target.begin() as connection:
            removed = catalog.delete_stale_hold(connection, hold)
            now = catalog.find_hold(connection, hold.subid)
        if removed:
            logger.warning(
                'the hold of the apply of subscription "%s" was removed: its holder, %s, has not renewed it for %.0f s',
                self._state.subscription.name,
                hold.holder_in_words,
                STALE_SECONDS,
            )
        return _Answered(now)

    def _pause(self, hold: ApplyHold) -> _Answered:
        failpoints.hit("hold.pause.before")
        with self._state.target.begin() as connection:
            catalog.note_paused(connection, hold)
            now = catalog.find_hold(connection, hold.subid)
        failpoints.hit("hold.pause.after")
        return _Answered(now)

    def _reach(self, hold: ApplyHold) -> _Answered:
        bound = hold.bound
        assert bound is not None
        if not self._has_applied_up_to(bound):
            return _Answered(hold)
        failpoints.hit("hold.reach.before")
        with self._state.target.begin() as connection:
            if self._state.subscription.progress.read(connection) <= bound:
                catalog.note_reached(connection, hold, bound)
            now = catalog.find_hold(connection, hold.subid)
        failpoints.hit("hold.reach.after")
        return _Answered(now)

    def _has_applied_up_to(self, bound: LSN) -> bool:
        """Return whether everything up to ``bound`` is received and applied.

        Raises:
            JournalError: the journal cannot be read.
        """
        state = self._state
        applied = state.applied
        # The received position is read first: what was received up to it is listed after that.
        received, _ = state.current_positions()
        if received < bound or applied == INVALID_LSN or state.consumers is None or self._gate.busy:
            return False
        if applied >= bound:
            return True
        if self._journal is None:
            self._journal = JournalReader(open_storage(state.consumers.journal))
        return next(ends_within(self._journal.entries(applied), bound), None) is None


_WORDS: Final = {HoldState.REQUESTED: "to be paused", HoldState.PAUSED: "paused"}
