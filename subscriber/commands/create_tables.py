"""The option ``create_tables``: missing tables of the target get the shapes of the published ones.
What they lack is reported with a NOTICE for each kind of difference, and listed in
``subscriber_schema_difference``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import sqlalchemy as sa

from subscriber.base.errors import NotSupportedError, PublisherNotReady, SubscriberError
from subscriber.catalog.own_tables import SCHEMA_DIFFERENCE
from subscriber.commands.notices import FIRST_NAMES, Notify, first_names, notice
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.relation_names import RelationNames, TableName
from subscriber.postgres.schema.shape import RelatedDifference, SchemaDifference
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.omitted_objects import schema_objects
from subscriber.publisher.shapes import read_published_shapes
from subscriber.targets import Target
from subscriber.targets.ddl import NewTable, create_table

Reshape = Callable[[PublisherTable], PublisherTable]
"""Changes the publisher's table into the one to be created (:meth:`SubscriptionOptions.shape`)."""


def as_published(shape: PublisherTable) -> PublisherTable:
    return shape


@dataclass(frozen=True, slots=True)
class MissingTable:
    """A table that the target does not have yet; ``relation`` is its name there, for messages."""

    published: PublishedTable
    relation: str
    table: NewTable


def design_tables(
    target: Target,
    publisher: PublisherClient,
    tables: Sequence[PublishedTable],
    chosen: Sequence[PublishedTable],
    names: RelationNames,
    reshape: Reshape = as_published,
) -> list[MissingTable]:
    """The tables that ``create_tables`` creates for the chosen ones of the published tables, to
    which foreign keys may refer. PublisherNotReady: a table was dropped meanwhile.
    NotSupportedError names all tables that the target cannot have.
    """
    designed, refused = try_design(target, publisher, tables, chosen, names, reshape)
    if len(refused) == 1:
        raise refused[0]
    if refused:
        relations = ", ".join(f'"{error.relation}"' for error in refused)
        raise NotSupportedError(
            f"{len(refused):,} tables cannot be created in {target.capabilities.database}: {relations}",
            sqlstate=refused[0].sqlstate,
            detail=" ".join(f"{error.message[:1].upper()}{error.message[1:]}." for error in refused),
            hint=" ".join(dict.fromkeys(error.hint for error in refused if error.hint is not None)) or None,
        )
    return designed


def try_design(
    target: Target,
    publisher: PublisherClient,
    tables: Sequence[PublishedTable],
    chosen: Sequence[PublishedTable],
    names: RelationNames,
    reshape: Reshape = as_published,
) -> tuple[list[MissingTable], list[SubscriberError]]:
    """As :func:`design_tables`, with an error for each table that the target cannot have."""
    found = read_published_shapes(publisher.connection, chosen)
    named = {key: _named(reshape(shape), names) for key, shape in found.items()}
    shapes = [*named.values()]
    references: dict[TableName, frozenset[frozenset[str]] | None] = {
        names.in_target(*table.key): None for table in tables
    }
    references |= {(shape.schema, shape.name): _unique_keys(shape) for shape in shapes}
    others = {(key.schema, key.table) for shape in shapes for key in shape.foreign_keys} - references.keys()
    if others:
        with target.reporting(), target.engine.connect() as connection:
            references |= dict.fromkeys(target.shapes.reflect_all(connection, sorted(others)))
    differences: dict[tuple[str, str], tuple[SchemaDifference, ...]] = {}
    if target.capabilities.equal_key_types:
        changed = with_common_types(shapes, _existing(publisher, tables, shapes, names))
        differences = {key: found for key, (_, found) in zip(named, changed, strict=True)}
        named = {key: shape for key, (shape, _) in zip(named, changed, strict=True)}
    designed: list[MissingTable] = []
    refused: list[SubscriberError] = []
    for table in chosen:
        try:
            if table.key not in named:
                raise _dropped(table)
            new = create_table(target, named[table.key], identity=True, references=references)
        except NotSupportedError as error:
            refused.append(error.replace(relation=names.qualified(*table.key)))
        else:
            new = replace(new, differences=(*new.differences, *differences.get(table.key, ())))
            designed.append(MissingTable(table, names.qualified(*table.key), new))
    return designed, refused


def _existing(
    publisher: PublisherClient, tables: Sequence[PublishedTable], shapes: Sequence[PublisherTable], names: RelationNames
) -> list[PublisherTable]:
    """The other published tables to which foreign keys of these tables refer."""
    new = {(shape.schema, shape.name) for shape in shapes}
    referenced = {(key.schema, key.table) for shape in shapes for key in shape.foreign_keys} - new
    chosen = [table for table in tables if names.in_target(*table.key) in referenced]
    return [_named(shape, names) for shape in read_published_shapes(publisher.connection, chosen).values()]


