"""Which objects of a publisher's table its target table lacks.

The comparison knows no database: the target's role ``objects`` translates expressions, shows how
the target would write them, and says what the target cannot have.

A default is the same if the target shows it as it would show the publisher's, or if both are
constants with the same value in the column's type. Another default is replaced, like another
comment: no row changes. A generated column with another expression is left to the user, because its
values would be computed again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from subscriber.migrate.schema import compare_constraints, schema_object
from subscriber.migrate.schema.missed_objects import Functions, calls_of
from subscriber.postgres.schema.publisher_tables import PublisherColumn
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.targets import Connection, table_changes
from subscriber.targets.ddl import add_column, as_typed, constant


def compare_table(both: schema_object.TablePair) -> Iterator[schema_object.Missing]:
    for column in both.objects.columns:
        yield from compare_column(both, column)
    yield from compare_constraints.compare_checks(both)
    yield from _partitions(both)
    for index in both.objects.indexes:
        yield from compare_constraints.compare_index(both, index)
    yield from _replica_identity(both)
    yield from _parents(both)
    for key in both.objects.foreign_keys:
        yield from compare_constraints.compare_foreign_key(both, key)
    yield from _comments(both)


def _partitions(both: schema_object.TablePair) -> Iterator[schema_object.Missing]:
    objects = both.objects
    if not both.keeps_types or not objects.partition_key or both.found.partitioned:
        return
    partitions = []
    for one in objects.partitions:
        schema, name = both.names.in_target(one.schema, one.name)
        partitions.append(replace(one, schema=schema, name=name, parent=both.names.in_target(*one.parent)))
    change = table_changes.NewPartitions(objects.partition_key, tuple(partitions))
    yield schema_object.Missing("partitions", "", change, publisher_ddl=f"PARTITION BY {objects.partition_key}")


def _replica_identity(both: schema_object.TablePair) -> Iterator[schema_object.Missing]:
    """FULL or an index. NOTHING is left out: a published table could not be updated."""
    objects, found = both.objects, both.found
    if not both.target.capabilities.postgresql_types or found.identity not in ("default", "nothing"):
        return
    if objects.identity == "full":
        yield schema_object.Missing(
            "replica identity", "", table_changes.NewReplicaIdentity("full"), publisher_ddl="REPLICA IDENTITY FULL"
        )
    for index in objects.indexes:
        if objects.identity != "index" or index.name != objects.identity_index:
            continue
        columns = tuple(key.column for key in index.keys)
        if set(columns) != set(both.table.key or ()):  # else the primary key does the same
            there = (one.name for one in found.indexes if one.unique and set(one.keys) == set(columns))
            change = table_changes.NewReplicaIdentity("index", next(there, both.place(index.name)))
            ddl = f"REPLICA IDENTITY USING INDEX {quote_identifier(index.name)}"
            yield schema_object.Missing("replica identity", "", change, publisher_ddl=ddl)


def _parents(both: schema_object.TablePair) -> Iterator[schema_object.Missing]:
    """The tables from which it inherits. Other databases have none, which is said once for each."""
    if not both.objects.inherits_from or not both.keeps_types:
        return
    for schema, name in both.objects.inherits_from:
        parent = both.references.get((schema, name))
        ddl = f"INHERITS ({quote_identifier(schema)}.{quote_identifier(name)})"
        if parent is None:
            yield schema_object.Missing("inheritance", name, None, f'the target has no table "{schema}.{name}"', ddl)
        elif (parent.schema, parent.name) not in both.found.parents:
            yield schema_object.Missing("inheritance", name, table_changes.NewParent(parent), publisher_ddl=ddl)


def _comments(both: schema_object.TablePair) -> Iterator[schema_object.Missing]:
    objects, found = both.objects, both.found
    if objects.comment is not None and objects.comment != found.comment:
        yield schema_object.Missing("comment", "", table_changes.NewComment(objects.comment))
    for column, text in objects.column_comments.items():
        # A generated column may be built in the same run, before its comment.
        if found.column_comments.get(column) != text and both.table.column(column) is not None:
            yield schema_object.Missing("comment", column, table_changes.NewComment(text, column))


_NULL: Final = re.compile(r"\(?NULL(::.*)?\)?", re.DOTALL)
"""A default that is NULL, which is the same as none."""


def compare_column(both: schema_object.TablePair, column: PublisherColumn) -> Iterator[schema_object.Missing]:
    found = both.table.column(column.name)
    if column.expression is not None:
        yield from _generated(both, column, column.expression)
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
            yield schema_object.Missing(
                "identity",
                column.name,
                table_changes.NewIdentity(column.name),
                publisher_ddl=column.default or "IDENTITY",
            )
        return
    # With its new type, the column gets the publisher's default.
    is_replaced = both.keeps_types and types and column.name in both.found.defaults
    if column.default is not None and not _NULL.fullmatch(column.default) and not is_replaced:
        yield from _default(both, column, column.default)


# Columns that the publisher's table has got since -------------------------------------------------


def _added_since(both: schema_object.TablePair, column: PublisherColumn) -> schema_object.Missing:
    """A column that the target lacks. Added by hand it is NULL in the rows that exist, to which ADD
    COLUMN … DEFAULT has given values at the publisher. So the table is copied again.
    """
    target, shape = both.target, both.objects
    type_oid, type_name = column.type_oid, column.type_name
    if column.name in both.objects.types:
        type_oid, type_name = schema_object.TEXT, "text"
    alter = as_typed(target, add_column(target, both.table, column.name, type_oid, type_name))
    relation = f"{quote_identifier(shape.schema)}.{quote_identifier(shape.name)}"
    refresh = f"ALTER SUBSCRIPTION {quote_identifier(both.subscription)} REFRESH TABLE {relation}"
    reason = (
        f"the column is new at the publisher. Run in the target: {alter}; then `subscriber sql`: {refresh}, which"
        " copies its values"
    )
    return schema_object.Missing("missing column", column.name, None, reason, column.type_name, (alter,))


# Defaults -----------------------------------------------------------------------------------------


def _default(both: schema_object.TablePair, column: PublisherColumn, text: str) -> Iterator[schema_object.Missing]:
    ddl = f"DEFAULT {text}"
    present = both.found.defaults.get(column.name)
    try:
        written = _written_default(both, column, text)
    except table_changes.CannotBuild as error:
        if present is None:
            yield schema_object.Missing("default", column.name, None, error.reason, ddl)
        return  # a default that the user has declared in place of one that cannot be translated
    change = table_changes.NewDefault(column.name, written)
    if present is None:
        yield schema_object.Missing("default", column.name, change, publisher_ddl=ddl)
    elif not _same_default(both, change, present):
        yield schema_object.Missing("different default", column.name, change, f"the target has DEFAULT {present}", ddl)


def _written_default(both: schema_object.TablePair, column: PublisherColumn, text: str) -> str:
    """The publisher's default in the target's SQL. CannotBuild: it may mean something else."""
    if both.keeps_types:
        return text
    found = both.table.column(column.name)
    assert found is not None
    if column.constant is not None:
        written = constant(both.target, column.type_oid, found, column.constant)
        if written is None:
            raise table_changes.CannotBuild(f"{both.target.capabilities.database} has no constant for this value")
        return written
    written = both.target.objects.default(text, column.type_oid, found)
    return both.expression(text) if written is None else written


def _same_default(both: schema_object.TablePair, change: table_changes.NewDefault, present: str) -> bool:
    if schema_object.plain(present) == schema_object.plain(change.expression):
        return True
    if schema_object.is_constant(present) and schema_object.is_constant(change.expression):
        column = both.table.column(change.column)
        assert column is not None
        return both.target.objects.same_constant(both.connection, column, present, change.expression)
    return schema_object.plain(present) == schema_object.plain(both.shown(change))


# Generated columns --------------------------------------------------------------------------------


def _generated(
    both: schema_object.TablePair, column: PublisherColumn, expression: str
) -> Iterator[schema_object.Missing]:
    found = both.table.column(column.name)
    ddl = column.generation
    if found is not None and not found.generated:
        published = both.published is not None and column.name in both.published
        reason = (
            "the publisher sends its values, so it is an ordinary column" if published else "it is an ordinary column"
        )
        yield schema_object.Missing("generated column", column.name, None, reason, ddl)
        return
    try:
        declared = column.type_name
        if not both.keeps_types:
            declared = both.target.ddl.column_type(column.type_oid, column.type_name)
        change = table_changes.NewGenerated(
            column.name, declared, both.expression(expression), virtual=column.generated == "virtual"
        )
    except table_changes.CannotBuild as error:
        if found is None:
            yield schema_object.Missing("generated column", column.name, None, error.reason, ddl)
        return
    if found is None:
        yield schema_object.Missing("generated column", column.name, change, publisher_ddl=ddl)
        return
    present = both.found.generated.get(column.name, "")
    is_virtual, becomes_virtual = column.name in both.found.virtual, both.target.ddl.is_virtual(column)
    # In SQLite and DuckDB, a column that was added later is VIRTUAL in any case.
    is_other_kind = is_virtual != becomes_virtual and (becomes_virtual or both.keeps_types)
    if is_other_kind or schema_object.plain(present) not in (
        "",
        schema_object.plain(change.expression),
        schema_object.plain(both.shown(change)),
    ):
        shown = f"({present}) {'VIRTUAL' if is_virtual else 'STORED'}"
        yield schema_object.different(
            both, "different generated column", column.name, change, (column.name, shown), ddl
        )


# User-defined types -------------------------------------------------------------------------------


def _user_type(both: schema_object.TablePair, column: PublisherColumn) -> Iterator[schema_object.Missing]:
    found = both.table.column(column.name)
    made, is_array = both.objects.types[column.name]
    assert found is not None
    for label, definition in made.unmet:
        reason = "it is NOT VALID at the publisher, so values may violate it"
        yield schema_object.Missing("check of domain", f"{column.name}_{label}", None, reason, definition)
    if both.keeps_types:
        if found.declared_type == "text":
            default = None if column.serial or column.identity else column.default
            change = table_changes.NewType(column.name, column.type_name, default)
            yield schema_object.Missing("column type", column.name, change, publisher_ddl=column.type_name)
    elif is_array or made.kind not in ("enum", "domain"):
        yield schema_object.Missing(
            "column type", column.name, None, "its values are texts, which are not checked", made.ddl
        )
    else:
        for one in compare_constraints.checks_of_type(both, column):
            yield from compare_constraints.compare_check(both, one)


# How what is missing is built ---------------------------------------------------------------------


def planned_objects(
    both: schema_object.TablePair, functions: Functions, differing: Sequence[schema_object.Missing]
) -> Iterator[schema_object.SchemaObject]:
    earlier: list[table_changes.TableChange] = []
    for missing in sorted(differing, key=lambda one: schema_object.KINDS.index(one.kind)):
        one = functions.waiting(_described(both, both.connection, missing, earlier), calls_of(both.objects, missing))
        if one.change is not None and not one.waits_for:
            earlier.append(one.change)
        yield one


def _described(
    both: schema_object.TablePair,
    connection: Connection,
    missing: schema_object.Missing,
    earlier: Sequence[table_changes.TableChange],
) -> schema_object.SchemaObject:
    """An object with its phase, and its DDL after the changes of the objects before it."""
    relation = both.objects.qualified_name
    one = schema_object.SchemaObject(
        kind=missing.kind,
        name=f"{relation}.{missing.name}" if missing.name else relation,
        phase="manual",
        reason=missing.reason,
        ddl=";\n".join(missing.by_hand),
        publisher_ddl=missing.publisher_ddl,
        relation=relation,
        table=both.table,
        order=len(earlier),
    )
    if missing.change is None:
        return one
    phase: schema_object.Phase = "after" if missing.kind in schema_object.AFTER else "before"
    try:
        planned = both.target.objects.statements(connection, both.table, missing.change, earlier)
        if planned.rebuilds or planned.needs_empty:
            phase = _phase_of_rebuild(both, connection, phase, needs_empty=planned.needs_empty)
    except table_changes.CannotBuild as error:
        ddl = ";\n".join(error.by_hand) or one.ddl
        return replace(one, reason=error.reason, ddl=ddl, needs_stop=isinstance(error, _RunMustStop))
    reason = "; ".join(text for text in (missing.reason, planned.note) if text)
    return replace(
        one,
        phase=phase,
        ddl=";\n".join(planned.sql),
        reason=reason,
        change=missing.change,
        atomic=planned.needs_empty,
    )


class _RunMustStop(table_changes.CannotBuild):
    """The target can have this when `subscriber run` is stopped."""


def _phase_of_rebuild(
    both: schema_object.TablePair, connection: Connection, phase: schema_object.Phase, *, needs_empty: bool
) -> schema_object.Phase:
    """Before the copy if the table is empty. CannotBuild: it has rows, and a run may write."""
    if not both.table.has_rows(connection):
        return "before"
    database = both.target.capabilities.database
    if needs_empty:
        raise table_changes.CannotBuild("the table has rows, and would have to be replaced")
    lock = both.target.run_lock
    if lock is not None and lock.is_held(connection) is not False:
        raise _RunMustStop(f"{database} rebuilds a table with rows for this: stop `subscriber run` first")
    return phase
