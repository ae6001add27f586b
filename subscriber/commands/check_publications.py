"""Checks of a subscription's publications, and the tables that they publish. The publications are
the server's, or emulated ones.

With a carrier, this module checks everything that the server would check when the publication is
created and when its tables are written: the filters against the publisher's tables (rules B23-B29),
the replica identities (B32-B36), and whether the carrier contains everything that the publications
need.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from subscriber import catalog
from subscriber.catalog.kept_publishing import read_definitions
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.notices import (
    Notify,
    notice,
    warn_missing_publications,
    warn_other_origins,
    warn_unreadable,
    warn_without_identity,
)
from subscriber.errors import PublisherNotReady, SubscriberError, UsageError
from subscriber.filters.check import check_filter, columns_of
from subscriber.publication.carrier import check_carrier
from subscriber.publication.coverage import check_coverage
from subscriber.publication.definition import Publication
from subscriber.publication.publishing import Publishing
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.privileges import unreadable_tables
from subscriber.publisher.published_tables import ServerPublications
from subscriber.publisher.publisher import Publisher
from subscriber.publisher.read_attributes import read_attributes
from subscriber.publisher.replica_identity import tables_without_identity
from subscriber.schema.attributes import TableAttributes
from subscriber.schema.published_table import Publications, PublishedTable
from subscriber.schema.publisher_tables import PublisherTable, PublisherTables
from subscriber.schema.relation_names import RelationNames
from subscriber.suggestions import perhaps
from subscriber.targets import Target


@dataclass(frozen=True, slots=True)
class SubscribedTables:
    """The tables that a subscription replicates.

    Attributes:
        tables: the published tables, without those in which subscribers keep their catalog.
        changing: the schemas and names of the tables whose UPDATEs or DELETEs are published.
        publishing: the emulated publications as the catalog stores them; None if the server's
            publications are used.
    """

    tables: list[PublishedTable]
    changing: frozenset[tuple[str, str]] = frozenset()
    publishing: Publishing | None = None

    def publications(self, publisher: Publisher, names: Sequence[str]) -> Publications:
        """The publications of these names: the emulated ones, else those of the server."""
        return self.publishing or ServerPublications(publisher.connection, names)


def check_publications(
    target: Target,
    publisher: Publisher,
    subscription: str,
    publications: Sequence[str],
    options: SubscriptionOptions,
    notify: Notify,
    *,
    named: Sequence[str] | None = None,
    known: Collection[tuple[str, str]] = (),
) -> SubscribedTables:
    """The tables that a subscription's publications publish now. Gives PostgreSQL's warnings.

    Args:
        target: the subscriber's database.
        publisher: the publisher.
        subscription: the name of the subscription.
        publications: the publications of the subscription.
        options: the options of the subscription; ``copy_data`` decides whether tables are copied.
        notify: called with warnings.
        named: the publications for which a warning is given if they do not exist; None for all.
        known: tables that the subscription has already; they are not copied.

    Raises:
        UsageError: an emulated publication does not exist, or does not match the publisher's
            tables.
        NotSupportedError: the carrier lacks something, or a filter cannot be evaluated here.
        PublisherError: the publisher could not be queried, or refused.
    """
    if options.carrier is None:
        missing = publisher.missing_publications(publications if named is None else named)
        hints = [hint for name in missing if (hint := publisher.like_publication(name))]
        warn_missing_publications(notify, missing, " ".join(hints) or None)
    published = find_published_tables(target, publisher, publications, options, notify)
    streamed = publications if options.carrier is None else (options.carrier,)
    warn_without_identity(notify, tables_without_identity(publisher.connection, streamed))
    if options.copy_data:
        new = [table for table in published.tables if table.key not in known]
        warn_unreadable(notify, unreadable_tables(publisher.connection, new))
    if options.copy_data and options.origin == "none":
        warn_other_origins(notify, subscription, publisher.publications_of_other_origins(streamed, known))
    return published


def find_published_tables(
    target: Target,
    publisher: Publisher,
    publications: Sequence[str],
    options: SubscriptionOptions,
    notify: Notify,
) -> SubscribedTables:
    """The tables that publications publish now. Emulated publications are checked against the
    publisher's tables; privileges and replica identities are not checked.

    Args:
        target: the subscriber's database.
        publisher: the publisher.
        publications: the publications of the subscription.
        options: the options of the subscription.
        notify: called with a notice of tables that are left out.

    Raises:
        SubscriberError: as :func:`check_publications`.
    """
    publishing = None
    source: Publications = ServerPublications(publisher.connection, publications)
    if options.carrier is not None:
        source = publishing = _check_emulated(target, publisher, publications, options.carrier)
    tables = _without_own(source.published_tables(), options.map, notify)
    return SubscribedTables(tables, source.changing_tables(), publishing)


def read_uncopied(
    publisher: Publisher, publications: Publications, tables: Sequence[PublishedTable]
) -> list[tuple[PublishedTable, TableAttributes]]:
    """The properties of tables that are not copied, for
    :func:`~subscriber.catalog.keep_published_shapes`.

    Args:
        publisher: the publisher, which is queried.
        publications: the publications of the subscription, of the server or emulated.
        tables: the published tables.

    Raises:
        PublisherError: the publisher could not be queried.
    """
    found = []
    for table in tables:
        attributes = read_attributes(publisher.connection, publications, table.schema, table.name)
        if attributes is not None:
            found.append((table, attributes))
    return found


def _without_own(tables: Sequence[PublishedTable], names: RelationNames, notify: Notify) -> list[PublishedTable]:
    """Leave out tables with the names of the catalog's tables: the publisher may itself be a target
    of this program.
    """
    own = [table for table in tables if catalog.is_own_table(names, *table.key)]
    if own:
        shown = ", ".join(f'"{table.qualified_name}"' for table in own)
        notice(notify, f"tables that have the names of subscriber's catalog tables are not replicated: {shown}")
    return [table for table in tables if table not in own]


def _check_emulated(target: Target, publisher: Publisher, publications: Sequence[str], carrier: str) -> Publishing:
    # `subscriber check` also looks at targets without a catalog or a file, and creates neither.
    with catalog.existing_catalog(target) as connection:
        definitions = read_definitions(connection, publications)
    of_publisher = {publication.name: publication for publication in publisher.publications()}
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

    def filter_columns(where: str, table: PublisherTable) -> frozenset[str]:
        return frozenset(columns_of(check_filter(where, table, tables)))

    publishing = Publishing(definitions, tables)
    publishing.published_tables()  # first: PostgreSQL also raises the errors of this call at this place (rule B39)
    check_coverage(definitions, tables, filter_columns, tuple(of_publisher.values()))
    check_carrier(of_publisher[carrier], definitions, tables, filter_columns)
    return publishing


def _check_members(publication: Publication, tables: PublisherTables) -> None:
    """Check the tables and filters that a publication names.

    The publication may have been created for another publisher, or its tables may have been altered
    since.
    """
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