def _unique_keys(shape: PublisherTable) -> frozenset[frozenset[str]]:
    """The sets of columns to which a foreign key can refer."""
    others = (key.columns for key in shape.unique if not key.deferrable and key.nulls_distinct)
    return frozenset(frozenset(columns) for columns in (shape.key_columns, *others) if columns)


def create_missing_tables(
    target: Target, connection: sa.Connection, missing: Sequence[MissingTable], notify: Notify
) -> None:
    for one in missing:
        try:
            with target.reporting():
                one.table.create(connection)
        except SubscriberError as error:
            context = error.context or f'creating table "{one.relation}"'
            raise error.replace(relation=one.relation, context=context) from None
    names = [one.relation for one in missing]
    if len(names) <= FIRST_NAMES:
        for name in names:
            notice(notify, f'created table "{name}" at the subscriber')
    else:
        notice(notify, f"created {len(names):,} tables at the subscriber: {first_names(names)}")


def _named(shape: PublisherTable, names: RelationNames) -> PublisherTable:
    schema, name = names.in_target(shape.schema, shape.name)
    references = [(key, *names.in_target(key.schema, key.table)) for key in shape.foreign_keys]
    return replace(
        shape,
        schema=schema,
        name=name,
        foreign_keys=tuple(replace(key, schema=other, table=table) for key, other, table in references),
    )


def _dropped(table: PublishedTable) -> PublisherNotReady:
    return PublisherNotReady(
        f'table "{table.qualified_name}" not found on publisher', sqlstate="42P01", relation=table.qualified_name
    )


# One type for both sides of a foreign key --------------------------------------------------------

_DIGITS: Final = {21: 5, 23: 10, 20: 19}
"""The digits of smallint, integer and bigint."""
_NUMERIC: Final = 1700
_Column = tuple[str, str, str]
_Type = tuple[int, str]


def with_common_types(
    shapes: Sequence[PublisherTable], others: Sequence[PublisherTable] = ()
) -> list[tuple[PublisherTable, tuple[SchemaDifference, ...]]]:
    """The shapes with one type for the columns that foreign keys connect, each with the columns
    whose type has changed. The ``others`` exist already and keep their types.

    PostgreSQL lets an ``integer`` refer to a ``bigint``. In a database that does not, all columns
    that foreign keys connect get the widest of their types::

        a.id bigint  ◀── b.a_id integer          b.a_id becomes bigint
        c.id integer ◀── d.c_id numeric(12,2)    both become numeric(12,2)

    Texts may have different lengths; other types prevent the foreign key.
    """
    types = {
        (shape.schema, shape.name, column.name): (column.type_oid, column.type_name)
        for shape in (*shapes, *others)
        for column in shape.columns
    }
    wanted = {
        column: common for group in _connected(types, shapes) if (common := _common(types, group)) for column in group
    }
    return [_changed(shape, wanted) for shape in shapes]


def _connected(types: Collection[_Column], shapes: Sequence[PublisherTable]) -> list[set[_Column]]:
    """The groups of columns that foreign keys connect, directly or through others."""
    group_of: dict[_Column, set[_Column]] = {}
    for shape in shapes:
        for key in shape.foreign_keys:
            for column, referenced in zip(key.columns, key.referenced, strict=True):
                pair = ((shape.schema, shape.name, column), (key.schema, key.table, referenced))
                if not all(one in types for one in pair):
                    continue
                group = set[_Column]().union(*(group_of.get(one, {one}) for one in pair))
                group_of.update(dict.fromkeys(group, group))
    return list({id(group): group for group in group_of.values()}.values())


def _common(types: Mapping[_Column, _Type], group: Collection[_Column]) -> _Type | None:
    found = {types[one] for one in group}
    if len(found) == 1:
        return None
    if all(oid in _DIGITS for oid, _ in found):
        return max(found, key=lambda one: _DIGITS[one[0]])
    sizes = [_digits(*one) for one in found]
    if any(size is None for size in sizes):
        return None
    whole, scale = (max(size[place] for size in sizes if size is not None) for place in (0, 1))
    return _NUMERIC, f"numeric({whole + scale},{scale})"


def _digits(type_oid: int, type_name: str) -> tuple[int, int] | None:
    """The digits before and behind the point; None for any other type."""
    if type_oid in _DIGITS:
        return _DIGITS[type_oid], 0
    size = re.fullmatch(r"numeric\((\d+),(\d+)\)", type_name)
    return None if size is None else (int(size[1]) - int(size[2]), int(size[2]))


