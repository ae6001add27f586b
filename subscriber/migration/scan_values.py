"""``subscriber check --scan``: values of the published tables that the target cannot hold, found
before the copy finds them.

::

    columns of the target ──probes──▶ columns that cannot hold every value ──▶ COPY of these columns ──▶ mask ──▶ a number

Whether a column may be concerned is found out with *probes*, a few extreme values of its type: a
column that can hold them all is not read. Every type whose texts have no greatest length has a
probe that is longer than all limits of columns. The values of the other columns are read with one
COPY a table, and judged by the mask that the stream and the copy use too
(:meth:`~subscriber.targets.roles.values.Values.unrepresentable_values`), so the numbers are exact.
Where the target can hold all finite numbers or all usual dates, the publisher sends only the other
rows. *Rejected:* conditions in SQL alone. They would repeat the rules of each target in another
language.

A table that ``create_tables`` is to create is judged by the declarations that its columns will
have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.apply.relations.local_relations import LocalRelation, RelationMap
from subscriber.apply.writing.unrepresentable import key_columns, refusal, replaced_columns
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.check_publications import SubscribedTables
from subscriber.errors import SubscriberError
from subscriber.migration.findings import Finding, finding_of_error
from subscriber.protocol.copy_text import copy_text_columns
from subscriber.protocol.messages import Relation, RelationColumn
from subscriber.publisher.announced import announced_relations
from subscriber.publisher.copy_plan import quoted
from subscriber.publisher.publisher import Publisher
from subscriber.publisher.read_values import read_values
from subscriber.publisher.shapes import read_published_shape
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.relation_names import written_identifier
from subscriber.targets import Target, TargetColumn, TargetTable
from subscriber.targets.ddl import new_columns
from subscriber.types import BUILT_IN_TYPES, declared_type, decode_column

_LONGEST: Final = 2**24
"""More characters or bytes than any column can have that has a limit: MEDIUMTEXT has one less."""
_FLOATS: Final = ("NaN", "Infinity", "-Infinity")
_PROBES: Final[Mapping[int, Sequence[str]]] = {
    21: ("-32768", "32767"),
    23: ("-2147483648", "2147483647"),
    20: ("-9223372036854775808", "9223372036854775807"),
    26: ("4294967295",),
    16: ("t", "f"),
    28: ("4294967295",),
    29: ("4294967295",),
    2950: ("ffffffff-ffff-ffff-ffff-ffffffffffff",),
    1083: ("23:59:59.999999", "24:00:00"),
    1266: ("23:59:59.999999-15:59:59", "24:00:00-15:59:59"),
    1186: ("-178000000 years -11 mons -2147483647 days -2562047788:00:54.775807", "infinity"),
    114: ('"\\u0000"',),
    1082: ("infinity", "-infinity", "4714-11-24 BC", "5874897-12-31"),
    1114: ("infinity", "-infinity", "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999"),
    1184: ("infinity", "-infinity", "4714-11-24 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00"),
    700: (*_FLOATS, "3.4028235e+38"),
    701: (*_FLOATS, "1.7976931348623157e+308"),
    1700: (*_FLOATS, "9" * 200, "0." + "0" * 200 + "1"),
}
"""The extreme values of types that a target may not hold."""
_BYTEA: Final = 17
_UNBOUNDED: Final = frozenset({114})
"""Types with extreme values whose texts have no greatest length nevertheless."""
_USUAL: Final[Mapping[int, Sequence[str]]] = {
    1082: ("0001-01-01", "2000-02-29", "9999-12-31"),
    1114: ("0001-01-01 00:00:00", "2000-02-29 12:00:00.000001", "9999-12-31 23:59:59.999999"),
    1184: ("0001-01-01 00:00:00+00", "2000-02-29 12:00:00.000001+00", "9999-12-31 23:59:59.999999+00"),
    700: ("0.1", "-3.4028235e+38", "1e-45"),
    701: ("0.1", "-1.7976931348623157e+308", "5e-324", "123456789.125"),
}
"""If a column can hold these values of a type, it can hold all for which the condition of
:data:`_UNUSUAL` is false.
"""
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
    """A column that is read.

    Attributes:
        name: its name.
        type_oid: the type of the publisher's column.
        column: the target's column.
        condition: the SQL condition for rows whose value may be one that the target cannot hold.
    """

    name: str
    type_oid: int
    column: TargetColumn
    condition: str


def scan_values(
    target: Target, publisher: Publisher, published: SubscribedTables, options: SubscriptionOptions
) -> Iterator[Finding]:
    """The columns that have values which the target cannot hold, with the number of these values.

    Args:
        target: the target.
        publisher: the publisher.
        published: the published tables.
        options: the options of the subscription.
    """
    tables = {table.key: table for table in published.tables}
    values = columns = 0
    for relation in announced_relations(publisher.connection, published.tables):
        table = tables[relation.namespace, relation.name]
        try:
            local = _local(target, publisher, table, relation, options)
            if local is None:
                continue
            scanned = [one for one in _columns(target, local) if one is not None]
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
    publisher: Publisher,
    published: PublishedTable,
    relation: Relation,
    options: SubscriptionOptions,
) -> LocalRelation | None:
    """The target's table; None if there is none, and none is to be created."""
    place = options.map.local(relation.namespace, relation.name)
    with target.reporting(), target.engine.connect() as connection:
        if target.shapes.reflect(connection, *place) is not None:
            adds = options.schema_changes == "add_columns"
            return RelationMap(target, connection, options.map, add_columns=adds).compare(relation)
    shape = read_published_shape(publisher.connection, published) if options.create_tables else None
    if shape is None:
        return None
    table = TargetTable(*target.ddl.place(*place), new_columns(target, shape), shape.key or None)
    columns = tuple(column for announced in relation.columns if (column := table.column(announced.name)) is not None)
    return LocalRelation(relation, table, columns, options.map.qualified(relation.namespace, relation.name))


