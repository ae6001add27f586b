"""``--publications emulated``: the subscribers define the publications of the publishers.

A session must print the same as with the publications of the server::

    CREATE PUBLICATION … at a publisher ──▶ the server           prints; checks; knows which UPDATE needs an identity
                                       └──▶ every target, through subscriber.commands: accepted as the server accepts it, and
                                                                 stored as pg_get_expr shows it, or refused with the same error
    other changes of publications      ──▶ the server
    (DROP TABLE, RENAME, a DO block …) └──▶ its definitions are copied to every target

    CREATE SUBSCRIPTION at a target    ──▶ … WITH (carrier = …)  the server's publication that the runner creates and updates (carriers)

A definition in the subscriber's catalog is not in the WAL: it is valid from the next batch on. So,
before a definition changes, everything that was written earlier is applied, and nothing is applied
while the definitions of server and targets differ. If a transaction changes a publication, all its
changes are filtered by the final definition, also those before the change (rule B12b cannot be
followed).

A server that is older than the version of the publications
(:mod:`subscriber.testing.nodes.older_publisher`) gets the carrier only. Then the definitions are
those of the node's own catalog.

The carrier is the server's publication from which the emulated publications of a session choose::

    p1 FOR TABLE t WHERE (a > 5)                        ┐
    p2 FOR TABLE t (a, b), root WITH (via root, insert) ┼──▶ carrier FOR TABLE ONLY t, ONLY root   all rows and columns, the union of the
    p3 FOR TABLES IN SCHEMA s                           ┘      , TABLES IN SCHEMA s                operations, partitions as themselves

It has the same tables and schemas. So it contains a partition that is attached later, or a table
that is created later in the schema, from its first row on. It contains no other table, because the
publisher checks all its publications when a row without replica identity is updated (rule B32). But
the operations of a publication are valid for all its tables. So the publisher may refuse an UPDATE
of one table because the updates of another one are published.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import psycopg
from psycopg import sql

from subscriber.base.errors import SubscriberError
from subscriber.postgres.expressions.check_filter import analyze_filter, filter_text
from subscriber.postgres.publication.definition import OPERATIONS, Publication, TableEntry
from subscriber.postgres.schema.publisher_tables import PublisherTables
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.server_publications import read_publications
from subscriber.testing.nodes.node import PostgreSQLNode, SessionNode
from subscriber.testing.nodes.older_publisher import OlderPublisher
from subscriber.testing.nodes.target_node import TargetNode
from subscriber.testing.session import psql_input
from subscriber.testing.session.psql import ServerError

_ACCEPTED: Final = "accepted it"


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What psql printed, and the lines in which a publication command at a target differs."""

    printed: str
    disagreement: str = ""


@dataclass
class _Publisher:
    """``publications`` are as last read, without the carrier, which the first subscription brings.
    ``changing`` are sessions whose open transaction may have changed them.
    """

    node: PostgreSQLNode
    publications: dict[str, Publication] = field(default_factory=dict)
    carries: bool = False
    changing: set[str] = field(default_factory=set)


