"""Checks of a subscription's publications, of the server or emulated, and their tables.

With a carrier, this checks what the server would check when the publication is created and when its
tables are written: the filters (rules B23-B29), the replica identities (B32-B36), and whether the
carrier contains everything that the publications need.

A publication may have got tables since the subscription was created or refreshed. As PostgreSQL's
subscriber does, the apply ignores their changes until REFRESH PUBLICATION.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from subscriber.base.errors import PublisherNotReady, SubscriberError, UsageError
from subscriber.base.suggestions import perhaps
from subscriber.catalog.catalog_names import is_catalog_table
from subscriber.catalog.existing_catalog import existing_catalog
from subscriber.catalog.stored_publishing import read_definitions, read_publishing
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import Subscription
from subscriber.commands import notices
from subscriber.postgres.expressions.check_filter import check_filter, columns_of
from subscriber.postgres.publication.coverage import FilterColumns, check_carrier, check_coverage
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.postgres.schema.published_table import Publications, PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable, PublisherTables, TableAttributes
from subscriber.postgres.schema.relation_names import RelationNames, TableName
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.publisher import server_publications
from subscriber.publisher.catalog import read_attributes
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.sequences import PublishedSequence, published_sequences
from subscriber.publisher.table_checks import tables_without_identity, unreadable_tables
from subscriber.targets import Target


@dataclass(frozen=True, slots=True)
class SubscribedTables:
    """The tables that a subscription replicates.

    Attributes:
        tables: the published tables, without those in which subscribers keep their catalog.
        changing: the tables whose UPDATEs or DELETEs are published.
        publishing: the emulated publications as the catalog stores them; None for the server's.
        sequences: the published sequences, with the columns of ``tables`` that use them.
    """

    tables: list[PublishedTable]
    changing: frozenset[tuple[str, str]] = frozenset()
    publishing: Publishing | None = None
    sequences: Sequence[PublishedSequence] = ()

    def publications(self, publisher: PublisherClient, names: Sequence[str]) -> Publications:
        return self.publishing or server_publications.ServerPublications(publisher.connection, names)


def check_publications(
    target: Target,
    publisher: PublisherClient,
    publications: Sequence[str],
    options: SubscriptionOptions,
    notify: notices.Notify,
    *,
    named: Sequence[str] | None = None,
    known: Collection[tuple[str, str]] = (),
) -> SubscribedTables:
    """The tables that a subscription's publications publish now, with PostgreSQL's warnings.

    A warning is given for those ``named`` publications that do not exist (None: for all).
    ``copy_data`` decides whether tables are copied, except for the ``known`` ones, which the
    subscription has.
    """
    if options.carrier is None:
        missing = publisher.missing_publications(publications if named is None else named)
        hints = [hint for name in missing if (hint := publisher.like_publication(name))]
        notices.warn_missing_publications(notify, missing, " ".join(hints) or None)
    published = find_published_tables(target, publisher, publications, options, notify)
    streamed = publications if options.carrier is None else (options.carrier,)
    notices.warn_without_identity(notify, tables_without_identity(publisher.connection, streamed))
    if options.copy_data:
        new = [table for table in published.tables if table.key not in known]
        notices.warn_unreadable(notify, unreadable_tables(publisher.connection, new))
    return published


def warn_of_origins(
    publisher: PublisherClient,
    subscription: str,
    publications: Sequence[str],
    options: SubscriptionOptions,
    notify: notices.Notify,
    version: int,
    *,
    known: Collection[TableName] = (),
) -> None:
    """Warn of tables and sequences that have changes of other origins (rule C55), in the words of a
    major version of PostgreSQL. The ``known`` ones are not copied and set again.
    """
    streamed = publications if options.carrier is None else (options.carrier,)
    if options.copy_data and options.origin == "none":
        others = server_publications.publications_of_other_origins(publisher.connection, streamed, known)
        notices.warn_other_origins(notify, notices.COPIES, subscription, others, version)
        warn_of_sequences(publisher, subscription, streamed, notify, known=known)
    if options.retain_dead_tuples and options.origin != "none":
        warn_of_retention(publisher, subscription, streamed, notify)


def warn_of_retention(
    publisher: PublisherClient, subscription: str, publications: Sequence[str], notify: notices.Notify
) -> None:
    """Warn of ``retain_dead_tuples`` where the publisher sends changes of other origins (C18a)."""
    others = server_publications.publications_of_other_origins(publisher.connection, publications, ())
    notices.warn_other_origins(notify, notices.RETAINS, subscription, others)


def warn_of_sequences(
    publisher: PublisherClient,
    subscription: str,
    publications: Sequence[str],
    notify: notices.Notify,
    *,
    known: Collection[TableName] = (),
) -> None:
    """Warn of ``origin = none`` where the publisher follows the sequences of another server."""
    if publisher.features.published_sequences:
        others = server_publications.publications_of_followed_sequences(publisher.connection, publications, known)
        notices.warn_other_origins(notify, notices.SYNCHRONIZES, subscription, others)


def find_published_tables(
    target: Target,
    publisher: PublisherClient,
    publications: Sequence[str],
    options: SubscriptionOptions,
    notify: notices.Notify,
) -> SubscribedTables:
    """The tables that publications publish now, with a notice of those left out. Privileges and
    replica identities are not checked; errors are those of :func:`check_publications`.
    """
    publishing = None
    source: Publications = server_publications.ServerPublications(publisher.connection, publications)
    if options.carrier is not None:
        source = publishing = _check_emulated(target, publisher, publications, options.carrier)
    tables = _without_own(source.published_tables(), options.map, notify)
    sequences: Sequence[PublishedSequence] = ()
    named = frozenset(source.sequences())
    if named:
        found = published_sequences(publisher.connection, [table.key for table in tables], named)
        sequences = tuple(one for one in found if one.key in named)
    return SubscribedTables(tables, source.changing_tables(), publishing, sequences)


def read_uncopied(
    publisher: PublisherClient, publications: Publications, tables: Sequence[PublishedTable]
) -> list[tuple[PublishedTable, TableAttributes]]:
    """For :func:`~subscriber.catalog.schema_changes.store_published_shapes`."""
    found = []
    for table in tables:
        attributes = read_attributes(publisher.connection, publications, table.schema, table.name)
        if attributes is not None:
            found.append((table, attributes))
    return found


def _without_own(
    tables: Sequence[PublishedTable], names: RelationNames, notify: notices.Notify
) -> list[PublishedTable]:
    """Leave out the tables of a subscriber's catalog: the publisher may itself be a target."""
    own = [table for table in tables if is_catalog_table(names, *table.key, table.columns)]
    if own:
        shown = ", ".join(f'"{table.qualified_name}"' for table in own)
        notices.notice(notify, f"the tables of subscriber's own catalog at the publisher are not replicated: {shown}")
    return [table for table in tables if table not in own]