def _columns(target: Target, local: LocalRelation) -> Iterator[_Scanned | None]:
    as_text = target.capabilities.postgresql_text
    for announced, column in zip(local.remote.columns, local.columns, strict=True):
        type_oid = announced.type_oid
        if not _refuses(target, type_oid, column, _probes(type_oid, as_text=as_text)):
            yield None
            continue
        usual = _USUAL.get(type_oid)
        condition = "{0} IS NOT NULL"
        if usual is not None and not _refuses(
            target, type_oid, column, _decoded_texts(type_oid, usual, as_text=as_text)
        ):
            condition = _UNUSUAL[type_oid]
        elif type_oid == 1700 and column.declared_type.lower() == _sized(announced):
            # The publisher's column has the same digits, so only NaN can be in the way.
            condition = "{0} = 'NaN'"
        yield _Scanned(announced.name, type_oid, column, condition.format(quoted(announced.name)))


@lru_cache(maxsize=4)  # each may have many megabytes
def _probes(type_oid: int, *, as_text: bool) -> pa.Array:
    """The extreme values of a type; of a user-defined type, a text that is no number and no
    date.
    """
    texts = [*_PROBES.get(type_oid, () if type_oid in BUILT_IN_TYPES else ("x",))]
    if type_oid not in _PROBES or type_oid in _UNBOUNDED:
        texts.append("\\x" + "78" * _LONGEST if type_oid == _BYTEA else "x" * _LONGEST)
    return _decoded_texts(type_oid, texts, as_text=as_text)


def _sized(column: RelationColumn) -> str:
    """The declaration of a numeric column with the same precision and scale in other databases."""
    return declared_type(column.type_oid, column.type_modifier).replace("numeric", "decimal")


def _refuses(target: Target, type_oid: int, column: TargetColumn, values: pa.Array) -> bool:
    return bool(pc.any(target.values.unrepresentable_values(type_oid, column, values)).as_py())


def _decoded_texts(type_oid: int, texts: Sequence[str], *, as_text: bool) -> pa.Array:
    return _decoded(type_oid, pa.array([text.encode() for text in texts], pa.binary()), as_text=as_text)


def _decoded(type_oid: int, raw: pa.Array, *, as_text: bool) -> pa.Array:
    return raw.cast(pa.string()) if as_text else decode_column(type_oid, raw, binary=False, column=1)


def _count(target: Target, publisher: Publisher, table: PublishedTable, scanned: Sequence[_Scanned]) -> dict[str, int]:
    """How many values of each column the target cannot hold."""
    counts = dict.fromkeys((one.name for one in scanned), 0)
    if not scanned:
        return counts
    names, conditions = [one.name for one in scanned], [one.condition for one in scanned]
    as_text = target.capabilities.postgresql_text
    for lines in read_values(publisher.connection, table, names, conditions):
        for one, raw in zip(scanned, copy_text_columns(lines, range(len(scanned))), strict=True):
            values = _decoded(one.type_oid, raw, as_text=as_text)
            mask = target.values.unrepresentable_values(one.type_oid, one.column, values)
            counts[one.name] += int(np.count_nonzero(mask.to_numpy(zero_copy_only=False)))
    return counts


def _finding(table: PublishedTable, local: LocalRelation, one: _Scanned, count: int, *, is_replaced: bool) -> Finding:
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
    written = ".".join(written_identifier(part) for part in (table.schema, table.name, one.name)).replace("'", "''")
    option = f"WITH (unrepresentable_values = '{written} = null')"
    declare = "Declare the target's column with a type that holds them, or change the rows"
    return Finding(
        severity="FAIL",
        area="tables",
        object=name,
        message=f"{rows} that the target cannot hold",
        reason=f"{reason} The copy would stop there.",
        remedy=f"{declare}; or use {option}." if may_be_null else f"{declare}.",
    )
