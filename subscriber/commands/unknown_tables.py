"""Published tables that a subscription does not have.

They are there if a publication got a table, or a database with a publication FOR ALL TABLES, since
the subscription was created or refreshed. As PostgreSQL's subscriber does, the apply ignores their
changes until REFRESH PUBLICATION.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.catalog.kept_publishing import read_publishing
from subscriber.publisher.published_tables import ServerPublications
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.schema.relation_names import RelationNames, TableName
from subscriber.sql.keywords import quote_identifier
from subscriber.targets import Target


@dataclass(frozen=True, slots=True)
class Unknown:
    """What the publisher has and a subscription has not, or the other way round.

    Attributes:
        tables: the qualified names of published tables that the subscription does not have.
        publications: the names of its publications that do not exist at the publisher.
    """

    tables: tuple[str, ...] = ()
    publications: tuple[str, ...] = ()


def read_unknown(target: Target, subscription: Subscription, known: Collection[TableName]) -> Unknown:
    """Compare the tables of a subscription's publications with its own.

    Args:
        target: the target.
        subscription: the subscription.
        known: schema and name of the tables that it has, by the publisher's names.

    Raises:
        SubscriberError: the publisher or the target cannot be queried.
    """
    names = subscription.options.map
    with target.reporting(), target.engine.connect() as connection:
        publishing = read_publishing(connection, subscription)
    if publishing is not None:
        return Unknown(unknown_tables([table.key for table in publishing.published_tables()], known, names))
    with connect_publisher(subscription.conninfo, subscription.name) as server:
        missing = Publisher(server).missing_publications(subscription.publications)
        tables = ServerPublications(server, subscription.publications).published_tables()
    return Unknown(unknown_tables([table.key for table in tables], known, names), tuple(missing))


def unknown_tables(
    published: Collection[TableName], known: Collection[TableName], names: RelationNames
) -> tuple[str, ...]:
    """The published tables that a subscription does not have, as qualified names. The catalog
    tables of subscribers are left out, because they are never replicated.
    """
    return tuple(
        sorted(
            f"{schema}.{name}"
            for schema, name in set(published) - set(known)
            if not catalog.is_own_table(names, schema, name)
        )
    )


def refresh_command(subscription: str) -> str:
    """The command that brings the tables."""
    return f"ALTER SUBSCRIPTION {quote_identifier(subscription)} REFRESH PUBLICATION;"