class Emulation:
    def __init__(self, nodes: Mapping[str, SessionNode], patience: float) -> None:
        self._targets = [node for node in nodes.values() if isinstance(node, TargetNode)]
        self._publishers = {name: _Publisher(node) for name, node in nodes.items() if isinstance(node, PostgreSQLNode)}
        self._patience = patience

    def run(self, node: SessionNode, text: str, session: str, settle: Callable[[], None]) -> CommandOutput:
        """Run a statement, and make the publications of every target equal to the server's."""
        publisher = self._publishers.get(node.name)
        if publisher is not None:
            return self._at_publisher(publisher, text, session, settle)
        if psql_input.Effect.SUBSCRIPTION in psql_input.effect_of(text):
            self._make_carriers()
        return CommandOutput(node.run(text, session))

    def _at_publisher(
        self, publisher: _Publisher, text: str, session: str, settle: Callable[[], None]
    ) -> CommandOutput:
        node = publisher.node
        knows = not isinstance(node, OlderPublisher)
        if knows and publisher.carries and psql_input.reads_publications(text):
            return CommandOutput(node.run_without(CARRIER, text, session))
        inside = node.in_transaction(session)
        if psql_input.may_change_publications(text):
            publisher.changing.add(session)
        if session not in publisher.changing:
            return CommandOutput(node.run(text, session))
        if not inside or psql_input.may_commit(text):
            settle()
        with self._at_rest():
            printed = node.run(text, session)
            if node.in_transaction(session):
                return CommandOutput(printed)
            publisher.changing.discard(session)
            command = psql_input.publication_command(text) if knows and not inside else None
            disagreements = [] if command is None else self._give(publisher, command, session)
            disagreements += self._take_over(publisher, compare=command is not None and not disagreements)
        return CommandOutput(printed, "\n".join(disagreements))

    @contextlib.contextmanager
    def _at_rest(self) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            for target in self._targets:
                held.enter_context(target.at_rest(self._patience))
            yield

    # Definitions ----------------------------------------------------------------------------------

    def _give(self, publisher: _Publisher, command: str, session: str) -> list[str]:
        """Run a command of the server on every target, and return differences of the results."""
        error = publisher.node.last_error(session)
        refusals = [
            (target.name, target.run_publication_command(command, publisher.node.conninfo)) for target in self._targets
        ]
        return [
            f'node "{name}" was given the same command and {_in_words(refused)};\nthe server {_in_words(error)}'
            for name, refused in refusals
            if _parts(refused) != _parts(error)
        ]

    def _take_over(self, publisher: _Publisher, *, compare: bool) -> list[str]:
        """Give every target the server's definitions; with ``compare``, return differences."""
        with psycopg.connect(publisher.node.conninfo, autocommit=True) as connection:
            now = {publication.name: publication for publication in read_publications(connection)}
            carrier = now.pop(CARRIER, None)
            if isinstance(publisher.node, OlderPublisher):
                now = publisher.node.publications()
            if publisher.carries:
                _make_carrier(connection, carrier, now, publisher.node.major)
            publisher.publications = now
            disagreements = []
            for target in self._targets:
                stored = target.publications()
                wanted = self._differing(publisher, stored, connection)
                if compare:
                    disagreements += [
                        f'node "{target.name}" was given the same command and has {stored.get(name)};\n'
                        f"the server has {now.get(name)}"
                        for name in sorted(wanted)
                    ]
                if wanted:
                    target.store_publications({name: now.get(name) for name in wanted}, connection.info.user)
        return disagreements

    def _differing(
        self, publisher: _Publisher, stored: Mapping[str, Publication], connection: psycopg.Connection[Any]
    ) -> set[str]:
        """The names of the publications whose definitions in a target and on the server differ."""
        others = {name for one in self._publishers.values() if one is not publisher for name in one.publications}
        found = {
            name
            for name in {*stored, *publisher.publications} - others
            if _unordered(stored.get(name)) != _unordered(publisher.publications.get(name))
        }
        if not found:
            return found
        tables = read_publisher_tables(connection)
        return {
            name
            for name in found
            if _unordered(_as_shown(stored.get(name), tables)) != _unordered(publisher.publications.get(name))
        }

    def _make_carriers(self) -> None:
        for publisher in self._publishers.values():
            if not publisher.carries:
                with psycopg.connect(publisher.node.conninfo, autocommit=True) as connection:
                    _make_carrier(connection, None, publisher.publications, publisher.node.major)
                publisher.carries = True


def _make_carrier(
    connection: psycopg.Connection[Any],
    carrier: Publication | None,
    publications: Mapping[str, Publication],
    major: int,
) -> None:
    """Create the carrier that the publications need, unless ``carrier`` is equal to it."""
    wanted = carrier_of(list(publications.values()), major)
    if _unordered(wanted) == _unordered(carrier):
        return
    with connection.transaction():  # decoding of a change finds the old or the new carrier
        if carrier is not None:
            connection.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(CARRIER)))
        connection.execute(create_statement(wanted).encode())


def _as_shown(publication: Publication | None, tables: PublisherTables) -> Publication | None:
    """A publication whose filters have the server's text, but for those with virtual columns."""
    if publication is None:
        return None
    return replace(publication, tables=tuple(_entry_as_shown(entry, tables) for entry in publication.tables))


def _entry_as_shown(entry: TableEntry, tables: PublisherTables) -> TableEntry:
    table = tables.tables.get(entry.key)
    if entry.where is not None and table is not None:
        with contextlib.suppress(SubscriberError):  # a column may have been dropped since
            return replace(entry, where=filter_text(analyze_filter(entry.where, table, tables), tables))
    return entry


def _unordered(publication: Publication | None) -> Publication | None:
    """A publication with members and column lists in a fixed order, to be compared."""
    if publication is None:
        return None
    entries = [
        replace(entry, columns=None if entry.columns is None else tuple(sorted(entry.columns)))
        for entry in publication.tables
    ]
    return replace(
        publication,
        tables=tuple(sorted(entries, key=lambda entry: entry.key)),
        schemas=tuple(sorted(publication.schemas)),
        excepted=tuple(sorted(publication.excepted)),
    )


def _parts(error: SubscriberError | ServerError | None) -> tuple[str, str, str] | None:
    """The parts of an error that must be equal on the server and on a target."""
    return None if error is None else (error.message, error.detail or "", error.sqlstate)


def _in_words(error: SubscriberError | ServerError | None) -> str:
    parts = _parts(error)
    if parts is None:
        return _ACCEPTED
    message, detail, sqlstate = parts
    return f"refused it: ERROR:  {sqlstate}: {message}" + (f"\nDETAIL:  {detail}" if detail else "")


CARRIER: Final = "subscriber_carrier"


def carrier_of(publications: Sequence[Publication], major: int) -> Publication:
    """The carrier that emulated publications need on a server."""
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
