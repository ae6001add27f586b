"""The repair of one table: the rows that differ become those of the publisher, in one transaction.

::

    rows that differ ──▶ DELETE surplus ──▶ UPDATE changed ──▶ INSERT missing ──▶ COMMIT
                         by key, or by all columns one copy at a time

A row may be locked by a transaction that is prepared in the target, and whose COMMIT PREPARED is
after the LSN: it is applied when the hold ends, so a wait for it would never end. So the repair
waits for a lock for a limited time; the table is then compared again in a new hold.

The transaction is one of the apply path: the target's triggers and foreign keys act as for a
replica, the replication origin is that of the subscription, and statements and values are those of
:mod:`subscriber.apply.writing.change_writer`. The progress does not move. It is locked at the LSN
that it had when the hold began: if anything was applied since then, the rows that were compared are
no longer those of the target, and nothing is written. The same holds if the table is being copied
again: the copy is of a later LSN, and the changes up to that LSN would be lost.

Rows are deleted first, so that a surplus row does not keep a unique value from another row. Changed
rows may keep unique values from each other. Then the transaction is rolled back, and in the next
one changed rows are deleted and inserted. *Rejected:* always to do so. Columns that only the target
has would lose their values, and foreign keys of a session that is not a replica would act.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray

from subscriber import catalog
from subscriber.apply.conflicts.conflict import Conflict
from subscriber.apply.conflicts.conflict_policy import Resolution
from subscriber.apply.regrouping.reorderable import has_own_columns
from subscriber.apply.relations.local_relations import RelationMap
from subscriber.apply.walk import Run
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.catalog import ConflictKind, Subscription, SubscriptionRelation
from subscriber.errors import ApplyError, PublisherNotReady, TargetRelationError
from subscriber.lsn import LSN
from subscriber.protocol.changes import Action, ChangeGroup, Frame
from subscriber.protocol.messages import Relation
from subscriber.targets import Target
from subscriber.types import decode_column
from subscriber.verify.compare_digests import TableComparer
from subscriber.verify.rows_to_repair import Kind, RowsToRepair, Texts
from subscriber.verify.table_plan import TablePlan, repair_relation

Steps = tuple[tuple[Kind, Action], ...]

_IN_PLACE: Final[Steps] = (("surplus", "D"), ("changed", "U"), ("missing", "I"))
_BY_DELETE_AND_INSERT: Final[Steps] = (("surplus", "D"), ("changed", "D"), ("changed", "I"), ("missing", "I"))
LOCK_SECONDS: Final = 10
"""How long a repair waits for a lock of another transaction."""

_UNIQUE: Final = "23505"
_OF_ANOTHER_ORIGIN: Final = frozenset({ConflictKind.UPDATE_ORIGIN_DIFFERS, ConflictKind.DELETE_ORIGIN_DIFFERS})


class RepairPolicy:
    """The conflict policy of a repair: a row that is not there stops it."""

    def resolve(self, conflict: Conflict) -> Resolution:
        """See :meth:`~subscriber.apply.conflicts.conflict_policy.ConflictPolicy.resolve`."""
        return Resolution.APPLY_REMOTE if conflict.kind in _OF_ANOTHER_ORIGIN else Resolution.ERROR


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair did.

    Attributes:
        deleted: the number of rows that were deleted.
        updated: the number of rows that were changed.
        inserted: the number of rows that were inserted.
    """

    deleted: int
    updated: int
    inserted: int

    @property
    def rows(self) -> int:
        """The number of rows that were written or deleted."""
        return self.deleted + self.updated + self.inserted


