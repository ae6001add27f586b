"""The table synchronization of one subscription: copies tables and hands them over to the apply
worker (D1-D6).

::

    publisher   ──────┬── L ─────────────────────────────────────────────▶ WAL
                      │   └ one snapshot for all tables of a round, from a temporary slot
    table 1    i ─ d ═╪═ copy ═ f@L ────────────┐
    table 2    i ─────┼─ d ═══ copy ═══ f@L ────┼ catch-up ─ s@C ─────────── r
    table 3    i ─────┼──────── d ═══ copy ═ f@L┘            │
    apply worker ─────┴──────────────── A ───────────────────┘└ it applies their changes from C on

One *round* copies tables in states i and d, one after the other
(:mod:`subscriber.worker.table_copy`). Then they are *handed over* together
(:mod:`subscriber.worker.hand_over`). If the stream has advanced meanwhile, the journal is read once
more from L on for these tables (the *catch-up*, whose position is in ``srsublsn``). PostgreSQL's
apply worker waits for all of it (D4), here only for its last stretch.

A round takes no further table after a minute, and hands over what it has before a large table. The
next round begins with a new snapshot. So all catch-ups together read the journal once.

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
  i, and keeps its position. It is copied again only after somebody has removed the rows of its
  first copy. The error says so, and later rounds check again.
- A table that fails keeps its state, and its error is recorded; the other tables go on, also those
  that are copied or catch up with it. The table is tried again in another round with a new
  snapshot, not sooner than ``wal_retrieve_retry_interval`` (D15).

*Rejected:* one slot and one stream for each table, as in PostgreSQL. The journal already has the
changes of every table from before L, and each further slot needs a walsender that decodes all of
the publisher's WAL once more. *Rejected:* letting the apply worker wait until all tables are
copied.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from subscriber.base import errors
from subscriber.base.lsn import LSN
from subscriber.base.retry import FailedAttempts, RetryState
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import RelationState, SubscriptionRelation
from subscriber.commands.consumers import JournalConsumers
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.copy_plan import table_files
from subscriber.publisher.snapshot import CopySession, Snapshot, exported_snapshot
from subscriber.spark.apply_pause import NO_PAUSE, ApplyPause, TimedPause, WriterLock
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.stream.journal.storage import open_storage
from subscriber.targets import Interruption, Target
from subscriber.worker.copy_progress import Copies, CopyStatus
from subscriber.worker.hand_over import HandOver, stopped
from subscriber.worker.sync_catalog import SyncCatalog
from subscriber.worker.table_copy import TableCopy, TargetTables

if TYPE_CHECKING:
    from subscriber.spark.copy import CopyProgress


logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_INTERRUPT_SECONDS: Final = 0.2
_HOLD_SECONDS: Final = 5.0
"""The apply worker waits so long for the first round: tables copied by then need no catch-up."""
_ROUND_SECONDS: Final = 60.0
"""How long a round begins to copy further tables."""
_READ_TOGETHER: Final = 100
"""How many of the target's tables are read together before their copies."""
_LARGE_BYTES: Final = 64 * 1024 * 1024
"""A table of this size takes seconds to copy. Tables that are copied already do not wait for it."""
_COPIED: Final = (RelationState.INIT, RelationState.DATASYNC)
PENDING: Final = (*_COPIED, RelationState.FINISHEDCOPY)
"""The states of a table that still has to be copied or handed over."""
_FOR_ALL: Final = (errors.PublisherUnavailable, errors.SlotInUse, errors.TargetUnavailable, errors.JournalUnavailable)
"""Errors of more than one table: the next round begins with a new snapshot."""


