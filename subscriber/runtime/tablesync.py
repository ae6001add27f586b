"""The table synchronization of one subscription: copies tables and hands them over to the apply
worker (D1-D6).

::

    publisher   ──────┬── L ─────────────────────────────────────────────▶ WAL
                      │   └ one snapshot for all tables of a round, from a temporary slot
    table      i ─ d ═╪═ copy ═ f@L ─ catch-up ─ s@C ─────────── r
    apply worker ─────┴──────────────── A ───────┘└ the apply worker applies its changes from C on

One *round* copies the tables in states i and d. Each copy is one transaction of the target, which
ends in f@L (:mod:`subscriber.runtime.table_copy`). After that the table is *handed over*, between
two batches of the apply worker, because the position A of the apply worker cannot change then. If
the position C of the table is not behind A, the table goes to state s at C. C is behind A if the
stream of the other tables has advanced during the copy. Then a second query over the same journal
first applies the changes of this table from L on (the *catch-up*). The position of the catch-up is
kept in ``srsublsn``. The apply worker waits only for the last stretch of the catch-up, whereas
PostgreSQL's apply worker waits for all of it (D4, :mod:`subscriber.runtime.hand_over`).

Invariants:

- A copy that replaces rows (``REFRESH TABLE``) deletes the old ones in its own transaction. No
  batch that was begun while the table was ready is still open then.
- The changes that a transaction makes to a table are in exactly one of these: the copy (the
  transaction committed before L), the catch-up (up to C), the stream.
- The result of a step is in the target, in the transaction of the data. After a crash, a step is
  repeated or has nothing to do.
- The journal keeps everything from L on while the round lasts, because the round is a separate
  consumer.
- If the journal has lost changes of a table in state f nevertheless, the table goes back to state
  i, and keeps its position. The table still contains the rows of its first copy, so it is copied
  again only after somebody has removed them. The error says so, and later rounds check again.
- A table that fails keeps its state, and its error is recorded; the other tables go on. The table
  is tried again in another round with a new snapshot, not sooner than
  ``wal_retrieve_retry_interval`` (D15).

*Rejected:* one slot and one stream for each table, as in PostgreSQL. The journal already contains
the changes of every table from before L, and for each further slot the publisher needs a walsender
that decodes all of the publisher's WAL once more.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from subscriber.catalog import RelationState, Subscription, SubscriptionRelation
from subscriber.errors import (
    JournalUnavailable,
    PipelineError,
    ProgressConflict,
    PublicationsChanged,
    PublisherUnavailable,
    SlotInUse,
    Stopped,
    SubscriberError,
    TargetUnavailable,
)
from subscriber.journal.storage import open_storage
from subscriber.pipeline.on_spark import Pipeline
from subscriber.positions.consumers import JournalConsumers
from subscriber.publisher.copy_plan import TableFiles, table_files
from subscriber.publisher.publisher import connect_publisher
from subscriber.publisher.snapshot import Snapshot, exported_snapshot
from subscriber.runtime.attempts import Attempts, FailedAttempts
from subscriber.runtime.copy_progress import Copies, CopyStatus
from subscriber.runtime.gate import Gate, Turn
from subscriber.runtime.hand_over import HandOver, stopped
from subscriber.runtime.kept_journal import KeptJournal
from subscriber.runtime.sync_catalog import SyncCatalog
from subscriber.runtime.table_copy import TableCopy
from subscriber.settings import Settings
from subscriber.targets import Interruption, Target

logger = logging.getLogger(__name__)

_INTERRUPT_SECONDS: Final = 0.2
_HOLD_SECONDS: Final = 5.0
"""How long the apply worker waits for the first round. Tables that are copied within this time need
no catch-up.
"""
_COPIED: Final = (RelationState.INIT, RelationState.DATASYNC)
PENDING: Final = (*_COPIED, RelationState.FINISHEDCOPY)
"""The states of a table that still has to be copied or handed over."""
_FOR_ALL: Final = (PublisherUnavailable, SlotInUse, TargetUnavailable, JournalUnavailable)
"""Errors that concern more than one table. They end the round, and the next round begins with a new
snapshot.
"""


class TableSync:
    """Runs the rounds of one subscription, one at a time, each in a thread.

    Args:
        subscription: the subscription whose tables are synchronized.
        target: the target that they are copied to.
        consumers: the consumers of the subscription in its journal.
        gate: the gate that the batches of the apply worker pass.
        turn: held while the target is written.
        pipeline: copies tables, and starts the query of a catch-up.
        settings: sizes and intervals.
        on_error: called with each failure, and with its table, or None if it concerns the whole
            round.

    Attributes:
        attempts: the attempts at whole rounds.
        on_end: called at the end of each round, in its thread.
    """

    def __init__(
        self,
        subscription: Subscription,
        target: Target,
        consumers: JournalConsumers,
        *,
        gate: Gate,
        turn: Turn,
        pipeline: Pipeline,
        settings: Settings,
        on_error: Callable[[SubscriberError, SubscriptionRelation | None], None],
    ) -> None:
        self._subscription = subscription
        self._gate = gate
        self._settings = settings
        self._on_error = on_error
        self.on_end: Callable[[], None] = _nothing
        self._interruption = Interruption(target)
        self._stop = self._interruption.stop
        self._has_spark_ended = pipeline.has_ended
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._failed_tables: dict[tuple[str, str], FailedAttempts] = {}
        self.attempts = Attempts()
        self._states = SyncCatalog(target, subscription, turn)
        self._kept = KeptJournal(consumers, self._states)
        self._copies = Copies(open_storage(consumers.journal), consumers.target_identifier, subscription.subid)
        self._table_copy = TableCopy(
            self._states,
            self._copies,
            pipeline=pipeline,
            settings=settings,
            interruption=self._interruption,
        )
        self._hand_over = HandOver(
            self._states,
            consumers.journal,
            gate=gate,
            pipeline=pipeline,
            settings=settings,
            stop=self._stop,
        )

    # From the worker's thread ---------------------------------------------------------------------

    def tick(self, relations: Iterable[SubscriptionRelation]) -> None:
        """Begin a round if a table is pending and its next attempt is due."""
        if self.running or not self.attempts.is_due() or self._stop.is_set():
            return
        now = time.monotonic()
        pending = [one for one in relations if one.state in PENDING]
        if not pending:
            self._kept.release()
        due = [one for one in pending if now >= self._failed_attempts(one).not_before]
        if due:
            self._ended.clear()
            self._thread = threading.Thread(
                target=self._run, args=(due,), name=f"table sync of {self._subscription.name}", daemon=True
            )
            self._thread.start()

    def cancel(self) -> None:
        """Tell the round to end, without waiting for that. The target rolls back a copy that is in
        progress.
        """
        self._stop.set()

    def stop(self) -> None:
        """End the round, and wait for its end."""
        self.cancel()
        while self._thread is not None and self._thread.is_alive():
            self._interruption.interrupt()
            self._thread.join(_INTERRUPT_SECONDS)

    @property
    def running(self) -> bool:
        """Whether a round is in progress."""
        return self._thread is not None and not self._ended.is_set()

    @property
    def copies(self) -> list[CopyStatus]:
        """The progress of the copies that are in progress."""
        return self._copies.current()

    @property
    def loads_since(self) -> float | None:
        """Since when the transaction of a copy is open (monotonic seconds); None if no transaction
        is open.
        """
        return self._table_copy.loads_since

    @property
    def failed_tables(self) -> Mapping[tuple[str, str], FailedAttempts]:
        """The failed attempts of the tables whose last attempt has failed, by schema and name."""
        return dict(self._failed_tables)

    def _failed_attempts(self, relation: SubscriptionRelation) -> FailedAttempts:
        return self._failed_tables.get(_key(relation)) or FailedAttempts()

    # A round --------------------------------------------------------------------------------------

    def _run(self, due: list[SubscriptionRelation]) -> None:
        try:
            self._sync(due)
            self.attempts.works()
        except Stopped:
            pass
        except SubscriberError as error:
            self._round_failed(error)
        except Exception as error:  # otherwise a new thread would fail in the same way ten times a second
            failure = PipelineError(
                "the table synchronization failed",
                detail=type(error).__name__,
                hint="This is a fault of the program; it is tried again.",
            )
            if self._has_spark_ended():
                self._note_failed_round(failure)  # the run is about to end, and says why
            else:
                self._round_failed(failure)
        finally:
            with contextlib.suppress(SubscriberError):
                self._kept.keep(None)
            self._ended.set()
            self.on_end()

    def _round_failed(self, error: SubscriberError) -> None:
        self._on_error(error, None)
        self._note_failed_round(error)

    def _note_failed_round(self, error: SubscriberError) -> None:
        self.attempts.note_failure(error, self._settings.wal_retrieve_retry_interval)

    def _sync(self, wanted: Sequence[SubscriptionRelation]) -> None:
        keys = {_key(relation) for relation in wanted}
        due = [one for one in self._states.relations() if _key(one) in keys and one.state in PENDING]
        with self._apply_held() as release:
            for relation in due:
                if relation.state is RelationState.FINISHEDCOPY:
                    self._attempt(relation, self._hand_over.hand_over)
                elif _must_be_empty(relation):
                    self._attempt(relation, self._hand_over.copy_again)
            to_copy = [
                one
                for one in self._states.relations()
                if _key(one) in keys and one.state in _COPIED and not _must_be_empty(one)
            ]
            if not to_copy:
                return
            if any(relation.replaces for relation in to_copy):
                self._wait_for_batch()
            with connect_publisher(self._subscription.conninfo, self._subscription.name) as server:
                files = table_files(server, [_key(relation) for relation in to_copy])
            self._kept.keep(self._states.applied())
            with exported_snapshot(self._subscription.conninfo, self._subscription.name, self._stop) as snapshot:
                self._kept.keep(snapshot.lsn)
                for relation in to_copy:
                    copy = partial(self._copy, snapshot=snapshot, files=files.get(_key(relation), ()), release=release)
                    self._attempt(relation, copy)
                    release()

    def _wait_for_batch(self) -> None:
        """Wait until the batch that is being applied has ended. It may have begun when the table
        was still ready: what it writes must be committed before the rows of the table are deleted.
        """
        with self._gate.closed():
            pass

    def _apply_held(self) -> contextlib.AbstractContextManager[Callable[[], None]]:
        """Stop the batches of the apply worker for a while, if all tables that it could apply
        changes to are still to be copied.

        Gives a function that lets the batches continue once the time is over.
        """
        if all(relation.state in _COPIED for relation in self._states.relations()):
            return self._gate.closed_at_first(_HOLD_SECONDS)
        return contextlib.nullcontext(_nothing)

    def _attempt(self, relation: SubscriptionRelation, step: Callable[[SubscriptionRelation], None]) -> None:
        """Do one step for one table. An error of this table is recorded with the table, and the
        other tables go on.
        """
        began = time.monotonic()
        if self._stop.is_set():
            raise stopped()
        try:
            step(relation)
        except (ProgressConflict, PublicationsChanged) as error:
            # This is not an error: a command has changed the subscription meanwhile, and its tables
            # are read again.
            logger.info('table "%s": %s', relation.qualified_name, error.message)
        except SubscriberError as error:
            if self._stop.is_set():
                raise stopped() from None
            if isinstance(error, _FOR_ALL):
                raise
            self._on_error(error, relation)
            # last: a thread that waits for this reads the catalog next
            self._note_failure(relation, error, began)
        else:
            self._failed_tables.pop(_key(relation), None)

    def _note_failure(self, relation: SubscriptionRelation, error: SubscriberError, began: float) -> None:
        before = self._failed_attempts(relation)
        self._failed_tables[_key(relation)] = FailedAttempts(
            error.without_frames(),
            before.in_a_row + 1,
            before.in_all + 1,
            began,
            since=before.since if before.in_a_row else time.time(),
            not_before=time.monotonic() + self._settings.wal_retrieve_retry_interval,
        )

    def _copy(
        self,
        relation: SubscriptionRelation,
        *,
        snapshot: Snapshot,
        files: TableFiles,
        release: Callable[[], None],
    ) -> None:
        self._log(relation, "has started")
        copied = self._table_copy.copy(relation, snapshot=snapshot, files=files, on_progress=release)
        self._hand_over.hand_over(copied)
        self._log(relation, "has finished")

    def _log(self, relation: SubscriptionRelation, what: str) -> None:
        logger.info(
            'logical replication table synchronization worker for subscription "%s", table "%s" %s',
            self._subscription.name,
            relation.qualified_name,
            what,
        )


def _must_be_empty(relation: SubscriptionRelation) -> bool:
    """Return whether a table was copied before, so that it may be copied again only after somebody
    has removed its rows.
    """
    return relation.state is RelationState.INIT and relation.lsn is not None and not relation.replaces


def _key(relation: SubscriptionRelation) -> tuple[str, str]:
    return relation.schema, relation.name


def _nothing() -> None:
    pass