def repair_table(
    target: Target,
    subscription: Subscription,
    relation: SubscriptionRelation,
    plan: TablePlan,
    comparer: TableComparer,
    buckets: NDArray[np.int64],
    applied: LSN,
) -> Repair:
    """Make the rows of some buckets equal to the publisher's, in one transaction.

    Args:
        target: the target.
        subscription: the subscription.
        relation: the table, which is ready.
        plan: how it was compared.
        comparer: reads both sides.
        buckets: the buckets that differ.
        applied: the subscription's progress when the hold began.

    Raises:
        TargetRelationError: another subscription writes to the same table.
        PublisherNotReady: row security hides rows of the publisher.
        ProgressConflict: something was applied, or the table is copied again; nothing was written.
        TargetUnavailable: a row is locked by another transaction; nothing was written.
        SubscriberError: a row cannot be written or deleted; the table is as it was before.
    """
    if plan.shared_with:
        raise TargetRelationError(
            f'table "{plan.local.qualified_name}" is not repaired: {", ".join(plan.shared_with)} also writes to it',
            sqlstate="55000",
            hint="Rows of the other subscription cannot be distinguished from surplus rows. Repair the table by hand.",
            relation=plan.local.qualified_name,
        )
    if plan.hidden_from is not None:
        raise PublisherNotReady(
            f'table "{relation.qualified_name}" is not repaired: row security hides rows from role "{plan.hidden_from}"',
            sqlstate="42501",
            detail="Hidden rows cannot be distinguished from surplus rows of the target.",
            hint="Name the table's owner, or a role with BYPASSRLS, in the CONNECTION of the subscription.",
            relation=relation.qualified_name,
        )
    with closing(RowsToRepair(plan.side.key)) as rows:
        with target.reporting(), target.engine.connect() as connection:
            rows.add(comparer.publisher_rows(buckets), 1)
            rows.add(comparer.target_rows(connection, buckets), -1)
        rows.cancel()
        try:
            with _writing(target, subscription, relation, applied) as connection:
                return _write(target, connection, subscription, plan, rows, _IN_PLACE)
        except ApplyError as error:
            if error.sqlstate != _UNIQUE:
                raise
            with _writing(target, subscription, relation, applied) as connection:
                if not _may_be_deleted(target, connection, plan):
                    raise
                return _write(target, connection, subscription, plan, rows, _BY_DELETE_AND_INSERT)


@contextmanager
def _writing(
    target: Target, subscription: Subscription, relation: SubscriptionRelation, applied: LSN
) -> Iterator[sa.Connection]:
    """A transaction of the apply path, in which the progress does not move."""
    with target.begin() as connection:
        subscription.progress.lock(connection, applied)
        catalog.lock_ready(connection, subscription.subid, relation.schema, relation.name)
        target.transactions.set_synchronous_commit(connection, subscription.options.synchronous_commit)
        if target.origins is not None:
            target.origins.set(connection, subscription.origin)
        with target.transactions.limited_lock_waits(connection, LOCK_SECONDS):
            yield connection


def _may_be_deleted(target: Target, connection: sa.Connection, plan: TablePlan) -> bool:
    """Whether a row is the same after it was deleted and inserted, and so are all others."""
    return not has_own_columns(plan.local) and not target.writing.delete_acts(connection, plan.local.table)


def _write(
    target: Target,
    connection: sa.Connection,
    subscription: Subscription,
    plan: TablePlan,
    rows: RowsToRepair,
    steps: Steps,
) -> Repair:
    relation = repair_relation(plan.side.relation)
    writer = ChangeWriter(
        target, connection, {}, RelationMap(target, connection, subscription.options.map), policy=RepairPolicy()
    )
    counts: dict[Kind, int] = {}
    for kind, action in steps:
        counts[kind] = 0
        for part in rows.rows(kind):
            group = _changes(target, plan, relation, action, part)
            writer.open_frame(Frame((group,)))
            writer.write(Run(0, 0, len(group)))
            counts[kind] += len(group)
    writer.flush()
    return Repair(counts["surplus"], counts["changed"], counts["missing"])


def _changes(target: Target, plan: TablePlan, relation: Relation, action: Action, rows: list[Texts]) -> ChangeGroup:
    """The changes that write or delete rows."""
    places = list(plan.side.key) if action == "D" and plan.side.key else list(range(len(relation.columns)))
    texts = list(zip(*rows, strict=True)) if relation.columns else []
    columns = [_values(target, plan, relation, place, texts[place]) for place in places]
    names = [relation.columns[place].name for place in places]
    batch = (
        pa.RecordBatch.from_arrays(columns, names=names)
        if names
        else pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    )
    positions = np.arange(len(rows), dtype=np.int32)
    if action == "D":
        return ChangeGroup(relation, action, "K" if plan.side.key else "O", positions, batch, None)
    return ChangeGroup(relation, action, None, positions, None, batch)


def _values(target: Target, plan: TablePlan, relation: Relation, place: int, texts: tuple[str | None, ...]) -> pa.Array:
    """The values of a column, as the frames of the apply path have them."""
    values = pa.array(texts, pa.string())
    if not target.capabilities.postgresql_text:
        type_oid = relation.columns[place].type_oid
        values = decode_column(type_oid, values.cast(pa.binary()), binary=False, column=place + 1)
    replace = plan.side.columns[place].replace
    return values if replace is None else replace(values)
