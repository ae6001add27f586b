"""The publications of a server, read as definitions.

``subscriber publication import`` stores them, and they show what a carrier sends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from subscriber.publication.definition import OPERATIONS, GeneratedColumns, Publication, TableEntry
from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.schema.server_features import ServerFeatures

_GENERATED: Final[dict[str, GeneratedColumns]] = {"n": "none", "s": "stored"}


def read_publications(connection: Connection, names: Sequence[str] | None = None) -> list[Publication]:
    """The publications with these names, in this order. Missing ones are left out. None: all
    publications, sorted by name.

    Filters have the text of ``pg_get_expr`` with an empty search_path, so that user-defined objects
    appear with their schema.

    Raises:
        psycopg.Error: a query failed.
    """
    with connection.transaction():
        connection.execute("SELECT set_config('search_path', '', true)")
        if names is None:
            names = [name for (name,) in connection.execute("SELECT pubname::text FROM pg_publication ORDER BY 1")]
        rows = connection.execute(_publications(features_of(connection)).encode(), (list(names),)).fetchall()
        entries = _entries(connection, [row[0] for row in rows])
        schemas = _schemas(connection, [row[0] for row in rows])
    found = {
        name: Publication(
            name,
            all_tables,
            tuple(entry for entry, excepted in entries[oid] if not excepted),
            tuple(schemas[oid]),
            tuple(entry.key for entry, excepted in entries[oid] if excepted),
            frozenset(operation for operation, sent in zip(OPERATIONS, published, strict=True) if sent),
            via_root,
            _GENERATED[generated],
        )
        for oid, name, all_tables, published, via_root, generated in rows
    }
    return [found[name] for name in names if name in found]


def publications_of_sequences(connection: Connection, names: Sequence[str]) -> list[str]:
    """The publications with these names that are FOR ALL SEQUENCES, by name. A definition does not
    have this: sequences have no changes.

    Raises:
        psycopg.Error: the query failed.
    """
    if not features_of(connection).published_sequences:
        return []
    query = "SELECT pubname::text FROM pg_publication WHERE puballsequences AND pubname = ANY (%s) ORDER BY 1"
    return [name for (name,) in connection.execute(query, (list(names),))]


def _publications(features: ServerFeatures) -> str:
    truncate = "pubtruncate" if features.published_truncate else "false"
    via_root = "pubviaroot" if features.publish_via_partition_root else "false"
    generated = "pubgencols::text" if features.published_generated_columns else "'n'"
    return (
        f"SELECT oid::int8, pubname::text, puballtables, ARRAY[pubinsert, pubupdate, pubdelete, {truncate}], {via_root},"
        f" {generated} FROM pg_publication WHERE pubname = ANY (%s)"
    )


def _entries(connection: Connection, oids: list[int]) -> dict[int, list[tuple[TableEntry, bool]]]:
    features = features_of(connection)
    filters = features.row_filters
    where = "pg_get_expr(r.prqual, r.prrelid)" if filters else "NULL::text"
    listed = "r.prattrs::int2[]" if filters else "NULL::int2[]"
    excepted = "r.prexcept" if features.excepted_tables else "false"
    rows = connection.execute(
        f"SELECT r.prpubid::int8, n.nspname::text, c.relname::text, {where}, {listed} IS NOT NULL,"
        " ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = r.prrelid"
        f"  AND a.attnum = ANY ({listed}) ORDER BY a.attnum), {excepted}"
        " FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE r.prpubid::int8 = ANY (%s) ORDER BY r.prrelid".encode(),
        (oids,),
    )
    entries: dict[int, list[tuple[TableEntry, bool]]] = defaultdict(list)
    for publication, schema, name, expression, has_list, columns, is_excepted in rows:
        entry = TableEntry(schema, name, tuple(columns) if has_list else None, expression)
        entries[publication].append((entry, is_excepted))
    return entries


def _schemas(connection: Connection, oids: list[int]) -> dict[int, list[str]]:
    schemas: dict[int, list[str]] = defaultdict(list)
    if not features_of(connection).row_filters:
        return schemas
    rows = connection.execute(
        "SELECT p.pnpubid::int8, n.nspname::text FROM pg_publication_namespace p JOIN pg_namespace n ON n.oid = p.pnnspid"
        " WHERE p.pnpubid::int8 = ANY (%s) ORDER BY n.nspname",
        (oids,),
    )
    for publication, schema in rows:
        schemas[publication].append(schema)
    return schemas