def _check_emulated(
    target: Target, publisher: PublisherClient, publications: Sequence[str], carrier: str
) -> Publishing:
    # `subscriber check` also looks at targets without a catalog or a file, and creates neither.
    with existing_catalog(target) as connection:
        definitions = read_definitions(connection, publications)
    of_publisher = {
        publication.name: publication for publication in server_publications.read_publications(publisher.connection)
    }
    if carrier not in of_publisher:
        raise PublisherNotReady(
            f'publication "{carrier}" does not exist',
            sqlstate="42704",
            hint=perhaps("publication", carrier, of_publisher)
            or f'The carrier is a publication of the server. Run at the publisher: CREATE PUBLICATION "{carrier}" FOR ALL TABLES;',
        )
    tables = read_publisher_tables(publisher.connection)
    for definition in definitions:
        _check_members(definition, tables)

    publishing = Publishing(definitions, tables)
    publishing.published_tables()  # first: PostgreSQL also raises the errors of this call at this place (rule B39)
    check_coverage(definitions, tables, _filter_columns(tables), tuple(of_publisher.values()))
    check_carrier_of(publishing, of_publisher[carrier])
    return publishing


def check_carrier_of(publishing: Publishing, carrier: Publication) -> None:
    """Refuse (0A000) a carrier that leaves out what emulated publications need."""
    check_carrier(carrier, publishing.publications, publishing.tables, _filter_columns(publishing.tables))


def _filter_columns(tables: PublisherTables) -> FilterColumns:
    def filter_columns(where: str, table: PublisherTable) -> frozenset[str]:
        return frozenset(columns_of(check_filter(where, table, tables)))

    return filter_columns


def _check_members(publication: Publication, tables: PublisherTables) -> None:
    """A publication may be of another publisher, or its tables may have been altered since."""
    for entry in publication.tables:
        table = tables.tables.get(entry.key)
        qualified = f"{entry.schema}.{entry.name}"
        if table is None:
            raise UsageError(
                f'relation "{qualified}" does not exist',
                sqlstate="42P01",
                detail=f'Publication "{publication.name}" contains the table, but the publisher does not have it.',
                hint=f'ALTER PUBLICATION "{publication.name}" DROP TABLE, or create the table at the publisher.',
                relation=qualified,
            )
        if entry.where is not None:
            try:
                check_filter(entry.where, table, tables)
            except SubscriberError as error:
                context = f'row filter of table "{qualified}" in publication "{publication.name}"'
                raise error.replace(relation=error.relation or qualified, context=error.context or context) from None


# Tables that a subscription does not have ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unknown:
    """The published tables that a subscription lacks, and its publications that do not exist."""

    tables: tuple[str, ...] = ()
    publications: tuple[str, ...] = ()


def read_unknown(target: Target, subscription: Subscription, known: Collection[TableName]) -> Unknown:
    names = subscription.options.map
    with target.reporting(), target.engine.connect() as connection:
        publishing = read_publishing(connection, subscription)
    if publishing is not None:
        return Unknown(unknown_tables(publishing.published_tables(), known, names))
    with connect_publisher(subscription.conninfo, subscription.name) as server:
        missing = PublisherClient(server).missing_publications(subscription.publications)
        tables = server_publications.ServerPublications(server, subscription.publications).published_tables()
    return Unknown(unknown_tables(tables, known, names), tuple(missing))


def unknown_tables(
    published: Collection[PublishedTable], known: Collection[TableName], names: RelationNames
) -> tuple[str, ...]:
    """The published tables that a subscription does not have, without catalogs of subscribers."""
    return tuple(
        sorted(
            table.qualified_name
            for table in published
            if table.key not in known and not is_catalog_table(names, *table.key, table.columns)
        )
    )


def refresh_command(subscription: str) -> str:
    return f"ALTER SUBSCRIPTION {quote_identifier(subscription)} REFRESH PUBLICATION;"
