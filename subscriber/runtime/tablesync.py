"""The table synchronization of one subscription: copies tables and hands them over to the apply worker (D1-D6).

::

    publisher   ──────┬── L ─────────────────────────────────────────────▶ WAL
                      │   └ one snapshot for all tables of a round, from a temporary slot
    table      i ─ d ═╪═ copy ═ f@L ─ catch-up ─ s@C ─────────── r
    apply worker ─────┴──────────────── A ───────┘└ its changes are everybody's from C on

One *round* copies the tables in i and d, each in one transaction of the target that ends in f@L. A table is then
*handed over*: between two batches of the apply worker, whose position A cannot move meanwhile, it goes to s at its own position C,
provided that C is not behind A. Where it is - the stream of the other tables went on during the copy - a second query over the
same journal first applies this table's changes from L on (the *catch-up*), its position kept in ``srsublsn``; only for its last
stretch does the apply worker stand still, as PostgreSQL's does for all of it (D4).

Invariants:

- A transaction's changes of a table are in exactly one of: the copy (it committed before L), the catch-up (up to C), the stream.
- What a step leaves behind is in the target, in the transaction of the data; a crash anywhere repeats a step, or does nothing.
- The journal keeps everything from L on while the round lasts: the round is a consumer of its own.
- A table in f whose changes the journal has lost all the same goes back to i, and keeps its position there: the rows of its first copy
  are in it, so it is copied again only when somebody has emptied it. That it says, and looks again.
- A table that fails stays where it is, with its error; the others go on. It is tried again in a round of its own, with a new
  snapshot, not sooner than ``wal_retrieve_retry_interval`` (D15).

Rejected: one slot and one stream a table, as PostgreSQL has. The journal already holds every table's changes from before L, and each
slot more costs the publisher a walsender that decodes all of its WAL once more.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from subscriber import catalog, failpoints
from subscriber.apply import progress
from subscriber.apply.exact import ApplyResult, ExactApplier
from subscriber.apply.schema_change_log import SchemaChanges
from subscriber.catalog import CatchUpProgress, RelationState, Subscription, SubscriptionRelation
from subscriber.catalog.kept_publishing import read_publishing
from subscriber.errors import (
    JournalGap,
    JournalUnavailable,
    PipelineError,
    ProgressConflict,
    PublicationsChanged,
    PublisherUnavailable,
    SlotInUse,
    Stopped,
    SubscriberError,
    TargetRelationError,
    TargetUnavailable,
)
from subscriber.journal.storage import open_storage
from subscriber.lsn import LSN, format_lsn
from subscriber.pipeline.copy import CopyProgress, CopySource
from subscriber.pipeline.on_spark import Pipeline
from subscriber.pipeline.streaming_query import ApplyQuery, JournalStream
from subscriber.positions.consumers import JournalConsumers
from subscriber.publication.publishing import Publishing
from subscriber.publisher.blockers import blockers_of
from subscriber.publisher.copy_plan import TableFiles, table_files
from subscriber.publisher.publisher import connect_publisher
from subscriber.publisher.snapshot import Snapshot, exported_snapshot
from subscriber.runtime.attempts import Attempts
from subscriber.runtime.catalog_rules import CatchUpRules
from subscriber.runtime.copy_progress import Copies, CopyStatus
from subscriber.runtime.gate import Gate
from subscriber.runtime.publisher_attributes import PublisherAttributes
from subscriber.settings import Settings
from subscriber.targets import Interruption, Target
from subscriber.waiting import watched

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.05
_INTERRUPT_SECONDS: Final = 0.2
_HOLD_SECONDS: Final = 5.0
"""How long the apply worker waits for the first round: tables that are copied by then need no catch-up."""
_RACE_SECONDS: Final = 60.0
"""How long a catch-up may run beside the apply worker before that is stopped for it."""
_COPIED: Final = (RelationState.INIT, RelationState.DATASYNC)
PENDING: Final = (*_COPIED, RelationState.FINISHEDCOPY)
"""The states of a table that still has to be copied, or handed over."""


@dataclass(slots=True)
class _Failure:
    """How often a table has failed in a row, when the last attempt began, and when it is tried again (monotonic seconds)."""

    count: int
    began: float
    not_before: float


class TableSync:
    """See the module.

    Args:
        subscription: whose tables.
        target: where they are copied to.
        consumers: the subscription's, in its journal.
        gate: what the batches of the apply worker go through.
        turn: held while the target is written.
        pipeline: copies tables, and starts the query of a catch-up.
        settings: sizes and intervals.
        on_error: told each failure, with the table unless it is about all of them.

    Attributes:
        attempts: at rounds as a whole.
        loads_since: since when the transaction of a copy is open (monotonic seconds); None where none is.
    """

    def __init__(
        self,
        subscription: Subscription,
        target: Target,
        consumers: JournalConsumers,
        *,
        gate: Gate,
        turn: contextlib.AbstractContextManager[Any],
        pipeline: Pipeline,
        settings: Settings,
        on_error: Callable[[SubscriberError, SubscriptionRelation | None], None],
    ) -> None:
        self._subscription = subscription
        self._target = target
        self._consumers = consumers
        self._gate = gate
        self._turn = turn
        self._pipeline = pipeline
        self._settings = settings
        self._on_error = on_error
        self._interruption = Interruption(target)
        self._stop = self._interruption.stop
        self._thread: threading.Thread | None = None
        self._failures: dict[tuple[str, str], _Failure] = {}
        self._may_be_kept = True
        self.attempts = Attempts()
        self.loads_since: float | None = None
        self._copies = Copies(open_storage(consumers.journal), consumers.target_identifier, subscription.subid)

    # From the worker's thread -------------------------------------------------------------------------

    def tick(self, relations: Iterable[SubscriptionRelation]) -> None:
        """Begin a round where there is something to do, and it is time."""
        now = time.monotonic()
        if self.running or now < self.attempts.not_before or self._stop.is_set():
            return
        pending = [one for one in relations if one.state in PENDING]
        if not pending:
            self._release_journal()
        due = [one for one in pending if now >= self._not_before(one)]
        if due:
            self._may_be_kept = True
            self._thread = threading.Thread(
                target=self._run, args=(due,), name=f"table sync of {self._subscription.name}", daemon=True
            )
            self._thread.start()

    def cancel(self) -> None:
        """Have it end, without waiting for that; a copy in progress is rolled back by the target."""
        self._stop.set()

    def stop(self) -> None:
        """End it, and wait until it has."""
        self.cancel()
        while self._thread is not None and self._thread.is_alive():
            self._interruption.interrupt()
            self._thread.join(_INTERRUPT_SECONDS)

    @property
    def running(self) -> bool:
        """Whether a round is in progress."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def copies(self) -> list[CopyStatus]:
        """The tables that are being copied now."""
        return self._copies.current()

    def failures(self, relation: SubscriptionRelation) -> int:
        """How often in a row a table has failed."""
        failure = self._failures.get(_key(relation))
        return 0 if failure is None else failure.count

    def has_failed_since(self, relation: SubscriptionRelation, moment: float) -> bool:
        """Whether an attempt that began after ``moment`` (monotonic seconds) has failed, so that another would too."""
        failure = self._failures.get(_key(relation))
        return failure is not None and failure.began > moment

    def _not_before(self, relation: SubscriptionRelation) -> float:
        failure = self._failures.get(_key(relation))
        return 0.0 if failure is None else failure.not_before

    # A round ------------------------------------------------------------------------------------------

    def _run(self, due: list[SubscriptionRelation]) -> None:
        try:
            self._sync(due)
            self.attempts.works()
        except Stopped:
            pass
        except SubscriberError as error:
            self._round_failed(error)
        except Exception as error:  # a thread that dies of something unforeseen would do so again ten times a second
            self._round_failed(
                PipelineError(
                    "the table synchronization failed",
                    detail=type(error).__name__,
                    hint="This is a fault of the program; it is tried again.",
                )
            )
        finally:
            with contextlib.suppress(SubscriberError):
                self._keep_journal(None)

    def _round_failed(self, error: SubscriberError) -> None:
        self.attempts.failed(error, self._settings.wal_retrieve_retry_interval)
        self._on_error(error, None)

    def _sync(self, wanted: Sequence[SubscriptionRelation]) -> None:
        keys = {_key(relation) for relation in wanted}
        due = [one for one in self._relations() if _key(one) in keys and one.state in PENDING]
        with self._apply_held() as release:
            for relation in due:
                if relation.state is RelationState.FINISHEDCOPY:
                    self._attempt(relation, self._hand_over)
                elif _must_be_empty(relation):
                    self._attempt(relation, self._copy_again)
            to_copy = [
                one
                for one in self._relations()
                if _key(one) in keys and one.state in _COPIED and not _must_be_empty(one)
            ]
            if not to_copy:
                return
            with connect_publisher(self._subscription.conninfo, self._subscription.name) as server:
                files = table_files(server, [_key(relation) for relation in to_copy])
            self._keep_journal(self._applied())
            with exported_snapshot(self._subscription.conninfo, self._subscription.name, self._stop) as snapshot:
                self._keep_journal(snapshot.lsn)
                for relation in to_copy:
                    copy = partial(self._copy, snapshot=snapshot, files=files.get(_key(relation), ()), release=release)
                    self._attempt(relation, copy)
                    release()

    @contextlib.contextmanager
    def _apply_held(self) -> Iterator[Callable[[], None]]:
        """Keep the apply worker back for a while when all that it could apply is still to be copied.

        Gives a function that lets it go when the while is over.
        """
        with contextlib.ExitStack() as hold:
            if all(relation.state in _COPIED for relation in self._relations()):
                hold.enter_context(self._gate.closed())
            until = time.monotonic() + _HOLD_SECONDS

            def release() -> None:
                if time.monotonic() > until:
                    hold.close()

            yield release

    def _attempt(self, relation: SubscriptionRelation, step: Callable[[SubscriptionRelation], None]) -> None:
        """Do one table's step; what is wrong with this table alone is kept with it, and the others go on."""
        began = time.monotonic()
        if self._stop.is_set():
            raise _stopped()
        try:
            step(relation)
        except (ProgressConflict, PublicationsChanged) as error:
            # Nobody's fault: a command has changed the subscription meanwhile, and its tables are looked at again.
            logger.info('table "%s": %s', relation.qualified_name, error.message)
        except SubscriberError as error:
            if self._stop.is_set():
                raise _stopped() from None
            if isinstance(error, _FOR_ALL):
                raise
            before = self._failures.get(_key(relation))
            count = 1 if before is None else before.count + 1
            not_before = time.monotonic() + self._settings.wal_retrieve_retry_interval
            self._failures[_key(relation)] = _Failure(count, began, not_before)
            self._on_error(error, relation)
        else:
            self._failures.pop(_key(relation), None)

    # Copy ---------------------------------------------------------------------------------------------

    def _copy(
        self,
        relation: SubscriptionRelation,
        *,
        snapshot: Snapshot,
        files: TableFiles,
        release: Callable[[], None],
    ) -> None:
        self._log(relation, "has started")
        failpoints.hit("copy.begin.before")
        if relation.state is RelationState.INIT:
            relation = self._change(relation, RelationState.DATASYNC, None)
        failpoints.hit("copy.begin.after")
        source = CopySource(
            conninfo=self._subscription.conninfo,
            subscription=self._subscription.name,
            publications=self._subscription.publications,
            schema=relation.schema,
            table=relation.name,
            snapshot=snapshot.name,
            files=files,
            publishing=self._publishing(),
            names=self._subscription.options.map,
            add_columns=self._write if self._subscription.options.schema_changes == "add_columns" else None,
            binary=self._subscription.options.binary,
            changes=SchemaChanges(self._subscription.subid, self._subscription.name),
        )

        def note(done: CopyProgress) -> None:
            release()
            self._copies.note(relation, done)

        copied = replace(relation, state=RelationState.FINISHEDCOPY, lsn=snapshot.lsn)

        @contextlib.contextmanager
        def begin() -> Iterator[Any]:
            with self._turn, self._target.begin() as connection, self._interruption.of(connection), self._loading():
                yield connection
                catalog.check_replicated(connection, self._subscription)
                catalog.advance_relation(connection, self._subscription.subid, relation, copied.state, copied.lsn)
                failpoints.hit("copy.commit.before")

        waits_for = partial(blockers_of, self._subscription.conninfo, self._subscription.name)
        with (
            self._copies.showing(relation),
            watched(f'the copy of table "{relation.qualified_name}" at the publisher', waits_for),
        ):
            done = self._pipeline.copy_table(
                source, self._target, begin, self._settings, on_progress=note, stop=self._stop
            )
        failpoints.hit("copy.commit.after")
        logger.info(
            'table "%s" of subscription "%s" is copied: %s rows, as of %s',
            relation.qualified_name,
            self._subscription.name,
            f"{done.rows:,}",
            format_lsn(snapshot.lsn),
        )
        self._hand_over(copied)
        self._log(relation, "has finished")

    @contextlib.contextmanager
    def _loading(self) -> Iterator[None]:
        self.loads_since = time.monotonic()
        try:
            yield
        finally:
            self.loads_since = None

    # Hand-over ------------------------------------------------------------------------------------------

    def _hand_over(self, relation: SubscriptionRelation) -> None:
        with self._gate.closed():
            applied = self._applied()
            if self._position(relation) >= applied:
                self._synced(relation)
                return
        try:
            self._catch_up(relation, applied)
        except JournalGap:
            lost = self._position(relation)
            self._change(relation, RelationState.INIT, lost)
            raise self._lost(relation, lost) from None

    def _catch_up(self, relation: SubscriptionRelation, applied: LSN) -> None:
        query = self._start_catch_up(relation)
        try:
            # Beside the apply worker first, so that it need not stand still for long.
            self._wait_for(query, applied, _RACE_SECONDS)
            with self._gate.closed():
                self._wait_for(query, self._applied(), None)
                query.stop()
                self._synced(relation)
        finally:
            query.stop()

    def _copy_again(self, relation: SubscriptionRelation) -> None:
        """Let a table that could not catch up be copied like any other, if the rows of its first copy are gone.

        Raises:
            TargetRelationError: they are not.
        """
        assert relation.lsn is not None
        place = self._subscription.options.map.local(relation.schema, relation.name)
        with self._target.reporting(), self._target.engine.connect() as connection:
            table = self._target.reflect(connection, *place)
            if table is not None and table.has_rows(connection):
                raise self._lost(relation, relation.lsn)
        self._change(relation, RelationState.INIT, None)

    def _lost(self, relation: SubscriptionRelation, position: LSN) -> TargetRelationError:
        table = self._subscription.options.map.qualified(relation.schema, relation.name)
        return TargetRelationError(
            f'table "{table}" cannot catch up: the journal has lost its changes after {format_lsn(position)}',
            sqlstate="55000",
            detail="It is to be copied again, but still has the rows of its first copy.",
            hint="TRUNCATE it at the subscriber; it is copied again then.",
            relation=table,
        )

    def _synced(self, relation: SubscriptionRelation) -> None:
        """The table's changes are everybody's from its own position on; no batch is in progress."""
        failpoints.hit("handover.before")
        position = self._position(relation)
        finished = replace(relation, state=RelationState.FINISHEDCOPY, lsn=position)
        self._change(finished, RelationState.SYNCDONE, position)
        failpoints.hit("handover.after")

    def _start_catch_up(self, relation: SubscriptionRelation) -> ApplyQuery:
        position = self._position(relation)
        publishing = self._publishing()
        applier = ExactApplier(
            self._target,
            subscription=self._subscription.name,
            subid=self._subscription.subid,
            read_rules=CatchUpRules(self._subscription, relation, publishing),
            kept=CatchUpProgress(self._subscription.subid, relation),
            ask=PublisherAttributes(self._target, self._subscription),
        )
        logger.info('table "%s" catches up from %s', relation.qualified_name, format_lsn(position))
        return self._pipeline.start_query(
            f"table sync {self._subscription.subid}: {relation.qualified_name}",
            JournalStream(self._consumers.journal, position, publishing),
            applier,
            self._settings,
            on_applied=_nothing,
            turn=self._turn,
        )

    def _wait_for(self, query: ApplyQuery, position: LSN, longest: float | None) -> None:
        """Return when the catch-up has reached ``position``, or after ``longest`` seconds.

        Raises:
            SubscriberError: why it ended.
            Stopped: it is of no use any more.
        """
        deadline = time.monotonic() + longest if longest is not None else float("inf")
        while query.applied < position and time.monotonic() < deadline:
            if self._stop.wait(_POLL_SECONDS):
                raise _stopped()
            if not query.running:
                raise query.failure() or _stopped()

    # The catalog ----------------------------------------------------------------------------------------

    def _relations(self) -> list[SubscriptionRelation]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return catalog.relations_of(connection, self._subscription.subid)

    @contextlib.contextmanager
    def _write(self) -> Iterator[Any]:
        """A transaction of the target, when it is its turn."""
        with self._turn, self._target.begin() as connection:
            yield connection

    def _publishing(self) -> Publishing | None:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return read_publishing(connection, self._subscription)

    def _applied(self) -> LSN:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return progress.read_progress(connection, progress.origin_name(self._subscription.subid))

    def _position(self, relation: SubscriptionRelation) -> LSN:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return CatchUpProgress(self._subscription.subid, relation).read(connection)

    def _change(self, relation: SubscriptionRelation, state: RelationState, lsn: LSN | None) -> SubscriptionRelation:
        with self._turn, self._target.begin() as connection:
            return catalog.advance_relation(connection, self._subscription.subid, relation, state, lsn)

    def _keep_journal(self, snapshot_lsn: LSN | None) -> None:
        """Let the journal keep what the tables of this round, and those that have not caught up, still need."""
        needed = [
            one.lsn for one in self._relations() if one.state is RelationState.FINISHEDCOPY and one.lsn is not None
        ]
        if snapshot_lsn is not None:
            needed.append(snapshot_lsn)
        if needed:
            self._consumers.keep(min(needed))
        else:
            self._consumers.release()

    def _release_journal(self) -> None:
        """Once no table is to be copied or to catch up, let the journal be trimmed.

        A round that was killed, or whose target went away, could not do so; a REFRESH may have removed what it kept it for.
        """
        if self._may_be_kept:
            with contextlib.suppress(SubscriberError):
                self._consumers.release()
                self._may_be_kept = False

    def _log(self, relation: SubscriptionRelation, what: str) -> None:
        logger.info(
            'logical replication table synchronization worker for subscription "%s", table "%s" %s',
            self._subscription.name,
            relation.qualified_name,
            what,
        )


_FOR_ALL: Final = (PublisherUnavailable, SlotInUse, TargetUnavailable, JournalUnavailable)
"""Errors that are not about one table: the round ends, and the next one begins with a new snapshot."""


def _stopped() -> Stopped:
    return Stopped("the table synchronization was stopped")


def _must_be_empty(relation: SubscriptionRelation) -> bool:
    return relation.state is RelationState.INIT and relation.lsn is not None


def _key(relation: SubscriptionRelation) -> tuple[str, str]:
    return relation.schema, relation.name


def _nothing(_result: ApplyResult) -> None:
    pass
