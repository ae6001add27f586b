"""Reads a table's attributes (:mod:`subscriber.schema.attributes`) from a publisher's catalogs,
from version 10 on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from subscriber.publisher.shapes import SETTINGS
from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.schema.attributes import Attribute, TableAttributes
from subscriber.schema.published_table import Publications

_LEAVES: Final = (
    "WITH RECURSIVE tree(relid, kind) AS (SELECT c.oid, c.relkind FROM pg_class c WHERE c.oid = %s"
    " UNION ALL SELECT c.oid, c.relkind FROM tree JOIN pg_inherits i ON i.inhparent = tree.relid AND tree.kind = 'p'"
    " JOIN pg_class c ON c.oid = i.inhrelid)"
)


def read_attributes(
    connection: Connection, publications: Publications, schema: str, table: str
) -> TableAttributes | None:
    """The current attributes of a table; None where there is no such table.

    Args:
        connection: a connection to the publisher.
        publications: the publications of the subscription, of the server or emulated.
        schema: the table's schema.
        table: the table's name.

    Raises:
        psycopg.Error: a query failed.
    """
    features = features_of(connection)
    with connection.transaction():
        for name, value in SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, true)", (name, value))
        found = connection.execute(
            "SELECT c.oid::int8, c.relnatts::int4 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')",
            (schema, table),
        ).fetchone()
        if found is None:
            return None
        oid, last = found
        # attmissingval is an array with one element of the column's type. Cast to text[], its first
        # element is the text of that value.
        missing = "(b.attmissingval::text::text[])[1]" if features.missing_values else "NULL::text"
        generated = "a.attgenerated <> ''" if features.generated_columns else "false"
        columns = connection.execute(
            f"{_LEAVES} SELECT a.attnum::int4, a.attname::text, a.atttypid::int8, a.atttypmod::int4, {generated},"
            f" ARRAY(SELECT DISTINCT {missing} FROM tree JOIN pg_attribute b ON b.attrelid = tree.relid"
            f"  AND b.attname = a.attname AND NOT b.attisdropped WHERE {missing} IS NOT NULL)"
            " FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum".encode(),
            (oid, oid),
        ).fetchall()
        files = connection.execute(
            f"{_LEAVES} SELECT relid::int8, COALESCE(pg_relation_filenode(relid), 0)::int8 FROM tree WHERE kind <> 'p'".encode(),
            (oid,),
        ).fetchall()
    return TableAttributes(
        tuple(
            Attribute(number, name, type_oid, modifier, frozenset(values), is_generated)
            for number, name, type_oid, modifier, is_generated, values in columns
        ),
        last,
        changed_files(files),
        not publications.has_column_list(schema, table),
        oid,
    )


def changed_files(files: Iterable[tuple[int, int]]) -> Mapping[int, int]:
    """The tables whose oid and file node differ, given as (oid, file node): the two are equal until
    the table is first rewritten.
    """
    return {oid: file for oid, file in files if file != oid}
