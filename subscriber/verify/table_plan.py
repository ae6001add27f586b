"""What is compared of one table: the publisher's rows and columns as in an initial copy, and the
target's table as in the apply path, without altering it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from subscriber.apply.relations.target_relations import RelationMap, TargetRelation
from subscriber.apply.writing.unrepresentable import replaced_columns
from subscriber.base.errors import PublisherNotReady
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.check_publications import refresh_command
from subscriber.postgres.protocol.messages import IDENTITY_FLAG, Relation
from subscriber.postgres.schema.history_rules import END, OPEN_LSN
from subscriber.postgres.schema.published_table import Publications
from subscriber.postgres.schema.transform_values import transformed_relation
from subscriber.postgres.types.oids import type_name
from subscriber.publisher.connection import Connection
from subscriber.publisher.copy_out import CopyReader
from subscriber.publisher.copy_plan import CopyPlan, CopyRange, TableFiles, plan_copy
from subscriber.targets import Target, TargetColumn, TargetTable
from subscriber.targets.base.values import Values
from subscriber.targets.conversion import SOURCES, TEXT, converts
from subscriber.targets.declared_columns import may_refuse
from subscriber.verify.canonical_text import CanonicalColumn
from subscriber.verify.present_rows import present_rows
from subscriber.verify.row_digests import BucketChoice
from subscriber.verify.table_sides import PublisherSide

ACTIONS: Final = ("insert", "update", "delete", "truncate")

_LEAST_BUCKETS, _MOST_BUCKETS = 256, 65_536
_ROWS_OF_A_BUCKET: Final = 16
_BYTES_OF_A_ROW: Final = 100
"""An assumption for tables that have no statistics."""
_TEXTS: Final = frozenset({19, TEXT, 1042, 1043})
_FLOATS: Final = frozenset({700, 701})
_RANGE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How a table is compared. The role ``hidden_from`` does not see all rows; ``shared_with`` are
    other subscriptions that write to it. Estimates are the publisher's: rows (0: unknown), bytes on
    disk. ``notes``: what is compared in another way, or left out. The target has a history that is
    no table of rows: ``has_history``; rows of ``removed`` are then counted with the publisher's.
    """

    side: PublisherSide
    ranges: tuple[CopyRange, ...]
    local: TargetRelation
    hidden_from: str | None
    shared_with: tuple[str, ...]
    estimated_rows: int
    estimated_bytes: int
    notes: tuple[str, ...]
    has_history: bool = False
    removed: TargetTable | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.side.columns)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key; empty for a table without a key."""
        return tuple(self.names[place] for place in self.side.key)


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table of the publisher, and the name of the exported snapshot in which it is read.

    ``files`` are those of the table in the snapshot; ``local`` is the target's table, if it was
    read before.
    """

    schema: str
    name: str
    publications: Publications
    snapshot: str
    files: TableFiles
    conninfo: str = field(repr=False)
    subscription: str
    options: SubscriptionOptions = field(default_factory=SubscriptionOptions)
    local: TargetTable | None = None
    shared_with: tuple[str, ...] = ()


def plan_table(
    publisher: Connection,
    target: Target,
    connection: sa.Connection,
    source: TableSource,
    *,
    partition_bytes: int = _RANGE_BYTES,
    share: float = 1.0,
) -> TablePlan:
    """The plan for the comparison of a table, whose columns must exist and fit on both sides."""
    actions = source.publications.published_actions(source.schema, source.name)
    if actions is None:
        raise _not_published(source)
    copy = plan_copy(publisher, source.publications, source.schema, source.name, partition_bytes, source.files)
    notes = list(_hidden(copy))
    options = source.options
    relations = RelationMap(target, connection, options.map, add_columns=options.schema_changes == "add_columns")
    local = relations.compare(transformed_relation(options.transform, copy.relation), source.local)
    history = options.history_rules.of(source.schema, source.name)
    removed = None
    if history == "append":
        present = present_rows(connection, local.table, local.remote, source.subscription)
        local = replace(local, table=replace(present.table, key=present.key or None))
        removed = present.removed
        notes.append("the rows that the changes imply are compared, which are the rows as they are now")
    elif history == "scd2":
        local = replace(local, table=_open_versions(local.table))
        notes.append("the open versions are compared, which are the rows as they are now")
    absent = [one.name for one in copy.relation.columns if one.name not in {each.name for each in local.remote.columns}]
    if absent:
        notes.append(f"columns that the target does not have yet are not compared: {', '.join(absent)}")
    columns = _compared_columns(target, options, local, copy.relation)
    notes += _notes(target, columns)
    casts = tuple((column.name, type_name(column.compared_as)) for column in columns if column.cast)
    names = tuple(column.name for column in columns)
    query = replace(copy.query, columns=names, casts=casts)
    key = local.table.key
    rows = copy.estimated_rows or copy.estimated_bytes // _BYTES_OF_A_ROW
    side = PublisherSide(
        CopyReader(source.conninfo, source.subscription, source.snapshot, query, "csv"),
        local.remote,
        tuple(columns),
        tuple(names.index(name) for name in key) if key is not None and set(key) <= set(names) else (),
        BucketChoice(_buckets(rows), share),
    )
    absent_actions = [action.upper() for action in ACTIONS if action not in actions]
    if absent_actions:
        notes.append(
            f"the publications do not publish {' and '.join(absent_actions)}: what that changed at the publisher differs"
        )
    shared = source.shared_with
    if shared:
        notes.append(f"the target's table is also written by {', '.join(shared)}, whose rows are only in the target")
    return TablePlan(
        side,
        copy.ranges,
        local,
        copy.hidden_from,
        shared,
        copy.estimated_rows,
        copy.estimated_bytes,
        tuple(dict.fromkeys(notes)),
        history != "off",
        removed,
    )