class TableSync:
    """Runs the rounds of one subscription, one at a time, each in a thread, which calls
    ``on_error`` with each failure and its table, or None for the whole round, and ``on_end``.
    """

    def __init__(
        self,
        subscription: Subscription,
        target: Target,
        consumers: JournalConsumers,
        *,
        pause: ApplyPause,
        writer_lock: WriterLock,
        spark: SparkFunctions,
        settings: Settings,
        on_error: Callable[[errors.SubscriberError, SubscriptionRelation | None], None],
    ) -> None:
        self._subscription = subscription
        self._pause = pause
        self._settings = settings
        self._on_error = on_error
        self.on_end: Callable[[], None] = lambda: None
        self._interruption = Interruption(target)
        self._stop = self._interruption.stop
        self._has_spark_ended = spark.has_ended
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._failed_tables: dict[tuple[str, str], RetryState] = {}
        self.attempts = RetryState()
        self._states = SyncCatalog(target, subscription, writer_lock)
        self._kept = JournalPin(consumers, self._states)
        self._copies = Copies(
            open_storage(consumers.journal), consumers.target_identifier, subscription.subid, subscription.name
        )
        self._table_copy = TableCopy(
            self._states,
            self._copies,
            spark=spark,
            settings=settings,
            interruption=self._interruption,
        )
        self._hand_over = HandOver(
            self._states,
            consumers.journal,
            pause=pause,
            spark=spark,
            settings=settings,
            stop=self._stop,
        )

    # From the worker's thread ---------------------------------------------------------------------

    def tick(self, relations: Iterable[SubscriptionRelation]) -> None:
        if self.running or not self.attempts.is_due() or self._stop.is_set():
            return
        pending = [one for one in relations if one.state in PENDING]
        if not pending:
            self._kept.release()
        due = [one for one in pending if self._is_due(one)]
        if due:
            self._ended.clear()
            self._thread = threading.Thread(
                target=self._run, args=(due,), name=f"table sync of {self._subscription.name}", daemon=True
            )
            self._thread.start()

    def cancel(self) -> None:
        """Tell the round to end, without waiting for that; a copy in progress is rolled back."""
        self._stop.set()

    def stop(self) -> None:
        self.cancel()
        while self._thread is not None and self._thread.is_alive():
            self._interruption.interrupt()
            self._thread.join(_INTERRUPT_SECONDS)

    @property
    def running(self) -> bool:
        return self._thread is not None and not self._ended.is_set()

    @property
    def copies(self) -> list[CopyStatus]:
        return self._copies.current()

    @property
    def loads_since(self) -> float | None:
        """Since when the transaction of a copy is open (monotonic seconds)."""
        return self._table_copy.loads_since

    @property
    def failed_tables(self) -> Mapping[tuple[str, str], FailedAttempts]:
        return {key: one.failed for key, one in dict(self._failed_tables).items()}

    def failed(self, relation: SubscriptionRelation | None) -> FailedAttempts:
        """The failed attempts at a table, or at rounds if ``relation`` is None."""
        attempts = self.attempts if relation is None else self._failed_tables.get(_key(relation), RetryState())
        return attempts.failed

    def _is_due(self, relation: SubscriptionRelation) -> bool:
        attempts = self._failed_tables.get(_key(relation))
        return attempts is None or attempts.is_due()

    # A round --------------------------------------------------------------------------------------

    def _run(self, due: list[SubscriptionRelation]) -> None:
        try:
            self._sync(due)
            self.attempts.record_success()
        except errors.Stopped:
            pass
        except errors.SubscriberError as error:
            self._round_failed(error)
        except Exception as error:  # otherwise a new thread would fail in the same way ten times a second
            failure = errors.PipelineError(
                "the table synchronization failed",
                detail=type(error).__name__,
                hint="This is a fault of the program; it is tried again.",
            )
            # If Spark has ended, the run is about to end, and says why.
            self._round_failed(failure, reported=self._has_spark_ended())
        finally:
            with contextlib.suppress(errors.SubscriberError):
                self._kept.keep(None)
            self._ended.set()
            self.on_end()

    def _round_failed(self, error: errors.SubscriberError, *, reported: bool = False) -> None:
        if not reported:
            self._on_error(error, None)
        self.attempts.record_failure(error, self._settings.wal_retrieve_retry_interval)

    def _sync(self, wanted: Sequence[SubscriptionRelation]) -> None:
        keys = {_key(relation) for relation in wanted}
        due = [one for one in self._states.relations() if _key(one) in keys and one.state in PENDING]
        with self._apply_paused() as hold:
            for tables in _by_position(one for one in due if one.state is RelationState.FINISHEDCOPY):
                self._hand_over_all(tables)
            for relation in due:
                if _must_be_empty(relation):
                    self._attempt([relation], partial(self._hand_over.copy_again, relation))
            to_copy = [
                one
                for one in self._states.relations()
                if _key(one) in keys and one.state in _COPIED and not _must_be_empty(one)
            ]
            if to_copy:
                self._copy_all(to_copy, hold)

    def _copy_all(self, to_copy: Sequence[SubscriptionRelation], hold: TimedPause) -> None:
        if any(relation.replaces for relation in to_copy):
            # The batch in progress may have begun when the table was still ready: what it writes
            # must be committed before the rows of the table are deleted.
            with self._pause.closed():
                pass
        with connect_publisher(self._subscription.conninfo, self._subscription.name) as server:
            files = table_files(server, [_key(relation) for relation in to_copy])
        self._kept.keep(self._states.applied())
        copied: list[SubscriptionRelation] = []

        def hand_over() -> None:
            tables, copied[:] = copied[:], []
            if tables:
                self._hand_over_all(tables)

        def note(done: CopyProgress) -> None:
            if not done.rows and done.estimated_bytes >= _LARGE_BYTES:
                hand_over()
            if hold.is_over():
                hold.end()

        with self._snapshot() as (snapshot, session):
            self._kept.keep(snapshot.lsn)
            until = time.monotonic() + _ROUND_SECONDS
            local: TargetTables = {}
            for number, relation in enumerate(to_copy):
                if number % _READ_TOGETHER == 0:
                    local = self._table_copy.target_tables(to_copy[number : number + _READ_TOGETHER])
                copy = partial(
                    self._table_copy.copy,
                    relation,
                    snapshot=snapshot,
                    session=session,
                    files=files.get(_key(relation), ()),
                    local=local,
                    on_progress=note,
                )
                copied += filter(None, [self._attempt([relation], copy)])
                if hold.is_over():
                    hand_over()  # while the apply worker waits, there is nothing to catch up
                    hold.end()
                if time.monotonic() > until:
                    break
        hand_over()

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[tuple[Snapshot, CopySession]]:
        """A snapshot, and what all copies from it share at the publisher."""
        subscription = self._subscription
        with (
            exported_snapshot(subscription.conninfo, subscription.name, self._stop) as snapshot,
            CopySession(
                subscription.conninfo,
                subscription.name,
                snapshot.name,
                publications=subscription.publications,
                streamed=subscription.streamed_publications,
            ) as session,
        ):
            yield snapshot, session

    def _apply_paused(self) -> contextlib.AbstractContextManager[TimedPause]:
        """Stop the batches for a while if all tables are still to be copied."""
        if all(relation.state in _COPIED for relation in self._states.relations()):
            return self._pause.closed_at_first(_HOLD_SECONDS)
        return contextlib.nullcontext(NO_PAUSE)

    def _hand_over_all(self, tables: Sequence[SubscriptionRelation]) -> None:
        began = time.monotonic()
        left: set[tuple[str, str]] = set()

        def failed(relation: SubscriptionRelation, error: errors.SubscriberError) -> None:
            left.add(_key(relation))
            self._table_failed(relation, error, began)

        self._attempt(tables, partial(self._hand_over.hand_over, tables, failed), left)

    def _attempt(
        self,
        tables: Sequence[SubscriptionRelation],
        step: Callable[[], _Result],
        failed: Collection[tuple[str, str]] = (),
    ) -> _Result | None:
        """Do one step for some tables. Their error is recorded with each of them, except those in
        ``failed``; the result is None then, and the other tables go on.
        """
        began = time.monotonic()
        if self._stop.is_set():
            raise stopped()
        try:
            result = step()
        except (errors.ProgressConflict, errors.PublicationsChanged) as error:
            # This is not an error: a command has changed the subscription meanwhile, and its tables
            # are read again.
            logger.info(
                'subscription "%(subscription)s", table "%(relation)s": %(error)s',
                {
                    "subscription": self._subscription.name,
                    "relation": tables[0].qualified_name,
                    "error": error.message,
                },
            )
        except errors.SubscriberError as error:
            if self._stop.is_set():
                raise stopped() from None
            if isinstance(error, _FOR_ALL):
                raise
            for relation in tables:
                if _key(relation) not in failed:
                    self._table_failed(relation, error, began)
        else:
            for relation in tables:
                if _key(relation) not in failed:
                    self._failed_tables.pop(_key(relation), None)
            return result
        return None

    def _table_failed(self, relation: SubscriptionRelation, error: errors.SubscriberError, began: float) -> None:
        """Report the failure, then count it: who waits for the count reads the catalog next."""
        self._on_error(error, relation)
        interval = self._settings.wal_retrieve_retry_interval
        attempts = self._failed_tables.get(_key(relation)) or RetryState()
        attempts.record_failure(error, interval, first=interval, began=began)
        self._failed_tables[_key(relation)] = attempts


