"""What the columns of a target's table lack: columns, types, defaults, generated values.

A default is the same if the target shows it as it would show the publisher's, or if both are
constants with the same value in the column's type. Another default is replaced, like another
comment: no row changes. A generated column with another expression is left to the user, because its
values would be computed again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from subscriber.migration.schema.compare_checks import checks_of_type, compare_check
from subscriber.migration.schema.compared import TEXT, Compared, Missing, different
from subscriber.migration.schema.same_definition import is_constant, plain
from subscriber.schema.shape import ColumnShape
from subscriber.sql.keywords import quote_identifier
from subscriber.targets.alter_table import add_column, as_typed
from subscriber.targets.ddl import constant
from subscriber.targets.table_changes import CannotBuild, NewDefault, NewGenerated, NewIdentity, NewType

_NULL: Final = re.compile(r"\(?NULL(::.*)?\)?", re.DOTALL)
"""A default that is NULL, which is the same as none."""


def compare_column(both: Compared, column: ColumnShape) -> Iterator[Missing]:
    """What one column of the target's table lacks."""
    found = both.table.column(column.name)
    if column.generated is not None:
        yield from _generated(both, column, column.generated)
        return
    if found is None:
        # One that is not published is in the list of what the publisher has.
        if both.published is None or column.name in both.published:
            yield _added_since(both, column)
        return
    types = [] if column.name not in both.objects.types else list(_user_type(both, column))
    yield from types
    if column.identity or column.serial:
        if column.name not in both.found.counted:
            yield Missing("identity", column.name, NewIdentity(column.name), publisher_ddl=column.default or "IDENTITY")
        return
    # With its new type, the column gets the publisher's default.
    is_replaced = both.keeps_types and types and column.name in both.found.defaults
    if column.default is not None and not _NULL.fullmatch(column.default) and not is_replaced:
        yield from _default(both, column, column.default)


# Columns that the publisher's table has got since -------------------------------------------------


def _added_since(both: Compared, column: ColumnShape) -> Missing:
    """A column that the target's table lacks.

    With ``schema_changes = add_columns`` it comes with the next change of a row, which a quiet
    table may never have. A column that is added by hand is NULL in the rows that exist, while ADD
    COLUMN … DEFAULT has given them values at the publisher. So the table is copied again.
    """
    target, shape = both.target, both.objects.shape
    type_oid, type_name = column.type_oid, column.type_name
    if column.name in both.objects.types:
        type_oid, type_name = TEXT, "text"
    alter = as_typed(target, add_column(target, both.table, column.name, type_oid, type_name))
    relation = f"{quote_identifier(shape.schema)}.{quote_identifier(shape.name)}"
    refresh = f"ALTER SUBSCRIPTION {quote_identifier(both.subscription)} REFRESH TABLE {relation}"
    reason = (
        f"the column is new at the publisher. Run in the target: {alter}; then `subscriber sql`: {refresh}, which"
        " copies its values"
    )
    return Missing("missing column", column.name, None, reason, column.type_name, (alter,))


# Defaults -----------------------------------------------------------------------------------------


def _default(both: Compared, column: ColumnShape, text: str) -> Iterator[Missing]:
    ddl = f"DEFAULT {text}"
    present = both.found.defaults.get(column.name)
    try:
        written = _written_default(both, column, text)
    except CannotBuild as error:
        if present is None:
            yield Missing("default", column.name, None, error.reason, ddl)
        return  # a default that the user has declared in place of one that cannot be translated
    change = NewDefault(column.name, written)
    if present is None:
        yield Missing("default", column.name, change, publisher_ddl=ddl)
    elif not _same_default(both, change, present):
        yield Missing("different default", column.name, change, f"the target has DEFAULT {present}", ddl)


def _written_default(both: Compared, column: ColumnShape, text: str) -> str:
    """The publisher's default in the target's SQL.

    Raises:
        CannotBuild: it is not known to mean the same.
    """
    if both.keeps_types:
        return text
    found = both.table.column(column.name)
    assert found is not None
    if column.constant is not None:
        written = constant(both.target, column.type_oid, found, column.constant)
        if written is None:
            raise CannotBuild(f"{both.target.capabilities.database} has no constant for this value")
        return written
    written = both.target.objects.default(text, column.type_oid, found)
    return both.expression(text) if written is None else written


def _same_default(both: Compared, change: NewDefault, present: str) -> bool:
    if plain(present) == plain(change.expression):
        return True
    if is_constant(present) and is_constant(change.expression):
        column = both.table.column(change.column)
        assert column is not None
        return both.target.objects.same_constant(both.connection, column, present, change.expression)
    return plain(present) == plain(both.shown(change))


# Generated columns --------------------------------------------------------------------------------


def _generated(both: Compared, column: ColumnShape, expression: str) -> Iterator[Missing]:
    found = both.table.column(column.name)
    ddl = f"GENERATED ALWAYS AS ({expression}) STORED"
    if found is not None and not found.generated:
        published = both.published is not None and column.name in both.published
        reason = (
            "the publisher sends its values, so it is an ordinary column" if published else "it is an ordinary column"
        )
        yield Missing("generated column", column.name, None, reason, ddl)
        return
    try:
        declared = column.type_name
        if not both.keeps_types:
            declared = both.target.ddl.column_type(column.type_oid, column.type_name)
        change = NewGenerated(column.name, declared, both.expression(expression))
    except CannotBuild as error:
        if found is None:
            yield Missing("generated column", column.name, None, error.reason, ddl)
        return
    if found is None:
        yield Missing("generated column", column.name, change, publisher_ddl=ddl)
        return
    present = both.found.generated.get(column.name, "")
    if plain(present) not in ("", plain(change.expression), plain(both.shown(change))):
        yield different(both, "different generated column", column.name, change, (column.name, f"({present})"), ddl)


# User-defined types -------------------------------------------------------------------------------


def _user_type(both: Compared, column: ColumnShape) -> Iterator[Missing]:
    found = both.table.column(column.name)
    made, is_array = both.objects.types[column.name]
    assert found is not None
    for label, definition in made.unmet:
        reason = "it is NOT VALID at the publisher, so values may violate it"
        yield Missing("check of domain", f"{column.name}_{label}", None, reason, definition)
    if both.keeps_types:
        if found.declared_type == "text":
            default = None if column.serial or column.identity else column.default
            change = NewType(column.name, column.type_name, default)
            yield Missing("column type", column.name, change, publisher_ddl=column.type_name)
    elif is_array or made.kind not in ("enum", "domain"):
        yield Missing("column type", column.name, None, "its values are texts, which are not checked", made.ddl)
    else:
        for one in checks_of_type(both, column):
            yield from compare_check(both, one)
