"""The positions of the publisher's sequences, for ALTER SUBSCRIPTION ... REFRESH SEQUENCES (rule
D14, from version 10 on).

A column takes values from a sequence that it owns (serial, ``OWNED BY``), from its identity
sequence, or from one that its default names (``DEFAULT nextval('s')``, recorded in pg_depend
whatever owns ``s``). A partition also takes values from the sequences of the same column of its
partitioned table. A default that names its sequence as text (``nextval('s'::text)``) has no
dependency, so that such a sequence belongs to no column here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from subscriber.base.lsn import LSN
from subscriber.postgres.schema.shape import SequenceDefinition, SequencePosition
from subscriber.postgres.sql.quoting import delimited_identifier, quote_literal
from subscriber.publisher.connection import Connection, features_of

ColumnName = tuple[str, str, str]
"""Schema, table and column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSequence:
    """A sequence of the publisher's database.

    Attributes:
        columns: those of the requested tables that take values from it, in order.
        used: whether any column of the database takes values from it.
        position: None if the role may not read it, or only other tables use the sequence.
        page_lsn: the LSN of its page, which only a server of version 19 or newer tells.
        grants: the statements that let the role read it, without semicolons; empty if it may.
    """

    schema: str
    name: str
    columns: tuple[ColumnName, ...]
    used: bool
    position: SequencePosition | None
    grants: tuple[str, ...] = ()
    definition: SequenceDefinition | None = None
    page_lsn: LSN | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.schema, self.name


_SEQUENCES: Final = """
WITH RECURSIVE wanted (oid, schema, name) AS (
  SELECT c.oid, n.nspname, c.relname FROM unnest(%s::text[], %s::text[]) AS t (schema, name)
   JOIN pg_namespace n ON n.nspname = t.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.name),
lineage (oid, ancestor) AS (
  SELECT oid, oid FROM wanted
  UNION SELECT l.oid, i.inhparent FROM lineage l JOIN pg_class c ON c.oid = l.ancestor AND c.relispartition
   JOIN pg_inherits i ON i.inhrelid = l.ancestor),
used (sequence, relation, attribute) AS (
  SELECT objid, refobjid, refobjsubid FROM pg_depend WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass
   AND refobjsubid > 0 AND deptype IN ('a', 'i')
  UNION SELECT d.refobjid, f.adrelid, f.adnum FROM pg_attrdef f JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass
   AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass),
taken (sequence, schema, name, place, attribute) AS (
  SELECT DISTINCT u.sequence, w.schema, w.name, b.attnum, b.attname FROM used u
   JOIN pg_attribute a ON a.attrelid = u.relation AND a.attnum = u.attribute AND NOT a.attisdropped
   JOIN lineage l ON l.ancestor = u.relation JOIN wanted w ON w.oid = l.oid
   JOIN pg_attribute b ON b.attrelid = w.oid AND b.attname = a.attname)
SELECT n.nspname::text, s.relname::text, q.seqincrement, has_schema_privilege(n.oid, 'USAGE'), has_sequence_privilege(s.oid, 'SELECT'),
 current_user::text, EXISTS (SELECT FROM used WHERE sequence = s.oid),
 (SELECT json_agg(json_build_array(t.schema, t.name, t.attribute) ORDER BY t.schema, t.name, t.place) FROM taken t WHERE t.sequence = s.oid),
 format_type(q.seqtypid, NULL), q.seqstart, q.seqmin, q.seqmax, q.seqcycle
 FROM pg_class s JOIN pg_sequence q ON q.seqrelid = s.oid JOIN pg_namespace n ON n.oid = s.relnamespace
 WHERE s.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY n.nspname, s.relname
"""


_READ_TOGETHER: Final = 100
"""How many sequences one query reads; a server parses a long UNION ALL slowly."""


def published_sequences(
    connection: Connection, tables: Sequence[tuple[str, str]], named: Collection[tuple[str, str]] = ()
) -> list[PublishedSequence]:
    """Every sequence of the database by name, with the columns of these tables that use it. The
    positions of ``named`` sequences are read, too, whatever uses them.
    """
    rows = connection.execute(
        _SEQUENCES.encode(), ([schema for schema, _ in tables], [name for _, name in tables])
    ).fetchall()
    found = []
    increments: dict[tuple[str, str], int] = {}
    for schema, name, increment, in_schema, may_read, role, used, columns, *defined in rows:
        type_name, start, least, greatest, cycles = defined
        one = PublishedSequence(
            schema=schema,
            name=name,
            columns=tuple((table_schema, table, column) for table_schema, table, column in columns or ()),
            used=used,
            position=None,
            grants=_grants(schema, name, role, in_schema=in_schema, may_read=may_read),
            definition=SequenceDefinition(type_name, start, increment, least, greatest, cycles),
        )
        if (one.columns or not used or one.key in named) and not one.grants:
            increments[schema, name] = increment
        found.append(one)
    positions = _positions(connection, increments)
    unread = None, None
    return [
        replace(one, position=position, page_lsn=page_lsn)
        for one in found
        for position, page_lsn in [positions.get(one.key, unread)]
    ]


def _positions(
    connection: Connection, increments: Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], tuple[SequencePosition, LSN | None]]:
    """Read from the sequences themselves: pg_sequences shows no value before the first nextval."""
    positions = {}
    has_lsn = features_of(connection).published_sequences
    names = list(increments)
    for start in range(0, len(names), _READ_TOGETHER):
        together = names[start : start + _READ_TOGETHER]
        each = (
            f"SELECT {number}, last_value, is_called, {_page_lsn(name) if has_lsn else 'NULL::int8'}"
            f" FROM {delimited_identifier(*name)}"
            for number, name in enumerate(together)
        )
        for number, last, called, lsn in connection.execute(" UNION ALL ".join(each).encode()):
            name = together[number]
            position = SequencePosition(last_value=last, is_called=called, increment=increments[name])
            positions[name] = position, None if lsn is None else LSN(lsn)
    return positions


def _page_lsn(name: tuple[str, str]) -> str:
    return f"((pg_get_sequence_data({quote_literal(delimited_identifier(*name))}::regclass)).page_lsn - '0/0')::int8"


def _grants(schema: str, name: str, role: str, *, in_schema: bool, may_read: bool) -> tuple[str, ...]:
    grants = []
    if not in_schema:
        grants.append(f"GRANT USAGE ON SCHEMA {delimited_identifier(schema)} TO {delimited_identifier(role)}")
    if not may_read:
        grants.append(f"GRANT SELECT ON SEQUENCE {delimited_identifier(schema, name)} TO {delimited_identifier(role)}")
    return tuple(grants)
