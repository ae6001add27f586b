"""The catalogs that the descriptions in a journal amount to, and rows in their terms.

A journal describes a relation before its first change and whenever it has changed, and a
user-defined type before the relation that uses it (rules A7, A13, A24).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from subscriber.errors import SubscriberError
from subscriber.filters.analyze.typeinfo import Types
from subscriber.filters.builtins import catalog_of
from subscriber.output_plugin.heap_tuples import ColumnDatum, Datum, HeapTuple, heap_tuple
from subscriber.output_plugin.historic_catalog import CatalogChange, HistoricCatalog, Relation
from subscriber.protocol import messages as m
from subscriber.schema.publisher_tables import Identity, PublisherColumn, PublisherTable
from subscriber.types.output import output_text
from subscriber.types.registry import decode_column

UNKNOWN: Final = "???"
"""The name of a type that is not known, as ``format_type`` prints it."""

_IDENTITIES: Final[dict[str, Identity]] = {"d": "default", "n": "nothing", "f": "full", "i": "index"}
_SYSTEM_SCHEMA: Final = "pg_catalog"


class ReplayedCatalog:
    """The catalogs as they are after the messages so far.

    Args:
        catalog: the catalogs before the first message.
        missing: takes sentences about what the messages do not tell.
    """

    def __init__(self, catalog: HistoricCatalog, missing: list[str]) -> None:
        self._catalog = catalog
        self._missing = missing
        self._types: dict[int, m.Type] = {}
        self._described: dict[int, m.Relation] = {}
        self._oids: dict[tuple[str, str], int] = {}
        self._change = CatalogChange()

    def describe(self, message: m.Relation | m.Type) -> None:
        """Take the description of a relation or a type."""
        if isinstance(message, m.Type):
            if self._types.get(message.type_oid) != message:
                self._types[message.type_oid] = message
                self._add(CatalogChange(types=(self._type_line(message),)))
        elif self._described.get(message.relation_id) != message:
            self._add(self._relation(message))

    def take_change(self) -> CatalogChange | None:
        """What has changed since the last call; None if nothing has."""
        change, self._change = self._change, CatalogChange()
        return None if change == CatalogChange() else change

    def row(self, relation_id: int, values: m.TupleData) -> HeapTuple:
        """A row of a relation that was described.

        Raises:
            NotSupportedError: a value came in the binary format of a type that cannot be read.
        """
        columns = self._described[relation_id].columns
        return heap_tuple(
            (self._value(relation_id, number, value) for number, value in enumerate(values)),
            [column.type_oid for column in columns],
        )

    def _value(self, relation_id: int, number: int, value: m.ColumnValue) -> ColumnDatum:
        if isinstance(value, m.Absence):
            return value
        if isinstance(value, m.TextValue):
            return Datum(value.data)
        relation = self._described[relation_id]
        column = relation.columns[number]
        try:
            array = decode_column(column.type_oid, pa.array([value.data], pa.binary()), binary=True, column=number + 1)
        except SubscriberError as error:
            raise error.replace(relation=relation.qualified_name, column=column.name) from error.__cause__
        text = output_text(array[0])
        assert text is not None
        return Datum(text.encode(), value.data)

    # Changes of catalogs --------------------------------------------------------------------------

    def _add(self, change: CatalogChange) -> None:
        self._catalog = self._catalog.apply(change)
        before = self._change
        gone = {relation.oid for relation in change.relations}.union(change.dropped_relations)
        kept = tuple(relation for relation in before.relations if relation.oid not in gone)
        self._change = CatalogChange(
            relations=(*kept, *change.relations),
            dropped_relations=(*before.dropped_relations, *change.dropped_relations),
            types=(*before.types, *change.types),
        )

    def _types_now(self) -> Types:
        tables = self._catalog.tables
        return Types(catalog_of(tables.server_version, tables.own_objects, tables.search_path))

    def _type_line(self, message: m.Type) -> str:
        """A type as a line of :attr:`PublisherTables.own_objects`.

        The name is that of the base type. If that is built in, the type is a domain whose own name
        was not sent.
        """
        oid = message.type_oid
        if message.namespace in ("", _SYSTEM_SCHEMA):
            base = next(
                (
                    one
                    for one in self._types_now().catalog.types.values()
                    if (one.schema, one.name) == (_SYSTEM_SCHEMA, message.name)
                ),
                None,
            )
            self._missing.append(f'type {oid} is a domain over "{message.name}", and its name was not sent')
            return _line(oid, _SYSTEM_SCHEMA, UNKNOWN, "d" if base else "b", base.oid if base else 0)
        self._missing.append(
            f'type {oid} is called "{message.namespace}.{message.name}", which is the name of its base type if it is a domain'
        )
        return _line(oid, message.namespace, message.name, "b", 0)

    def _relation(self, message: m.Relation) -> CatalogChange:
        known = self._types_now().catalog.types
        unknown = {column.type_oid: column.name for column in message.columns if column.type_oid not in known}
        if unknown:
            self._add(CatalogChange(types=tuple(_line(oid, _SYSTEM_SCHEMA, UNKNOWN, "b", 0) for oid in unknown)))
            self._missing += [
                f'the name of type {oid}, which column "{name}" of "{message.qualified_name}" has, was sent before the '
                "journal begins"
                for oid, name in unknown.items()
            ]
        self._described[message.relation_id] = message
        replaced = self._oids.get((message.namespace, message.name), message.relation_id)
        self._oids[message.namespace, message.name] = message.relation_id
        dropped = () if replaced == message.relation_id else (replaced,)
        return CatalogChange(relations=(Relation(self._table(message)),), dropped_relations=dropped)

    def _table(self, message: m.Relation) -> PublisherTable:
        types = self._types_now()
        columns = tuple(
            PublisherColumn(
                column.name,
                number,
                column.type_oid,
                column.type_modifier,
                types.name_with_modifier(column.type_oid, column.type_modifier),
            )
            for number, column in enumerate(message.columns, start=1)
        )
        return PublisherTable(
            message.relation_id,
            message.namespace,
            message.name,
            "table",
            columns,
            _IDENTITIES[message.replica_identity],
            tuple(column.name for column in message.columns if column.is_identity),
        )


def _line(oid: int, schema: str, name: str, kind: str, base: int) -> str:
    return "\t".join(map(str, ("type", oid, schema, name, kind, "U", 0, 0, 0, 0, base, -1, 0, 0)))
