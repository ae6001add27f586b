"""The part of a worker that keeps a walreceiver process running, which writes the journal.

::

    where do the slot's changes begin? ──▶ open the journal ──▶ walreceiver ──ready──▶ still the same subscription? ──go──▶ streams
    (asked of the publisher, once)                                             (catalog)  └─ no: the worker will be replaced
"""

from __future__ import annotations

import logging
import time
from typing import Final

from subscriber import catalog
from subscriber.errors import SubscriberError, TargetUnavailable
from subscriber.journal.positions import watched_positions
from subscriber.journal.storage import journal_url
from subscriber.lsn import INVALID_LSN
from subscriber.positions.consumers import JournalConsumers, place_of
from subscriber.positions.slot_position import adopt_slot
from subscriber.publisher.conninfo import ANY_SERVER, ANY_SERVER_HINT, names_any_server
from subscriber.runtime.attempts import Attempts
from subscriber.runtime.background import MOMENT_SECONDS, Background
from subscriber.runtime.publisher_notices import PublisherNotices
from subscriber.runtime.receiver_handle import ReceiverProcess
from subscriber.runtime.receiver_process import Assignment
from subscriber.runtime.spare_receiver import SpareReceiver
from subscriber.runtime.worker_state import WorkerState, needs_restart
from subscriber.settings import Settings

logger = logging.getLogger(__name__)

_CHANGED_SECONDS: Final = 1.0
"""How long a worker waits before it starts another receiver, if its subscription has changed.
Normally the worker is replaced during this time.
"""


class ReceiverHalf:
    """Keeps the walreceiver of one subscription running; see the module's docstring.

    Args:
        state: the state of the worker.
        settings: the timeouts, and the place of the journals.
        spare: the processes for receivers.
        messages: whether the publisher is asked to send logical messages.

    Attributes:
        attempts: the attempts to have a receiver that streams.
        process: the receiver; None while none is started.
        adopting: finds out where the slot's changes begin.
        notices: what the publisher says.
    """

    def __init__(self, state: WorkerState, settings: Settings, spare: SpareReceiver, *, messages: bool) -> None:
        self.attempts = Attempts()
        self.process: ReceiverProcess | None = None
        self.adopting = Background(
            lambda: adopt_slot(state.target, state.subscription, settings),
            f"slot of {state.subscription.name}",
            state.wake,
        )
        self.notices = PublisherNotices(state)
        self._looked_at = time.monotonic()
        self._state = state
        self._settings = settings
        self._spare = spare
        self._messages = messages
        if names_any_server(state.subscription.conninfo):
            logger.warning('subscription "%s": %s. HINT:  %s', state.subscription.name, ANY_SERVER, ANY_SERVER_HINT)

    @property
    def streams(self) -> bool:
        """Whether a receiver streams. It has then verified that the publisher is the one from which
        the journal was received before.
        """
        return self.process is not None and self.process.streaming

    @property
    def server(self) -> str | None:
        """Host, port and version of the server that a receiver streams from; None while none
        streams.
        """
        return None if self.process is None else self.process.server

    def watch(self) -> SubscriberError | None:
        """Return the error of a receiver that has ended, and None otherwise. Also record that the
        receiver works again after a failure.
        """
        process = self.process
        if process is not None and process.running:
            self._kill_if_silent(process)
        elif process is not None:
            error = process.failure()
            process.stop()
            self.process = None
            return error
        if self.streams and self.attempts.error is not None and self._has_streamed_for_long():
            self.attempts.works()
        return None

    def start(self) -> None:
        """Start a receiver. If it is not known yet where the slot's changes begin, that is found
        out first, and a later call starts the receiver.

        Raises:
            SubscriberError: the beginning of the slot's changes cannot be found out, or the journal
                or the target cannot be reached.
        """
        state = self._state
        if state.applied == INVALID_LSN:
            # The progress is read only once: only this worker advances it, and a receiver must be
            # able to restart while the target cannot be reached.
            adopted = self.adopting.take(MOMENT_SECONDS)
            if adopted is None:
                return
            state.subscription, state.applied = adopted
        subscription = state.subscription
        assert subscription.slot_name is not None
        assert subscription.system_identifier is not None
        journal = journal_url(self._settings.journal, subscription.system_identifier, subscription.slot_name)
        if state.consumers is None:
            state.consumers = self._open_consumers(journal)
            state.watched = watched_positions(journal)
        self.process = ReceiverProcess(
            Assignment(
                subscription=subscription.name,
                conninfo=subscription.conninfo,
                slot=subscription.slot_name,
                publications=subscription.streamed_publications,
                streaming=subscription.options.streaming,
                two_phase=subscription.two_phase_state == "e",
                binary=subscription.options.binary,
                origin=subscription.options.origin,
                system_identifier=subscription.system_identifier,
                journal=state.consumers.journal,
                applied_lsn=state.applied,
                messages=self._messages,
            ),
            self._spare.take(),
            state.wake,
            self.notices.hear,
        )

    def let_receive(self) -> None:
        """Let a receiver that holds the slot begin to receive, unless a command has changed the
        subscription since the receiver was started. Let a receiver go on that waits until it is
        recorded that the publisher skips a publication.

        If the target cannot be reached, the receiver begins: a command would also need the target,
        and the publisher must not wait.

        Raises:
            SubscriberError: the target refuses the query.
        """
        process = self.process
        if process is not None and process.skipped is not None and self.notices.record(process.skipped):
            process.go()
        if process is None or not process.ready:
            return
        target, subscription = self._state.target, self._state.subscription
        try:
            with target.reporting(), target.engine.connect() as connection:
                stored = catalog.find_subscription(connection, subscription.name)
        except TargetUnavailable:
            stored = subscription
        if stored is not None and stored.enabled and not needs_restart(subscription, stored):
            process.go()
            return
        self.process = None
        process.stop()
        # The supervisor sees the change at its next read of the catalog, and creates another
        # worker.
        self.attempts.wait(_CHANGED_SECONDS)

    def restart(self) -> None:
        """End the receiver; the next call of :meth:`start` starts another one."""
        process, self.process = self.process, None
        if process is not None:
            process.stop()

    def _kill_if_silent(self, process: ReceiverProcess) -> None:
        """Kill a receiver that has given no sign of life for ``wal_receiver_timeout``. The next
        look finds that it has ended.
        """
        now, timeout = time.monotonic(), self._settings.wal_receiver_timeout
        looked_at, self._looked_at = self._looked_at, now
        if timeout <= 0 or process.killed:
            return
        if now - looked_at > timeout / 2:
            process.heard_at = now  # this process was stopped itself, and has not read what was sent meanwhile
        elif now - process.heard_at > timeout:
            process.kill_silent(now - process.heard_at)

    def _has_streamed_for_long(self) -> bool:
        """Return whether the receiver has streamed for a while; before that, the last failure may
        occur again.
        """
        return time.monotonic() - self.attempts.failed.not_before >= self._settings.wal_retrieve_retry_interval

    def _open_consumers(self, journal: str) -> JournalConsumers:
        target, subscription = self._state.target, self._state.subscription
        with target.reporting(), target.engine.connect() as connection:
            identifier = catalog.target_identifier(connection)
        consumers = JournalConsumers(
            journal, identifier, subscription.subid, subscription=subscription.name, place=place_of(target)
        )
        consumers.replace_earlier()
        return consumers
