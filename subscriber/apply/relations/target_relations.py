"""Find the target's table for a change, and the table's columns (rules C1-C5).

A relation is looked up when the first change for it arrives, and is cached for one batch only,
because the target's tables may change between batches. A target that shows whether they have
(:meth:`Shapes.versions`) is asked again only then. A relation message with another shape is another
key of the cache, so a change is always applied with the shape that was announced before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import pyarrow as pa
import sqlalchemy as sa

from subscriber.apply.relations.follow_schema_changes import Following, SchemaFollower
from subscriber.apply.relations.missing_columns import (
    MissingColumns,
    find_table,
    joined,
    missing_columns,
    named,
    side_by_side,
)
from subscriber.base.errors import SubscriberError, TargetRelationError, UnsupportedValue
from subscriber.catalog.catalog_names import is_catalog_table
from subscriber.catalog.schema_changes import Alteration
from subscriber.postgres.protocol.changes import ChangeGroup
from subscriber.postgres.protocol.messages import Relation, RelationColumn
from subscriber.postgres.schema.relation_names import SAME_NAMES, RelationNames
from subscriber.postgres.types.oids import declared_type
from subscriber.targets import Target, TargetColumn, TargetTable


@dataclass(frozen=True, slots=True)
class TargetRelation:
    """A publisher's relation and the target's table, with the column of each remote column (rule
    C2). ``qualified_name`` is ``schema.table`` as the subscription maps it, for messages.
    """

    remote: Relation
    table: TargetTable
    columns: tuple[TargetColumn, ...]
    qualified_name: str

    def __hash__(self) -> int:
        """The hash of the publisher's relation: that of the table would take long."""
        return hash(self.remote)


_Answer = TypeVar("_Answer")
_Place = tuple[str, str]


class UnchangedTables:
    """What earlier transactions have found out about the target's tables. It is used as long as the
    target shows that a table has not changed (:meth:`Shapes.versions`). One thread uses it.
    """

    def __init__(self) -> None:
        self._answers: dict[_Place, tuple[Hashable, dict[Hashable, Any]]] = {}
        self._looked_at: set[_Place] = set()
        self._is_open = True

    def begin(self) -> None:
        """Begin a transaction."""
        self._looked_at, self._is_open = set(), True

    def look(self, target: Target, connection: sa.Connection, places: Collection[_Place]) -> None:
        """Find out whether tables have changed since they were asked about."""
        new = set(places) - self._looked_at
        if not new or not self._is_open:
            return
        self._looked_at |= new
        versions = target.shapes.versions(connection, new)
        for place in new:
            version = versions.get(place)
            if version is None:
                self._answers.pop(place, None)
            elif place not in self._answers or self._answers[place][0] != version:
                self._answers[place] = version, {}

    def forget(self) -> None:
        """This transaction changes a table: nothing is kept of what it finds from now on."""
        self._answers, self._is_open = {}, False

    def has(self, place: _Place, question: Hashable) -> bool:
        return place in self._answers and question in self._answers[place][1]

    def ask(self, place: _Place, question: Hashable, ask: Callable[[], _Answer]) -> _Answer:
        """The answer to a question about a table, which is asked if the answer is not known."""
        if place not in self._answers:
            return ask()
        answers = self._answers[place][1]
        if question not in answers:
            answers[question] = ask()
        found: _Answer = answers[question]
        return found


