"""The publications of a subscription, checked, and the tables that they publish: asked of the
server, or emulated.

With a carrier, this module checks everything that the server would check when the publication is
created and when its tables are written: the filters against the publisher's tables (rules B23-B29),
the replica identities (B32-B36), and that the carrier brings all of it.
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
from subscriber.targets import Target


@dataclass(frozen=True, slots=True)
class SubscribedTables:
    """What a subscription replicates of what its publications publish.

    Attributes:
        tables: the published tables, but those in which subscribers keep their state.
        changing: schema and name of those whose UPDATEs or DELETEs are published.
        publishing: what the catalog is to keep of emulated publications; None where the server
            publishes.
    """

    tables: list[PublishedTable]
    changing: frozenset[tuple[str, str]] = frozenset()
    publishing: Publishing | None = None


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
    """What a subscription's publications publish now, with PostgreSQL's warnings.

    Args:
        target: the subscriber's database.
        publisher: the publisher.
        subscription: its name.
        publications: those that it has.
        options: its options; ``copy_data`` says whether tables are copied.
        notify: told warnings.
        named: the publications whose absence is worth a warning; None for all.
        known: tables that the subscription has already, and does not copy.

    Raises:
        UsageError: an emulated publication does not exist, or does not fit the publisher's tables.
        NotSupportedError: the carrier leaves something out, or a filter cannot be evaluated here.
        PublisherError: the publisher refused.
    """
    source: Publications
    publishing = None
    if options.carrier is None:
        warn_missing_publications(notify, publisher.missing_publications(publications if named is None else named))
        streamed = publications
        source = ServerPublications(publisher.connection, publications)
    else:
        streamed = (options.carrier,)
        source = publishing = _check_emulated(target, publisher, publications, options.carrier)
    tables = _without_own(source.published_tables(), options.map, notify)
    changing = source.changing_tables()
    warn_without_identity(notify, tables_without_identity(publisher.connection, streamed))
    if options.copy_data:
        new = [table for table in tables if table.key not in known]
        warn_unreadable(notify, unreadable_tables(publisher.connection, new))
    if options.copy_data and options.origin == "none":
        warn_other_origins(notify, subscription, publisher.publications_of_other_origins(streamed, known))
    return SubscribedTables(tables, changing, publishing)


def read_uncopied(
    publisher: Publisher, publications: Sequence[str], tables: Sequence[PublishedTable], *, emulated: bool
) -> list[tuple[PublishedTable, TableAttributes]]:
    """What tables are like that are not to be copied, for
    :func:`~subscriber.catalog.keep_published_shapes`.

    Args:
        publisher: is asked.
        publications: of the subscription.
        tables: those that are published.
        emulated: the publications are the subscriber's own.

    Raises:
        PublisherError: it could not be asked.
    """
    found = []
    for table in tables:
        listed = table.columns is not None if emulated else None
        attributes = read_attributes(publisher.connection, publications, table.schema, table.name, listed=listed)
        if attributes is not None:
            found.append((table, attributes))
    return found


def _without_own(tables: Sequence[PublishedTable], names: RelationNames, notify: Notify) -> list[PublishedTable]:
    """Leave out what a publisher that is itself a target of ours keeps for its own
    subscriptions.
    """
    own = [table for table in tables if catalog.is_own_table(names, *table.key)]
    if own:
        shown = ", ".join(f'"{table.qualified_name}"' for table in own)
        notice(notify, f"not replicated, because subscribers keep their state in tables of these names: {shown}")
    return [table for table in tables if table not in own]


def _check_emulated(target: Target, publisher: Publisher, publications: Sequence[str], carrier: str) -> Publishing:
    with target.reporting(), target.engine.connect() as connection:
        definitions = read_definitions(connection, publications)
    of_publisher = {publication.name: publication for publication in publisher.publications()}
    if carrier not in of_publisher:
        raise PublisherNotReady(
            f'publication "{carrier}" does not exist',
            sqlstate="42704",
            hint=f'The carrier is a publication of the server: CREATE PUBLICATION "{carrier}" FOR ALL TABLES, at the publisher.',
        )
    tables = read_publisher_tables(publisher.connection)
    for definition in definitions:
        _check_members(definition, tables)

    def filter_columns(where: str, table: PublisherTable) -> frozenset[str]:
        return frozenset(columns_of(check_filter(where, table, tables)))

    publishing = Publishing(definitions, tables)
    publishing.published_tables()  # first: what it refuses, PostgreSQL refuses here too (rule B39)
    check_coverage(definitions, tables, filter_columns, tuple(of_publisher.values()))
    check_carrier(of_publisher[carrier], definitions, tables, filter_columns)
    return publishing


def _check_members(publication: Publication, tables: PublisherTables) -> None:
    """The publication may have been made for another publisher, or its tables have been altered
    since.
    """
    for entry in publication.tables:
        table = tables.tables.get(entry.key)
        qualified = f"{entry.schema}.{entry.name}"
        if table is None:
            raise UsageError(
                f'relation "{qualified}" does not exist',
                sqlstate="42P01",
                detail=f'Publication "{publication.name}" has it, and the publisher has not.',
                hint=f'ALTER PUBLICATION "{publication.name}" DROP TABLE it, or make the table at the publisher.',
                relation=qualified,
            )
        if entry.where is not None:
            try:
                check_filter(entry.where, table, tables)
            except SubscriberError as error:
                context = f'row filter of table "{qualified}" in publication "{publication.name}"'
                raise error.replace(relation=error.relation or qualified, context=error.context or context) from None