def repair_relation(relation: Relation) -> Relation:
    """The relation of changes that repair rows: their old rows have all columns."""
    columns = tuple(replace(column, flags=IDENTITY_FLAG) for column in relation.columns)
    return replace(relation, replica_identity="f", columns=columns)


def _not_published(source: TableSource) -> PublisherNotReady:
    name = f"{source.schema}.{source.name}"
    return PublisherNotReady(
        f'table "{name}" is not published any more, or not published as this table',
        sqlstate="42704",
        detail="Which of its rows and columns the target is to have is not known.",
        hint="Add it to a publication of the subscription, or remove it from the subscription:"
        f" {refresh_command(source.subscription)}",
        relation=name,
    )


def _open_versions(table: TargetTable) -> TargetTable:
    key = tuple(name for name in table.key or () if name not in END)
    return replace(table, key=key or None, only=(("_to_lsn", OPEN_LSN),))


def _buckets(rows: int) -> int:
    wanted = max(1, rows // _ROWS_OF_A_BUCKET)
    return max(_LEAST_BUCKETS, min(_MOST_BUCKETS, 1 << (wanted - 1).bit_length()))


def _hidden(copy: CopyPlan) -> tuple[str, ...]:
    if copy.hidden_from is None:
        return ()
    return (f'row security hides rows from role "{copy.hidden_from}": those count as rows that only the target has',)


@dataclass(frozen=True, slots=True)
class _NullInPlace:
    """Puts NULL in place of values that a column of the target cannot hold, also in tasks."""

    values: Values
    type_oid: int
    column: TargetColumn

    def __call__(self, array: pa.Array) -> pa.Array:
        unheld = self.values.unrepresentable_values(self.type_oid, self.column, array)
        return pc.if_else(unheld, pa.scalar(None, array.type), array)


def _compared_columns(
    target: Target, options: SubscriptionOptions, local: TargetRelation, sent: Relation
) -> list[CanonicalColumn]:
    replaced = replaced_columns(options.unrepresentable_values, local)
    transforms = options.transform.of(sent.namespace, sent.name)
    types = {column.name: column.type_oid for column in sent.columns}
    found = []
    for announced, column in zip(local.remote.columns, local.columns, strict=True):
        one = _compared(target, announced.type_oid, column, replaced=announced.name in replaced)
        transform = transforms.get(announced.name)
        if transform is not None:
            # The publisher's server has only the values before the transform.
            one = replace(one, cast=False, transform=transform, sent_as=types[announced.name])
        found.append(one)
    return found


def _compared(target: Target, oid: int, column: TargetColumn, *, replaced: bool) -> CanonicalColumn:
    into = target.values.read_as(oid, column)
    cast = target.capabilities.postgresql_types and into is not None and not {into, oid} <= _TEXTS and into != TEXT
    if not cast and into is not None and not (into == TEXT or (into in SOURCES and converts(oid, into))):
        into = None
    return CanonicalColumn(oid, column, into, _NullInPlace(target.values, oid, column) if replaced else None, cast)


def _notes(target: Target, columns: list[CanonicalColumn]) -> list[str]:
    """What the target cannot hold exactly, said once."""
    notes = []
    floats = [column.name for column in columns if column.type_oid in _FLOATS]
    if floats and not target.capabilities.signed_zero:
        notes.append(f"{target.capabilities.database} has one zero: the sign of -0 is lost in {', '.join(floats)}")
    changed = [f"{column.name} ({column.transform.words})" for column in columns if column.transform is not None]
    if changed:
        notes.append(f"compared as the target is to have them, after the transform: {', '.join(changed)}")
    nulls = [
        column.name
        for column in columns
        if column.replace is not None and may_refuse(target, column.type_oid, column.column)
    ]
    if nulls:
        notes.append(f"values that the target cannot hold are NULL there, and count as NULL: {', '.join(nulls)}")
    others = [
        f"{column.name} ({type_name(column.type_oid)}, {column.column.declared_type})"
        for column in columns
        if column.into is not None and column.compared_as != column.type_oid
    ]
    if others:
        notes.append(f"compared as the type of the target's column: {', '.join(others)}")
    return notes
