"""Columns that a publisher's relation has and the target's table does not: the error, and the
statements that add them.

A new relation message may add, rename or replace columns::

    before  (a, b)        (a, b)          (a, b)             (a, b, c)
    now     (a, b, c)     (a, c)          (a)                (a, c, b)
            c was added   b was renamed,  b was dropped;     b and c were renamed, or dropped
                          or replaced     nothing to do      and added again

*Names.* The stream identifies columns by their names only. So a renamed column looks like a column
that was dropped while another was added, and the user must decide. Columns are announced in the
order of their attribute numbers, which never change. Therefore a common column in another place was
also renamed, or it was dropped and added again.

*Values.* ALTER TABLE ADD COLUMN computes the value of the new column for the rows that already
exist, once: the *missing value* (``attmissingval``), which no later command changes. A later change
of such a row sends the column's value later in the stream. So it is exact to give the missing value
to all rows of the target at the place of the new message. Without one these rows have NULL,
provided that the table was not rewritten, as by a volatile default or by VACUUM FULL. Two more
conditions:

- The column is new. An older column may have been added to a column list. The program compares the
  column's number with the highest number that the table had before (:class:`Baseline`).
- The publisher's catalog still describes the column that the message means. PostgreSQL never reuses
  a number, so a table that has all columns of the message in the same order, and other columns only
  after them, is the table of the message.

*Rejected:* reading the values of the rows from the publisher. Those values belong to another moment
than the place in the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from subscriber.base.errors import TargetRelationError
from subscriber.catalog.catalog_names import map_elsewhere, occupies
from subscriber.catalog.schema_changes import copy_again
from subscriber.postgres.protocol.messages import Relation, RelationColumn
from subscriber.postgres.schema.publisher_tables import PublisherColumn, TableAttributes
from subscriber.postgres.schema.relation_names import RelationNames
from subscriber.postgres.schema.stored_shape import Baseline, StoredColumn, StoredShape, columns_of
from subscriber.postgres.types.oids import BUILT_IN_TYPES, declared_type
from subscriber.targets import Target, TargetColumn, TargetTable
from subscriber.targets.ddl import add_column, as_typed
from subscriber.targets.statements import AddColumn, rename_column

_TEXT: Final = 25


def missing_columns(remote: Relation, table: TargetTable) -> list[RelationColumn]:
    names = {column.name for column in table.columns}
    return [column for column in remote.columns if column.name not in names]


def additions(target: Target, table: TargetTable, missing: Iterable[RelationColumn]) -> list[AddColumn]:
    return [addition(target, table, column) for column in missing]


def addition(target: Target, table: TargetTable, column: RelationColumn) -> AddColumn:
    """The statement that adds a column. A user-defined type (CREATE TYPE, CREATE DOMAIN,
    extensions) becomes text, because the stream contains only the number of such a type.
    """
    if column.type_oid not in BUILT_IN_TYPES:
        return add_column(target, table, column.name, _TEXT, "text")
    return add_column(target, table, column.name, column.type_oid, declared_type(column.type_oid, column.type_modifier))


class MissingColumns:
    """Words the error for columns that are missing."""

    def __init__(self, target: Target, names: RelationNames, *, adds_columns: bool) -> None:
        self._target = target
        self._names = names
        self._adds_columns = adds_columns

    def error(
        self,
        remote: Relation,
        table: TargetTable,
        missing: Sequence[RelationColumn],
        before: StoredShape | None = None,
        replaced: Sequence[str] = (),
    ) -> TargetRelationError:
        """The error with PostgreSQL's text (rule C3), and the statements that add or rename
        columns. One of ``replaced``, the target's columns without a remote one, may be the former
        name of a missing one.
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
        before: StoredShape | None,
        replaced: Sequence[str],
        commands: str,
    ) -> tuple[str, str]:
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
        """Missing columns that cannot be added, with a column whose name differs only in case."""
        if self._target.capabilities.column_case:
            return {}
        there = {column.name.lower(): column.name for column in table.columns}
        return {one.name: there[one.name.lower()] for one in missing if one.name.lower() in there}


# Finding the table --------------------------------------------------------------------------------


def find_table(
    target: Target, connection: sa.Connection, names: RelationNames, remote: Relation, known: TargetTable | None = None
) -> TargetTable:
    """The target's table of a relation, or ``known``; it must be a table, and none of the
    catalog's.
    """
    name = names.qualified(remote.namespace, remote.name)
    local = names.in_target(remote.namespace, remote.name)
    table = known or target.shapes.reflect(connection, *local)
    if occupies(target, *local, table):
        raise TargetRelationError(
            f'cannot use relation "{name}" as logical replication target',
            sqlstate="42809",
            detail="The target has a table of subscriber's catalog in this place.",
            hint="Create a table of another name in the target, and run ALTER SUBSCRIPTION ... SET"
            f" ({map_elsewhere(names, remote.namespace, remote.name)}).",
        )
    if table is None:
        raise TargetRelationError(
            f'logical replication target relation "{name}" does not exist',
            hint="Create the table in the target; the change waits until then.",
        )
    if table.kind not in ("table", "partitioned table"):
        raise TargetRelationError(
            f'cannot use relation "{name}" as logical replication target',
            sqlstate="42809",
            detail=f"This operation is not supported for {table.kind}s." if table.kind != "other" else None,
        )
    return table


