"""What a PostgreSQL table does with the rows that are written: what connects them, what happens to
each of them alone, and what it may refuse.

The apply path writes changes in another order, many at once, or leaves some out, only where none of
this can be seen (:class:`~subscriber.targets.roles.shapes.Shapes`).
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from subscriber.targets.target_table import TargetTable

_CONNECTED: Final = sa.text(
    # The table and its partitions.
    "WITH t (oid) AS (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    "  WHERE n.nspname = :schema AND c.relname = :table), p (oid) AS (SELECT oid FROM t"
    "  UNION SELECT r.relid FROM t CROSS JOIN pg_partition_tree(t.oid) r)"
    " SELECT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid IN (SELECT oid FROM p)"
    "  AND position(g.tgenabled::text IN CAST(:firing AS text)) > 0)"
    " OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid IN (SELECT oid FROM p) AND (i.indisunique OR i.indisexclusion)"
    "  GROUP BY i.indrelid HAVING count(*) > :keys)"
    # Two texts that differ may be equal under such a collation, which servers from 12 on have.
    " OR EXISTS (SELECT FROM pg_attribute a JOIN pg_collation o ON o.oid = a.attcollation"
    "  WHERE a.attrelid IN (SELECT oid FROM t) AND to_jsonb(o) ->> 'collisdeterministic' = 'false')"
    # What happens in a foreign table is not known.
    " OR EXISTS (SELECT FROM pg_class c WHERE c.oid IN (SELECT oid FROM p) AND c.relkind = 'f')"
)
_ONE_BY_ONE: Final = sa.text(
    # A trigger may see a table in which only some of the rows are written.
    "SELECT EXISTS (SELECT FROM pg_trigger g"
    "  WHERE (g.tgrelid = c.oid OR c.relkind = 'p' AND g.tgrelid IN (SELECT relid FROM pg_partition_tree(c.oid)))"
    "  AND position(g.tgenabled::text IN CAST(:firing AS text)) > 0) AS fires,"
    # A value of the table's row type must have a value of such a domain.
    " EXISTS (WITH RECURSIVE d (oid) AS (SELECT a.atttypid FROM pg_attribute a"
    "   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
    "  UNION SELECT t.typbasetype FROM d JOIN pg_type t ON t.oid = d.oid WHERE t.typbasetype <> 0)"
    "  SELECT FROM d JOIN pg_type t ON t.oid = d.oid WHERE t.typnotnull) AS requires"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = :table"
)
_REFUSES: Final = sa.text(
    # Constraints other than the key and NOT NULL, which may be a constraint from 18 on.
    "SELECT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype NOT IN ('p', 'u', 'n'))"
    # An index computes something, or limits the length of a value.
    " OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND (i.indpred IS NOT NULL OR i.indexprs IS NOT NULL))"
    " OR EXISTS (SELECT FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam"
    "  CROSS JOIN unnest(i.indkey) AS u (attnum) JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.attnum"
    "  WHERE i.indrelid = c.oid AND NOT i.indisunique AND (a.attlen < 0 OR m.amname NOT IN ('btree', 'hash', 'brin')))"
    # A long value is stored outside of the row, which keeps a pointer of 18 bytes to it.
    " OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
    "  AND (a.attgenerated <> '' OR a.attlen < 0 AND a.attstorage = 'p'))"
    " OR (SELECT sum(CASE WHEN a.attlen < 0 THEN 18 ELSE a.attlen + 8 END) FROM pg_attribute a"
    "  WHERE a.attrelid = c.oid AND a.attnum > 0) > 7000"
    # Each action needs its privilege. A publication may refuse to pass on UPDATE and DELETE.
    " OR NOT (has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))"
    " OR EXISTS (SELECT FROM pg_publication)"
    # Another encoding lacks characters, and servers before 14 lack infinite numerics.
    " OR pg_encoding_to_char((SELECT encoding FROM pg_database WHERE datname = current_database())) <> 'UTF8'"
    " OR CAST(current_setting('server_version_num') AS int) < 140000"
    # A partition has its own constraints.
    " OR c.relkind <> 'r'"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = :table"
)


def is_connected(connection: sa.Connection, table: TargetTable, *, fires: str) -> bool:
    """Whether the table or one of its partitions has a trigger that fires, a unique key or
    exclusion constraint beside its key, or a column whose collation is not deterministic.

    Args:
        connection: the connection to use.
        table: a table that has a key as a whole, or none.
        fires: as in :func:`~subscriber.targets.postgresql.catalog.read_table`. The triggers of
            foreign keys are among the triggers.
    """
    place = {"schema": table.schema, "table": table.name, "firing": fires, "keys": int(table.key is not None)}
    return bool(connection.execute(_CONNECTED, place).scalar_one())


def takes_many_rows(connection: sa.Connection, table: TargetTable, *, fires: str, as_rows: bool) -> bool:
    """Whether a statement for many rows does the same as a statement for each row.

    Args:
        connection: the connection to use.
        table: a table, which may have partitions.
        fires: as in :func:`~subscriber.targets.postgresql.catalog.read_table`.
        as_rows: the statement gets values of the table's row type, in which only some columns are
            not NULL.
    """
    place = {"schema": table.schema, "table": table.name, "firing": fires}
    found = connection.execute(_ONE_BY_ONE, place).one()
    return not (found.fires or (as_rows and found.requires))


def refuses_rows(connection: sa.Connection, table: TargetTable) -> bool:
    """See :meth:`Shapes.refuses_rows`; also true if the subscriber's role lacks a privilege."""
    return bool(connection.execute(_REFUSES, {"schema": table.schema, "table": table.name}).scalar_one())