def _must_be_empty(relation: SubscriptionRelation) -> bool:
    """Whether a table may be copied again only after somebody has removed its rows."""
    return relation.state is RelationState.INIT and relation.lsn is not None and not relation.replaces


def _by_position(relations: Iterable[SubscriptionRelation]) -> list[list[SubscriptionRelation]]:
    """The tables in groups that have the same position."""
    groups: dict[LSN | None, list[SubscriptionRelation]] = {}
    for relation in relations:
        groups.setdefault(relation.lsn, []).append(relation)
    return list(groups.values())


def _key(relation: SubscriptionRelation) -> tuple[str, str]:
    return relation.schema, relation.name


class JournalPin:
    """Keeps entries of the journal from being trimmed while tables of a subscription need them."""

    def __init__(self, consumers: JournalConsumers, states: SyncCatalog) -> None:
        self._consumers = consumers
        self._states = states
        self._may_be_kept = True  # a run that was killed may have left a consumer

    def keep(self, snapshot_lsn: LSN | None) -> None:
        """Keep what the tables of this round need, and those that have not caught up yet."""
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
        """Let the journal be trimmed: a round that was killed has not released what it kept."""
        if self._may_be_kept:
            with contextlib.suppress(errors.SubscriberError):
                self._consumers.release()
                self._may_be_kept = False
