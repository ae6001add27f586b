"""The interface of :class:`subscriber.postgres.logical_decoding.Publisher`, carried out as SQL on a
server.

A workload is a function that calls the methods of a publisher and of its sessions. So the same
function runs in memory and on a server::

    def workload(publisher):
        session = publisher.session()
        session.insert("t", a=1)

    workload(Publisher(180000))
    workload(SqlPublisher(connect, 180000))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg

from subscriber.base.lsn import format_lsn
from subscriber.postgres.logical_decoding import Column, Toasted
from subscriber.postgres.logical_decoding.memory_tables import columns_of, split_name
from subscriber.postgres.publication.definition import OPERATIONS, Publication, TableEntry

Connect = Callable[[], psycopg.Connection[Any]]
_FORGET_ORIGIN: LiteralString = (
    "SELECT pg_replication_origin_session_reset() WHERE pg_replication_origin_session_is_setup()"
)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class SqlPublisher:
    """A publisher that is a database of a server.

    Args:
        connect: makes a connection in autocommit mode.
        server_version: the server's version, such as 180000.
    """

    def __init__(self, connect: Connect, server_version: int) -> None:
        self.server_version = server_version
        self.publications: dict[str, Publication] = {}
        self._connect = connect
        self._connections: list[psycopg.Connection[Any]] = []
        self._origins: list[str] = []

    def close(self) -> None:
        """End the sessions and drop the origins, which belong to the whole server."""
        for connection in self._connections:
            # A server process ends some time after its connection, and an origin in use stays.
            connection.execute("ROLLBACK")
            connection.execute(_FORGET_ORIGIN)
            connection.close()
        with self._connect() as connection:
            for name in self._origins:
                connection.execute("SELECT pg_replication_origin_drop(%s)", [name])

    def session(self) -> SqlSession:
        connection = self._connect()
        self._connections.append(connection)
        return SqlSession(self, connection)

    def create_table(self, name: str, *arguments: Any, **properties: Any) -> None:
        self.session().create_table(name, *arguments, **properties)

    def create_publication(self, publication: Publication) -> None:
        self.session().create_publication(publication)

    def create_origin(self, name: str) -> None:
        self.session().run(f"SELECT pg_replication_origin_create({literal(name)})")
        self._origins.append(name)

    def drop_origin(self, name: str) -> None:
        self.session().run(f"SELECT pg_replication_origin_drop({literal(name)})")
        self._origins.remove(name)


class SqlSession:
    """A session: a connection. Every method is one transaction, unless :meth:`begin` was called."""

    def __init__(self, publisher: SqlPublisher, connection: psycopg.Connection[Any]) -> None:
        self._publisher = publisher
        self._connection = connection

    def run(self, *statements: str) -> None:
        """Run statements as one transaction, or in the one that is open."""
        self._connection.execute("; ".join(statements).encode())

    # Transactions ---------------------------------------------------------------------------------

    def begin(self) -> None:
        self.run("BEGIN")

    def commit(self) -> None:
        self.run("COMMIT")

    def rollback(self) -> None:
        self.run("ROLLBACK")

    def savepoint(self, name: str) -> None:
        self.run(f"SAVEPOINT {quoted(name)}")

    def release(self, name: str) -> None:
        self.run(f"RELEASE SAVEPOINT {quoted(name)}")

    def rollback_to(self, name: str) -> None:
        self.run(f"ROLLBACK TO SAVEPOINT {quoted(name)}")

    def prepare(self, gid: str) -> None:
        self.run(f"PREPARE TRANSACTION {literal(gid)}")

    def commit_prepared(self, gid: str) -> None:
        self.run(f"COMMIT PREPARED {literal(gid)}")

    def rollback_prepared(self, gid: str) -> None:
        self.run(f"ROLLBACK PREPARED {literal(gid)}")

    def replicate_origin(self, name: str) -> None:
        if name:
            self.run(f"SELECT pg_replication_origin_session_setup({literal(name)})")
        else:
            self.run("SELECT pg_replication_origin_session_reset()")

    def origin_xact(self, lsn: int, timestamp: int) -> None:
        time = _EPOCH + timedelta(microseconds=timestamp)
        self.run(f"SELECT pg_replication_origin_xact_setup('{format_lsn(lsn)}', '{time.isoformat()}')")

    # Rows -----------------------------------------------------------------------------------------

    def insert(
        self, table: str, row: Mapping[str, Any] | None = None, /, *, on_conflict: bool = False, **values: Any
    ) -> None:
        given = {**(row or {}), **values}
        columns = ", ".join(map(quoted, given))
        texts = ", ".join(map(literal, given.values()))
        end = " ON CONFLICT DO NOTHING" if on_conflict else ""
        self.run(f"INSERT INTO {qualified(table)} ({columns}) VALUES ({texts}){end}")

    def update(self, table: str, where: Mapping[str, Any], /, **values: Any) -> None:
        changed = ", ".join(f"{quoted(name)} = {literal(value)}" for name, value in values.items())
        self.run(f"UPDATE {qualified(table)} SET {changed}{_where(where)}")

    def delete(self, table: str, where: Mapping[str, Any], /) -> None:
        self.run(f"DELETE FROM {qualified(table)}{_where(where)}")

    def truncate(self, *tables: str, cascade: bool = False, restart_identity: bool = False) -> None:
        flags = " RESTART IDENTITY" * restart_identity + " CASCADE" * cascade
        self.run(f"TRUNCATE {', '.join(map(qualified, tables))}{flags}")

    def message(self, prefix: str, content: bytes | str, *, transactional: bool = True) -> None:
        data = content.encode() if isinstance(content, str) else content
        flag = "true" if transactional else "false"
        self.run(f"SELECT pg_logical_emit_message({flag}, {literal(prefix)}, {literal(data)}::bytea)")

    # Tables ---------------------------------------------------------------------------------------

    def create_table(
        self,
        name: str,
        columns: Mapping[str, str] | Sequence[Column],
        primary_key: Sequence[str] = (),
        *,
        persistence: str = "permanent",
        partition_by: str | None = None,
    ) -> None:
        kind = {"permanent": "", "unlogged": "UNLOGGED ", "temporary": "TEMPORARY "}[persistence]
        lines = [_column(column) for column in columns_of(columns)]
        if primary_key:
            lines.append(f"PRIMARY KEY ({', '.join(map(quoted, primary_key))})")
        table = quoted(name) if persistence == "temporary" else qualified(name)
        self.run(*self._schema(name), f"CREATE {kind}TABLE {table} ({', '.join(lines)}){_partition_by(partition_by)}")

    def create_partition(
        self,
        name: str,
        of: str,
        values: Sequence[Any] | None = None,
        *,
        columns: Mapping[str, str] | Sequence[Column] | None = None,
        partition_by: str | None = None,
    ) -> None:
        bound = "DEFAULT" if values is None else f"FOR VALUES IN ({', '.join(map(literal, values))})"
        if columns is None:
            self.run(
                *self._schema(name),
                f"CREATE TABLE {qualified(name)} PARTITION OF {qualified(of)} {bound}{_partition_by(partition_by)}",
            )
            return
        lines = ", ".join(_column(column) for column in columns_of(columns))
        keys = self._connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND attnotnull",
            [qualified(of)],
        ).fetchall()
        self.run(
            *self._schema(name),
            f"CREATE TABLE {qualified(name)} ({lines}){_partition_by(partition_by)}",
            *(f"ALTER TABLE {qualified(name)} ALTER {quoted(key)} SET NOT NULL" for (key,) in keys),
            f"ALTER TABLE {qualified(of)} ATTACH PARTITION {qualified(name)} {bound}",
        )

    def _schema(self, name: str) -> list[str]:
        schema, _ = split_name(name)
        return [] if schema == "public" else [f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}"]

    def drop_table(self, name: str) -> None:
        self.run(f"DROP TABLE {qualified(name)}")

    def add_column(self, table: str, column: Column) -> None:
        self.run(f"ALTER TABLE {qualified(table)} ADD COLUMN {_column(column)}")

    def drop_column(self, table: str, column: str) -> None:
        self.run(f"ALTER TABLE {qualified(table)} DROP COLUMN {quoted(column)}")

    def rename_column(self, table: str, column: str, new_name: str) -> None:
        self.run(f"ALTER TABLE {qualified(table)} RENAME COLUMN {quoted(column)} TO {quoted(new_name)}")

    def rename_table(self, table: str, new_name: str) -> None:
        (before, bare), (after, new_bare) = split_name(table), split_name(new_name)
        statements = self._schema(new_name)
        if bare != new_bare:
            statements.append(f"ALTER TABLE {qualified(table)} RENAME TO {quoted(new_bare)}")
        if before != after:
            moved = f"{quoted(before)}.{quoted(new_bare)}"
            statements.append(f"ALTER TABLE {moved} SET SCHEMA {quoted(after)}")
        self.run(*statements)
        for publication in self._publisher.publications.values():
            entries = [
                replace(one, schema=after, name=new_bare) if one.key == (before, bare) else one
                for one in publication.tables
            ]
            self._publisher.publications[publication.name] = replace(publication, tables=tuple(entries))

    def replica_identity(self, table: str, identity: str, columns: Sequence[str] = ()) -> None:
        if identity != "index":
            self.run(f"ALTER TABLE {qualified(table)} REPLICA IDENTITY {identity.upper()}")
            return
        index = quoted("_".join([split_name(table)[1], *columns, "identity"]))
        names = list(map(quoted, columns))
        self.run(
            *(f"ALTER TABLE {qualified(table)} ALTER {name} SET NOT NULL" for name in names),
            f"CREATE UNIQUE INDEX {index} ON {qualified(table)} ({', '.join(names)})",
            f"ALTER TABLE {qualified(table)} REPLICA IDENTITY USING INDEX {index}",
        )

    def rewrite_table(self, table: str) -> None:
        """Write every row again as it is, by a USING clause that is not the column itself."""
        rows = self._connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass"
            " AND attnum > 0 AND NOT attisdropped ORDER BY attnum LIMIT 1",
            [qualified(table)],
        ).fetchall()
        ((name, type_name),) = rows
        column = quoted(name)
        self.run(f"ALTER TABLE {qualified(table)} ALTER {column} TYPE {type_name} USING coalesce({column}, {column})")

    # Types and publications -----------------------------------------------------------------------

    def create_enum(self, name: str, labels: Sequence[str] = ("ok", "sad")) -> None:
        texts = ", ".join(map(literal, labels))
        self.run(*self._schema(name), f"CREATE TYPE {qualified(name)} AS ENUM ({texts})")

    def create_domain(self, name: str, type_name: str) -> None:
        self.run(*self._schema(name), f"CREATE DOMAIN {qualified(name)} AS {type_name}")

    def create_publication(self, publication: Publication) -> None:
        known = self._publisher.publications
        before = known.get(publication.name)
        known[publication.name] = publication
        if before is None:
            objects = _objects(publication)
            target = " FOR ALL TABLES" if publication.all_tables else f" FOR {objects}" * bool(objects)
            self.run(f"CREATE PUBLICATION {quoted(publication.name)}{target} WITH ({', '.join(_options(publication))})")
            return
        self.run(*_alterations(before, publication))

    def drop_publication(self, name: str) -> None:
        del self._publisher.publications[name]
        self.run(f"DROP PUBLICATION {quoted(name)}")


def _alterations(before: Publication, after: Publication) -> Iterable[str]:
    name = quoted(after.name)
    wanted = set(_options(after)) - set(_options(before))
    if wanted:
        yield f"ALTER PUBLICATION {name} SET ({', '.join(sorted(wanted))})"
    old, new = {one.key: one for one in before.tables}, {one.key: one for one in after.tables}
    if any(new[key] != old[key] for key in old.keys() & new.keys()):
        yield f"ALTER PUBLICATION {name} SET {_objects(after)}"
        return
    for word, tables, schemas in (
        ("DROP", old.keys() - new.keys(), set(before.schemas) - set(after.schemas)),
        ("ADD", new.keys() - old.keys(), set(after.schemas) - set(before.schemas)),
    ):
        source = after if word == "ADD" else before
        entries = tuple(one for one in source.tables if one.key in tables)
        if word == "DROP":
            entries = tuple(TableEntry(*one.key) for one in entries)
        some = replace(source, tables=entries, schemas=tuple(sorted(schemas)))
        if entries or schemas:
            yield f"ALTER PUBLICATION {name} {word} {_objects(some)}"


def _objects(publication: Publication) -> str:
    found = []
    for entry in publication.tables:
        columns = "" if entry.columns is None else f" ({', '.join(map(quoted, entry.columns))})"
        where = "" if entry.where is None else f" WHERE ({entry.where})"
        found.append(f"TABLE {quoted(entry.schema)}.{quoted(entry.name)}{columns}{where}")
    found += [f"TABLES IN SCHEMA {quoted(schema)}" for schema in publication.schemas]
    return ", ".join(found)


def _options(publication: Publication) -> list[str]:
    operations = ", ".join(one for one in OPERATIONS if one in publication.publish)
    options = [f"publish = '{operations}'", f"publish_via_partition_root = {str(publication.via_root).lower()}"]
    if publication.generated_columns != "none":
        options.append(f"publish_generated_columns = {publication.generated_columns}")
    return options


def _partition_by(column: str | None) -> str:
    return "" if column is None else f" PARTITION BY LIST ({quoted(column)})"


def _column(column: Column) -> str:
    generated = f" GENERATED ALWAYS AS ({column.expression}) {column.generated.upper()}" if column.generated else ""
    return f"{quoted(column.name)} {column.type}{generated}"


def _where(where: Mapping[str, Any]) -> str:
    tests = [
        f"{quoted(name)} IS NULL" if value is None else f"{quoted(name)} = {literal(value)}"
        for name, value in where.items()
    ]
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def quoted(name: str) -> str:
    """A name in quotes."""
    return '"' + name.replace('"', '""') + '"'


def qualified(name: str) -> str:
    """A table or type with its schema, in quotes."""
    schema, bare = split_name(name)
    return f"{quoted(schema)}.{quoted(bare)}"


def literal(value: Any) -> str:
    """A value as a constant of SQL."""
    if isinstance(value, Toasted):
        value = value.value
    match value:
        case None:
            return "NULL"
        case bool():
            return "'t'" if value else "'f'"
        case bytes():
            return f"'\\x{value.hex()}'"
        case _:
            return "'" + str(value).replace("'", "''") + "'"
