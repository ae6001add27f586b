"""``subscriber check --scan``: values of the published tables that the target cannot hold, found
before the copy finds them.

::

    columns of the target ──extreme values──▶ columns that cannot hold every value ──▶ COPY of these columns ──▶ mask ──▶ a number

Columns that can hold every value of their type are not read
(:mod:`subscriber.targets.declared_columns`). The values of the other columns are read with one COPY
a table, and judged by the mask that the stream and the copy use too
(:meth:`~subscriber.targets.base.values.Values.unrepresentable_values`), so the numbers are exact.
Where the target can hold all finite numbers or all usual dates, the publisher sends only the other
rows.

Of a database with the encoding SQL_ASCII all columns are read, for texts that are not UTF-8.

A table that ``create_tables`` is to create is judged by the declarations that its columns will
have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from subscriber.apply.relations.target_relations import RelationMap, TargetRelation
from subscriber.apply.writing.unrepresentable import key_columns, refusal, replaced_columns
from subscriber.base.errors import SubscriberError
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.check_publications import SubscribedTables
from subscriber.migrate.findings import Finding, finding_of_error
from subscriber.postgres.protocol.copy_text import copy_text_columns
from subscriber.postgres.protocol.messages import Relation, RelationColumn
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.sql.quoting import delimited_identifier, quote_literal, quote_qualified_name
from subscriber.postgres.types.oids import declared_type
from subscriber.publisher.catalog import announced_relations
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.copy_out import read_values
from subscriber.publisher.server_facts import UNCHECKED_ENCODING
from subscriber.publisher.shapes import read_published_shapes
from subscriber.targets import Target, TargetColumn, TargetTable
from subscriber.targets.ddl import new_columns
from subscriber.targets.declared_columns import decoded, may_refuse, refuses_texts

_USUAL: Final[Mapping[int, Sequence[str]]] = {
    1082: ("0001-01-01", "2000-02-29", "9999-12-31"),
    1114: ("0001-01-01 00:00:00", "2000-02-29 12:00:00.000001", "9999-12-31 23:59:59.999999"),
    1184: ("0001-01-01 00:00:00+00", "2000-02-29 12:00:00.000001+00", "9999-12-31 23:59:59.999999+00"),
    700: ("0.1", "-3.4028235e+38", "1e-45"),
    701: ("0.1", "-1.7976931348623157e+308", "5e-324", "123456789.125"),
}
"""A column with room for these values has room for all that are not :data:`_UNUSUAL`."""
_UNUSUAL: Final[Mapping[int, str]] = {
    1082: "({0} < '0001-01-01' OR {0} > '9999-12-31')",
    1114: "({0} < '0001-01-01' OR {0} > '9999-12-31 23:59:59.999999')",
    1184: "({0} < '0001-01-01 00:00:00+00' OR {0} > '9999-12-31 23:59:59.999999+00')",
    # NaN is greater than all other numbers.
    700: "({0} >= 'Infinity' OR {0} <= '-Infinity')",
    701: "({0} >= 'Infinity' OR {0} <= '-Infinity')",
}


@dataclass(frozen=True, slots=True)
class _Scanned:
    """A column that is read; ``condition`` selects rows whose value the target may not hold."""

    name: str
    type_oid: int
    column: TargetColumn
    condition: str


def scan_values(
    target: Target, publisher: PublisherClient, published: SubscribedTables, options: SubscriptionOptions
) -> Iterator[Finding]:
    tables = {table.key: table for table in published.tables}
    reads_all = publisher.connection.info.parameter_status("server_encoding") == UNCHECKED_ENCODING
    values = columns = 0
    for announced in announced_relations(publisher.connection, published.tables):
        table = tables[announced.namespace, announced.name]
        try:
            relation = options.transform.relation(announced)
            local = _local(target, publisher, table, relation, options)
            if local is None:
                continue
            transforms = options.transform.of(relation.namespace, relation.name)
            found = _columns(target, local, reads_all=reads_all)
            scanned = [one for one in found if one is not None and one.name not in transforms]
            counts = _count(target, publisher, table, scanned)
            replaced = replaced_columns(options.unrepresentable_values, local)
        except SubscriberError as error:
            yield finding_of_error(error, "tables", table.qualified_name)
            continue
        columns += len(scanned)
        values += sum(counts.values())
        for one in scanned:
            if counts[one.name]:
                yield _finding(table, local, one, counts[one.name], is_replaced=one.name in replaced)
    if not values:
        yield Finding(
            severity="INFO",
            area="tables",
            object="values",
            message="no value was found that the target cannot hold",
            reason="1 column that may not hold every value of its type was read."
            if columns == 1
            else f"{columns:,} columns that may not hold every value of their types were read.",
        )


def _local(
    target: Target,
    publisher: PublisherClient,
    published: PublishedTable,
    relation: Relation,
    options: SubscriptionOptions,
) -> TargetRelation | None:
    place = options.map.in_target(relation.namespace, relation.name)
    with target.reporting(), target.engine.connect() as connection:
        if target.shapes.reflect(connection, *place) is not None:
            adds = options.schema_changes == "add_columns"
            return RelationMap(target, connection, options.map, add_columns=adds).compare(relation)
    shape = (
        read_published_shapes(publisher.connection, [published]).get(published.key) if options.create_tables else None
    )
    if shape is None:
        return None
    table = TargetTable(*target.ddl.qualified(*place), new_columns(target, shape), shape.key_columns or None)
    columns = tuple(column for announced in relation.columns if (column := table.column(announced.name)) is not None)
    return TargetRelation(relation, table, columns, options.map.qualified(relation.namespace, relation.name))


def _columns(target: Target, local: TargetRelation, *, reads_all: bool) -> Iterator[_Scanned | None]:
    for announced, column in zip(local.remote.columns, local.columns, strict=True):
        type_oid = announced.type_oid
        if reads_all:
            yield _Scanned(announced.name, type_oid, column, "true")
            continue
        if not may_refuse(target, type_oid, column):
            yield None
            continue
        usual = _USUAL.get(type_oid)
        condition = "{0} IS NOT NULL"
        if usual is not None and not refuses_texts(target, type_oid, column, usual):
            condition = _UNUSUAL[type_oid]
        elif type_oid == 1700 and column.declared_type.lower() == _sized(announced):
            # The publisher's column has the same digits, so only NaN can be in the way.
            condition = "{0} = 'NaN'"
        yield _Scanned(announced.name, type_oid, column, condition.format(delimited_identifier(announced.name)))


def _sized(column: RelationColumn) -> str:
    """The declaration of a numeric column with the same precision and scale in other databases."""
    return declared_type(column.type_oid, column.type_modifier).replace("numeric", "decimal")


def _count(
    target: Target, publisher: PublisherClient, table: PublishedTable, scanned: Sequence[_Scanned]
) -> dict[str, int]:
    counts = dict.fromkeys((one.name for one in scanned), 0)
    if not scanned:
        return counts
    names, conditions = [one.name for one in scanned], [one.condition for one in scanned]
    as_text = target.capabilities.postgresql_text
    for lines in read_values(publisher.connection, table, names, conditions):
        for one, raw in zip(scanned, copy_text_columns(lines, range(len(scanned))), strict=True):
            values = decoded(one.type_oid, raw, as_text=as_text)
            mask = target.values.unrepresentable_values(one.type_oid, one.column, values)
            counts[one.name] += int(np.count_nonzero(mask.to_numpy(zero_copy_only=False)))
    return counts


def _finding(table: PublishedTable, local: TargetRelation, one: _Scanned, count: int, *, is_replaced: bool) -> Finding:
    name = f"{table.qualified_name}.{one.name}"
    rows = "1 row has a value" if count == 1 else f"{count:,} rows have values"
    reason = (
        f'Column "{one.column.name}" of table "{local.qualified_name}" is {one.column.declared_type} in the target.'
    )
    if is_replaced:
        return Finding(
            severity="WARN",
            area="tables",
            object=name,
            message=f"{rows} that the target cannot hold",
            reason=f"{reason} NULL will take {'its' if count == 1 else 'their'} place.",
        )
    may_be_null = refusal(key_columns(local), one.column) is None
    rule = f"{quote_qualified_name(table.schema, table.name, one.name)} = null"
    option = f"WITH (unrepresentable_values = {quote_literal(rule)})"
    declare = "Declare the target's column with a type that holds them, or change the rows"
    return Finding(
        severity="FAIL",
        area="tables",
        object=name,
        message=f"{rows} that the target cannot hold",
        reason=f"{reason} The copy would stop there.",
        remedy=f"{declare}; or use {option}." if may_be_null else f"{declare}.",
    )
