"""The one reader of a publisher's tables: tables, columns and indexes, each with one query for all
tables.

::

    read_tables, read_indexes ─┬─▶ shapes, table_objects   what is needed to create an equal table
                               ├─▶ catalog_tables          what emulated publications depend on
                               ├─▶ announced_relations     the relation messages that the stream would send
                               └─▶ table_checks            replica identities that are missing

The queries work from version 10 on. What prints expressions or values runs in one transaction with
:func:`fix_settings`: an empty ``search_path`` makes user-defined objects appear with their schema,
and constants have the text that replication would send.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from subscriber.postgres.protocol.messages import IDENTITY_FLAG, Relation, RelationColumn
from subscriber.postgres.schema.published_table import Publications, PublishedTable
from subscriber.postgres.schema.publisher_tables import (
    Generated,
    Identity,
    Kind,
    Persistence,
    PublisherColumn,
    PublisherTable,
    TableAttributes,
)
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.postgres.schema.shape import IndexKey, IndexShape, after_using
from subscriber.postgres.types.oids import BUILT_IN_TYPES, FIRST_NORMAL_OID
from subscriber.publisher.connection import Connection, features_of

SETTINGS: Final[Mapping[str, str]] = {
    "search_path": "",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
}


def fix_settings(connection: Connection) -> None:
    """Use :data:`SETTINGS` until the transaction ends."""
    query = "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS fixed (name, value)"
    connection.execute(query, (list(SETTINGS), list(SETTINGS.values())))


def names_of(tables: Iterable[PublishedTable]) -> tuple[list[str], list[str]]:
    """Schemas and names of tables, as two parameters of ``unnest``."""
    listed = list(tables)
    return [table.schema for table in listed], [table.name for table in listed]


# Tables -------------------------------------------------------------------------------------------

FIRST_UNPINNED_OID: Final = 12000
"""The OIDs of the system catalogs are lower; their columns are not read. The tables of
information_schema have higher OIDs, and may be published.
"""

_KINDS: Final[Mapping[str, Kind]] = {
    "r": "table",
    "p": "partitioned table",
    "v": "view",
    "m": "materialized view",
    "f": "foreign table",
    "S": "sequence",
}
_PERSISTENCES: Final[Mapping[str, Persistence]] = {"p": "permanent", "u": "unlogged", "t": "temporary"}
_IDENTITIES: Final[Mapping[str, Identity]] = {"d": "default", "n": "nothing", "i": "index", "f": "full"}


def read_tables(
    connection: Connection, names: Collection[tuple[str, str]] | None = None, *, defaults: bool = False
) -> list[PublisherTable]:
    """Tables by OID; None: all that a FROM clause can name. System catalogs have no columns."""
    features = features_of(connection)
    counted = features.column_lists and not features.lists_of_live_columns
    condition, parameters = "c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')", None
    if names is not None:
        condition = (
            "c.relkind IN ('r', 'p') AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"
        )
        parameters = [schema for schema, _ in names], [name for _, name in names]
    found = connection.execute(
        "SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text,"
        " c.relreplident::text, c.relispartition, c.relnatts FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE {condition} ORDER BY c.oid".encode(),
        parameters,
    ).fetchall()
    oids = [oid for oid, _, _, kind, *_ in found if kind in "rp" and oid >= FIRST_UNPINNED_OID]
    columns = read_columns(connection, oids, defaults=defaults)
    keys, parents = _identity_keys(connection, oids), _parents(connection, oids)
    return [
        PublisherTable(
            oid,
            schema,
            name,
            _KINDS[kind],
            tuple(columns[oid]),
            identity=_IDENTITIES[identity],
            identity_columns=tuple(one.name for one in columns[oid]) if identity == "f" else keys.get(oid, ()),
            parents=tuple(parents[oid]),
            is_partition=is_partition,
            persistence=_PERSISTENCES[persistence],
            is_system=oid < FIRST_NORMAL_OID,
            attributes=attributes if counted else 0,
        )
        for oid, schema, name, kind, persistence, identity, is_partition, attributes in found
    ]


def _identity_keys(connection: Connection, oids: Collection[int]) -> dict[int, tuple[str, ...]]:
    """The columns of replica identity indexes, as in RelationGetIndexList: none deferrable."""
    rows = connection.execute(
        "SELECT i.indrelid::int8, ARRAY(SELECT a.attname::text"
        f" FROM unnest({index_key(features_of(connection))}) WITH ORDINALITY AS k (attnum, place)"
        "  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY place)"
        " FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
        " WHERE i.indisvalid AND i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indrelid = ANY (%s)"
        " AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END".encode(),
        (list(oids),),
    )
    return {oid: tuple(names) for oid, names in rows}


def _parents(connection: Connection, oids: Collection[int]) -> dict[int, list[tuple[str, str]]]:
    parents: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for oid, schema, name in connection.execute(
        "SELECT i.inhrelid::int8, n.nspname::text, c.relname::text FROM pg_inherits i"
        " JOIN pg_class c ON c.oid = i.inhparent AND c.relkind IN ('r', 'p', 'f')"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE i.inhrelid = ANY (%s) ORDER BY i.inhrelid, i.inhseqno",
        (list(oids),),
    ):
        parents[oid].append((schema, name))
    return parents


# Columns ------------------------------------------------------------------------------------------

_GENERATED: Final[Mapping[str, Generated]] = {"": "", "s": "stored", "v": "virtual"}
_NEXT_VALUE: Final = re.compile(r"\(?nextval\(E?'(?:[^']|'')+'::regclass\)(?:\)::(?:smallint|integer|bigint))?")
"""A default that consists of the next value of a sequence only, as ``pg_get_expr`` writes it."""
_USES_SEQUENCE: Final = (
    "EXISTS (SELECT FROM pg_depend u JOIN pg_class s ON s.oid = u.refobjid AND s.relkind = 'S'"
    " WHERE u.classid = 'pg_attrdef'::regclass AND u.objid = d.oid AND u.refclassid = 'pg_class'::regclass)"
)
_MAY_BE_NULL: Final = (
    " OR EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'n'"
    " AND NOT k.convalidated AND k.conkey = ARRAY[a.attnum])"
)
"""Rows may violate a NOT NULL constraint that is NOT VALID."""


def read_columns(
    connection: Connection, oids: Collection[int], *, defaults: bool = False
) -> dict[int, list[PublisherColumn]]:
    """Columns by table OID; ``defaults`` adds what publications and filters do not need."""
    features = features_of(connection)
    generated = "a.attgenerated::text" if features.generated_columns else "''"
    expression, nullable, sequence = "pg_get_expr(d.adbin, d.adrelid)", "NOT a.attnotnull", "false"
    if defaults:
        nullable += _MAY_BE_NULL if features.unenforced_constraints else ""
        sequence = _USES_SEQUENCE
    else:
        expression = f"CASE WHEN {generated} <> '' THEN {expression} END"
    rows = connection.execute(
        "SELECT a.attrelid::int8, a.attname::text, a.attnum, a.atttypid::int8, a.atttypmod,"
        f" format_type(a.atttypid, a.atttypmod), a.attcollation::int8, {generated}, {expression}, {nullable},"
        f" a.attidentity::text, {sequence}"
        " FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
        " WHERE a.attrelid = ANY (%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum".encode(),
        (list(oids),),
    )
    columns: dict[int, list[PublisherColumn]] = defaultdict(list)
    for oid, name, number, kind, modifier, type_name, collation, letter, text, may_be_null, identity, counts in rows:
        column = PublisherColumn(
            name, number, kind, modifier, type_name, collation, _GENERATED[letter], text if letter else None
        )
        if defaults:
            column = replace(
                column,
                nullable=may_be_null,
                default=None if letter else text,
                identity=identity,
                serial=counts and _NEXT_VALUE.fullmatch(text or "") is not None,
            )
        columns[oid].append(column)
    return columns


# Indexes ------------------------------------------------------------------------------------------


def index_key(features: ServerFeatures) -> str:
    """The attribute numbers of the key of ``pg_index i``, without INCLUDE, as SQL."""
    return f"(i.indkey::int2[])[0:{'i.indnkeyatts' if features.covering_indexes else 'i.indnatts'} - 1]"


_CONSTRAINTS: Final[Mapping[str | None, Any]] = {"p": "primary key", "u": "unique", "x": "exclusion"}


def read_indexes(connection: Connection, oids: Collection[int]) -> dict[int, list[IndexShape]]:
    """The valid indexes of tables by name, by the tables' OIDs."""
    features = features_of(connection)
    distinct = "NOT i.indnullsnotdistinct" if features.nulls_not_distinct else "true"
    rows = connection.execute(
        f"""
SELECT i.indrelid::int8, x.relname::text, i.indisunique, i.indisexclusion, i.indisreplident, pg_get_expr(i.indpred, i.indrelid),
 m.amname::text, {distinct}, NOT i.indimmediate, k.contype::text, pg_get_constraintdef(k.oid), pg_get_indexdef(i.indexrelid),
 (SELECT json_agg(json_build_array(a.attname, CASE WHEN u.attnum = 0 THEN pg_get_indexdef(i.indexrelid, u.place::int4, false) END,
   i.indoption[u.place - 1] & 1 = 1, o.opcdefault AND (u.attnum = 0 OR i.indcollation[u.place - 1] IN (0, a.attcollation)))
   ORDER BY u.place)
  FROM unnest({index_key(features)}) WITH ORDINALITY AS u (attnum, place)
  JOIN pg_opclass o ON o.oid = i.indclass[u.place - 1]
  LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum),
 ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS u (attnum, place)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum WHERE u.place > cardinality({index_key(features)}) ORDER BY u.place)
 FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
 LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u', 'x')
 WHERE i.indrelid = ANY (%s) AND i.indisvalid ORDER BY i.indrelid, x.relname""".encode(),
        (list(oids),),
    )
    found: dict[int, list[IndexShape]] = defaultdict(list)
    for (
        oid,
        name,
        unique,
        excludes,
        identity,
        predicate,
        method,
        nulls,
        deferrable,
        letter,
        of_constraint,
        ddl,
        *columns,
    ) in rows:
        keys, include = columns
        constraint = _CONSTRAINTS.get(letter, "")
        found[oid].append(
            IndexShape(
                name=name,
                keys=tuple(IndexKey(column, text or "", down, ordinary) for column, text, down, ordinary in keys),
                include=tuple(include),
                unique=unique,
                predicate=predicate,
                method=method,
                nulls_distinct=nulls,
                deferrable=deferrable,
                constraint=constraint,
                ddl=of_constraint if constraint else after_using(ddl),
                excludes=excludes,
                is_identity=identity,
                definition=ddl,
            )
        )
    return found


