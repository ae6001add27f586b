"""``subscriber receive``: receives a slot into its journal, without a target.

::

    publisher   which system? publications and slot there? ─ create the slot, if wanted ─▶ assignment
    receive     walreceiver (worker/receiver_process.py), in this process ─▶ journal ◀── consumers read, and say what they have passed
    ticks       the service manager; with ``once``, whether everything is durable

Errors are treated as in ``subscriber run``: those that prove a loss of changes end the command, and
all others are tried again. But one that needs an action also ends the command if it occurs before
anything was received, because it is then likely a mistake in an option.

There is no target whose progress proves what was applied. Its place is taken by the journal: it
begins where the slot began, and nothing is removed that a consumer may need.
"""

from __future__ import annotations

import logging
import re
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from subscriber.base.background import in_background
from subscriber.base.errors import (
    HistoryDiverged,
    JournalCorrupt,
    JournalGap,
    OtherSystem,
    PublisherNotReady,
    SlotInUse,
    SlotLost,
    SubscriberError,
    UsageError,
    fault,
)
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.retry import LONGEST_RETRIES, PATIENT_FAILURES, FailedAttempts, RetryState
from subscriber.base.run_log import OVER
from subscriber.base.settings import Settings
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import ReplicationConnection, connect_publisher
from subscriber.publisher.slots import create_slot
from subscriber.stream.journal.control import JournalControl, read_control
from subscriber.stream.journal.named_consumers import list_named
from subscriber.stream.journal.positions import CachedAnswer, watched_positions
from subscriber.stream.journal.retention import list_consumers
from subscriber.stream.journal.storage import journal_url, open_storage
from subscriber.stream.receive.walreceiver import ReceiverCounts
from subscriber.worker.receiver_process import Assignment, receive

logger = logging.getLogger(__name__)

ReceiverState = Literal["starting", "standby", "streaming", "retrying", "stopped"]
RECEIVER_STATES: Final[tuple[ReceiverState, ...]] = get_args(ReceiverState)

_TICK_SECONDS: Final = 0.25
_STANDBY_SECONDS: Final = 1.0
_END_SECONDS: Final = 1.0
_MOST_NOTICES: Final = 100
_START_AGAIN: Final = (
    "To start again: stop the consumers, remove the journal (rm -r {journal}), run at the publisher"
    " SELECT pg_drop_replication_slot('{slot}'), then this command with --create-slot. Each consumer needs a new checkpoint"
    " and new copies of its tables."
)
_OPTIONS: Final = (
    (re.compile(r": ALTER SUBSCRIPTION (?:\.\.\.|…) CONNECTION '[^']*'"), ""),
    (re.compile(r"ALTER SUBSCRIPTION (?:\.\.\.|…) SET PUBLICATION"), "--publication"),
    (re.compile(r"ALTER SUBSCRIPTION (?:\.\.\.|…) RECREATE SLOT .*", re.DOTALL), "{start_again}"),
    (re.compile(r"(?:the )?subscription's CONNECTION|CONNECTION"), "--connection"),
    (re.compile("slot_name"), "--slot"),
    (re.compile("subscriber run"), "subscriber receive"),
)
"""What hints for subscriptions say, and the options here that take its place."""


@dataclass(frozen=True, slots=True)
class SlotSource:
    """What is received: a slot of a publisher, for publications. ``create``: create the slot if
    there is none. UsageError: a publication is named twice.
    """

    conninfo: str
    slot: str
    publications: tuple[str, ...]
    create: bool = False

    def __post_init__(self) -> None:
        for number, name in enumerate(self.publications):
            if name in self.publications[:number]:
                raise UsageError(f'publication name "{name}" used more than once', sqlstate="42710")


