"""The apply worker of one subscription: a walreceiver process and a Spark query, kept running, and its tables' copies.

::

             ┌─ starting ─▶ receiver running ──┐            transient failure: wait, then start that half again
    tick ───▶│                                 ├─▶ caught up?   (0.5 s, doubling up to wal_retrieve_retry_interval)
             ├─ starting ─▶ query running ─────┤            lasting failure: stay stopped, say why
             └─ tables to copy? ─▶ a round ────┘            (subscriber.runtime.tablesync)

The halves fail and restart independently: while the target is away the receiver goes on, and the other way round. A batch that fails
is tried again where it is (:mod:`subscriber.pipeline.sink`), in the thread that applies it, which asks here; the query is started again
only when that would not help: it reads by publications that have changed, or Spark itself has failed.
Lasting are failures that the next attempt would only repeat without anybody noticing: a message that does not decode, a
gap in the journal, a slot that is gone. A change that cannot be applied is retried for ever, as PostgreSQL's worker does (rule
C35): somebody may remove the conflicting row.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from subscriber import catalog
from subscriber.apply import progress
from subscriber.apply.exact import ApplyResult, ExactApplier
from subscriber.apply.logical_messages import MessageListener
from subscriber.catalog import RelationState, Subscription, SubscriptionRelation, TableStates
from subscriber.catalog.kept_publishing import read_publishing
from subscriber.errors import (
    ApplyError,
    PipelineError,
    ProgressConflict,
    PublicationsChanged,
    PublisherTablesOutdated,
    SubscriberError,
    TargetUnavailable,
)
from subscriber.journal.reader import watched_positions
from subscriber.journal.sparing import Sparing
from subscriber.journal.storage import journal_url
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.pipeline.on_spark import Pipeline
from subscriber.pipeline.streaming_query import ApplyQuery, JournalStream
from subscriber.positions.consumers import JournalConsumers, place_of
from subscriber.positions.slot_position import adopt_slot
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.runtime.attempts import Attempts
from subscriber.runtime.background import Background
from subscriber.runtime.catalog_rules import BatchRules
from subscriber.runtime.copy_progress import CopyStatus
from subscriber.runtime.failures import disable, record
from subscriber.runtime.gate import Gate
from subscriber.runtime.publisher_attributes import PublisherAttributes
from subscriber.runtime.receiver_handle import ReceiverProcess
from subscriber.runtime.receiver_process import Assignment
from subscriber.runtime.refresh_publisher_tables import refresh_at_start, refresh_outdated
from subscriber.runtime.tablesync import TableSync
from subscriber.settings import Settings
from subscriber.targets import Target

logger = logging.getLogger(__name__)

PATIENT_FAILURES: Final = 5
"""How many failures in a row `run --once` puts up with: about ten seconds of a publisher or target that restarts."""
PATIENT_COPIES: Final = 2
"""How many failed copies of one table it puts up with."""
_CHANGED_SECONDS: Final = 1.0
"""How long a worker whose subscription has changed waits to be replaced before it starts a receiver again."""

_RESOLVE_SECONDS: Final = 1.0
"""Between two looks whether the last error is over."""

_NEEDS_ANOTHER_QUERY: Final = (PublicationsChanged, PublisherTablesOutdated, PipelineError)
"""Errors of a batch that the same query would meet again: it has filtered by what is no longer true, or Spark itself has failed."""


def _is_tried_again(error: SubscriberError) -> bool:
    """Rule C35; nobody but somebody else's progress gives way to ours."""
    return error.transient or (isinstance(error, ApplyError) and not isinstance(error, ProgressConflict))


