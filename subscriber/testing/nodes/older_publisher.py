r"""A publisher node whose publications are those of a newer PostgreSQL than its server.

::

    CREATE, ALTER, DROP and COMMENT ON PUBLICATION ──▶ the node's own catalog, in a file
    \dRp, \dRp+, queries of pg_publication…        ──▶ answered from that catalog
    \d, \dn+                                       ──▶ the server's psql, with the footers that the newer psql prints
    every other statement                          ──▶ the server

The server has only the carrier (:mod:`subscriber.testing.nodes.emulated_publications`). The server
cannot check what newer servers check of published tables, such as ATTACH PARTITION of a table that
EXCEPT names.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from subscriber.base.errors import SubscriberError
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.publications import list_publications as stored_publications
from subscriber.catalog.publications import replace_publication
from subscriber.commands import subscription_grammar
from subscriber.commands.dispatch import run_command
from subscriber.postgres.publication.definition import OPERATIONS, Publication
from subscriber.postgres.publication.listed_tables import is_excepted, is_publishable, listed_tables
from subscriber.postgres.publication.publication_statements import PublicationCommand
from subscriber.postgres.schema.publisher_tables import PublisherTable, PublisherTables
from subscriber.postgres.sql.lexer import Kind
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.targets import open_target
from subscriber.targets.sqlite.target import new_database
from subscriber.testing.nodes.node import PostgreSQLNode, ResolveConninfo
from subscriber.testing.servers.postgresql_server import PostgreSQL
from subscriber.testing.session.describe_publications import describe_publications, list_publications
from subscriber.testing.session.psql_input import (
    cut,
    is_backslash_command,
    may_change_publications,
    publication_command,
    reads_publications,
)

_DESCRIBES_PUBLICATIONS: Final = re.compile(r"\\dRp(\+?)(?:\s+(\S+))?\s*")
_DESCRIBES_MEMBERS: Final = re.compile(r"\\d(n\+)?\s+(\S+)\s*")
_FOOTER_OF_SERVER: Final = re.compile(r"Publications:\n(?:    .*\n?)*|\(1 row\)\n?")


class OlderPublisher(PostgreSQLNode):
    """See the module; ``settings`` have the version that its publications are of."""

    def __init__(
        self,
        name: str,
        server: PostgreSQL,
        resolve: ResolveConninfo,
        patience: float,
        settings: Settings,
        folder: Path,
    ) -> None:
        super().__init__(name, server, resolve, patience)
        self._settings = settings
        self._comments: dict[str, str] = {}
        self._file = folder / f"{name}-publications.db"
        self._file.unlink(missing_ok=True)
        new_database(self._file)
        self._target = open_target(f"sqlite:///{self._file}")
        with self._target.reporting():
            ensure_catalog(self._target.engine)

    def publications(self) -> dict[str, Publication]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return {publication.name: publication for publication in stored_publications(connection)}

    def run(self, text: str, session: str = "") -> str:
        if is_backslash_command(text):
            return self._describe(text.strip(), session)
        if (command := publication_command(text)) is not None:
            return self._run_command(command)
        if (comment := _comment(text)) is not None:
            self._comments |= comment
            return "COMMENT"
        if reads_publications(text):
            with self._views(session):
                return super().run(text, session)
        printed = super().run(text, session)
        if may_change_publications(text):
            self._forget_dropped()
        return printed

    def close(self) -> None:
        self._target.close()
        self._file.unlink(missing_ok=True)
        super().close()

    # Commands -------------------------------------------------------------------------------------

    def _run_command(self, text: str) -> str:
        printed: list[str] = []
        try:
            command = subscription_grammar.parse(text)
            assert isinstance(command, PublicationCommand)
            printed.append(run_command(self._target, command, self._settings, printed.append, self.conninfo))
        except SubscriberError as error:
            printed.append(error.report())
        return "\n".join(printed)

    def _forget_dropped(self) -> None:
        """Remove tables and schemas that the server does not have any more."""
        tables = self._tables()
        with self._target.begin() as connection:
            for publication in stored_publications(connection):
                kept = replace(
                    publication,
                    tables=tuple(entry for entry in publication.tables if entry.key in tables.tables),
                    excepted=tuple(key for key in publication.excepted if key in tables.tables),
                    schemas=tuple(schema for schema in publication.schemas if schema in tables.schemas),
                )
                if kept != publication:
                    replace_publication(connection, kept)

    def _tables(self) -> PublisherTables:
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            return read_publisher_tables(connection)

    # Descriptions ---------------------------------------------------------------------------------

    def _describe(self, command: str, session: str) -> str:
        if found := _DESCRIBES_PUBLICATIONS.fullmatch(command):
            verbose, pattern = found.groups()
            version = self._settings.postgresql_version
            if verbose:
                return describe_publications(self._target, version, pattern, self._comments)
            return list_publications(self._target, version, pattern)
        printed = super().run(command, session)
        found = _DESCRIBES_MEMBERS.fullmatch(command)
        footers = self._footers(found[2], is_schema=bool(found[1])) if found else []
        if not footers:
            return printed
        return "\n".join([_FOOTER_OF_SERVER.sub("", f"{printed}\n").rstrip("\n"), *footers])

    def _footers(self, name: str, *, is_schema: bool) -> list[str]:
        publications = [one for _, one in sorted(self.publications().items())]
        if is_schema:
            return _footer(
                "Included in publications:", [f'"{one.name}"' for one in publications if name in one.schemas]
            )
        tables = self._tables()
        *schema, relation = name.split(".")
        table = tables.find(schema[0] if schema else None, relation)
        if table is None:
            return []
        included, excluded = _memberships(table, publications, tables)
        return [*_footer("Included in publications:", included), *_footer("Excluded from publications:", excluded)]

    # Catalogs -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _views(self, session: str) -> Iterator[None]:
        """Hide the server's catalogs of publications behind temporary views of their names."""
        psql = self._session(session)
        tables, publications = self._tables(), self.publications()
        rows = {name: rows_of(publications, tables) for name, rows_of in _ROWS.items()}
        for name, found in rows.items():
            query = sql.SQL("CREATE TEMPORARY VIEW {} AS SELECT * FROM json_to_recordset({}) AS r ({})").format(
                sql.Identifier(name), sql.Literal(json.dumps(found)), sql.SQL(_COLUMNS[name])
            )
            psql.ask(query.as_string(None))
        try:
            yield
        finally:
            for name in rows:
                psql.ask(f"DROP VIEW pg_temp.{name}")


