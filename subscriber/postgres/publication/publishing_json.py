"""Emulated publications with the publisher's tables as JSON can have them.

The publisher's tables, settled relations and earlier facts are separate from the definitions: the
catalog of a target stores the definitions as PostgreSQL does, and the journal stores both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.postgres.publication.earlier_tables import EarlierTable
from subscriber.postgres.publication.publishing import Publishing
from subscriber.postgres.schema.publisher_tables import from_json, stored_values, table_from, to_json

_DEFINITIONS: Final = "publications"
_TABLES: Final = "tables"
_SETTLED: Final = "settled"
_EARLIER: Final = "earlier"


def publishing_values(publishing: Publishing) -> dict[str, Any]:
    """Everything that :func:`publishing_of` reads."""
    return {_DEFINITIONS: [_definition_values(one) for one in publishing.publications], **table_values(publishing)}


def publishing_of(stored: Mapping[str, Any]) -> Publishing:
    return with_definitions(tuple(_definition(one) for one in stored[_DEFINITIONS]), stored)


def table_values(publishing: Publishing) -> dict[str, Any]:
    """The publisher's tables, without system tables, and what is known of them."""
    settled = sorted(encode(relation).hex() for relation in publishing.settled)
    tables = to_json(publishing.tables.without_system())
    earlier = [asdict(one) | {"tables": [stored_values(table) for table in one.tables]} for one in publishing.earlier]
    return {_TABLES: tables, _SETTLED: settled, _EARLIER: earlier}


def with_definitions(definitions: tuple[Publication, ...], stored: Mapping[str, Any]) -> Publishing:
    """The publications with these definitions; ``stored`` is of :func:`table_values`."""
    return Publishing(
        definitions,
        from_json(stored[_TABLES]),
        frozenset(_relation(bytes.fromhex(message)) for message in stored[_SETTLED]),
        tuple(_earlier(one) for one in stored.get(_EARLIER, ())),
    )


def _definition_values(publication: Publication) -> dict[str, Any]:
    return asdict(publication) | {"publish": sorted(publication.publish)}


def _definition(stored: Mapping[str, Any]) -> Publication:
    return Publication(
        **dict(stored)
        | {
            "tables": tuple(_entry(one) for one in stored["tables"]),
            "schemas": tuple(stored["schemas"]),
            "excepted": tuple((schema, name) for schema, name in stored["excepted"]),
            "publish": frozenset(stored["publish"]),
        }
    )


def _entry(stored: Mapping[str, Any]) -> TableEntry:
    columns = stored["columns"]
    return TableEntry(**dict(stored) | {"columns": None if columns is None else tuple(columns)})


def _earlier(stored: dict[str, Any]) -> EarlierTable:
    tables = tuple(table_from(table) for table in stored["tables"])
    ends = None if stored["ends"] is None else (stored["ends"][0], stored["ends"][1])
    return EarlierTable(tables, stored["since"], stored["changed_by"], stored["was_elsewhere"], ends)


def _relation(message: bytes) -> Relation:
    relation = decode(message)
    assert isinstance(relation, Relation)
    return relation
