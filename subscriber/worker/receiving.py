"""The part of a worker that keeps a walreceiver process running, which writes the journal.

::

    where do the slot's changes begin? ──▶ open the journal ──▶ walreceiver ──ready──▶ still the same subscription? ──go──▶ streams
    (asked of the publisher, once)                                             (catalog)  └─ no: the worker will be replaced

A new receiver would need most of a second to import its modules, and a few milliseconds to connect.
So it is forked from a process that has imported them (:mod:`subscriber.base.fork_server`), and
shares their memory with the others. *Rejected:* one receiver that has imported them and waits for
an assignment. That helps only the first of several subscriptions, and shares nothing.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from subscriber.base.background import MOMENT_SECONDS, Background
from subscriber.base.errors import PublisherUnavailable, SubscriberError, TargetUnavailable
from subscriber.base.forked_process import ForkedProcess
from subscriber.base.interpreter import search_path
from subscriber.base.lsn import INVALID_LSN, parse_lsn
from subscriber.base.retry import RetryState
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import target_identifier
from subscriber.catalog.subscription_options import receiver_timeout
from subscriber.catalog.subscriptions import find_subscription
from subscriber.commands.consumers import JournalConsumers, display_url
from subscriber.commands.slot_position import adopt_slot
from subscriber.publisher.conninfo import ANY_SERVER, ANY_SERVER_HINT, names_any_server
from subscriber.stream.journal.positions import watched_positions
from subscriber.stream.journal.storage import journal_url
from subscriber.stream.receive.walreceiver import ReceiverCounts
from subscriber.worker import RECEIVER_MODULE
from subscriber.worker.commit_marks import CommitMarks
from subscriber.worker.publisher_notices import PublisherNotices, SkippedPublications
from subscriber.worker.receiver_process import GO, Assignment
from subscriber.worker.worker_state import WorkerState, needs_restart

logger = logging.getLogger(__name__)

_CHANGED_SECONDS: Final = 1.0
"""Before another receiver of a changed subscription; normally the worker is replaced then."""


class Receiving:
    """Keeps the walreceiver of one subscription running. ``messages``: ask for logical messages.
    ``on_entry`` is called, in another thread, when the journal has another entry.
    """

    def __init__(
        self,
        state: WorkerState,
        settings: Settings,
        start_process: StartProcess,
        *,
        messages: bool,
        on_entry: Callable[[], None] = lambda: None,
    ) -> None:
        self.attempts = RetryState("receive")
        self.process: ReceiverProcess | None = None
        self.adopting = Background(
            lambda: adopt_slot(state.target, state.subscription, settings),
            f"slot of {state.subscription.name}",
            state.wake,
        )
        self.notices = PublisherNotices(state)
        self.marks = CommitMarks()
        self.counts = ReceiverCounts()
        self._looked_at = time.monotonic()
        self._state = state
        timeout = receiver_timeout(state.subscription.options, settings.wal_receiver_timeout)
        self._settings = replace(settings, wal_receiver_timeout=timeout)
        self._start_process = start_process
        self._messages = messages
        self._on_entry = on_entry
        if names_any_server(state.subscription.connection or ""):
            logger.warning(
                'subscription "%(subscription)s": %(error)s\nHINT:  %(hint)s',
                {"subscription": state.subscription.name, "error": ANY_SERVER, "hint": ANY_SERVER_HINT},
            )

    @property
    def streams(self) -> bool:
        """Whether a receiver streams. It has then verified the publisher of the journal."""
        return self.process is not None and self.process.streaming

    @property
    def server(self) -> str | None:
        return None if self.process is None else self.process.server

    @property
    def process_id(self) -> int | None:
        return None if self.process is None else self.process.pid

    def _record_beat(self, before: ReceiverCounts, now: ReceiverCounts) -> None:
        """Note what a receiver has received between two beats; its thread calls this."""
        self._state.count("received_bytes", now.bytes - before.bytes)
        self._state.count("received_transactions", now.transactions - before.transactions)
        self.marks.record(now.commit_lsn, now.first_commit, self._state.applied)
        self.counts = now

    def watch(self) -> SubscriberError | None:
        """The error of a receiver that has ended. Also record that one works again."""
        process = self.process
        if process is not None and process.running:
            self._kill_if_silent(process)
        elif process is not None:
            error = process.failure()
            self._state.count("receiver_restarts")
            process.stop()
            self.process = None
            return error
        if self.streams and self.attempts.error is not None and self._has_streamed_for_long():
            self.attempts.record_success()
        return None

    def start(self) -> None:
        """Start a receiver, or first find out where the slot's changes begin, for a later call."""
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
        self.marks.begin(state.current_positions()[1])
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
                wal_receiver_timeout=self._settings.wal_receiver_timeout,
            ),
            self._start_process(),
            state.wake,
            self.notices.on_notice,
            self._record_beat,
            self._on_entry,
        )

    def let_receive(self) -> None:
        """Let a receiver that holds the slot begin, unless a command has changed the subscription
        since, and let one go on when a skipped publication is recorded. If the target cannot be
        reached, it begins: a command would need the target, too.
        """
        process = self.process
        if process is not None and process.skipped is not None and self.notices.record(process.skipped):
            process.go()
        if process is None or not process.ready:
            return
        target, subscription = self._state.target, self._state.subscription
        try:
            with target.reporting(), target.engine.connect() as connection:
                stored = find_subscription(connection, subscription.name)
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
        process, self.process = self.process, None
        if process is not None:
            process.stop()

    def _kill_if_silent(self, process: ReceiverProcess) -> None:
        """Kill a receiver that has given no sign of life for ``wal_receiver_timeout``."""
        now, timeout = time.monotonic(), self._settings.wal_receiver_timeout
        looked_at, self._looked_at = self._looked_at, now
        if timeout <= 0 or process.killed:
            return
        if now - looked_at > timeout / 2:
            process.heard_at = now  # this process was stopped itself, and has not read what was sent meanwhile
        elif now - process.heard_at > timeout:
            process.kill_silent(now - process.heard_at)

    def _has_streamed_for_long(self) -> bool:
        """Whether it has streamed for a while; before that, the last failure may occur again."""
        return time.monotonic() - self.attempts.failed.not_before >= self._settings.wal_retrieve_retry_interval

    def _open_consumers(self, journal: str) -> JournalConsumers:
        target, subscription = self._state.target, self._state.subscription
        with target.reporting(), target.engine.connect() as connection:
            identifier = target_identifier(connection)
        consumers = JournalConsumers(
            journal,
            identifier,
            subscription.subid,
            subscription=subscription.name,
            place=display_url(target),
            carrier=subscription.options.carrier,
        )
        consumers.replace_earlier()
        return consumers