# Relation messages --------------------------------------------------------------------------------


def announced_relations(connection: Connection, tables: Sequence[PublishedTable]) -> list[Relation]:
    """The relation messages that the stream would send for existing tables, in order."""
    found = {table.key: table for table in read_tables(connection, [one.key for one in tables])}
    return [_relation(table, found[table.key]) for table in tables if table.key in found]


def _relation(published: PublishedTable, table: PublisherTable) -> Relation:
    letter = next(letter for letter, identity in _IDENTITIES.items() if identity == table.identity)
    columns = tuple(
        RelationColumn(
            IDENTITY_FLAG if one.name in table.identity_columns else 0, one.name, one.type_oid, one.type_modifier
        )
        for one in table.columns
        if (not one.generated if published.columns is None else one.name in published.columns)
    )
    return Relation(table.oid, table.schema, table.name, letter, columns)


def user_type_names(connection: Connection, relations: Sequence[Relation]) -> dict[int, str]:
    """The names of user-defined types of columns, by their OID."""
    oids = {column.type_oid for relation in relations for column in relation.columns} - BUILT_IN_TYPES
    if not oids:
        return {}
    rows = connection.execute(
        "SELECT oid::int8, format_type(oid, NULL) FROM unnest(%s::oid[]) AS t (oid)", (sorted(oids),)
    )
    return {oid: name for oid, name in rows if name is not None}


