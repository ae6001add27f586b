"""Columns that a publisher's relation has and the target's table does not: the error, and the
statements that add them.

The error says what the user can do. Which statement is right depends on what has happened: a column
was added at the publisher, a column was renamed at either side, or the target does not tell its
name from that of another column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from subscriber.apply.relations.added_columns import renames
from subscriber.apply.relations.relation_texts import joined, named, quoted, side_by_side
from subscriber.catalog.schema_changes import copy_again
from subscriber.errors import TargetRelationError
from subscriber.protocol.messages import Relation, RelationColumn
from subscriber.schema.kept_shape import KeptShape, columns_of
from subscriber.schema.relation_names import RelationNames
from subscriber.targets import Target, TargetTable
from subscriber.targets.add_column import AddColumn
from subscriber.targets.alter_table import add_column, as_typed, rename_column
from subscriber.types import BUILT_IN_TYPES, declared_type

_TEXT: Final = 25


def missing_columns(remote: Relation, table: TargetTable) -> list[RelationColumn]:
    """The columns of a relation that the target's table does not have, in the relation's order."""
    names = {column.name for column in table.columns}
    return [column for column in remote.columns if column.name not in names]


def additions(target: Target, table: TargetTable, missing: Iterable[RelationColumn]) -> list[AddColumn]:
    """The statements that add columns (:func:`addition`)."""
    return [addition(target, table, column) for column in missing]


def addition(target: Target, table: TargetTable, column: RelationColumn) -> AddColumn:
    """The statement that adds a column.

    A user-defined type (CREATE TYPE, CREATE DOMAIN, extensions) becomes text, because the stream
    contains only the number of such a type.
    """
    if column.type_oid not in BUILT_IN_TYPES:
        return add_column(target, table, column.name, _TEXT, "text")
    return add_column(target, table, column.name, column.type_oid, declared_type(column.type_oid, column.type_modifier))


class MissingColumns:
    """Words the error for columns that are missing.

    Args:
        target: the target of the tables.
        names: the target's names of relations.
        adds_columns: columns that a table lacks are added to it, where that is safe.
    """

    def __init__(self, target: Target, names: RelationNames, *, adds_columns: bool) -> None:
        self._target = target
        self._names = names
        self._adds_columns = adds_columns

    def error(
        self,
        remote: Relation,
        table: TargetTable,
        missing: Sequence[RelationColumn],
        before: KeptShape | None = None,
        replaced: Sequence[str] = (),
    ) -> TargetRelationError:
        """The error with PostgreSQL's text (rule C3), and with the statements that add or rename
        the columns.

        Args:
            remote: the publisher's relation.
            table: the target's table.
            missing: the result of :func:`missing_columns`.
            before: the shape of the relation that was last applied; None if it is not known.
            replaced: columns of the target that the relation no longer has. One of them may be the
                former name of a missing one.
        """
        alike = self._alike(table, missing)
        added = additions(self._target, table, [column for column in missing if column.name not in alike])
        commands = "; ".join(as_typed(self._target, one) for one in added)
        changed = hint = None
        if replaced and not alike:
            changed, hint = self._renamed(remote, table, missing, before, replaced, commands)
        elif added:
            option = "" if self._adds_columns else ", or ALTER SUBSCRIPTION ... SET (schema_changes = 'add_columns')"
            hint = f"Use {commands} in the target{option}."
            known = set() if before is None else set(before.names)
            if self._adds_columns and any(column.name in known for column in missing):
                changed = "It was replicated before, so the target's table has changed: a column was renamed or dropped there."
                hint = f"Rename the column back, or use {commands} in the target. {copy_again([(remote.namespace, remote.name)])}"
        for name, there in alike.items():
            hint = joined(
                hint,
                f'{self._target.capabilities.database} treats "{name}" and "{there}" as the same name, and PostgreSQL does not:'
                f' rename the target\'s column to "{name}", or publish the table without one of them.',
            )
        return TargetRelationError(
            f'logical replication target relation "{self._names.qualified(remote.namespace, remote.name)}" is missing replicated {named(missing)}',
            detail=joined(changed, side_by_side(remote, table)),
            hint=hint,
        )

    def _renamed(
        self,
        remote: Relation,
        table: TargetTable,
        missing: Sequence[RelationColumn],
        before: KeptShape | None,
        replaced: Sequence[str],
        commands: str,
    ) -> tuple[str, str]:
        """The description of the change, and the hint: rename the columns, or add others."""
        new = [column.name for column in missing]
        if before is None:
            what = f"It is not known whether {quoted(replaced)} in the target is the former name of {quoted(new)}."
            pairs = []
        else:
            shown = ", ".join(f"{one.name} {declared_type(one.type_oid, one.type_modifier)}" for one in before.columns)
            what = (
                f"The publisher had ({shown}) before. Either {quoted(replaced)} was renamed, or it was dropped, and {quoted(new)}"
                " is a different column."
            )
            pairs = [
                (old, name)
                for old, name in renames(before.columns, columns_of(remote))
                if old in replaced and name in new
            ]
        statements = "; ".join(as_typed(self._target, rename_column(table, old, name)) for old, name in pairs)
        rename = (
            f"use {statements} in the target"
            if statements
            else "rename it in the target with ALTER TABLE ... RENAME COLUMN"
        )
        return what, (
            f"If it was renamed, {rename}. If not, use {commands} in the target; existing rows then have NULL in it."
            f" The subscription then continues without another command. {copy_again([(remote.namespace, remote.name)])}"
        )

    def _alike(self, table: TargetTable, missing: Sequence[RelationColumn]) -> dict[str, str]:
        """The missing columns that cannot be added, each with the existing column whose name
        differs only in case.
        """
        if self._target.capabilities.column_case:
            return {}
        there = {column.name.lower(): column.name for column in table.columns}
        return {one.name: there[one.name.lower()] for one in missing if one.name.lower() in there}
