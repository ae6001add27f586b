"""``--publications emulated``: the publishers' publications are the subscribers' own, and a session
must not notice.

::

    CREATE PUBLICATION … at a publisher ──▶ the server           prints; checks; knows what UPDATE needs an identity
                                       └──▶ every target of ours through our command: accepted as the server accepts it, and
                                                                 stored as pg_get_expr has it, or refused with the same error
    what changes publications unnamed  ──▶ the server
    (DROP TABLE, RENAME, a DO block …) └──▶ its definitions, taken over by every target

    CREATE SUBSCRIPTION at a target    ──▶ … WITH (carrier = …)  the server's publication that the runner makes and keeps (carriers)

A definition of the subscriber's has no place in the WAL: it holds from the next batch on. So
everything that was written before is settled first, and nothing is applied while server and targets
have different definitions. What a transaction has written before and after it changed a publication
is filtered by what came of it in the end (rule B12b cannot be had).
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
    """What came of a statement.

    Attributes:
        printed: by psql.
        disagreement: how a target has taken a publication's command otherwise than the server, as
            lines; empty where none has.
    """

    printed: str
    disagreement: str = ""


@dataclass
class _Publisher:
    """A publisher of the session, and what is known of its publications.

    Attributes:
        node: the publisher.
        publications: the server's, as last read, without the carrier.
        carries: whether it has a carrier: from the first subscription on.
        changing: sessions with a transaction in which publications may have changed.
    """

    node: PostgreSQLNode
    publications: dict[str, Publication] = field(default_factory=dict)
    carries: bool = False
    changing: set[str] = field(default_factory=set)


class Emulation:
    """See the module.

    Args:
        nodes: the session's, none of which has a publication.
        patience: seconds that a batch of changes may take to end.
    """

    def __init__(self, nodes: Mapping[str, Node], patience: float) -> None:
        self._targets = [node for node in nodes.values() if isinstance(node, TargetNode)]
        self._publishers = {name: _Publisher(node) for name, node in nodes.items() if isinstance(node, PostgreSQLNode)}
        self._patience = patience

    def run(self, node: Node, text: str, session: str, settle: Callable[[], None]) -> Told:
        """Run a statement, and bring every target's publications in line with it.

        Args:
            node: where it is typed.
            text: the statement.
            session: of the node.
            settle: waits until all that was written is in the targets.

        Raises:
            SubscriberError: it did not end, or a target cannot be written.
            psycopg.Error: a publisher cannot be asked.
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
        """Give a command that the server has had to every target; tells where one has taken it
        otherwise.
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
        """Bring every target's definitions in line with the server's.

        Args:
            publisher: the server.
            compare: the targets should be in line already; tells where one is not.
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
        """The names of the publications that a target has not as the server has them."""
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
    """All publications of a server."""
    return {publication.name: publication for publication in read_publications(connection)}


def _make_carrier(
    connection: psycopg.Connection[Any],
    carrier: Publication | None,
    publications: Mapping[str, Publication],
    major: int,
) -> None:
    """Make the carrier that publications need, unless ``carrier``, which is there, is it."""
    wanted = carrier_of(list(publications.values()), major)
    if _unordered(wanted) == _unordered(carrier):
        return
    with connection.transaction():  # a change that is decoded finds the old one or the new one
        if carrier is not None:
            connection.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(CARRIER)))
        connection.execute(create_statement(wanted).encode())


def _as_shown(publication: Publication | None, tables: PublisherTables) -> Publication | None:
    """A publication with its filters as the server's catalog shows them: one by a virtual column is
    kept as it was written.
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
    """A publication without an order of its members, and of the columns in a list: they mean
    nothing.
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
    )


def _parts(error: SubscriberError | ServerError | None) -> tuple[str, str, str] | None:
    """What server and target must have in common."""
    return None if error is None else (error.message, error.detail or "", error.sqlstate)


def _in_words(error: SubscriberError | ServerError | None) -> str:
    parts = _parts(error)
    if parts is None:
        return _ACCEPTED
    message, detail, sqlstate = parts
    return f"refused it: ERROR:  {sqlstate}: {message}" + (f"\nDETAIL:  {detail}" if detail else "")
