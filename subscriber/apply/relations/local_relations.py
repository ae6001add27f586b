"""Find the target's table for a change, and the table's columns (rules C1-C5).

A relation is looked up when the first change for it arrives, and is cached for one batch only.
Between batches the target's tables may change, and looking them up again takes a millisecond. A
relation message with another shape is another key of the cache. Therefore a change is always
applied with the shape that was announced before it.

A relation message that differs from the last one that was applied is examined before
(:mod:`subscriber.apply.relations.follow_schema_changes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from subscriber.apply.relations.find_table import find_table
from subscriber.apply.relations.follow_schema_changes import Following, SchemaFollower
from subscriber.apply.relations.missing_columns import MissingColumns, missing_columns
from subscriber.apply.relations.relation_texts import joined, named, side_by_side
from subscriber.catalog.own_tables import is_own_table
from subscriber.catalog.schema_changes import Alteration
from subscriber.errors import SubscriberError, TargetRelationError
from subscriber.protocol.messages import Relation
from subscriber.schema.relation_names import SAME_NAMES, RelationNames
from subscriber.targets import Target, TargetColumn, TargetTable


@dataclass(frozen=True, slots=True)
class LocalRelation:
    """A publisher's relation together with the target's table.

    Attributes:
        remote: the publisher's relation, as its relation message announced it.
        table: the target's table.
        columns: the target's column for each remote column, in remote order (rule C2).
        qualified_name: ``schema.table`` for messages: the publisher's name, or the name that the
            subscription maps it to.
    """

    remote: Relation
    table: TargetTable
    columns: tuple[TargetColumn, ...]
    qualified_name: str

    def __hash__(self) -> int:
        """The hash of the publisher's relation: that of the table would take long."""
        return hash(self.remote)


class RelationMap:
    """The relations of one batch, looked up at their first change (rule C1).

    Args:
        target: the target that has the tables.
        connection: the connection of the batch's transaction.
        names: the target's names of relations.
        add_columns: columns that a table lacks are added to it.
        alone: the transaction contains nothing else, so that DDL may commit it.
        prepared: the transaction is to be prepared, so it must lock neither a table nor the
            catalog.
        following: how schema changes are followed; with None, columns are added without comparing
            the message with the previous shape.
    """

    def __init__(
        self,
        target: Target,
        connection: sa.Connection,
        names: RelationNames = SAME_NAMES,
        *,
        add_columns: bool = False,
        alone: bool = False,
        prepared: bool = False,
        following: Following | None = None,
    ) -> None:
        self._target = target
        self._connection = connection
        self._names = names
        self._adds_columns = add_columns
        self._open: dict[Relation, LocalRelation] = {}
        self._missing = missing = MissingColumns(target, names, adds_columns=add_columns)
        self._follower = SchemaFollower(
            target,
            connection,
            names,
            missing,
            self._open,
            adds_columns=add_columns,
            alone=alone,
            prepared=prepared,
            following=following,
        )
        self._looked_up: set[Relation] = set()

    @property
    def alterations(self) -> Sequence[Alteration]:
        """The alterations that were recorded in the transaction."""
        return self._follower.alterations

    def opened(self, remote: Relation) -> LocalRelation | None:
        """The result of the last :meth:`open`; None if the relation was not opened."""
        return self._open.get(remote)

    def open(self, remote: Relation) -> LocalRelation:
        """The target's relation for ``remote``.

        Raises:
            TargetRelationError: the table does not exist or is not a table, columns are missing or
                generated (with PostgreSQL's text, rule C3), or a column would change values.
            ColumnsToAdd: columns must be added, and the publisher was not asked about them, or they
                cannot be added in this transaction.
        """
        local = self._open.get(remote)
        if local is None:
            try:
                local = self._open[remote] = self._resolve(remote)
            except SubscriberError as error:
                raise error.replace(relation=error.relation or self._name(remote)) from None
        return local

    def open_unchanged(self, remote: Relation) -> LocalRelation | None:
        """The result of :meth:`open` if the table needs no alteration and no examination; else
        None.

        Changes before the message of ``remote`` may still have to be written, so nothing is altered
        here, and errors are left to :meth:`open`.
        """
        local = self._open.get(remote)
        if local is not None:
            return local
        try:
            table = find_table(self._target, self._connection, self._names, remote)
            if missing_columns(remote, table) or not self._follower.has_kept_shape(remote):
                return None
            local = self._open[remote] = self._fit(remote, table)
        except TargetRelationError:
            return None
        return local

    def has_other_shape(self, local: LocalRelation) -> bool:
        """Whether another relation message describes the same table in this transaction: a former
        shape of it, or another table of the publisher that is mapped to it.
        """
        place = (local.table.schema, local.table.name)
        return any(
            (other.table.schema, other.table.name) == place for other in self._open.values() if other is not local
        )

    def look_up(self, remote: Relation) -> None:
        """Find the table of a relation whose changes are ignored.

        PostgreSQL's worker also opens the table before it checks whether to apply its changes (rule
        C4). It does not matter whether the columns could store the values. It does not matter
        either which columns the table lacks, if missing columns are added.

        Raises:
            TargetRelationError: as :meth:`open`.
        """
        if (
            remote in self._open
            or remote in self._looked_up
            or is_own_table(self._names, remote.namespace, remote.name)
        ):
            return
        table = find_table(self._target, self._connection, self._names, remote)
        if not self._adds_columns:
            self._match_columns(remote, table)
        self._looked_up.add(remote)

    def compare(self, remote: Relation) -> LocalRelation:
        """The result of :meth:`open`, without altering the table: columns that :meth:`open` would
        add are left out.

        Raises:
            TargetRelationError: as :meth:`open`.
        """
        table = find_table(self._target, self._connection, self._names, remote)
        if self._adds_columns:
            there = {column.name for column in table.columns}
            remote = replace(remote, columns=tuple(column for column in remote.columns if column.name in there))
        return self._fit(remote, table)

    def _name(self, remote: Relation) -> str:
        return self._names.qualified(remote.namespace, remote.name)

    def _resolve(self, remote: Relation) -> LocalRelation:
        return self._fit(
            remote, self._follower.follow(remote, find_table(self._target, self._connection, self._names, remote))
        )

    def _fit(self, remote: Relation, table: TargetTable) -> LocalRelation:
        """The relation with the target's columns; each column must be able to store the values of
        its remote column.
        """
        columns = self._match_columns(remote, table)
        for column, announced in zip(columns, remote.columns, strict=True):
            try:
                self._target.values.check_column(announced.type_oid, column)
            except TargetRelationError as error:
                raise error.replace(detail=joined(error.detail, side_by_side(remote, table))) from None
        return LocalRelation(remote, table, columns, self._name(remote))

    def _match_columns(self, remote: Relation, table: TargetTable) -> tuple[TargetColumn, ...]:
        """Match columns by exact name; missing columns are reported before generated ones (rule
        C3).
        """
        missing = missing_columns(remote, table)
        if missing:
            raise self._missing.error(remote, table, missing)
        by_name = {column.name: column for column in table.columns}
        columns = tuple(by_name[column.name] for column in remote.columns)
        generated = [column for column in columns if column.generated]
        if generated:
            raise TargetRelationError(
                f'logical replication target relation "{self._name(remote)}" has incompatible generated {named(generated)}',
                detail=side_by_side(remote, table),
                hint="Make them ordinary columns of the target, or publish the table without them.",
            )
        return columns