# Texts of errors ----------------------------------------------------------------------------------


def side_by_side(remote: Relation, table: TargetTable) -> str:
    """The two shapes, for DETAIL: names and types of columns."""
    at_publisher = ", ".join(
        f"{column.name} {declared_type(column.type_oid, column.type_modifier)}" for column in remote.columns
    )
    in_target = ", ".join(f"{column.name} {column.declared_type}".rstrip() for column in table.columns)
    return f"The publisher has ({at_publisher}), the target ({in_target})."


def named(columns: Iterable[RelationColumn | TargetColumn]) -> str:
    """The columns, for a message: ``column: "a"``, or ``columns: "a", "b"``."""
    each = [f'"{column.name}"' for column in columns]
    return f"{'column' if len(each) == 1 else 'columns'}: {', '.join(each)}"


def quoted(names: Iterable[str]) -> str:
    """The names, for a message: ``"a", "b"``."""
    return ", ".join(f'"{name}"' for name in names)


def joined(*parts: str | None) -> str:
    return " ".join(part for part in parts if part)


# Columns that a message adds or renames -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OlderRows:
    """The text of an added column's value in all rows from before, or why it is unknown."""

    value: str | None = None
    unknown: str | None = None


# Names --------------------------------------------------------------------------------------------


def renames(before: Sequence[StoredColumn], now: Sequence[StoredColumn]) -> list[tuple[str, str]]:
    """The renames that may have happened: columns of one type, in order, between common ones."""
    common = {column.name for column in before} & {column.name for column in now}
    pairs = []
    for gone, new in zip(_between(before, common), _between(now, common), strict=True):
        left = list(new)
        for column in gone:
            found = next((one for one in left if _type(one) == _type(column)), None)
            if found is not None:
                pairs.append((column.name, found.name))
                del left[: left.index(found) + 1]
    return pairs


def _between(columns: Sequence[StoredColumn], common: set[str]) -> list[list[StoredColumn]]:
    parts: list[list[StoredColumn]] = [[]]
    for column in columns:
        if column.name in common:
            parts.append([])
        else:
            parts[-1].append(column)
    return parts


def _type(column: StoredColumn) -> tuple[int, int]:
    return column.type_oid, column.type_modifier


def moved(before: Sequence[StoredColumn], now: Sequence[StoredColumn]) -> tuple[str, ...]:
    """The columns that are in both lists, if their order differs; otherwise an empty tuple."""
    earlier, later = [one.name for one in before], [one.name for one in now]
    common = [name for name in earlier if name in later]
    return tuple(common) if common != [name for name in later if name in common] else ()


# Values -------------------------------------------------------------------------------------------


def older_rows(
    column: RelationColumn, remote: Relation, baseline: Baseline | None, now: TableAttributes | None
) -> OlderRows:
    """The value of ``column`` in the rows from before it; ``now`` is None without a table."""
    found = _attributes_of(remote, now)
    if now is None or found is None:
        return OlderRows(unknown="the publisher's table has been altered again since")
    attribute = found[column.name]
    if attribute.generated:
        return OlderRows(unknown="it is a generated column at the publisher")
    if baseline is None:
        return OlderRows(unknown="it is not known whether the publisher's table had the column before, or published it")
    if attribute.number <= baseline.last:
        return OlderRows(
            unknown="the publisher's table had the column before, and a publication has only now begun to publish it"
        )
    if not now.whole:
        return OlderRows(unknown="a column list publishes the column, and rows may have been sent before it did")
    if missing := now.missing.get(column.name):
        (value, *others) = missing
        return OlderRows(unknown="the publisher's partitions have different values") if others else OlderRows(value)
    if any(file != baseline.files.get(oid, oid) for oid, file in now.files.items()):
        return OlderRows(
            unknown="its default is not a constant, or the publisher's table has been rewritten since (TRUNCATE, VACUUM FULL, ALTER TABLE)"
        )
    return OlderRows()


def next_baseline(remote: Relation, baseline: Baseline | None, now: TableAttributes | None) -> Baseline | None:
    """The baseline after ``remote`` was applied. If the table has columns that the message does not
    have, its files may have been rewritten for one of these columns.
    """
    found = _attributes_of(remote, now)
    if now is None or found is None or not now.whole:
        return baseline
    is_latest = len(found) == len([one for one in now.columns if not one.generated or one.name in found])
    last = max((one.number for one in found.values()), default=0)
    if is_latest:
        return Baseline(max(last, now.last), now.files)
    return None if baseline is None else Baseline(max(last, baseline.last), baseline.files)


def _attributes_of(remote: Relation, now: TableAttributes | None) -> Mapping[str, PublisherColumn] | None:
    """The attributes that a message describes, by name; None where the catalog has others now."""
    if now is None:
        return None
    names = {column.name for column in remote.columns}
    mine = [one for one in now.columns if one.name in names]
    announced = [(column.name, column.type_oid, column.type_modifier) for column in remote.columns]
    if [(one.name, one.type_oid, one.type_modifier) for one in mine] != announced:
        return None
    last = max((one.number for one in mine), default=0)
    others = [one for one in now.columns if one.name not in names and not one.generated]
    if now.whole and any(one.number < last for one in others):
        return None
    return {one.name: one for one in mine}
