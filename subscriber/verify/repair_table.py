"""The repair of one table: the rows that differ become those of the publisher, in one transaction.

::

    rows that differ ──▶ DELETE unexpected ──▶ UPDATE changed ──▶ INSERT missing ──▶ COMMIT
                         by key, or by all columns one copy at a time

A row may be locked by a transaction that is prepared in the target, whose COMMIT PREPARED is
applied only when the hold ends. So the wait for a lock is limited; the table is then compared again
in a new hold.

The transaction is one of the apply path, with its triggers, foreign keys, replication origin and
statements. The progress does not move. It is locked at the LSN that it had when the hold began: if
anything was applied since then, the rows that were compared are no longer those of the target, and
nothing is written. The same holds if the table is being copied again: the copy is of a later LSN,
and the changes up to that LSN would be lost.

Rows are deleted first, so that a surplus row does not keep a unique value from another row. Changed
rows may keep unique values from each other. Then the transaction is rolled back, and in the next
one changed rows are deleted and inserted. *Rejected:* always to do so. Columns that only the target
has would lose their values, and foreign keys of a session that is not a replica would act.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from subscriber.apply.coalesce import has_own_columns
from subscriber.apply.conflicts.conflict import Conflict, Resolution
from subscriber.apply.frame_order import ChangeRun
from subscriber.apply.relations.target_relations import RelationMap
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.base.errors import ApplyError, PublisherNotReady, TargetRelationError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import ConflictKind
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import SubscriptionRelation, lock_ready
from subscriber.postgres.protocol.changes import Action, ChangeGroup, Frame
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.types.registry import decode_column
from subscriber.targets import Target
from subscriber.verify.row_differences import DifferenceKind, DifferingRows
from subscriber.verify.row_digests import RowTexts
from subscriber.verify.table_plan import TablePlan, repair_relation

Steps = tuple[tuple[DifferenceKind, Action], ...]

_IN_PLACE: Final[Steps] = (("unexpected", "D"), ("changed", "U"), ("missing", "I"))
_BY_DELETE_AND_INSERT: Final[Steps] = (("unexpected", "D"), ("changed", "D"), ("changed", "I"), ("missing", "I"))
LOCK_SECONDS: Final = 10

_UNIQUE: Final = "23505"
_OF_ANOTHER_ORIGIN: Final = frozenset({ConflictKind.UPDATE_ORIGIN_DIFFERS, ConflictKind.DELETE_ORIGIN_DIFFERS})


class RepairPolicy:
    """The conflict policy of a repair: a row that is not there stops it."""

    version = 18

    def resolve(self, conflict: Conflict) -> Resolution:
        return Resolution.APPLY_REMOTE if conflict.kind in _OF_ANOTHER_ORIGIN else Resolution.ERROR


@dataclass(frozen=True, slots=True)
class Repair:
    """The numbers of rows that a repair deleted, updated and inserted."""

    deleted: int
    updated: int
    inserted: int

    @property
    def rows(self) -> int:
        return self.deleted + self.updated + self.inserted


def repair_table(
    target: Target,
    subscription: Subscription,
    relation: SubscriptionRelation,
    plan: TablePlan,
    rows: DifferingRows,
    applied: LSN,
) -> Repair:
    """Make the rows that differ equal to the publisher's, in one transaction.

    Raises TargetRelationError if another subscription writes to the same table, PublisherNotReady
    if row security hides rows of the publisher, ProgressConflict if something was applied or the
    table is copied again, and TargetUnavailable if another transaction locks a row. Nothing is
    written then.
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
        lock_ready(connection, subscription.subid, relation.schema, relation.name)
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
    rows: DifferingRows,
    steps: Steps,
) -> Repair:
    relation = repair_relation(plan.side.relation)
    writer = ChangeWriter(
        target, connection, {}, RelationMap(target, connection, subscription.options.map), policy=RepairPolicy()
    )
    counts: dict[DifferenceKind, int] = {}
    for kind, action in steps:
        counts[kind] = 0
        for part in rows.rows(kind):
            group = _changes(target, plan, relation, action, part)
            writer.open_frame(Frame((group,)))
            writer.write(ChangeRun(0, 0, len(group)))
            counts[kind] += len(group)
    writer.flush()
    return Repair(counts["unexpected"], counts["changed"], counts["missing"])


def _changes(target: Target, plan: TablePlan, relation: Relation, action: Action, rows: list[RowTexts]) -> ChangeGroup:
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