def _comment(text: str) -> dict[str, str] | None:
    """The publication and the text of COMMENT ON PUBLICATION … IS '…', or None."""
    try:
        queries = cut(text)
    except SubscriberError:
        return None
    found = [lexeme for query in queries for lexeme in query.lexemes if lexeme.kind is not Kind.SYMBOL]
    words = [lexeme.value for lexeme in found]
    if words[:3] != ["comment", "on", "publication"] or len(words) < 6:
        return None
    return {words[3]: words[5]}


def _footer(title: str, members: Sequence[str]) -> list[str]:
    return [title, *(f"    {member}" for member in members)] if members else []


def _memberships(
    table: PublisherTable, publications: Sequence[Publication], tables: PublisherTables
) -> tuple[list[str], list[str]]:
    """The publications that psql lists below a table: that have it, and that except it."""
    included, excluded = [], []
    for publication in publications:
        shown, entry = f'"{publication.name}"', publication.entry(*table.key)
        if table.kind == "sequence":
            included += [shown] if publication.all_sequences else []
        elif is_excepted(publication, table, tables.ancestors(table)):
            excluded.append(shown)
        elif (publication.all_tables and is_publishable(table)) or table.schema in publication.schemas:
            included.append(shown)
        elif entry is not None:
            columns = "" if entry.columns is None else f" ({', '.join(entry.columns)})"
            included.append(f"{shown}{columns}{'' if entry.where is None else f' WHERE {entry.where}'}")
    return included, excluded


Row = dict[str, Any]


def _publication_rows(publications: Mapping[str, Publication], tables: PublisherTables) -> list[Row]:
    del tables
    return [
        {
            "oid": number,
            "pubname": one.name,
            "puballtables": one.all_tables,
            "puballsequences": one.all_sequences,
            **{f"pub{operation}": operation in one.publish for operation in OPERATIONS},
            "pubviaroot": one.via_root,
            "pubgencols": one.generated_columns[0],
        }
        for number, one in enumerate(publications.values(), start=1)
    ]


def _table_rows(publications: Mapping[str, Publication], tables: PublisherTables) -> list[Row]:
    return [
        {
            "pubname": name,
            "schemaname": table.schema,
            "tablename": table.name,
            "attnames": table.columns,
            "rowfilter": next(iter(table.filters), None),
        }
        for name, publication in publications.items()
        for table in listed_tables([publication], tables)
    ]


def _relation_rows(publications: Mapping[str, Publication], tables: PublisherTables) -> list[Row]:
    return [
        {"prpubid": number, "prrelid": tables.tables[key].oid, "prexcept": key in publication.excepted}
        for number, publication in enumerate(publications.values(), start=1)
        for key in (*publication.excepted, *(entry.key for entry in publication.tables))
    ]


def _sequence_rows(publications: Mapping[str, Publication], tables: PublisherTables) -> list[Row]:
    return [
        {"pubname": name, "schemaname": one.schema, "sequencename": one.name}
        for name, publication in publications.items()
        if publication.all_sequences
        for one in tables.tables.values()
        if one.kind == "sequence" and one.persistence == "permanent"
    ]


_ROWS: Final[Mapping[str, Callable[[Mapping[str, Publication], PublisherTables], list[Row]]]] = {
    "pg_publication": _publication_rows,
    "pg_publication_tables": _table_rows,
    "pg_publication_rel": _relation_rows,
    "pg_publication_sequences": _sequence_rows,
}
_COLUMNS: Final = {
    "pg_publication": (
        "oid oid, pubname name, puballtables bool, puballsequences bool, pubinsert bool, pubupdate bool, pubdelete bool,"
        ' pubtruncate bool, pubviaroot bool, pubgencols "char"'
    ),
    "pg_publication_tables": "pubname name, schemaname name, tablename name, attnames name[], rowfilter text",
    "pg_publication_rel": "prpubid oid, prrelid oid, prexcept bool",
    "pg_publication_sequences": "pubname name, schemaname name, sequencename name",
}