class SlotReceiver:
    """Receives until it is stopped, or with ``once`` until everything is durable that the publisher
    had when the stream began. ``standby``: wait while another receiver has the slot.

    Attributes:
        assignment: None until the publisher has answered.
        state: ``standby`` while it waits for another receiver to end.
        counts: what was received.
        attempts: the failed attempts.
    """

    def __init__(self, source: SlotSource, settings: Settings, *, once: bool = False, standby: bool = False) -> None:
        self.source = source
        self.assignment: Assignment | None = None
        self.state: ReceiverState = "starting"
        self.counts = ReceiverCounts()
        self.attempts = RetryState("receive", self._over)
        self._settings = settings
        self._journal = "…"
        self._once = once
        self._standby = standby
        self._streaming_since: float | None = None
        self._has_streamed = False
        self._is_new = False
        self._barrier: LSN | None = None
        self._is_done = False
        self._said: set[str] = set()
        self._positions: CachedAnswer[tuple[LSN, LSN]] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it receives, or tries to: nothing is known to be wrong with its options."""
        return self.state in ("streaming", "retrying")

    @property
    def looped_at(self) -> float:
        """When it last went round its loop (monotonic seconds). A server may take long to answer,
        so only the loop that receives can hang.
        """
        return self.counts.looped_at if self.state == "streaming" else time.monotonic()

    def run(self, stop: threading.Event, on_tick: Callable[[], None] = lambda: None) -> bool:
        """Receive until ``stop`` is set; returns whether that was successful. ``on_tick`` is called
        a few times a second, in another thread.

        Raises:
            SubscriberError: changes are lost, or an option is wrong; with ``once``, an error has
                occurred several times in a row.
        """

        def tick(end: threading.Event) -> None:
            while not end.wait(_TICK_SECONDS):
                self._look(stop)
                on_tick()

        began = time.monotonic()
        with in_background("ticks of the receiver", tick, _END_SECONDS):
            while not stop.is_set():
                try:
                    self._attempt(stop)
                except SubscriberError as error:
                    if not stop.is_set():
                        self._failed(error, began, stop)
        return self._is_done or not self._once

    def _attempt(self, stop: threading.Event) -> None:
        """Receive until ``stop`` is set, or until an error."""
        try:
            self._receive(stop)
        except SubscriberError:
            raise
        except Exception as error:
            raise fault("the receiver failed", error) from error

    def _receive(self, stop: threading.Event) -> None:
        if self.assignment is None:
            self.assignment = self._prepare(stop)
        control = read_control(open_storage(self.assignment.journal))
        self._is_new = control is None
        if control is not None:
            self.assignment = replace(self.assignment, applied_lsn=control.begin)
        receive(self.assignment, self._settings, stop, self._emit, counts=self.counts)

    def _prepare(self, stop: threading.Event) -> Assignment:
        """Check what the options name, before anything is created, and create the slot."""
        source = self.source
        with connect_publisher(source.conninfo, source.slot) as connection:
            publisher = PublisherClient(connection)
            publisher.check_server()
            system = publisher.system_identifier()
            for missing in publisher.missing_publications(source.publications):
                raise PublisherNotReady(
                    f'publication "{missing}" does not exist',
                    sqlstate="42704",
                    hint=publisher.like_publication(missing)
                    or "Create it at the publisher: CREATE PUBLICATION … FOR …;",
                )
            url = journal_url(self._settings.journal, system, source.slot)
            self._journal = shlex.quote(url)
            storage = open_storage(url)
            control = read_control(storage)
            for one in list_consumers(storage):
                raise UsageError(
                    f'replication slot "{source.slot}" is used by subscription "{one.subscription}" of {one.place}',
                    sqlstate="55006",
                    detail=f'`subscriber run` receives it into the journal at "{url}".',
                    hint="Spark can read that journal beside the subscription. To receive without it, use another --slot.",
                )
            found = publisher.slot(source.slot)
        begin = self._create_slot(url, control, stop) if found is None else found.confirmed_flush_lsn
        return Assignment(
            subscription=source.slot,
            conninfo=source.conninfo,
            slot=source.slot,
            publications=source.publications,
            streaming="parallel",
            two_phase=False,
            binary=False,
            origin="any",
            system_identifier=system,
            journal=url,
            applied_lsn=begin,
            wal_receiver_timeout=self._settings.wal_receiver_timeout,
            has_target=False,
        )

    def _create_slot(self, url: str, control: JournalControl | None, stop: threading.Event) -> LSN:
        source = self.source
        if control is not None:
            raise SlotLost(
                f'replication slot "{source.slot}" does not exist, but there is a journal of it',
                sqlstate="42704",
                detail=f'The journal at "{url}" ends at {format_lsn(control.received)}. A new slot does not have the changes after that.',
            )
        if not source.create:
            raise PublisherNotReady(
                f'replication slot "{source.slot}" does not exist',
                sqlstate="42704",
                hint="Add --create-slot to create it.",
            )
        with ReplicationConnection(source.conninfo, source.slot) as connection:
            return create_slot(connection, source.slot, snapshot="nothing", stop=stop).consistent_point

    # What happens in the stream -------------------------------------------------------------------

    def _emit(self, event: str, **fields: Any) -> None:
        slot = self.source.slot
        match event:
            case "streaming":
                self._streaming_since = self.counts.looped_at = time.monotonic()
                assert self.assignment is not None
                if not self._has_streamed:
                    self._say_what_is_kept(self.assignment.journal)
                    if self._is_new:
                        logger.info("the journal is new, and begins at %s", format_lsn(self.assignment.applied_lsn))
                self.state, self._has_streamed = "streaming", True
                logger.info(
                    'receiving slot "%(slot)s" from %(lsn)s of %(server)s into the journal "%(journal)s"',
                    {
                        "slot": slot,
                        "lsn": fields["start"],
                        "server": fields["server"],
                        "journal": self.assignment.journal,
                    },
                )
            case "warning":
                logger.warning('slot "%(slot)s": %(error)s', {"slot": slot, "error": fields["message"]})
            case "notice":
                self._on_notice(**fields)

    def _say_what_is_kept(self, journal: str) -> None:
        if any(one.dropped is None for one in list_named(open_storage(journal))):
            return
        size = self._settings.journal_absent_consumers
        kept = "everything" if size is None else f"its newest {size} bytes (SUBSCRIBER_JOURNAL_ABSENT_CONSUMERS)"
        logger.info("no consumer is registered: the journal keeps %s", kept)

    def _on_notice(self, severity: str, report: str, skipped: tuple[str, ...], lsn: str) -> None:
        """Log what the publisher says, once. A publication that it skips is a loss of rows."""
        if report not in self._said and len(self._said) < _MOST_NOTICES:
            self._said.add(report)
            level = logging.WARNING if severity == "WARNING" else logging.INFO
            logger.log(
                level, 'the publisher of slot "%(slot)s" says: %(error)s', {"slot": self.source.slot, "error": report}
            )
        if skipped:
            logger.warning(
                'slot "%(slot)s": publication %(publications)s did not exist at the publisher at %(lsn)s: rows that were written'
                " since then are missing in the journal"
                "\nHINT:  Create the publication again, and copy its tables into what the consumers have made of them.",
                {"slot": self.source.slot, "publications": ", ".join(f'"{name}"' for name in skipped), "lsn": lsn},
            )

    def _look(self, stop: threading.Event) -> None:
        """Note that it works again, and with ``once`` whether everything is durable."""
        since = self._streaming_since
        if self.state != "streaming" or since is None:
            return
        if self.attempts.error is not None and time.monotonic() - since >= self._settings.wal_retrieve_retry_interval:
            self.attempts.record_success()
        if self._once and not stop.is_set() and self._has_everything():
            self._is_done = True
            stop.set()

    def _has_everything(self) -> bool:
        assert self.assignment is not None
        try:
            if self._barrier is None or self._positions is None:
                self._positions = watched_positions(self.assignment.journal)
                with connect_publisher(self.source.conninfo, self.source.slot) as connection:
                    self._barrier = PublisherClient(connection).write_barrier()
            return self._positions.get()[0] >= self._barrier
        except SubscriberError as error:
            logger.warning('slot "%(slot)s": %(error)s', {"slot": self.source.slot, "error": error.message})
            return False

    # Failures -------------------------------------------------------------------------------------

    def _failed(self, error: SubscriberError, began: float, stop: threading.Event) -> None:
        """Log a failure and wait for the next attempt, or raise it if there is to be none."""
        self._streaming_since = None
        if isinstance(error, SlotInUse) and not self._has_streamed and self._standby:
            if self.state != "standby":
                logger.info("standby: %(error)s; waiting until the other receiver ends", {"error": error.message})
            self.state = "standby"
            stop.wait(_STANDBY_SECONDS)
            return
        error = self._in_words(error)
        if self._ends(error, began):
            self.state = "stopped"
            raise error
        self.state = "retrying"
        longest = LONGEST_RETRIES * self._settings.wal_retrieve_retry_interval
        wait = self.attempts.next_wait(longest)
        logger.error(
            'slot "%(slot)s": %(error)s (attempt %(attempt)d, trying again in %(wait).1f s)%(further)s',
            {
                "slot": self.source.slot,
                "error": error.message,
                "attempt": self.attempts.failed.in_a_row + 1,
                "wait": wait,
                "further": error.further,
                "stage": self.attempts.stage,
                "sqlstate": error.sqlstate,
                "lsn": None if error.lsn is None else format_lsn(error.lsn),
            },
        )
        stop.wait(self.attempts.record_failure(error, longest))

    def _ends(self, error: SubscriberError, began: float) -> bool:
        if error.stops or (self._once and self.attempts.failed.in_a_row + 1 >= PATIENT_FAILURES):
            return True
        if self._has_streamed:
            return False
        if isinstance(error, SlotInUse):
            # The server may not have noticed yet that an earlier receiver has ended.
            timeout = self._settings.wal_receiver_timeout
            return not self._may_be_free_soon() or 0 < timeout < time.monotonic() - began
        return not error.transient

    def _may_be_free_soon(self) -> bool:
        """Whether the slot may still be that of an earlier receiver which has ended."""
        if self.assignment is None:
            return False
        storage = open_storage(self.assignment.journal)
        if read_control(storage) is None:
            return False  # it is received elsewhere
        if storage.remote:
            return True
        with storage.lock() as locked:
            return locked

    def _over(self, failed: FailedAttempts) -> None:
        logger.info(
            'slot "%(slot)s" is received again: attempts had failed for %(seconds).0f s, %(attempt)d in all',
            {
                "slot": self.source.slot,
                "stage": self.attempts.stage,
                "attempt": failed.in_a_row,
                "seconds": time.time() - failed.since,
            },
            extra=OVER,
        )

    def _in_words(self, error: SubscriberError) -> SubscriberError:
        """The error with a hint that names options of this command, not of subscriptions."""
        again = _START_AGAIN.format(journal=self._journal, slot=self.source.slot.replace("'", "''"))
        if isinstance(error, SlotLost | HistoryDiverged | OtherSystem | JournalGap | JournalCorrupt):
            restore = "Restore the journal's folder. " if isinstance(error, JournalGap | JournalCorrupt) else ""
            return error.replace(hint=restore + again)
        hint = error.hint
        for words, options in _OPTIONS:
            hint = hint and words.sub(options, hint)
        return error.replace(hint=hint and hint.replace("{start_again}", again))
