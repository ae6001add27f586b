"""The carrier: the server's publication from which a session's emulated publications choose.

::

    p1 FOR TABLE t WHERE (a > 5)                        ┐
    p2 FOR TABLE t (a, b), root WITH (via root, insert) ┼──▶ carrier FOR TABLE ONLY t, ONLY root   all rows and columns, the union of the
    p3 FOR TABLES IN SCHEMA s                           ┘      , TABLES IN SCHEMA s                operations, partitions as themselves

The carrier has the same tables and schemas as the emulated publications. So it contains a partition
that is attached later, or a table that is created later in the schema, from its first row on. It
contains no other table, because the publisher checks all its publications when a row without
replica identity is updated (rule B32). But the operations of a publication are valid for all its
tables. So the publisher may refuse an UPDATE of one table because the updates of another table are
published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg import sql

from subscriber.publication.definition import OPERATIONS, Publication, TableEntry
from subscriber.schema.server_features import ServerFeatures

CARRIER: Final = "subscriber_carrier"
"""The name of the carrier."""


def carrier_of(publications: Sequence[Publication], major: int) -> Publication:
    """The carrier that emulated publications need on a server.

    Args:
        publications: the emulated publications, without the carrier.
        major: the version of the server.
    """
    all_tables = any(publication.all_tables for publication in publications)
    members = {entry.key: TableEntry(*entry.key) for publication in publications for entry in publication.tables}
    schemas = dict.fromkeys(schema for publication in publications for schema in publication.schemas)
    return Publication(
        CARRIER,
        all_tables=all_tables,
        tables=() if all_tables else tuple(members.values()),
        schemas=() if all_tables else tuple(schemas),
        publish=frozenset().union(*(publication.publish for publication in publications)),
        generated_columns="stored" if ServerFeatures(major * 10000).published_generated_columns else "none",
    )


def create_statement(carrier: Publication) -> str:
    """The command that creates a carrier."""
    objects: list[sql.Composable] = [
        sql.SQL("TABLE ONLY {}").format(sql.Identifier(entry.schema, entry.name)) for entry in carrier.tables
    ]
    objects += [sql.SQL("TABLES IN SCHEMA {}").format(sql.Identifier(schema)) for schema in carrier.schemas]
    if carrier.all_tables:
        objects = [sql.SQL("ALL TABLES")]
    operations = ", ".join(operation for operation in OPERATIONS if operation in carrier.publish)
    options: list[sql.Composable] = [sql.SQL("publish = {}").format(sql.Literal(operations))]
    if carrier.generated_columns == "stored":
        options.append(sql.SQL("publish_generated_columns = stored"))
    command = sql.SQL("CREATE PUBLICATION {}{}{} WITH ({})").format(
        sql.Identifier(carrier.name),
        sql.SQL(" FOR " if objects else ""),
        sql.SQL(", ").join(objects),
        sql.SQL(", ").join(options),
    )
    return command.as_string(None)
