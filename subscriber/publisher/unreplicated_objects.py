"""What a database has that logical replication does not replicate: counts and names, for the report
of a migration's check.

Logical replication replicates rows of tables. The objects of extensions are not counted, because
CREATE EXTENSION creates them. The queries work from version 10 on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, LiteralString

from subscriber.publisher.sql_connection import Connection

_FIRST_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class UnreplicatedObjects:
    """The objects of one kind.

    Attributes:
        kind: the kind, in the plural, such as ``views``.
        number: how many there are.
        names: the first names in alphabetical order.
    """

    kind: str
    number: int
    names: tuple[str, ...]


_OWN: Final[LiteralString] = (
    "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%%' AND n.nspname NOT LIKE 'pg\\_temp%%'"
)


def _not_of_extension(catalog: LiteralString, oid: LiteralString) -> LiteralString:
    return f"NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = '{catalog}'::regclass AND e.objid = {oid} AND e.deptype = 'e')"


def _relations(kind: LiteralString, letter: LiteralString) -> LiteralString:
    return (
        f"SELECT '{kind}', n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE c.relkind = '{letter}' AND {_OWN} AND {_not_of_extension('pg_class', 'c.oid')}"
    )


_OBJECTS: Final[tuple[LiteralString, ...]] = (
    _relations("views", "v"),
    _relations("materialized views", "m"),
    _relations("foreign tables", "f"),
    _relations("sequences", "S"),
    (
        "SELECT 'unlogged tables', n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE c.relkind = 'r' AND c.relpersistence = 'u' AND {_OWN}"
    ),
    (
        "SELECT 'triggers', n.nspname || '.' || c.relname || '.' || t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE NOT t.tgisinternal AND {_OWN}"
    ),
    (
        "SELECT 'rules', n.nspname || '.' || c.relname || '.' || r.rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class"
        f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE r.rulename <> '_RETURN' AND {_OWN}"
    ),
    (
        "SELECT 'policies of row security', n.nspname || '.' || c.relname || '.' || p.polname FROM pg_policy p"
        f" JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {_OWN}"
    ),
    (
        "SELECT 'functions', n.nspname || '.' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
        f" WHERE {_OWN} AND {_not_of_extension('pg_proc', 'p.oid')}"
    ),
    (
        "SELECT 'user-defined types', n.nspname || '.' || t.typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace"
        f" WHERE t.typtype IN ('e', 'd', 'r') AND {_OWN} AND {_not_of_extension('pg_type', 't.oid')}"
    ),
    "SELECT 'event triggers', evtname::text FROM pg_event_trigger",
    "SELECT 'extensions', extname::text FROM pg_extension WHERE extname <> 'plpgsql'",
    "SELECT 'large objects', oid::text FROM pg_largeobject_metadata",
    "SELECT 'roles', rolname::text FROM pg_roles WHERE rolname NOT LIKE 'pg\\_%%'",
)


def unreplicated_objects(connection: Connection) -> list[UnreplicatedObjects]:
    """The objects of the connection's database, and the roles of its server, that a subscription
    does not replicate; one entry for each kind of which there are any.

    Raises:
        psycopg.Error: a query failed.
    """
    found = []
    for query in _OBJECTS:
        row = connection.execute(
            'SELECT min(kind), count(*), (array_agg(name ORDER BY name COLLATE "C"))[1:%(first)s]'
            f" FROM ({query}) AS o (kind, name)".encode(),
            {"first": _FIRST_NAMES},
        ).fetchone()
        assert row is not None
        if row[1]:
            found.append(UnreplicatedObjects(row[0], row[1], tuple(row[2])))
    return found