# Attributes ---------------------------------------------------------------------------------------

_LEAVES: Final = (
    "WITH RECURSIVE tree(relid, kind) AS (SELECT c.oid, c.relkind FROM pg_class c WHERE c.oid = %s"
    " UNION ALL SELECT c.oid, c.relkind FROM tree JOIN pg_inherits i ON i.inhparent = tree.relid AND tree.kind = 'p'"
    " JOIN pg_class c ON c.oid = i.inhrelid)"
)


def read_attributes(
    connection: Connection, publications: Publications, schema: str, table: str
) -> TableAttributes | None:
    with connection.transaction():
        fix_settings(connection)
        found = connection.execute(
            "SELECT c.oid::int8, c.relnatts::int4 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')",
            (schema, table),
        ).fetchone()
        if found is None:
            return None
        oid, last = found
        columns = tuple(read_columns(connection, [oid])[oid])
        missing = {}
        if features_of(connection).missing_values:
            # attmissingval is an array with one element of the column's type. Cast to text[], its
            # first element is the text of that value.
            rows = connection.execute(
                f"{_LEAVES} SELECT b.attname::text, array_agg(DISTINCT (b.attmissingval::text::text[])[1])"
                " FROM tree JOIN pg_attribute b ON b.attrelid = tree.relid WHERE NOT b.attisdropped"
                " AND (b.attmissingval::text::text[])[1] IS NOT NULL GROUP BY 1".encode(),
                (oid,),
            )
            missing = {name: frozenset(values) for name, values in rows}
        files = connection.execute(
            f"{_LEAVES} SELECT relid::int8, COALESCE(pg_relation_filenode(relid), 0)::int8 FROM tree WHERE kind <> 'p'".encode(),
            (oid,),
        ).fetchall()
    is_whole = not publications.has_column_list(schema, table)
    return TableAttributes(columns, last, changed_files(files), is_whole, oid, missing)


def changed_files(files: Iterable[tuple[int, int]]) -> Mapping[int, int]:
    """The tables whose OID and file node differ: the two are equal until the first rewrite."""
    return {oid: file for oid, file in files if file != oid}
