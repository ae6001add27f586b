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
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import psycopg
from psycopg import sql

from subscriber.errors import SubscriberError
from subscriber.filters.check import analyze_filter, filter_text
from subscriber.publication.definition import Publication, TableEntry
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.publication_definitions import read_publications
from subscriber.scenario.nodes.carriers import CARRIER, carrier_of, create_statement
from subscriber.scenario.nodes.node import Node, PostgreSQLNode
from subscriber.scenario.nodes.target_node import TargetNode
from subscriber.scenario.session.effects import (
    Effect,
    effect_of,
    may_change_publications,
    may_commit,
    publication_command,
    reads_publications,
)
from subscriber.scenario.session.psql import ServerError
from subscriber.schema.publisher_tables import PublisherTables

_ACCEPTED: Final = "accepted it"


@dataclass(frozen=True, slots=True)
class Told:
    """The result of a statement.

    Attributes:
        printed: what psql printed.
        disagreement: how the result of a publication command at a target differs from the server's
            result, as lines. Empty if there is no difference.
    """

    printed: str
    disagreement: str = ""


@dataclass
class _Publisher:
    """A publisher of the session, and what is known of its publications.

    Attributes:
        node: the publisher.
        publications: the server's publications when they were last read, without the carrier.
        carries: whether the publisher has a carrier. It has one from the first subscription on.
        changing: the sessions with an open transaction that may have changed publications.
    """

    node: PostgreSQLNode
    publications: dict[str, Publication] = field(default_factory=dict)
    carries: bool = False
    changing: set[str] = field(default_factory=set)


class Emulation:
    """Keeps the emulated publications of the targets equal to the publishers' publications.

    Args:
        nodes: the nodes of the session. None of them has a publication yet.
        patience: the seconds that a batch of changes may take to end.
    """

    def __init__(self, nodes: Mapping[str, Node], patience: float) -> None:
        self._targets = [node for node in nodes.values() if isinstance(node, TargetNode)]
        self._publishers = {name: _Publisher(node) for name, node in nodes.items() if isinstance(node, PostgreSQLNode)}
        self._patience = patience

    def run(self, node: Node, text: str, session: str, settle: Callable[[], None]) -> Told:
        """Run a statement, and make the publications of every target equal to the server's.

        Args:
            node: the node at which the statement is typed.
            text: the statement.
            session: the session of the node.
            settle: waits until the targets have everything that was written.

        Raises:
            SubscriberError: the statement did not end, or a target cannot be written.
            psycopg.Error: a query at a publisher failed.
        """
        publisher = self._publishers.get(node.name)
        if publisher is not None:
            return self._at_publisher(publisher, text, session, settle)
        if Effect.SUBSCRIPTION in effect_of(text):
            self._make_carriers()
        return Told(node.run(text, session))

    def _at_publisher(self, publisher: _Publisher, text: str, session: str, settle: Callable[[], None]) -> Told:
        node = publisher.node
        if publisher.carries and reads_publications(text):
            return Told(node.run_without(CARRIER, text, session))
        inside = node.in_transaction(session)
        if may_change_publications(text):
            publisher.changing.add(session)
        if session not in publisher.changing:
            return Told(node.run(text, session))
        if not inside or may_commit(text):
            settle()
        with self._at_rest():
            printed = node.run(text, session)
            if node.in_transaction(session):
                return Told(printed)
            publisher.changing.discard(session)
            command = None if inside else publication_command(text)
            disagreements = [] if command is None else self._give(publisher, command, session)
            disagreements += self._take_over(publisher, compare=command is not None and not disagreements)
        return Told(printed, "\n".join(disagreements))

    @contextlib.contextmanager
    def _at_rest(self) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            for target in self._targets:
                held.enter_context(target.at_rest(self._patience))
            yield

    # Definitions ----------------------------------------------------------------------------------

    def _give(self, publisher: _Publisher, command: str, session: str) -> list[str]:
        """Run a command that the server has run on every target.

        Returns:
            The differences between the server's result and a target's, as texts.
        """
        error = publisher.node.last_error(session)
        said = [
            (target.name, target.run_publication_command(command, publisher.node.conninfo)) for target in self._targets
        ]
        return [
            f'node "{name}" was given the same command and {_in_words(refused)};\nthe server {_in_words(error)}'
            for name, refused in said
            if _parts(refused) != _parts(error)
        ]

    def _take_over(self, publisher: _Publisher, *, compare: bool) -> list[str]:
        """Make the definitions of every target equal to the server's.

        Args:
            publisher: the publisher whose definitions are copied.
            compare: the definitions should already be equal, so differences are reported.

        Returns:
            With ``compare``, the differences as texts.
        """
        with psycopg.connect(publisher.node.conninfo, autocommit=True) as connection:
            now = _read(connection)
            carrier = now.pop(CARRIER, None)
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


def _read(connection: psycopg.Connection[Any]) -> dict[str, Publication]:
    """All publications of a server, by name."""
    return {publication.name: publication for publication in read_publications(connection)}


def _make_carrier(
    connection: psycopg.Connection[Any],
    carrier: Publication | None,
    publications: Mapping[str, Publication],
    major: int,
) -> None:
    """Create the carrier that the publications need, unless the existing ``carrier`` is equal to
    it.
    """
    wanted = carrier_of(list(publications.values()), major)
    if _unordered(wanted) == _unordered(carrier):
        return
    with connection.transaction():  # decoding of a change finds the old or the new carrier
        if carrier is not None:
            connection.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(CARRIER)))
        connection.execute(create_statement(wanted).encode())


def _as_shown(publication: Publication | None, tables: PublisherTables) -> Publication | None:
    """A publication whose filters have the text that the server's catalog shows.

    A target keeps a filter that uses a virtual column as it was written.
    """
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
    """A publication with its members, and the columns of its column lists, in a fixed order.

    Their order has no meaning, so publications are compared without it.
    """
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