class SubscriptionWorker:
    """See the module.

    Attributes:
        subscription: what it works for.
        stopped: whether it has failed for good.
        disabled: whether that was the end of the subscription too, as ``disable_on_error`` asks.
        relations: its tables, as they were when the catalog was last read.
        applied: the target's progress, once known.
        transactions: how many were applied since the start.
        changes: how many changes they had.
    """

    def __init__(
        self,
        subscription: Subscription,
        target: Target,
        pipeline: Pipeline,
        settings: Settings,
        turn: contextlib.AbstractContextManager[Any],
        on_message: MessageListener | None = None,
    ) -> None:
        self.subscription = subscription
        self.stopped = False
        self.disabled = False
        self.relations = TableStates()
        self.applied = INVALID_LSN
        self.transactions = 0
        self.changes = 0
        self._target = target
        self._pipeline = pipeline
        self._settings = settings
        self._turn = turn
        self._on_message = on_message
        self._gate = Gate(turn)
        self._sync: TableSync | None = None
        self._sync_error: SubscriberError | None = None
        self._rules = BatchRules(subscription)
        self._receiver: ReceiverProcess | None = None
        self._query: ApplyQuery | None = None
        self._receiving = Attempts()
        self._applying = Attempts()
        self._asking = Attempts()
        self._gave_up = False
        self._errors, self._errors_resolved = 1, 0  # an earlier run may have left one
        self._resolve_again = 0.0
        self._stuck_since = 0.0
        self._barrier: LSN | None = None
        self._journal = ""
        self._watched: Sparing[tuple[LSN, LSN]] | None = None
        self._consumers: JournalConsumers | None = None
        self._positions = INVALID_LSN, INVALID_LSN
        self._synchronizing = Attempts()
        self._ending: list[threading.Thread] = []
        name = subscription.name
        self._adopting = Background(lambda: adopt_slot(target, self.subscription, settings), f"slot of {name}")
        self._reading = Background(lambda: refresh_at_start(target, self.subscription), f"tables of {name}")
        self._marking = Background(self._write_barrier, f"mark of {name}")
        self._resolving = Background(self._resolve_error, f"errors of {name}")

    # Running --------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Look after all of it; never blocks for long and never raises a SubscriberError."""
        if not self.stopped:
            self._watch()
        if self.stopped:
            self.end()
            return
        if self._consumers is not None:
            self._consumers.write_late()
        now = time.monotonic()
        if self._receiver is None and now >= self._receiving.not_before:
            self._attempt(self._receiving, self._start_receiver)
        if self._receiver is not None and self._receiver.ready:
            self._let_receive(self._receiver)
        if self.receives and now >= self._synchronizing.not_before and not self.stopped:
            self._attempt(self._synchronizing, self._synchronize_tables)
        if self._query is None and now >= self._applying.not_before and not self.stopped:
            self._attempt(self._applying, self._start_query_of_journal)
        self._note_what_is_over(now)

    def fault(self, error: Exception) -> None:
        """Stop for good because of an error that nobody has foreseen: what is wrong with one subscription is nothing to the others."""
        place = traceback.extract_tb(error.__traceback__)[-1]
        found = PipelineError(
            "the apply worker failed",
            # Not its text, which may have values.
            detail=f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}",
            hint="This is a fault of the program: please report it.",
        )
        self._note(self._applying, found)
        self._stop_for_good()

    def end(self) -> None:
        """Have all of it end, and wait for nothing: :attr:`ended` tells when it has. What is not durable or not committed comes again."""
        self._gave_up = self.given_up  # which asks the table synchronization
        sync, self._sync = self._sync, None
        query, self._query = self._query, None
        receiver, self._receiver = self._receiver, None
        # First all are told, then each is waited for: a round of copies may wait for the batch, and the batch for nobody.
        if sync is not None:
            sync.cancel()
        if query is not None:
            query.cancel()
        for half in (sync, query, receiver):
            if half is not None:
                thread = threading.Thread(target=half.stop, name=f"end of {self.subscription.name}", daemon=True)
                thread.start()
                self._ending.append(thread)

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left, once it was told to end."""
        self._ending = [thread for thread in self._ending if thread.is_alive()]
        return not self._ending

    def stop(self) -> None:
        """End all of it, and wait until it has."""
        self.end()
        for thread in self._ending:
            thread.join()

    def needs_restart(self, subscription: Subscription) -> bool:
        """Whether the subscription has changed in a way that a worker takes up only when it starts (rule C39)."""
        options = replace(
            self.subscription.options,
            disable_on_error=subscription.options.disable_on_error,
            run_as_owner=subscription.options.run_as_owner,
            synchronous_commit=subscription.options.synchronous_commit,
            log_conflict_values=subscription.options.log_conflict_values,
        )
        return replace(self.subscription, options=options, skip_lsn=subscription.skip_lsn) != subscription

    def wants_caught_up(self) -> None:
        """Set the mark that :meth:`caught_up` asks for: everything the publisher has committed by now.

        Raises:
            PublisherError: it cannot be asked.
        """
        self._barrier = self._write_barrier()

    def set_mark(self) -> None:
        """The same, without waiting for the publisher: the mark is set by a later call, when it has answered.

        One that cannot be asked is asked again after a while, and the failures are counted.
        """
        if time.monotonic() < self._asking.not_before:
            return
        try:
            self._barrier = self._marking.take()
        except SubscriberError as error:
            logger.warning(
                'subscription "%s": the publisher cannot be asked how far it is: %s',
                self.subscription.name,
                error.message,
            )
            self._asking.failed(error, self._settings.wal_retrieve_retry_interval)
        else:
            self._asking.works()

    def _write_barrier(self) -> LSN:
        with connect_publisher(self.subscription.conninfo, self.subscription.name) as server:
            return Publisher(server).write_barrier()

    @property
    def failure(self) -> SubscriberError | None:
        """The last failure of what does not work; None while everything does."""
        return (
            self._receiving.error
            or self._applying.error
            or self._synchronizing.error
            or self._sync_error
            or self._asking.error
        )

    @property
    def given_up(self) -> bool:
        """Whether somebody who waits for it should not: it is stopped, or nothing that could still succeed is left to be waited for.

        A table that fails does not end the copies of others, nor the stream. It stays true when the worker has ended.
        """
        halves = (self._receiving, self._applying, self._asking)
        sync = self._sync
        return (
            self._gave_up
            or self.stopped
            or max(half.failures for half in halves) >= PATIENT_FAILURES
            or (
                sync is not None
                and (sync.attempts.failures >= PATIENT_FAILURES or self._only_failing_tables_left(sync))
            )
        )

    def _only_failing_tables_left(self, sync: TableSync) -> bool:
        unfinished = self.relations.unfinished
        return (
            bool(unfinished)
            and all(sync.failures(relation) >= PATIENT_COPIES for relation in unfinished)
            and (self._barrier is None or self.stream_caught_up())
        )

    @property
    def failed_attempts(self) -> tuple[int, int, int]:
        """How often the receiver, the query and a round of copies have failed since the worker began."""
        rounds = 0 if self._sync is None else self._sync.attempts.failed_attempts
        return self._receiving.failed_attempts, self._applying.failed_attempts, rounds

    @property
    def stuck_since(self) -> float | None:
        """When the batch began that holds a change which cannot be applied (monotonic seconds); None where there is none.

        Only a change of the target's own, made after that, can let it go on.
        """
        return self._stuck_since if isinstance(self._applying.error, ApplyError) else None

    @property
    def receives(self) -> bool:
        """Whether a receiver streams, which has made sure that the publisher is the one that was received from before."""
        return self._receiver is not None and self._receiver.streaming

    def caught_up(self) -> bool:
        """Whether everything up to the mark is in the target."""
        return self.stream_caught_up() and self._tables_ready()

    def stream_caught_up(self) -> bool:
        """The same, of the tables that are ready."""
        if self._barrier is None or self._query is None or not self._journal:
            return False
        received, last = self.positions()
        # Under load there is always something after the mark that is not applied yet; without, nothing is applied that is as far.
        return received >= self._barrier and (self.applied >= self._barrier or self.applied >= last)

    @property
    def mark(self) -> LSN | None:
        """What :meth:`caught_up` waits for; None where it is not set."""
        return self._barrier

    def sync_settled(self, target_changed: float) -> bool:
        """Whether no table's copy is worth waiting for.

        A table is ready, or an attempt to copy it has failed that began after ``target_changed`` (monotonic seconds).
        """
        try:
            self._read_relations()
        except SubscriberError:
            return False
        sync = self._sync
        return all(
            sync is not None and sync.has_failed_since(relation, target_changed)
            for relation in self.relations.unfinished
        )

    @property
    def copies(self) -> list[CopyStatus]:
        """The tables that are being copied now."""
        return [] if self._sync is None else self._sync.copies

    def positions(self) -> tuple[LSN, LSN]:
        """How far the journal has received, and where its last entry ends, as of when it could last be read."""
        with contextlib.suppress(SubscriberError):  # whoever needs the journal says what is wrong with it
            self._read_positions()
        return self._positions

    @property
    def busy_since(self) -> float | None:
        """Since when it holds the target with a batch or a copy (monotonic seconds); None where it does not."""
        sync = self._sync
        moments = [self._gate.busy_since, None if sync is None else sync.loads_since]
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def state(self) -> str:
        """One word for people."""
        if self.stopped:
            return "stopped"
        if self.failure is not None:
            return "retrying"
        if self.copies:
            return "copying"
        return "streaming" if self.receives and self._query is not None else "starting"

    def summary(self) -> str:
        """One line for people."""
        received, last = self.positions()
        return (
            f"{self.subscription.name} {self.state}, received {format_lsn(received)}, applied {format_lsn(self.applied)},"
            f" lag {max(0, last - self.applied):,} B, {self.transactions:,} transactions, {self.changes:,} changes"
        )

    # The two halves ---------------------------------------------------------------------------------

    def _read_positions(self) -> None:
        if self._watched is not None:
            self._positions = self._watched.get()

    def _start_query_of_journal(self) -> None:
        """Start it once there is a journal: what was received can be applied while the publisher is away."""
        self._read_positions()
        if self._positions[0] != INVALID_LSN:
            self._start_query()

    def _attempt(self, half: Attempts, start: Callable[[], None]) -> None:
        try:
            start()
        except SubscriberError as error:
            self._failed(half, error)

    def _watch(self) -> None:
        """Notice what ended, and what works again."""
        if self._receiver is not None and not self._receiver.running:
            error = self._receiver.failure()
            self._receiver.stop()
            self._receiver = None
            self._failed(self._receiving, error)
        elif self.receives and self._receiving.error is not None and self._receiving_for_long():
            self._receiving.works()
        if self._query is not None and not self._query.running:
            failure = self._query.failure()
            began = self._query.batch_began
            self._query.stop()
            self._query = None
            if isinstance(failure, PublicationsChanged):
                logger.info('subscription "%s": %s', self.subscription.name, failure.message)
            elif isinstance(failure, PublisherTablesOutdated):
                self._attempt(self._applying, partial(self._read_tables_anew, failure))
            elif failure is not None:
                self._failed(self._applying, failure)
                self._stuck_since = began  # only now: who waits for it finds what was recorded of this failure
        elif self._query is not None and self._applying.error is not None:
            self.applied = LSN(max(self.applied, self._query.applied))  # a batch that fails has committed its good part
            if self.applied >= self.positions()[1]:
                self._applying.works()  # there is nothing to apply that could fail again

    def _read_tables_anew(self, outdated: PublisherTablesOutdated) -> None:
        refresh_outdated(self._target, self.subscription, outdated)
        logger.info(
            'subscription "%s" has read the publisher\'s tables anew: %s', self.subscription.name, outdated.message
        )

    def _receiving_for_long(self) -> bool:
        """A receiver that only just streams may meet the same obstacle again."""
        return time.monotonic() - self._receiving.not_before >= self._settings.wal_retrieve_retry_interval

    def _failed(self, half: Attempts, error: SubscriberError) -> None:
        delay = self._note(half, error)
        if self._disables(error):
            try:
                self._disable()
            except SubscriberError as away:
                # The target, which would have to know it: then the next failure disables the subscription.
                logger.warning('subscription "%s" cannot be disabled now: %s', self.subscription.name, away.message)
                self._say_when(delay)
        elif _is_tried_again(error):
            self._say_when(delay)
        else:
            self._stop_for_good()

    def _batch_failed(self, error: SubscriberError, began: float) -> float | None:
        """Asked by the query, in the thread that applies. What it does not try again it ends with, and :meth:`_watch` says the rest."""
        if isinstance(error, _NEEDS_ANOTHER_QUERY) or not _is_tried_again(error) or self._disables(error):
            return None
        delay = self._note(self._applying, error)
        self._stuck_since = began  # only now: who waits for it finds what was recorded of this failure
        self._say_when(delay)
        return delay

    def _note(self, half: Attempts, error: SubscriberError) -> float:
        """Log, record and count a failure; gives the seconds to wait."""
        logger.error('subscription "%s": %s', self.subscription.name, error.report())
        record(self._target, self.subscription, error)
        self._errors += 1
        return half.failed(error, self._settings.wal_retrieve_retry_interval)

    def _say_when(self, delay: float) -> None:
        logger.info('subscription "%s": trying again in %.1f s', self.subscription.name, delay)

    def _stop_for_good(self) -> None:
        self.stopped = True
        self.end()
        logger.error('subscription "%s" stays stopped until "subscriber run" is started again', self.subscription.name)

    def _disables(self, error: SubscriberError) -> bool:
        """A connection that is lost comes back: that is no reason to disable a subscription."""
        return self.subscription.options.disable_on_error and not error.transient

    def _disable(self) -> None:
        """Rule C35: PostgreSQL's DisableSubscriptionAndExit."""
        disable(self._target, self.subscription)
        self.stopped = self.disabled = True

    def _note_what_is_over(self, now: float) -> None:
        """Once nothing fails any more, have the catalog say since when the last error is over."""
        works = self.failure is None and self.receives and self._query is not None
        if not works or self._errors == self._errors_resolved or now < self._resolve_again or self._gate.busy:
            return
        self._resolve_again = now + _RESOLVE_SECONDS
        with contextlib.suppress(SubscriberError):
            self._errors_resolved = self._resolving.take() or self._errors_resolved

    def _resolve_error(self) -> int:
        """How many of the errors are over."""
        errors, (_, last) = self._errors, self.positions()
        with self._target.begin() as connection:
            over = catalog.resolve_error(
                connection, self.subscription.subid, applied=self.applied, waiting=self.applied < last
            )
        return errors if over else self._errors_resolved

    # Tables -------------------------------------------------------------------------------------------

    def _synchronize_tables(self) -> None:
        """Have tables copied, call those ready that are, and begin with two-phase when all are."""
        if self._sync is None:
            assert self._consumers is not None
            self._sync = TableSync(
                self.subscription,
                self._target,
                self._consumers,
                gate=self._gate,
                turn=self._turn,
                pipeline=self._pipeline,
                settings=self._settings,
                on_error=self._copy_failed,
            )
        self._synchronizing.works()
        self._sync.tick(self.relations.unfinished)
        if self._sync.running or self._gate.busy:
            return  # the target may have one writer
        with contextlib.suppress(SubscriberError):
            self._make_ready()
            self._enable_two_phase()

    def _copy_failed(self, error: SubscriberError, relation: SubscriptionRelation | None) -> None:
        """Called in the round's thread."""
        if isinstance(error, PublisherTablesOutdated):
            try:
                self._read_tables_anew(error)
            except SubscriberError as failure:
                error = failure
            else:
                return
        table = "" if relation is None else f', table "{relation.qualified_name}"'
        logger.error('subscription "%s"%s: %s', self.subscription.name, table, error.report())
        self._sync_error = error.without_frames()
        record(self._target, self.subscription, error, relation, sync=True)
        self._errors += 1
        if self._disables(error):
            with contextlib.suppress(SubscriberError):
                self._disable()

    def _make_ready(self) -> None:
        """Tables that were handed over are ready when the apply worker's position has passed theirs (D5)."""
        if self._tables_ready():
            self._sync_error = None  # what could not be copied is none of ours any more
        if all(relation.state is not RelationState.SYNCDONE for relation in self.relations.unfinished):
            return
        received, last = self.positions()
        # Where nothing is left to apply, the position is how far the journal has received.
        position = received if last <= self.applied else self.applied
        self._read_relations()
        passed = [
            relation
            for relation in self.relations.unfinished
            if relation.state is RelationState.SYNCDONE and relation.lsn is not None and relation.lsn <= position
        ]
        if not passed:
            return
        with self._target.begin() as connection:
            catalog.make_ready(connection, self.subscription.subid, passed)
        self._read_relations()
        if self._tables_ready():
            self._sync_error = None

    def _enable_two_phase(self) -> None:
        """What waited for the copies (C48): the receiver starts again, and tells the slot."""
        if self.subscription.two_phase_state != "p" or not self.relations or not self._tables_ready():
            return
        with self._target.begin() as connection:
            catalog.set_two_phase_state(connection, self.subscription.subid, "e")
        self.subscription = replace(self.subscription, two_phase_state="e")
        logger.info(
            'logical replication apply worker for subscription "%s" will restart so that two_phase can be enabled',
            self.subscription.name,
        )
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.stop()

    def _tables_ready(self) -> bool:
        return not self.relations.unfinished

    def _read_relations(self) -> None:
        with self._target.reporting(), self._target.engine.connect() as connection:
            self.relations = catalog.read_states(connection, self.subscription.subid)

    # Starting the halves ------------------------------------------------------------------------------

    def _start_receiver(self) -> None:
        if self.applied == INVALID_LSN:
            # Read once: only this worker advances it, and a receiver must be able to start again while the target is away.
            adopted = self._adopting.take()
            if adopted is None:
                return
            self.subscription, self.applied = adopted
        options = self.subscription.options
        assert self.subscription.slot_name is not None
        assert self.subscription.system_identifier is not None
        if self._consumers is None:
            journal = journal_url(
                self._settings.journal, self.subscription.system_identifier, self.subscription.slot_name
            )
            self._consumers = self._open_consumers(journal)
            self._journal, self._watched = journal, watched_positions(journal)
        self._receiver = ReceiverProcess(
            Assignment(
                subscription=self.subscription.name,
                conninfo=self.subscription.conninfo,
                slot=self.subscription.slot_name,
                publications=self.subscription.streamed_publications,
                streaming=options.streaming,
                two_phase=self.subscription.two_phase_state == "e",
                binary=options.binary,
                origin=options.origin,
                system_identifier=self.subscription.system_identifier,
                journal=self._journal,
                applied_lsn=self.applied,
                messages=self._on_message is not None,
            )
        )

    def _let_receive(self, receiver: ReceiverProcess) -> None:
        """A receiver holds the slot. It may go on unless a command has changed the subscription since it was assigned.

        Where the target cannot be read the receiver goes on: a command would need the target as well, and the publisher must not wait.
        """
        try:
            with self._target.reporting(), self._target.engine.connect() as connection:
                stored = catalog.find_subscription(connection, self.subscription.name)
        except TargetUnavailable:
            stored = self.subscription
        if stored is not None and stored.enabled and not self.needs_restart(stored):
            receiver.go()
            return
        self._receiver = None
        receiver.stop()
        # The supervisor sees the change when it reads the catalog next, and makes another worker.
        self._receiving.not_before = time.monotonic() + _CHANGED_SECONDS

    def _open_consumers(self, journal: str) -> JournalConsumers:
        with self._target.reporting(), self._target.engine.connect() as connection:
            identifier = catalog.target_identifier(connection)
        consumers = JournalConsumers(
            journal,
            identifier,
            self.subscription.subid,
            subscription=self.subscription.name,
            place=place_of(self._target),
        )
        consumers.replace_earlier()
        return consumers

    def _start_query(self) -> None:
        assert self._consumers is not None
        if self._reading.take() is None:
            return
        with self._target.reporting(), self._target.engine.connect() as connection:
            self.applied = progress.read_progress(connection, self.subscription.origin)
            self._rules.publishing = read_publishing(connection, self.subscription)
        self._consumers.note_applied(self.applied)
        self._consumers.take_over()
        applier = ExactApplier(
            self._target,
            subscription=self.subscription.name,
            subid=self.subscription.subid,
            read_rules=self._rules,
            ask=PublisherAttributes(self._target, self.subscription),
            on_message=self._on_message,
        )
        applier.deliver_messages()
        self._query = self._pipeline.start_query(
            f"apply {self.subscription.subid}: {self.subscription.name}",
            JournalStream(self._journal, self.applied, self._rules.publishing),
            applier,
            self._settings,
            on_applied=self._note_applied,
            turn=self._gate,
            on_failure=self._batch_failed,
        )
        logger.info('apply of subscription "%s" starts at %s', self.subscription.name, format_lsn(self.applied))

    def _note_applied(self, result: ApplyResult) -> None:
        self.applied = result.progress
        self.transactions += result.transactions
        self.changes += result.changes
        self._applying.works()
        assert self._consumers is not None
        self._consumers.note_applied(result.progress)
