"""What is compared of one table: its rows and columns at the publisher, and where they are in the
target.

The publications decide about rows and columns, as in an initial copy
(:mod:`subscriber.publisher.copy_plan`). The target's table and columns are found as in the apply
path (:mod:`subscriber.apply.relations.local_relations`), without altering it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from subscriber import catalog
from subscriber.apply.relations.local_relations import LocalRelation, RelationMap
from subscriber.apply.writing.unrepresentable import replaced_columns
from subscriber.catalog import Subscription
from subscriber.commands.unknown_tables import refresh_command
from subscriber.errors import PublisherNotReady
from subscriber.protocol.messages import IDENTITY_FLAG, Relation
from subscriber.publisher.copy_out import CopyReader
from subscriber.publisher.copy_plan import CopyPlan, CopyRange, TableFiles, plan_copy
from subscriber.publisher.sql_connection import Connection
from subscriber.schema.published_table import Publications
from subscriber.targets import Target, TargetColumn
from subscriber.targets.conversion import SOURCES, TEXT, converts
from subscriber.targets.roles.values import Values
from subscriber.types import type_name
from subscriber.verify.canonical_columns import ComparedColumn
from subscriber.verify.publisher_side import PublisherSide
from subscriber.verify.row_digests import Choice

_LEAST_BUCKETS, _MOST_BUCKETS = 256, 65_536
_ROWS_OF_A_BUCKET: Final = 16
_BYTES_OF_A_ROW: Final = 100
"""An assumption for tables that have no statistics."""
_TEXTS: Final = frozenset({19, TEXT, 1042, 1043})
_ACTIONS: Final = ("insert", "update", "delete", "truncate")
_FLOATS: Final = frozenset({700, 701})


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How a table is compared.

    Attributes:
        side: reads the publisher's rows.
        ranges: the ranges of the publisher's table.
        local: the target's table, with the publisher's columns that are compared.
        hidden_from: the role from which row security hides rows of the publisher's table; None if
            it sees all.
        shared_with: the names of other subscriptions that write to the target's table.
        estimated_rows: the number of rows by the publisher's statistics; 0 if there are none.
        estimated_bytes: the size on the publisher's disk.
        notes: what is compared in another way than the rest, or is left out, and why.
    """

    side: PublisherSide
    ranges: tuple[CopyRange, ...]
    local: LocalRelation
    hidden_from: str | None
    shared_with: tuple[str, ...]
    estimated_rows: int
    estimated_bytes: int
    notes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that are compared."""
        return tuple(column.name for column in self.side.columns)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key; empty for a table without a key."""
        return tuple(self.names[place] for place in self.side.key)


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table of the subscription, and the snapshot in which it is read.

    Attributes:
        subscription: the subscription.
        schema: the schema of the table.
        name: the name of the table.
        publications: the publications that decide about rows and columns.
        snapshot: the name of the exported snapshot.
        files: the files that the table has in the snapshot.
    """

    subscription: Subscription
    schema: str
    name: str
    publications: Publications
    snapshot: str
    files: TableFiles


def plan_table(
    publisher: Connection,
    target: Target,
    connection: sa.Connection,
    source: TableSource,
    *,
    partition_bytes: int,
    share: float,
) -> TablePlan:
    """The plan for the comparison of a table.

    Args:
        publisher: a session that sees the snapshot.
        target: the target.
        connection: a connection to it.
        source: the table.
        partition_bytes: the approximate size of a range.
        share: the share of the rows to compare.

    Raises:
        SubscriberError: the table is not published, does not exist on one side, or its columns do
            not fit.
        psycopg.Error: the publisher refused a query.
    """
    subscription = source.subscription
    actions = source.publications.published_actions(source.schema, source.name)
    if actions is None:
        raise _not_published(source)
    copy = plan_copy(publisher, source.publications, source.schema, source.name, partition_bytes, source.files)
    notes = list(_hidden(copy))
    relations = RelationMap(
        target, connection, subscription.options.map, add_columns=subscription.options.schema_changes == "add_columns"
    )
    local = relations.compare(copy.relation)
    absent = [one.name for one in copy.relation.columns if one.name not in {each.name for each in local.remote.columns}]
    if absent:
        notes.append(f"columns that the target does not have yet are not compared: {', '.join(absent)}")
    columns = _compared_columns(target, subscription, local)
    notes += _notes(target, columns)
    casts = tuple((column.name, type_name(column.compared_as)) for column in columns if column.cast)
    names = tuple(column.name for column in columns)
    query = replace(copy.query, columns=names, casts=casts)
    key = local.table.key
    rows = copy.estimated_rows or copy.estimated_bytes // _BYTES_OF_A_ROW
    side = PublisherSide(
        CopyReader(subscription.conninfo, subscription.name, source.snapshot, query, "csv"),
        local.remote,
        tuple(columns),
        tuple(names.index(name) for name in key) if key is not None and set(key) <= set(names) else (),
        Choice(_buckets(rows), share),
    )
    absent_actions = [action.upper() for action in _ACTIONS if action not in actions]
    if absent_actions:
        notes.append(
            f"the publications do not publish {' and '.join(absent_actions)}: what that changed at the publisher differs"
        )
    shared = _shared_with(connection, subscription, source.schema, source.name)
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
        f" {refresh_command(source.subscription.name)}",
        relation=name,
    )


def _buckets(rows: int) -> int:
    wanted = max(1, rows // _ROWS_OF_A_BUCKET)
    return max(_LEAST_BUCKETS, min(_MOST_BUCKETS, 1 << (wanted - 1).bit_length()))


def _hidden(copy: CopyPlan) -> tuple[str, ...]:
    if copy.hidden_from is None:
        return ()
    return (f'row security hides rows from role "{copy.hidden_from}": those count as rows that only the target has',)


@dataclass(frozen=True, slots=True)
class _NullInPlace:
    """Puts NULL in the place of values that a column of the target cannot hold, as apply does.

    It is sent to Spark's tasks.
    """

    values: Values
    type_oid: int
    column: TargetColumn

    def __call__(self, array: pa.Array) -> pa.Array:
        unheld = self.values.unrepresentable_values(self.type_oid, self.column, array)
        return pc.if_else(unheld, pa.scalar(None, array.type), array)


def _compared_columns(target: Target, subscription: Subscription, local: LocalRelation) -> list[ComparedColumn]:
    """The columns of a table, each as the type by which it is compared.

    Raises:
        TargetRelationError: 42P16, NULL cannot take the place of values of a column that
            unrepresentable_values names.
    """
    replaced = replaced_columns(subscription.options.unrepresentable_values, local)
    return [
        _compared(target, announced.type_oid, column, replaced=announced.name in replaced)
        for announced, column in zip(local.remote.columns, local.columns, strict=True)
    ]


def _compared(target: Target, oid: int, column: TargetColumn, *, replaced: bool) -> ComparedColumn:
    into = target.values.read_as(oid, column)
    cast = target.capabilities.postgresql_types and into is not None and not {into, oid} <= _TEXTS and into != TEXT
    if not cast and into is not None and not (into == TEXT or (into in SOURCES and converts(oid, into))):
        into = None
    return ComparedColumn(oid, column, into, _NullInPlace(target.values, oid, column) if replaced else None, cast)


def _notes(target: Target, columns: list[ComparedColumn]) -> list[str]:
    """What the target cannot hold exactly, said once."""
    notes = []
    floats = [column.name for column in columns if column.type_oid in _FLOATS]
    if floats and not target.capabilities.signed_zero:
        notes.append(f"{target.capabilities.database} has one zero: the sign of -0 is lost in {', '.join(floats)}")
    nulls = [column.name for column in columns if column.replace is not None]
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


def _shared_with(connection: sa.Connection, subscription: Subscription, schema: str, name: str) -> tuple[str, ...]:
    """The other subscriptions of the target that write to the target's table."""
    place = subscription.options.map.local(schema, name)
    return tuple(
        f'subscription "{other.name}"'
        for other in catalog.list_subscriptions(connection)
        if other.subid != subscription.subid
        and any(
            other.options.map.local(one.schema, one.name) == place
            for one in catalog.relations_of(connection, other.subid)
        )
    )
