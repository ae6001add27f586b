"""The exact path: each batch becomes one transaction of the target. It defines what is correct.

::

    BEGIN
      stored := read progress        at least ``start``, or a gap would be skipped: JournalGap
      lock progress at stored        no other process may move it until the transaction ends
      for each frame, in order       transactions that finished at or below ``stored`` are not applied
        for each run of changes      one executemany; controls mark where transactions begin and end
      progress := ``end``            in the same transaction (invariant progress_with_data)
      count conflicts
    COMMIT                           failpoints target.commit.before / .after around it

A target transaction contains whole transactions of the publisher, in their order (invariant
commit_order). Only one frame at a time is in memory (invariant bounded_memory).

When a change cannot be applied, everything is rolled back, and the caller applies the batch again
up to the last transaction before it. *Rejected:* savepoints around every transaction. They would
slow down every batch because of the few that fail.

:class:`BulkApplier`, which a run uses, has changes reordered before they are written::

    batch ──▶ reordered ──▶ COMMIT
                 │ a statement fails, or a row is missing
                 ▼
              ROLLBACK ──▶ OrderMatters ──▶ the same batch in the publisher's order ──▶ COMMIT, or the error with its place

Both leave the same tables, progress and conflict records (invariant fast_equals_exact). After a
failure, which a target with other rows may cause in every batch, the next batches are applied in
the publisher's order: one, and twice as many after each further failure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

import sqlalchemy as sa

from subscriber.apply.applier import ApplyResult, ReadRules, Rules
from subscriber.apply.batch import Batch, Scope
from subscriber.apply.conflicts.collisions import refined
from subscriber.apply.conflicts.conflict import POSTGRESQL_POLICY, Conflict, ConflictPolicy
from subscriber.apply.history_frames import HistoryFrames
from subscriber.apply.message_listener import MessageListener, deliver_messages
from subscriber.apply.prepared import TwoPhaseBatch
from subscriber.apply.relations.follow_schema_changes import Answer, Following
from subscriber.apply.relations.target_relations import RelationMap, UnchangedTables
from subscriber.apply.reorder import OrderMatters
from subscriber.apply.statements.change_statements import StatementCache
from subscriber.apply.target_transactions import MakeWriter, TargetTransactions
from subscriber.apply.transform_frames import TransformFrames
from subscriber.apply.writing.change_writer import ChangeWriter, ConflictExaminer, ExaminedError
from subscriber.apply.writing.unrepresentable import Replacement
from subscriber.base.errors import ColumnsToAdd, JournalGap, SubscriberError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.catalog.progress import OriginProgress, Progress
from subscriber.catalog.schema_changes import SchemaChanges
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.publisher_tables import TableAttributes
from subscriber.targets import Interruption, Target

logger = logging.getLogger(__name__)

AskPublisher = Callable[[Relation], TableAttributes | None]
"""Asks the publisher for the current attributes of a relation's table; None where the table does
not exist.
"""

_MOST_ANSWERS: Final = 1_000
"""The greatest number of answers to cache: far more than tables are altered while a query runs."""


class ExactApplier:
    """Applies batches of one subscription to one target.

    Args:
        subid: the subscription's number; the replication origin is ``pg_<subid>`` (rule C34).
        read_rules: reads what to apply; without it everything is applied.
        kept: the progress that moves with the data; without it the subscription's progress is used.
        ask: asks the publisher for the attributes of a relation's table (see
            :mod:`subscriber.apply.relations.missing_columns`); without it the values of older rows
            are unknown.
        on_message: called with logical messages, see :mod:`subscriber.apply.message_listener`.
        policy: decides about conflicts; its version is that of the words of errors and of the log.
    """

    def __init__(
        self,
        target: Target,
        *,
        subscription: str,
        subid: int,
        read_rules: ReadRules | None = None,
        kept: Progress | None = None,
        ask: AskPublisher | None = None,
        on_message: MessageListener | None = None,
        policy: ConflictPolicy = POSTGRESQL_POLICY,
    ) -> None:
        self.target = target
        self.subscription = subscription
        self.subid = subid
        self._read_rules = read_rules or _apply_everything
        self._progress: Final = kept or OriginProgress(subid)
        self._on_message = on_message
        self._policy = policy
        self._ask = ask
        self._answers: dict[Relation, Answer] = {}
        self._changes: Final = SchemaChanges(subid, subscription)
        self.interruption: Final = Interruption(target)
        self._statements: StatementCache = {}
        self._known: UnchangedTables | None = UnchangedTables()
        # The catch-up of a table must not hold the locks of a prepared transaction (rule C52).
        self.two_phase = target.prepared is not None and self._progress.of_subscription
        self._reorders = False

    @property
    def origin(self) -> str:
        return self._progress.name

    @property
    def version(self) -> int:
        return self._policy.version

    def apply(self, frames: Iterable[Frame], *, start: LSN, end: LSN, before: LSN | None = None) -> ApplyResult:
        """Apply a batch (:meth:`~subscriber.apply.applier.Applier.apply`).

        ``start`` may be before the stored progress. Then the stored progress is used, and
        transactions that finished at or before it are not applied, so a batch may be applied again.

        Raises:
            JournalGap: the stored progress is before ``start``.
            ProgressConflict: another run moved the progress.
            ProtocolError: messages are out of order, or a commit does not match its begin (C31).
            ColumnsToAdd: columns must be added. Call :meth:`ask_publisher` unless it
                :meth:`knows_defaults_of` them, then :meth:`add_columns`; then try again.
            MessageListenerError: everything is applied, but the listener did not accept all
                messages.
            Stopped: :attr:`interruption` has requested the end; the open transaction is rolled
                back.
        """
        # First deliver the messages that an earlier call has committed but not delivered.
        self.deliver_messages()
        with self._local(self._writer) as local:
            stored = local.start(start, end)
            if stored < start:
                raise _gap(self._progress.name, stored, start)
            if stored >= end:
                return ApplyResult(stored)
            local.take()
            batch = self._batch(local, end, before, listens=self._on_message is not None, reorders=self._reorders)
            batch.run(self._as_written(frames, local.rules))
            batch.commit(end)
            in_full = local.rules.options.conflict_log_destination != "table"
        self.deliver_messages()
        batch.tally.conflicts.log(self._progress.name, self.version, in_full=in_full, subscription=self.subscription)
        conflicts = batch.tally.conflicts.by_kind()
        return ApplyResult(
            end,
            batch.transactions,
            batch.changes,
            conflicts,
            batch.commit_timestamp,
            rows=batch.rows,
            replaced=batch.replaced,
            skipped=batch.skipped,
            exact=batch.exact,
            seconds={"commit": local.commit_seconds},
        )

    def read_progress(self) -> LSN:
        with self.target.reporting(), self.target.engine.connect() as connection:
            return self._progress.read(connection)

    def deliver_messages(self) -> None:
        """Deliver the committed logical messages; raises MessageListenerError."""
        if self._on_message is not None:
            deliver_messages(self.target, self.subid, self.subscription, self._on_message)

    def _batch(
        self,
        local: TargetTransactions,
        end: LSN,
        before: LSN | None = None,
        *,
        listens: bool = False,
        reorders: bool = False,
    ) -> Batch:
        scope = Scope(
            self.origin,
            self.subscription,
            self.subid,
            end,
            before,
            listens=listens,
            policy=self._policy,
            reorders=reorders,
        )
        return TwoPhaseBatch(scope, local) if self.two_phase else Batch(scope, local)

    def _as_written(self, frames: Iterable[Frame], rules: Rules) -> Iterable[Frame]:
        """The frames with the values of the target; the changes of tables with a history are the
        rows that they add to it.
        """
        options, as_text = rules.options, self.target.capabilities.postgresql_text
        if options.history_rules.any:
            frames = HistoryFrames(options.history_rules, as_text=as_text).of(frames)
        if options.transform.columns:
            frames = TransformFrames(options.transform, as_text=as_text).of(frames)
        return frames

    def _local(self, writer: MakeWriter) -> TargetTransactions:
        return TargetTransactions(
            self.target, self._progress, self._read_rules, writer, self.interruption, self._changes.log
        )

    def _writer(
        self,
        connection: sa.Connection,
        rules: Rules,
        *,
        prepared: bool = False,
        make: Callable[..., ChangeWriter] = ChangeWriter,
    ) -> ChangeWriter:
        options, values = rules.options, rules.options.unrepresentable_values
        relations = self._relations(connection, rules, prepared=prepared)
        return make(
            self.target,
            connection,
            self._statements,
            relations,
            show_values=options.log_conflict_values,
            policy=self._policy,
            binary=options.binary,
            replacement=Replacement(self.target, values) if values.replace_any else None,
            check=self.interruption.check,
            retained_for=self._progress.name if rules.retains else None,
            records=rules.records,
            history=options.history_rules,
            resolvers=options.conflict_resolvers,
        )

    def _relations(
        self,
        connection: sa.Connection,
        rules: Rules,
        *,
        prepared: bool = False,
        alone: bool = False,
        mixed: bool = False,
    ) -> RelationMap:
        return RelationMap(
            self.target,
            connection,
            rules.options.map,
            add_columns=rules.options.schema_changes == "add_columns",
            prepared=prepared,
            alone=alone,
            following=Following(self._changes, self._answers, rules.is_shared, mixed=mixed),
            known=self._known,
        )

    def examine(self, frames: Iterable[Frame], conflict: Conflict, *, start: LSN, end: LSN) -> Conflict | None:
        """Apply the batch again up to a unique violation, find all violated keys (rules C20-C22),
        and roll back. The transactions before the failing one should be committed. Returns None
        where the conflict no longer exists, or the target is not available.
        """
        examiner = partial(self._writer, make=partial(ConflictExaminer, failed=conflict.place))
        try:
            with self._local(examiner) as local:
                if not start <= local.start(start, end) < end:
                    return None
                local.take()
                self._batch(local, end).run(self._as_written(frames, local.rules))
                raise ExaminedError
        except ExaminedError as examined:
            return refined(conflict, examined.collisions)
        except SubscriberError as other:
            logger.debug("a conflict could not be examined: %s", other.message)
            return None

    def knows_defaults_of(self, needed: ColumnsToAdd) -> bool:
        return needed.shape in self._answers

    def ask_publisher(self, needed: ColumnsToAdd) -> None:
        """Ask while no transaction of the target is open."""
        if not isinstance(needed.shape, Relation):
            raise needed
        try:
            attributes = None if self._ask is None else self._ask(needed.shape)
        except SubscriberError as error:
            raise error.replace(
                relation=error.relation or needed.relation,
                context=error.context or "asking the publisher which value older rows have in a new column",
            ) from None
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        self._answers[needed.shape] = Answer(None if needed.lsn is None else LSN(needed.lsn), attributes)

    def add_columns(self, needed: ColumnsToAdd) -> None:
        """Alter a table. It stays altered even if the batch fails, and may be altered already."""
        if not isinstance(needed.shape, Relation):
            raise needed
        with self.target.begin() as connection:
            relations = self._relations(connection, self._read_rules(connection), alone=True, mixed=needed.mixed)
            relations.open(needed.shape)
        self._changes.log(relations.alterations)


def _apply_everything(_connection: sa.Connection) -> Rules:
    return Rules()


def _gap(origin: str, stored: LSN, start: LSN) -> JournalGap:
    return JournalGap(
        f"the target has applied up to {format_lsn(stored)}, but the batch begins at {format_lsn(start)}",
        detail=f'The progress of replication origin "{origin}" is before the batch; the changes in between would be lost.',
        hint="If the target was restored from a backup, stop `subscriber run` and start it again: it then continues from the target's progress.",
        lsn=stored,
    )


# Reordered batches --------------------------------------------------------------------------------

_MOST_EXACT_BATCHES: Final = 64


class BulkApplier(ExactApplier):
    """Reorders changes where it may (:mod:`subscriber.apply.reorder`)."""

    _exact_batches = 0
    _after_failure = 1

    def apply(self, frames: Iterable[Frame], *, start: LSN, end: LSN, before: LSN | None = None) -> ApplyResult:
        """Apply a batch, or raise OrderMatters: nothing of it is in the target; apply it again."""
        self._reorders = not self._exact_batches and before is None
        try:
            result = super().apply(frames, start=start, end=end, before=before)
        except OrderMatters:
            self._exact_batches = self._after_failure
            self._after_failure = min(2 * self._after_failure, _MOST_EXACT_BATCHES)
            raise
        if self._reorders:
            self._after_failure = 1
            return result
        if before is None:
            self._exact_batches -= 1
        return replace(result, exact="order_matters" if before is None else "failed_batch")
