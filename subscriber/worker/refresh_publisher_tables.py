"""Reads the publisher's tables again, for emulated publications
(:mod:`subscriber.catalog.stored_publishing`).

::

    a relation message arrives ──▶ KnownTables: is it older than the last look at the partition tree?
                                       │ no: the batch is rolled back, and the tree is read, one query
                                       ├── unchanged ──▶ the batch is applied again
                                       └── changed ──▶ the loop ends, all tables are read (refresh_outdated),
                                                       the place of the change is looked for in the journal (placed_publishing)

The server sends a table's relation message again after each command that alters the table, and
evaluates its own publications again then. So the tree need not be looked at more often.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from subscriber.base.errors import NotSupportedError, PublisherTablesOutdated
from subscriber.base.lsn import LSN, format_lsn
from subscriber.catalog.stored_publishing import read_publishing, store_followed, store_publishing
from subscriber.catalog.subscriptions import Subscription
from subscriber.commands.check_publications import check_carrier_of
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.postgres.schema.publisher_tables import TableAttributes
from subscriber.publisher.catalog import read_attributes
from subscriber.publisher.catalog_tables import read_placements, read_publisher_tables
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.server_publications import ServerPublications, read_publications
from subscriber.stream.decode.altered_tables import placed
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import open_storage
from subscriber.targets import Target

logger = logging.getLogger(__name__)

_RETRIED = "The tables are read again, and the changes are retried."


class KnownTables:
    """Whether the stored tables hold for the stream (``TablesCheck`` of the apply loop)."""

    def __init__(self, subscription: Subscription, publishing: Publishing) -> None:
        self._subscription = subscription
        self._publishing = publishing
        self._placements = publishing.tables.placements()
        self._known_until = publishing.tables.known_until
        self._carrier: Publication | None = None

    def check(self, described: int) -> None:
        if described >= self._known_until:
            raise self._outdated("the publisher's tables may have been altered since they were read")

    def look_again(self) -> None:
        """Raise PublisherTablesOutdated if the tables have another place in the partition tree, and
        NotSupportedError if the carrier was altered and leaves something out.
        """
        with connect_publisher(self._subscription.conninfo, self._subscription.name) as server:
            known_until, now = read_placements(server)
            carrier = read_publications(server, [self._subscription.options.carrier or ""])
        if any(now.get(oid, before) != before for oid, before in self._placements.items()):
            raise self._outdated("the publisher's tables were altered since they were read")
        if carrier and carrier[0] != self._carrier:  # one that does not exist is reported by the server itself
            self._check(carrier[0])
        self._known_until = known_until

    def _check(self, carrier: Publication) -> None:
        try:
            check_carrier_of(self._publishing, carrier)
        except NotSupportedError as error:
            hint = f"{error.hint} Changes that it has left out meanwhile are missing: copy the table again with ALTER SUBSCRIPTION"
            raise error.replace(
                hint=f'{hint} "{self._subscription.name}" REFRESH TABLE {error.relation}.', transient=True
            ) from None
        self._carrier = carrier

    def _outdated(self, message: str) -> PublisherTablesOutdated:
        return PublisherTablesOutdated(message, hint=_RETRIED, known_until=self._known_until)


def known_tables(subscription: Subscription, publishing: Publishing | None) -> KnownTables | None:
    """What is known of the tables; None if the server evaluates the publications."""
    return None if publishing is None else KnownTables(subscription, publishing)


def refresh_outdated(target: Target, subscription: Subscription, error: PublisherTablesOutdated) -> None:
    """Read and store the publisher's tables again: the stream has a table that may differ."""
    shape = error.shape if isinstance(error.shape, Relation) else None
    with target.reporting(), target.engine.connect() as connection:
        before = read_publishing(connection, subscription)
    assert before is not None
    known_until = max(before.tables.known_until, error.known_until)
    before = replace(before, tables=replace(before.tables, known_until=known_until))
    with connect_publisher(subscription.conninfo, subscription.name) as server:
        now = before.with_tables(read_publisher_tables(server).without_system(), shape)
    with target.begin() as connection:
        store_followed(connection, before, now)
        store_publishing(connection, subscription.subid, now)


def placed_publishing(target: Target, subscription: Subscription, journal: str) -> Publishing | None:
    """The publications with the place in the stream at which the facts of each altered table
    change; None if the server evaluates them. PublisherTablesOutdated: the journal must receive
    more first. UsageError: a publication was dropped, or the tables have never been read.
    """
    with target.reporting(), target.engine.connect() as connection:
        before = read_publishing(connection, subscription)
    if before is None or before.is_placed:
        return before
    reader = JournalReader(open_storage(journal))
    control = reader.control()
    if max(control.received, reader.latest(control.begin)) < before.tables.read_at:
        raise PublisherTablesOutdated(
            f"the journal does not yet have what was sent up to {format_lsn(LSN(before.tables.read_at))}",
            detail="Tables were altered at the publisher, and the place of that in the stream is looked for in the journal.",
            hint="It is looked for again when the journal has received more.",
        )
    now = placed(before, reader)
    for one in now.earlier:
        if one.ends is not None:
            logger.info(
                'subscription "%(subscription)s": table "%(relation)s" was altered at the publisher by transaction %(xid)s; changes'
                " before %(lsn)s are published as before",
                {
                    "subscription": subscription.name,
                    "relation": one.tables[0].qualified_name,
                    "xid": one.changed_by,
                    "lsn": format_lsn(LSN(one.ends[0])),
                },
            )
    with target.begin() as connection:
        store_publishing(connection, subscription.subid, now)
    return now


class PublisherAttributes:
    """Reads the attributes of a relation message's table from the publisher of a subscription."""

    def __init__(self, target: Target, subscription: Subscription) -> None:
        self._target = target
        self._subscription = subscription

    def __call__(self, remote: Relation) -> TableAttributes | None:
        """The current attributes; None if the table does not exist, or is no longer published."""
        with self._target.reporting(), self._target.engine.connect() as connection:
            publishing = read_publishing(connection, self._subscription)
        key = (remote.namespace, remote.name)
        if publishing is not None and all(table.key != key for table in publishing.published_tables()):
            return None
        with connect_publisher(self._subscription.conninfo, self._subscription.name) as server:
            publications = publishing or ServerPublications(server, self._subscription.publications)
            return read_attributes(server, publications, *key)