class RelationMap:
    """The relations of one transaction, looked up at their first change (rule C1). For ``alone``,
    ``prepared`` and ``following`` see :class:`SchemaFollower`.
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
        known: UnchangedTables | None = None,
    ) -> None:
        self._known = known or UnchangedTables()
        self._known.begin()
        self._target = target
        self._connection = connection
        self._names = names
        self._adds_columns = add_columns
        self._open: dict[Relation, TargetRelation] = {}
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
        self._read: dict[tuple[str, str], TargetTable] = {}

    @property
    def alterations(self) -> Sequence[Alteration]:
        return self._follower.alterations

    def read_together(self, remotes: Iterable[Relation]) -> None:
        """Read the tables of relations that are about to be opened for the first time, all with one
        query or a few: in a catalog of many tables, to look for one takes as long as for many.
        """
        new = {
            remote: self._place(remote)
            for remote in remotes
            if remote not in self._open and remote not in self._looked_up
        }
        self._known.look(self._target, self._connection, new.values())
        places = {place for remote, place in new.items() if not self._known.has(place, remote)}
        self._read = dict(self._target.shapes.reflect_all(self._connection, places)) if len(places) > 1 else {}

    def ask(self, local: TargetRelation, question: str, ask: Callable[[], bool]) -> bool:
        """The answer to a question about the table of a relation, perhaps of an earlier batch."""
        return self._known.ask(self._place(local.remote), question, ask)

    def opened(self, remote: Relation) -> TargetRelation | None:
        """The result of the last :meth:`open`; None if the relation was not opened."""
        return self._open.get(remote)

    def open(self, remote: Relation) -> TargetRelation:
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

    def open_unchanged(self, remote: Relation) -> TargetRelation | None:
        """The result of :meth:`open` if nothing has to be altered or examined, else None: changes
        before the message of ``remote`` may still have to be written.
        """
        local = self._open.get(remote)
        if local is not None:
            return local
        try:
            table = self._find_table(remote)
            if missing_columns(remote, table) or not self._follower.has_stored_shape(remote):
                return None
            local = self._open[remote] = self._fit(remote, table)
        except TargetRelationError:
            return None
        return local

    def has_other_shape(self, local: TargetRelation) -> bool:
        """Whether another relation message in this transaction describes the same table."""
        place = (local.table.schema, local.table.name)
        return any(
            (other.table.schema, other.table.name) == place for other in self._open.values() if other is not local
        )

    def look_up(self, remote: Relation) -> None:
        """Find the table of a relation whose changes are ignored (rule C4)."""
        if (
            remote in self._open
            or remote in self._looked_up
            or is_catalog_table(self._names, remote.namespace, remote.name, [column.name for column in remote.columns])
        ):
            return
        table = self._find_table(remote)
        if not self._adds_columns:
            self._match_columns(remote, table)
        self._looked_up.add(remote)

    def compare(self, remote: Relation, known: TargetTable | None = None) -> TargetRelation:
        """The result of :meth:`open` without altering the table, which may be ``known``."""
        table = find_table(self._target, self._connection, self._names, remote, known)
        if self._adds_columns:
            there = {column.name for column in table.columns}
            remote = replace(remote, columns=tuple(column for column in remote.columns if column.name in there))
        return self._fit(remote, table)

    def _name(self, remote: Relation) -> str:
        return self._names.qualified(remote.namespace, remote.name)

    def _resolve(self, remote: Relation) -> TargetRelation:
        found = self._find_table(remote)
        table = self._follower.follow(remote, found)
        if table is not found:
            self._read = {}  # a partition is altered with its root
            self._known.forget()
        return self._fit(remote, table)

    def _find_table(self, remote: Relation) -> TargetTable:
        """What was read together counts once, and until a table is altered."""
        place = self._place(remote)
        self._known.look(self._target, self._connection, [place])
        return self._known.ask(
            place,
            remote,
            lambda: find_table(self._target, self._connection, self._names, remote, self._read.pop(place, None)),
        )

    def _place(self, remote: Relation) -> tuple[str, str]:
        return self._names.in_target(remote.namespace, remote.name)

    def _fit(self, remote: Relation, table: TargetTable) -> TargetRelation:
        """The relation with columns that can store the values of their remote columns."""
        columns = self._match_columns(remote, table)
        for column, announced in zip(columns, remote.columns, strict=True):
            try:
                self._target.values.check_column(announced.type_oid, column)
            except TargetRelationError as error:
                raise error.replace(detail=joined(error.detail, side_by_side(remote, table))) from None
        return TargetRelation(remote, table, columns, self._name(remote))

    def _match_columns(self, remote: Relation, table: TargetTable) -> tuple[TargetColumn, ...]:
        """Match by exact name; missing columns are reported before generated ones (rule C3)."""
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


# Checks of a table --------------------------------------------------------------------------------

_NOT_NULL_VIOLATION: Final = "23502"


def check_required(local: TargetRelation) -> None:
    """Refuse (23502) a table with a column that needs a value but is not sent: for callers that
    check before there is a row, which the database itself would refuse.
    """
    sent = {column.name for column in local.columns}
    left = [column for column in local.table.columns if column.required and column.name not in sent]
    if left:
        raise TargetRelationError(
            f'relation "{local.qualified_name}" of the target requires a value for {named(left)}',
            sqlstate=_NOT_NULL_VIOLATION,
            detail="The publisher sends none, and in the target the column is NOT NULL without a default. "
            + side_by_side(local.remote, local.table),
            hint="Give the column a default in the target, allow NULL in it, or drop it.",
        )


def check_binary(target: Target, local: TargetRelation, changes: ChangeGroup) -> None:
    """Refuse values in binary format, also in old rows, for PostgreSQL columns whose type cannot
    read them (rule C5), with PostgreSQL's text and SQLSTATE. NULL is accepted for every type.
    """
    for number, (announced, column) in enumerate(zip(local.remote.columns, local.columns, strict=True), 1):
        if announced.name not in changes.binary:
            continue
        error = target.values.refused_binary(announced.type_oid, column, number)
        if error is not None and any(_has_value(batch, announced.name) for batch in (changes.old, changes.new)):
            raise error


def _has_value(batch: pa.RecordBatch | None, name: str) -> bool:
    if batch is None or name not in batch.schema.names:
        return False
    values = batch.column(name)
    return bool(values.null_count < len(values))


def with_shapes(error: SubscriberError, local: TargetRelation) -> SubscriberError:
    """An error of a row, with the definitions of both tables for a NULL in a NOT NULL column, or
    with the two types of a column that cannot store a value.
    """
    if error.sqlstate == _NOT_NULL_VIOLATION:
        return error.replace(detail=joined(error.detail, side_by_side(local.remote, local.table)))
    if isinstance(error, UnsupportedValue):
        for announced, column in zip(local.remote.columns, local.columns, strict=True):
            if column.name == error.column:
                types = _two_types(announced, column, local.qualified_name)
                return error.replace(detail=joined(error.detail, types), hint=error.hint or _UNSUPPORTED_HINT)
    return error


_UNSUPPORTED_HINT: Final = (
    "Change the row at the publisher, or the type of the target's column. `subscriber check --scan` looks for other such"
    " values, and the option unrepresentable_values can replace them by NULL."
)


def _two_types(announced: RelationColumn, column: TargetColumn, table: str) -> str:
    at_publisher = declared_type(announced.type_oid, announced.type_modifier)
    return f'Column "{column.name}" of table "{table}" has type {at_publisher} at the publisher and {column.declared_type} in the target.'