ReceiverChild: TypeAlias = "subprocess.Popen[str] | ForkedProcess"
StartProcess: TypeAlias = Callable[[], ReceiverChild]

_END_SECONDS: Final = 5.0
"""For the current write, before a receiver is killed; then the slot sends the data again."""


class ReceiverProcess:
    """A walreceiver process that runs or has ended.

    ``on_event`` is called in another thread after each event of the process, and after its end;
    ``on_notice`` with each notice of the publisher, ``on_beat`` with the counts of the beat before
    and of this one, and ``on_entry`` after an entry was added to the journal.

    Attributes:
        ready: it holds the slot, and waits for :meth:`go`.
        streaming: it receives and confirms.
        skipped: publications that the publisher skips, while it waits for :meth:`go`.
        heard_at: when it gave the last sign of life (monotonic seconds).
    """

    def __init__(
        self,
        assignment: Assignment,
        process: ReceiverChild,
        on_event: Callable[[], None] = lambda: None,
        on_notice: Callable[[str, str], None] = lambda _severity, _report: None,
        on_beat: Callable[[ReceiverCounts, ReceiverCounts], None] = lambda _before, _now: None,
        on_entry: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = assignment.subscription
        self._error: SubscriberError | None = None
        self.ready = False
        self.streaming = False
        self.server: str | None = None
        self.skipped: SkippedPublications | None = None
        self.heard_at = time.monotonic()
        self._silence = 0.0
        self._on_notice = on_notice
        self._on_beat = on_beat
        self._on_entry = on_entry
        self._counts = ReceiverCounts()
        self._process = process
        self._on_event = on_event
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(assignment.to_json() + "\n")
            self._process.stdin.flush()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int | None:
        """None until it runs."""
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def killed(self) -> bool:
        return self._silence > 0

    def go(self) -> None:
        """Let it receive and confirm: nothing has changed, or the skip is in the catalog."""
        self.ready, self.skipped = False, None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # the process has ended; the next look finds that
            self._process.stdin.write(GO)
            self._process.stdin.flush()

    def failure(self) -> SubscriberError:
        """Why the process has ended; if it was killed, the error is transient."""
        self._listener.join(_END_SECONDS)
        if self._silence:
            return PublisherUnavailable(
                f'the walreceiver of subscription "{self._name}" gave no sign of life for {self._silence:.0f} s, and was killed',
                detail="It was stopped (SIGSTOP), or got no processor time.",
                hint="Another one is started. The limit is wal_receiver_timeout.",
            )
        return self._error or PublisherUnavailable(
            f'the walreceiver of subscription "{self._name}" ended with exit code {self._process.returncode}',
            hint="It is started again.",
        )

    def kill_silent(self, silence: float) -> None:
        """Kill the process after so many seconds of silence, without waiting for its end."""
        logger.warning(
            'the walreceiver of subscription "%(subscription)s" gives no sign of life: it is killed',
            {"subscription": self._name},
        )
        self._silence = silence
        self._process.kill()

    def stop(self) -> None:
        """Close the process's stdin and wait for its end; kill it if that takes too long."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(_END_SECONDS)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            name = event.pop("event")
            self.heard_at = time.monotonic()
            match name:
                case "entry":
                    self._on_entry()
                    continue
                case "beat":
                    before, self._counts = self._counts, ReceiverCounts(**event)
                    self._on_beat(before, self._counts)
                    continue  # the supervisor is not woken
                case "ready":
                    self.ready = True
                case "streaming":
                    self.server = event["server"]
                    self.streaming = True
                    logger.info(
                        'walreceiver of subscription "%(subscription)s" streams from %(lsn)s of %(server)s',
                        {"subscription": self._name, "lsn": event["start"], "server": self.server},
                    )
                case "warning":
                    logger.warning(
                        'subscription "%(subscription)s": %(error)s',
                        {"subscription": self._name, "error": event["message"]},
                    )
                case "notice":
                    self._on_notice(event["severity"], event["report"])
                    if event["skipped"]:
                        self.skipped = SkippedPublications(tuple(event["skipped"]), parse_lsn(event["lsn"]))
                case "error":
                    self._error = pickle.loads(base64.b64decode(event["error"]))  # noqa: S301 - from our own child
            self._on_event()
        self._process.stdout.close()
        self._on_event()


def start_receiver(fork_server: Path | None = None) -> ReceiverChild:
    """Start a process that waits for its assignment; a new Python without a fork server."""
    environment = {**os.environ, **search_path(os.environ)}
    if fork_server is not None:
        with contextlib.suppress(OSError):  # it was killed, or has too much to do
            return ForkedProcess(fork_server, RECEIVER_MODULE, environment)
    # The process has a separate session, so that the terminal's Ctrl-C reaches only the supervisor,
    # which then ends the process in order.
    return subprocess.Popen(
        [sys.executable, "-m", RECEIVER_MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment,
    )
