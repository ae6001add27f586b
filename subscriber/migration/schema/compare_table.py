"""Which objects of a publisher's table its target table lacks.

The comparison knows no database: the target's role ``objects`` translates expressions and says what
the target cannot have. An object is there if the target has one of its name, or one with its
definition: an index with the same keys, a foreign key with the same columns, a CHECK with the same
expression. A default, an identity or a comment is there if the column has any, except that another
comment is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from subscriber.schema.relation_names import RelationNames
from subscriber.schema.shape import ColumnShape, ForeignKey
from subscriber.schema.table_objects import IndexShape, TableObjects, UserType
from subscriber.targets import Target, TargetTable
from subscriber.targets.ddl import constant
from subscriber.targets.table_changes import (
    CannotBuild,
    FoundIndex,
    FoundObjects,
    NewCheck,
    NewComment,
    NewDefault,
    NewForeignKey,
    NewGenerated,
    NewIdentity,
    NewIndex,
    NewPartitions,
    NewType,
    TableChange,
)

_TEXT: Final = 25
_NULL: Final = re.compile(r"\(?NULL(::.*)?\)?", re.DOTALL)
"""A default that is NULL, which is the same as none."""

_ADDED_SINCE: Final = (
    "the publisher's table has got it since; with schema_changes = add_columns it comes with the next change of a row"
)


@dataclass(frozen=True, slots=True)
class Missing:
    """An object that the target lacks.

    Attributes:
        kind: its kind.
        name: its name, without that of its table; empty for the table itself.
        change: what builds it; None if it is left out.
        reason: why it is left out.
        publisher_ddl: the publisher's definition.
    """

    kind: str
    name: str
    change: TableChange | None
    reason: str = ""
    publisher_ddl: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A publisher's table and its table in the target.

    Attributes:
        target: the target.
        objects: the publisher's table.
        table: the target's table.
        found: what the target's table has.
        names: the target's names of relations.
        published: the names of the published columns; None for every column that is not generated.
        references: the target's tables by the publisher's names, to which foreign keys may refer.
        shared_names: the names of foreign keys that several tables have.
    """

    target: Target
    objects: TableObjects
    table: TargetTable
    found: FoundObjects
    names: RelationNames
    published: Collection[str] | None = None
    references: Mapping[tuple[str, str], TargetTable] = field(default_factory=dict)
    shared_names: Collection[str] = ()

    @property
    def keeps_types(self) -> bool:
        """Whether the target can have PostgreSQL's types and expressions."""
        return self.target.capabilities.postgresql_expressions

    def place(self, name: str) -> str:
        """The target's name of an object of the table's schema."""
        shape = self.objects.shape
        schema, _ = self.names.local(shape.schema, shape.name)
        return self.target.ddl.place(schema, name)[1]

    def expression(self, text: str, *, loose: bool = False) -> str:
        """An expression over the table's columns; the values of enums are texts.

        Raises:
            CannotBuild: it is not known to mean the same.
        """
        enums = self.enums()
        columns = {
            one.name: (_TEXT if one.type_name in enums else one.type_oid, found)
            for one in self.objects.shape.columns
            if (found := self.table.column(one.name)) is not None
        }
        return self.target.objects.expression(text, columns, inexact=self.found.inexact, enums=enums, loose=loose)

    def enums(self) -> frozenset[str]:
        """The enums of the table's columns, as ``format_type`` writes them."""
        types = self.objects.types
        return frozenset(
            column.type_name
            for column in self.objects.shape.columns
            if column.name in types and types[column.name][0].kind == "enum" and not types[column.name][1]
        )


def compare_table(both: Compared) -> Iterator[Missing]:
    """The objects that the target's table lacks."""
    for column in both.objects.shape.columns:
        yield from _column(both, column)
    yield from _checks(both)
    yield from _partitions(both)
    for index in both.objects.indexes:
        yield from _index(both, index)
    for key in both.objects.shape.foreign_keys:
        yield from _foreign_key(both, key)
    yield from _comments(both)


# Columns ------------------------------------------------------------------------------------------


def _column(both: Compared, column: ColumnShape) -> Iterator[Missing]:
    found = both.table.column(column.name)
    if column.generated is not None:
        yield from _generated(both, column)
        return
    if found is None:
        # One that is not published is in the list of what the publisher has.
        if both.published is None or column.name in both.published:
            yield Missing("missing column", column.name, None, _ADDED_SINCE, column.type_name)
        return
    if column.name in both.objects.types:
        yield from _user_type(both, column, *both.objects.types[column.name])
    if column.identity or column.serial:
        if column.name not in both.found.counted:
            yield Missing("identity", column.name, NewIdentity(column.name), publisher_ddl=column.default or "IDENTITY")
    elif column.default is not None and column.name not in both.found.defaults and not _NULL.fullmatch(column.default):
        yield _default(both, column, column.default)


