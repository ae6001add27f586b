"""Tables, publications and filters for tests of emulated publications."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from subscriber.postgres.protocol.messages import Relation, RelationColumn
from subscriber.postgres.publication.definition import TableEntry
from subscriber.postgres.schema.publisher_tables import (
    Generated,
    Identity,
    PublisherColumn,
    PublisherTable,
    PublisherTables,
)
from tests.frames import OIDS

IDENTITIES = {"default": "d", "nothing": "n", "full": "f", "index": "i"}


def table(
    name: str,
    columns: Mapping[str, str],
    key: Sequence[str] = (),
    *,
    oid: int = 16384,
    identity: Identity = "default",
    generated: Mapping[str, Generated] | None = None,
    partition_of: PublisherTable | None = None,
    partitioned: bool = False,
) -> PublisherTable:
    """A publisher's table: ``table("public.t", {"a": "int4", "b": "text"}, key=["a"])``."""
    schema, _, bare = name.rpartition(".")
    return PublisherTable(
        oid=oid,
        schema=schema or "public",
        name=bare,
        kind="partitioned table" if partitioned else "table",
        columns=tuple(
            PublisherColumn(column, number, OIDS[type_name], generated=(generated or {}).get(column, ""))
            for number, (column, type_name) in enumerate(columns.items(), start=1)
        ),
        identity=identity,
        identity_columns=tuple(columns) if identity == "full" else tuple(key),
        parents=() if partition_of is None else (partition_of.key,),
        is_partition=partition_of is not None,
    )


def tables(*known: PublisherTable, version: int = 180000) -> PublisherTables:
    """All tables of a publisher."""
    return PublisherTables(version, {one.key: one for one in known}, frozenset({950}))


def as_sent(one: PublisherTable, *, without: Sequence[str] = ()) -> Relation:
    """The relation message of a carrier without column lists. It includes generated columns."""
    return Relation(
        one.oid,
        one.schema,
        one.name,
        IDENTITIES[one.identity],
        tuple(
            RelationColumn(int(column.name in one.identity_columns), column.name, column.type_oid, column.type_modifier)
            for column in one.columns
            if column.name not in without
        ),
    )


def entry(one: PublisherTable, where: str | None = None, columns: Sequence[str] | None = None) -> TableEntry:
    """The table as a member of a publication."""
    return TableEntry(one.schema, one.name, None if columns is None else tuple(columns), where)


@dataclass(frozen=True)
class PythonFilter:
    """A row filter that is a Python function of the row."""

    columns: frozenset[str]
    function: Callable[[Mapping[str, Any]], bool | None]

    def evaluate(self, columns: Mapping[str, pa.Array], count: int) -> pa.BooleanArray:
        values = {name: columns[name].to_pylist() for name in self.columns}
        rows = ({name: values[name][row] for name in self.columns} for row in range(count))
        return pa.array([self.function(row) for row in rows], pa.bool_())


def python_filter(columns: Sequence[str], function: Callable[[Mapping[str, Any]], bool | None]) -> PythonFilter:
    """A row filter that is a Python function."""
    return PythonFilter(frozenset(columns), function)
