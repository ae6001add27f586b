"""Rows of the queries of :mod:`subscriber.publisher.catalog`, for a scripted server."""

from __future__ import annotations

from tests.scripted_server import Row

TABLES = "c.relispartition, c.relnatts"
"""A part of the query for tables."""
KEYS = "i.indisvalid AND i.indisunique"
"""A part of the query for the columns of replica identities."""
PARENTS = "n.nspname::text, c.relname::text FROM pg_inherits"
"""A part of the query for the tables above."""
COLUMNS = "a.attidentity::text"
"""A part of the query for columns."""
INDEXES = "json_agg(json_build_array(a.attname"
"""A part of the query for indexes."""


def relation(
    oid: int,
    name: str,
    *,
    kind: str = "r",
    persistence: str = "p",
    identity: str = "d",
    is_partition: bool = False,
    attributes: int = 0,
) -> Row:
    """A row of pg_class."""
    return {
        "oid": oid, "nspname": "public", "relname": name, "relkind": kind, "relpersistence": persistence,
        "relreplident": identity, "relispartition": is_partition, "relnatts": attributes,
    }  # fmt: skip


def key(table: int, *columns: str) -> Row:
    """A row of the query for the columns of replica identities."""
    return {"indrelid": table, "columns": list(columns)}


def column(
    table: int,
    number: int,
    name: str,
    type_oid: int = 23,
    type_name: str = "integer",
    *,
    collation: int = 0,
    generated: str = "",
    expression: str | None = None,
    nullable: bool = True,
    identity: str = "",
    serial: bool = False,
) -> Row:
    """A row of pg_attribute."""
    return {
        "attrelid": table, "attname": name, "attnum": number, "atttypid": type_oid, "atttypmod": -1,
        "format_type": type_name, "attcollation": collation, "attgenerated": generated, "adbin": expression,
        "nullable": nullable, "attidentity": identity, "serial": serial,
    }  # fmt: skip


def index(
    table: int,
    name: str,
    *columns: str,
    primary: bool = False,
    identity: bool = False,
    deferrable: bool = False,
    nulls_distinct: bool = True,
    predicate: str | None = None,
) -> Row:
    """A row of pg_index; the index is unique."""
    return {
        "indrelid": table, "relname": name, "indisunique": True, "indisexclusion": False, "indisreplident": identity,
        "predicate": predicate, "amname": "btree", "nulls_distinct": nulls_distinct, "deferrable": deferrable,
        "contype": "p" if primary else None, "constraint": "PRIMARY KEY …" if primary else None,
        "ddl": "CREATE UNIQUE INDEX i ON t USING btree …",
        "keys": [[column, None, False, True] for column in columns], "include": [],
    }  # fmt: skip