def _default(both: Compared, column: ColumnShape, text: str) -> Missing:
    found = both.table.column(column.name)
    assert found is not None
    ddl = f"DEFAULT {text}"
    try:
        if both.keeps_types:
            written: str | None = text
        elif column.constant is not None:
            written = constant(both.target, column.type_oid, found, column.constant)
            if written is None:
                raise CannotBuild(f"{both.target.capabilities.database} has no constant for this value")
        else:
            written = both.target.objects.default(text, column.type_oid, found)
            written = both.expression(text) if written is None else written
    except CannotBuild as error:
        return Missing("default", column.name, None, error.reason, ddl)
    assert written is not None
    return Missing("default", column.name, NewDefault(column.name, written), publisher_ddl=ddl)


def _generated(both: Compared, column: ColumnShape) -> Iterator[Missing]:
    found = both.table.column(column.name)
    ddl = f"GENERATED ALWAYS AS ({column.generated}) STORED"
    assert column.generated is not None
    if found is None:
        try:
            declared = column.type_name
            if not both.keeps_types:
                declared = both.target.ddl.column_type(column.type_oid, column.type_name)
            change = NewGenerated(column.name, declared, both.expression(column.generated))
        except CannotBuild as error:
            yield Missing("generated column", column.name, None, error.reason, ddl)
        else:
            yield Missing("generated column", column.name, change, publisher_ddl=ddl)
    elif not found.generated:
        published = both.published is not None and column.name in both.published
        reason = (
            "the publisher sends its values, so it is an ordinary column" if published else "it is an ordinary column"
        )
        yield Missing("generated column", column.name, None, reason, ddl)


def _user_type(both: Compared, column: ColumnShape, made: UserType, is_array: bool) -> Iterator[Missing]:
    found = both.table.column(column.name)
    assert found is not None
    if both.keeps_types:
        if found.declared_type == "text":
            default = None if column.serial or column.identity else column.default
            change = NewType(column.name, column.type_name, default)
            yield Missing("column type", column.name, change, publisher_ddl=column.type_name)
    elif is_array or made.kind not in ("enum", "domain"):
        yield Missing("column type", column.name, None, "its values are texts, which are not checked", made.ddl)
    elif made.kind == "enum":
        labels = ", ".join("'" + label.replace("'", "''") + "'::text" for label in made.labels)
        text = f"({_identifier(column.name)} = ANY (ARRAY[{labels}]))"
        yield from _check(both, "check of enum", f"{column.name}_{made.name}", text, made.ddl, {column.name: _TEXT})
    else:
        checks = made.checks if made.nullable else (("not_null", "(VALUE IS NOT NULL)"), *made.checks)
        for name, text in checks:
            yield from _check(
                both, "check of domain", f"{column.name}_{name}", text, made.ddl, {"VALUE": made.base}, column.name
            )


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# Constraints --------------------------------------------------------------------------------------


def _checks(both: Compared) -> Iterator[Missing]:
    for text in both.objects.shape.checks:
        name, ddl = both.objects.shape.definitions.get(text, ("", f"CHECK ({text})"))
        yield from _check(both, "check constraint", name, text, ddl)


def _check(
    both: Compared,
    kind: str,
    name: str,
    text: str,
    ddl: str,
    values: Mapping[str, int] | None = None,
    column: str | None = None,
) -> Iterator[Missing]:
    """A CHECK constraint.

    Args:
        both: the tables.
        kind: the kind of the object.
        name: the constraint's name.
        text: the publisher's expression.
        ddl: the publisher's definition.
        values: the type OIDs of the names in the expression; None for those of the columns.
        column: the column that the name VALUE stands for.
    """
    if any(name == found for found, _ in both.found.checks):
        return
    try:
        if values is None:
            written = both.expression(text)
        else:
            columns = {}
            for value, type_oid in values.items():
                found_column = both.table.column(column or value)
                assert found_column is not None
                columns[value] = type_oid, found_column
            written = both.target.objects.expression(text, columns, inexact=both.found.inexact)
    except CannotBuild as error:
        yield Missing(kind, name, None, error.reason, ddl)
        return
    if all(_plain(written) != _plain(found) for _, found in both.found.checks):
        yield Missing(kind, name, NewCheck(name, written), publisher_ddl=ddl)


def _plain(expression: str) -> str:
    """An expression without blanks, quotes of names and outer parentheses, to compare it. Some
    targets write it in another form than it was declared.
    """
    text = re.sub(r'[\s"`]', "", expression).replace("!=", "<>")
    while text.startswith("(") and _closes_at_end(text):
        text = text[1:-1]
    return text


def _closes_at_end(text: str) -> bool:
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place == len(text) - 1
    return False


def _partitions(both: Compared) -> Iterator[Missing]:
    objects = both.objects
    if not both.keeps_types or not objects.partition_key or both.found.partitioned:
        return
    partitions = []
    for one in objects.partitions:
        schema, name = both.names.local(one.schema, one.name)
        partitions.append(replace(one, schema=schema, name=name, parent=both.names.local(*one.parent)))
    change = NewPartitions(objects.partition_key, tuple(partitions))
    yield Missing("partitions", "", change, publisher_ddl=f"PARTITION BY {objects.partition_key}")


