"""The exact path: each micro-batch becomes one transaction of the target. It defines what is
correct.

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

When a change cannot be applied, everything is rolled back. The error carries the LSN where the last
transaction before it finished (:class:`~subscriber.apply.conflicts.failure.ApplyFailure`). The
caller then applies the batch again, with ``end`` and ``before`` at that LSN. So the transactions
before the failing one are committed, as PostgreSQL would have done, and the subscription stops at
the failing one. *Rejected:* savepoints around every transaction. They would avoid the second pass,
but they would slow down every batch because of the few that fail.

If the target can prepare transactions, a batch may use more than one transaction of the target:
:mod:`subscriber.apply.local`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import sqlalchemy as sa

from subscriber.apply.applier import ApplyResult
from subscriber.apply.batch import Batch, Scope
from subscriber.apply.batch_rules import ReadRules, Rules
from subscriber.apply.conflicts.conflict import Conflict
from subscriber.apply.conflicts.conflict_policy import POSTGRESQL_POLICY, ConflictPolicy
from subscriber.apply.local import LocalTransactions, MakeWriter
from subscriber.apply.logical_messages import MessageListener, deliver_messages
from subscriber.apply.relations.follow_schema_changes import Answer, Following
from subscriber.apply.relations.local_relations import RelationMap
from subscriber.apply.statements.change_statements import StatementCache
from subscriber.apply.two_phase_batch import TwoPhaseBatch
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.apply.writing.examine import ConflictExaminer, ExaminedError, refined
from subscriber.apply.writing.unrepresentable import Replacement
from subscriber.catalog.progress import OriginProgress, Progress
from subscriber.catalog.schema_changes import SchemaChanges
from subscriber.errors import ColumnsToAdd, JournalGap, SubscriberError
from subscriber.lsn import LSN, format_lsn
from subscriber.protocol.changes import Frame
from subscriber.protocol.messages import Relation
from subscriber.schema.attributes import TableAttributes
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
        target: the target that changes are written to.
        subscription: the subscription's name, for the statistics.
        subid: the subscription's number; the replication origin is ``pg_<subid>`` (rule C34).
        read_rules: reads what to apply; without it everything is applied.
        kept: the progress that moves with the data; without it the subscription's progress is used.
        ask: asks the publisher for the attributes of a relation's table (see
            :mod:`subscriber.apply.relations.added_columns`); without it the values of older rows
            are unknown.
        on_message: called with the publisher's logical messages, see
            :mod:`subscriber.apply.logical_messages`.
        policy: decides about conflicts.

    Attributes:
        interruption: the object by which another thread ends a batch in progress.
        target: the target that changes are written to.
        subscription: the subscription's name.
        subid: the subscription's number.
        two_phase: whether the frames must contain prepared transactions at the place of their
            PREPARE, so that the target can prepare them.
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
        # The catch-up of a table must not hold the locks of a prepared transaction (rule C52).
        self.two_phase = target.prepared is not None and self._progress.of_subscription
        self._regroups = False

    @property
    def origin(self) -> str:
        """The replication origin's name."""
        return self._progress.name

    def apply(self, frames: Iterable[Frame], *, start: LSN, end: LSN, before: LSN | None = None) -> ApplyResult:
        """Apply the transactions that finished in (``start``, ``end``], and make ``end`` the
        progress.

        ``start`` may be before the stored progress. In that case the stored progress is used, and
        transactions that finished at or before it are not applied. Applying a batch again has no
        effect if it is already applied.

        Args:
            frames: the frames of the batch; they are consumed one at a time.
            start: where the batch begins: the end of the previous batch.
            end: where the batch ends, at an end LSN.
            before: stop after the transaction that finished at this LSN; ``end`` must be the same
                LSN.

        Raises:
            JournalGap: the stored progress is before ``start``.
            ProgressConflict: another run moved the progress.
            ApplyError: a change cannot be applied; see
                :class:`~subscriber.apply.conflicts.failure.ApplyFailure`.
            ProtocolError: messages are out of order, or a commit does not match its begin (C31).
            ColumnsToAdd: columns must be added. Call :meth:`ask_publisher` if it
                :meth:`has_not_asked`, otherwise :meth:`add_columns`; then try again.
            MessageListenerError: everything is applied, but the listener did not accept all
                messages.
            Stopped: :attr:`interruption` has requested the end; the open transaction is rolled
                back.
            TargetUnavailable: try again.
        """
        # First deliver the messages that an earlier call has committed but not delivered.
        self.deliver_messages()
        with self._local(self._writer) as local:
            stored = local.start()
            if stored < start:
                raise _gap(self._progress.name, stored, start)
            if stored >= end:
                return ApplyResult(stored)
            local.take()
            batch = self._batch(local, end, before, listens=self._on_message is not None, regroups=self._regroups)
            batch.run(frames)
            batch.commit(end)
        self.deliver_messages()
        batch.tally.conflicts.log(self._progress.name)
        conflicts = batch.tally.conflicts.by_kind()
        return ApplyResult(end, batch.transactions, batch.changes, conflicts, batch.commit_timestamp)

    def read_progress(self) -> LSN:
        """The progress that the target has.

        Raises:
            ProgressConflict: the target does not track this progress, or no longer does.
            TargetUnavailable: try again.
        """
        with self.target.reporting(), self.target.engine.connect() as connection:
            return self._progress.read(connection)

    def deliver_messages(self) -> None:
        """Deliver the logical messages that are committed in the target, if there is a listener.

        Raises:
            MessageListenerError: the listener raised an error.
            TargetUnavailable: try again.
        """
        if self._on_message is not None:
            deliver_messages(self.target, self.subid, self.subscription, self._on_message)

    def _batch(
        self,
        local: LocalTransactions,
        end: LSN,
        before: LSN | None = None,
        *,
        listens: bool = False,
        regroups: bool = False,
    ) -> Batch:
        scope = Scope(
            self.origin,
            self.subscription,
            self.subid,
            end,
            before,
            listens=listens,
            policy=self._policy,
            regroups=regroups,
        )
        return TwoPhaseBatch(scope, local) if self.two_phase else Batch(scope, local)

    def _local(self, writer: MakeWriter) -> LocalTransactions:
        return LocalTransactions(
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
        relations = RelationMap(
            self.target,
            connection,
            rules.names,
            add_columns=rules.add_columns,
            prepared=prepared,
            following=self._following(rules),
        )
        return make(
            self.target,
            connection,
            self._statements,
            relations,
            show_values=rules.log_conflict_values,
            policy=self._policy,
            binary=rules.binary,
            replacement=Replacement(self.target, rules.values) if rules.values.replace_any else None,
            check=self.interruption.check,
        )

    def _following(self, rules: Rules, *, mixed: bool = False) -> Following:
        return Following(self._changes, self._answers, rules.is_shared, mixed=mixed)

    def examine(self, frames: Iterable[Frame], conflict: Conflict, *, start: LSN, end: LSN) -> Conflict | None:
        """Find all keys that are violated by a unique violation that stopped :meth:`apply` (rules
        C20-C22).

        The batch is applied again, up to the change, and then rolled back. The transactions before
        the failing one should have been committed before this call.

        Args:
            frames: the batch, as it was given to :meth:`apply`.
            conflict: the conflict that the error of :meth:`apply` carries.
            start: as given to :meth:`apply`.
            end: as given to :meth:`apply`.

        Returns:
            The conflict with all keys; None where the conflict no longer exists, or the target is
            not available.
        """
        examiner = partial(self._writer, make=partial(ConflictExaminer, failed=conflict.place))
        try:
            with self._local(examiner) as local:
                if not start <= local.start() < end:
                    return None
                local.take()
                self._batch(local, end).run(frames)
                raise ExaminedError
        except ExaminedError as examined:
            return refined(conflict, examined.collisions)
        except SubscriberError as other:
            logger.debug("a conflict could not be examined: %s", other.message)
            return None

    def has_not_asked(self, needed: ColumnsToAdd) -> bool:
        """Whether the publisher must be asked about the columns, and was not asked yet."""
        return needed.shape not in self._answers

    def ask_publisher(self, needed: ColumnsToAdd) -> None:
        """Ask the publisher for the values that older rows have in the columns to be added. No
        transaction of the target needs to be open meanwhile.

        Raises:
            PublisherError: the publisher cannot be asked.
        """
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
        """Alter a table of the target in a separate transaction, where that cannot be part of the
        batch's transaction.

        The table stays altered even if the batch fails. It is no error if another session has added
        a column meanwhile.

        Raises:
            TargetRelationError: the target refused.
        """
        if not isinstance(needed.shape, Relation):
            raise needed
        with self.target.begin() as connection:
            rules = self._read_rules(connection)
            relations = RelationMap(
                self.target,
                connection,
                rules.names,
                add_columns=rules.add_columns,
                alone=True,
                following=self._following(rules, mixed=needed.mixed),
            )
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