def _changed(
    shape: PublisherTable, wanted: Mapping[_Column, _Type]
) -> tuple[PublisherTable, tuple[SchemaDifference, ...]]:
    columns, differences = [], []
    for column in shape.columns:
        type_oid, type_name = wanted.get((shape.schema, shape.name, column.name), (column.type_oid, column.type_name))
        if (type_oid, type_name) != (column.type_oid, column.type_name):
            reason = (
                f'column "{column.name}" is declared for {type_name}, because a foreign key needs the same type on'
                " both sides"
            )
            ddl = f"{column.name} {column.type_name}"
            differences.append(SchemaDifference("foreign key type", column.name, ddl, reason, instead=type_name))
        columns.append(replace(column, type_oid=type_oid, type_name=type_name))
    return replace(shape, columns=tuple(columns)), tuple(differences)


# Differences -------------------------------------------------------------------------------------

_KINDS: Final = {
    "partitioned table": ("partitioned table is left out", "partitioned tables are left out"),
    "partition": ("partition is stored in its partitioned table", "partitions are stored in their partitioned tables"),
    "inheritance": ("parent of a table is left out", "parents of tables are left out"),
    "column": ("column that is not published is left out", "columns that are not published are left out"),
    "generated column": (
        "generated column is left out, or is an ordinary column",
        "generated columns are left out, or are ordinary columns",
    ),
    "type": ("column of a user-defined type has type text", "columns of user-defined types have type text"),
    "key length": (
        "column of a key has a limited length, and a longer value stops the subscription",
        "columns of keys have a limited length, and a longer value stops the subscription",
    ),
    "default length": (
        "column with a default has a limited length, and a longer value stops the subscription",
        "columns with a default have a limited length, and a longer value stops the subscription",
    ),
    "foreign key type": (
        "column has the type of the other side of a foreign key",
        "columns have the type of the other side of a foreign key",
    ),
    "row size": (
        "column has another type, so that a row is not too large",
        "columns have other types, so that a row is not too large",
    ),
    "large row": (
        "table may have rows that are too large, and such a row stops the subscription",
        "tables may have rows that are too large, and such a row stops the subscription",
    ),
    "collation": ("collation is left out", "collations are left out"),
    "identity": ("identity column is an ordinary column", "identity columns are ordinary columns"),
    "generated always": ("identity column is GENERATED BY DEFAULT", "identity columns are GENERATED BY DEFAULT"),
    "default": ("default is left out", "defaults are left out"),
    "shared sequence": ("sequence is not shared by its columns", "sequences are not shared by their columns"),
    "unique key": ("unique key is left out", "unique keys are left out"),
    "unique index": (
        "unique index or exclusion constraint is left out",
        "unique indexes or exclusion constraints are left out",
    ),
    "check constraint": ("check constraint is left out", "check constraints are left out"),
    "foreign key": ("foreign key is left out", "foreign keys are left out"),
    "referential action": ("foreign key has lost an action", "foreign keys have lost an action"),
    "index": ("index is left out", "indexes are left out"),
    "view": ("view is left out", "views are left out"),
    "materialized view": ("materialized view is left out", "materialized views are left out"),
    "trigger": ("trigger is left out", "triggers are left out"),
    "rule": ("rule is left out", "rules are left out"),
    "policy": ("policy of row security is left out", "policies of row security are left out"),
}
"""The kinds in the order in which they are reported, each with its text for one object and for
several objects.
"""
_WITH_SCHEMA: Final = frozenset(
    {"partitioned table", "partition", "shared sequence", "index", "view", "materialized view"}
)
"""Kinds whose objects have a schema and are identified without their table."""


def find_differences(publisher: PublisherClient, tables: Sequence[MissingTable]) -> list[RelatedDifference]:
    """What the publisher has and these tables lack, ordered by kind, table and name."""
    found = [
        RelatedDifference(one.published.qualified_name, difference)
        for one in tables
        for difference in one.table.differences
    ]
    found += schema_objects(publisher.connection, [one.published for one in tables])
    order = {kind: place for place, kind in enumerate(_KINDS)}
    return sorted(found, key=lambda one: order[one.difference.kind])


def count_differences(differences: Sequence[RelatedDifference]) -> Iterator[str]:
    """A line for each kind, with the number of objects and the first names."""
    for kind, (one, many) in _KINDS.items():
        names = list(dict.fromkeys(_shown(found) for found in differences if found.difference.kind == kind))
        if names:
            count = f"1 {one}" if len(names) == 1 else f"{len(names):,} {many}"
            yield f"{count}: {first_names(names)}"


def notify_of_differences(differences: Sequence[RelatedDifference], notify: Notify) -> None:
    for line in count_differences(differences):
        notice(notify, line)
    if differences:
        number = "the difference" if len(differences) == 1 else f"all {len(differences):,} differences"
        notice(
            notify,
            f'table "{SCHEMA_DIFFERENCE.name}" lists {number} from the publisher\'s schema, with DDL and reason',
        )


def _shown(found: RelatedDifference) -> str:
    difference = found.difference
    if difference.kind in _WITH_SCHEMA:
        return difference.object
    name = f"{found.relation}.{difference.object}" if difference.object else found.relation
    return f"{name} {difference.instead}" if difference.instead else name