# Indexes ------------------------------------------------------------------------------------------

_KINDS_OF_CONSTRAINTS: Final = {
    "primary key": "primary key",
    "unique": "unique key",
    "exclusion": "exclusion constraint",
}


def _index(both: Compared, index: IndexShape) -> Iterator[Missing]:
    kind = _KINDS_OF_CONSTRAINTS.get(index.constraint, "unique index" if index.unique else "index")
    if kind == "primary key" and both.table.key:
        kind = "unique key"  # the target's primary key is the publisher's replica identity
    name = both.place(index.name)
    there = _there(both.found.indexes, index, name)
    if there is not None:
        if not there:
            yield Missing(kind, index.name, None, "the target has an index of this name with other keys", index.ddl)
        return
    try:
        keys, predicate = _keys(both, index), None
        if index.predicate is not None:
            predicate = both.expression(index.predicate)
    except CannotBuild as error:
        yield Missing(kind, index.name, None, error.reason, index.ddl)
    else:
        yield Missing(kind, index.name, NewIndex(index, name, keys, predicate), publisher_ddl=index.ddl)


def _keys(both: Compared, index: IndexShape) -> tuple[str, ...]:
    written = []
    for key in index.keys:
        if key.column is None:
            written.append(f"({both.expression(key.expression, loose=not index.unique)})")
        else:
            written.append(both.target.objects.quote(key.column))
    lacking = [
        name
        for name in (*(key.column for key in index.keys), *index.include)
        if name and both.table.column(name) is None
    ]
    generated = {column.name for column in both.objects.shape.columns if column.generated is not None}
    lacking = [name for name in lacking if name not in generated]
    if lacking:
        raise CannotBuild(f'column "{lacking[0]}" is not replicated')
    return tuple(written)


def _there(found: Sequence[FoundIndex], index: IndexShape, name: str) -> bool | None:
    """Whether the target has the index; None if it has neither the index nor its name."""
    keys = tuple(key.column for key in index.keys)
    is_plain = index.predicate is None and None not in keys and index.constraint != "exclusion"
    for one in found:
        same = frozenset(one.keys) == frozenset(keys) if index.unique and one.unique else one.keys == keys
        same = same and one.method in ("", index.method) and not one.partial
        if is_plain and same and (one.unique or not index.unique):
            return True
    for one in found:
        if one.name == name:
            return not (is_plain and None not in one.keys and (one.keys != keys or one.unique != index.unique))
    return None


def _foreign_key(both: Compared, key: ForeignKey) -> Iterator[Missing]:
    references = both.references.get((key.schema, key.table))
    reason = ""
    if references is None:
        reason = f'the target has no table "{both.names.qualified(key.schema, key.table)}"'
    elif any(both.table.column(name) is None for name in key.columns):
        reason = "a column of it is not replicated"
    else:
        pairs = frozenset(zip(key.columns, key.referenced, strict=True))
        for one in both.found.foreign_keys:
            same_pairs = not one.referenced or frozenset(zip(one.columns, one.referenced, strict=True)) == pairs
            if one.table != references.name or frozenset(one.columns) != frozenset(key.columns) or not same_pairs:
                continue
            if not _same_actions((one.on_delete, one.on_update), key):
                reason = f"the target's foreign key has ON DELETE {one.on_delete} ON UPDATE {one.on_update}"
                break
            return
    if references is None or reason:
        yield Missing("foreign key", key.name, None, reason, key.ddl)
        return
    is_shared = key.name in both.shared_names and not both.keeps_types  # there a table has its own names
    name = both.place(f"{both.objects.shape.name}_{key.name}" if is_shared else key.name)
    yield Missing("foreign key", key.name, NewForeignKey(key, name, references), publisher_ddl=key.ddl)


def _same_actions(found: tuple[str, str], key: ForeignKey) -> bool:
    """Whether the actions are the same; some databases do not distinguish RESTRICT."""
    wanted: tuple[str, str] = (key.on_delete, key.on_update)
    if key.set_columns:
        wanted = (found[0], key.on_update)
    return all(
        one == other or {one, other} == {"RESTRICT", "NO ACTION"} for one, other in zip(found, wanted, strict=True)
    )


# Comments -----------------------------------------------------------------------------------------


def _comments(both: Compared) -> Iterator[Missing]:
    objects, found = both.objects, both.found
    if objects.comment is not None and objects.comment != found.comment:
        yield Missing("comment", "", NewComment(objects.comment))
    for column, text in objects.column_comments.items():
        # A generated column may be built in the same run, before its comment.
        if found.column_comments.get(column) != text and both.table.column(column) is not None:
            yield Missing("comment", column, NewComment(text, column))
