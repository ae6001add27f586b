"""What the publications of a subscription publish: asked of the server, or worked out where they are the subscriber's own.

With a carrier everything is checked here that the server would check when the publication is made and when its tables are written:
the filters against the publisher's tables (rules B23-B29), the replica identities (B32-B36), and that the carrier brings all of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from subscriber import catalog
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.notices import (
    Notify,
    notice,
    warn_missing_publications,
    warn_other_origins,
    warn_unreadable,
    warn_without_identity,
)
from subscriber.commands.own_publications import kept_text, read_definitions
from subscriber.errors import PublisherNotReady, SubscriberError, UsageError
from subscriber.filters.check import check_filter, columns_of
from subscriber.publication.carrier import check_carrier
from subscriber.publication.coverage import check_coverage
from subscriber.publication.definition import Publication
from subscriber.publication.published_relations import published_relations
from subscriber.publication.publishing import Publishing
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.privileges import unreadable_tables
from subscriber.publisher.published_tables import PublishedTable
from subscriber.publisher.publisher import Publisher
from subscriber.publisher.replica_identity import tables_without_identity
from subscriber.schema.publisher_tables import PublisherTable, PublisherTables
from subscriber.schema.relation_names import RelationNames
from subscriber.targets import Target


@dataclass(frozen=True, slots=True)
class Published:
    """What publications publish.

    Attributes:
        tables: the tables.
        changing: schema and name of those whose updates or deletes are published.
        publisher_tables: what the catalog is to keep of the publisher's tables; None where the server publishes.
    """

    tables: list[PublishedTable]
    changing: frozenset[tuple[str, str]] = frozenset()
    publisher_tables: str | None = None


def read_published(
    target: Target,
    publisher: Publisher,
    subscription: str,
    publications: Sequence[str],
    options: SubscriptionOptions,
    notify: Notify,
    *,
    named: Sequence[str] | None = None,
    known: Collection[tuple[str, str]] = (),
) -> Published:
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
    streamed = publications
    if options.carrier is None:
        warn_missing_publications(notify, publisher.missing_publications(publications if named is None else named))
        published = Published(publisher.published_tables(publications), publisher.changing_tables(publications))
    else:
        streamed = (options.carrier,)
        published = _emulated(target, publisher, publications, options.carrier)
    published = _without_own(published, options.map, notify)
    warn_without_identity(notify, tables_without_identity(publisher.connection, streamed))
    if options.copy_data:
        new = [table for table in published.tables if (table.schema, table.name) not in known]
        warn_unreadable(notify, unreadable_tables(publisher.connection, new))
    if options.copy_data and options.origin == "none":
        warn_other_origins(notify, subscription, publisher.publications_of_other_origins(streamed, known))
    return published


def _without_own(published: Published, names: RelationNames, notify: Notify) -> Published:
    """Leave out what a publisher that is itself a target of ours keeps for its own subscriptions."""
    own = [table for table in published.tables if catalog.is_own_table(names, table.schema, table.name)]
    if own:
        shown = ", ".join(f'"{table.qualified_name}"' for table in own)
        notice(notify, f"not replicated, because subscribers keep their state in tables of these names: {shown}")
    return replace(published, tables=[table for table in published.tables if table not in own])


def _emulated(target: Target, publisher: Publisher, publications: Sequence[str], carrier: str) -> Published:
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

    relations = published_relations(
        definitions, tables
    )  # first: what it refuses, PostgreSQL refuses here too (rule B39)
    check_coverage(definitions, tables, filter_columns, tuple(of_publisher.values()))
    check_carrier(of_publisher[carrier], definitions, tables, filter_columns)
    changing = published_relations([one for one in definitions if one.publish & {"update", "delete"}], tables)
    return Published(
        [
            PublishedTable(
                relation.table.schema,
                relation.table.name,
                "partitioned table" if relation.table.kind == "partitioned table" else "table",
                relation.columns,
            )
            for relation in relations
        ],
        frozenset((relation.table.schema, relation.table.name) for relation in changing),
        kept_text(Publishing(definitions, tables)),
    )


def _check_members(publication: Publication, tables: PublisherTables) -> None:
    """The publication may have been made for another publisher, or its tables have been altered since."""
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
