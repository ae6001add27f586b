"""The definitions and tables by which a subscription with a ``carrier`` evaluates its publications,
as the catalog stores them.

The definitions belong to the target: ALTER PUBLICATION takes effect with the next batch, which
checks that its rows were filtered by the current ones. The publisher's tables are stored with the
subscription, so that received changes can be applied while the publisher is not available. They are
read again when the stream has a table that differs from what is stored (PublisherTablesOutdated).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from subscriber.base.errors import UsageError
from subscriber.catalog.publications import find_publication, replace_publication
from subscriber.catalog.subscriptions import Subscription, publisher_tables, set_publisher_tables
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.postgres.publication.publishing_json import table_values, with_definitions


def read_definitions(connection: sa.Connection | None, names: Sequence[str]) -> tuple[Publication, ...]:
    """These publications in this order, or 42704; None is a target without a catalog."""
    definitions = []
    for name in names:
        found = None if connection is None else find_publication(connection, name)
        if found is None:
            raise UsageError(
                f'publication "{name}" does not exist',
                sqlstate="42704",
                hint="With a carrier, the publications of a subscription are stored in the target: run CREATE PUBLICATION"
                " in `subscriber sql`, or copy a server's publication with `subscriber publication import`.",
            )
        definitions.append(found)
    return tuple(definitions)


def read_publishing(connection: sa.Connection, subscription: Subscription) -> Publishing | None:
    """By what a subscription evaluates its publications; None if the server evaluates them. It is a
    UsageError if a publication was dropped, or the publisher's tables were not read yet.
    """
    if subscription.options.carrier is None:
        return None
    stored = publisher_tables(connection, subscription.subid)
    if stored is None:
        raise UsageError(
            f'the publisher\'s tables of subscription "{subscription.name}" have not been read yet',
            sqlstate="55000",
            hint="Run ALTER SUBSCRIPTION … REFRESH PUBLICATION to read them.",
        )
    try:
        definitions = read_definitions(connection, subscription.publications)
    except UsageError as error:
        # The publication may be created again: servers before PostgreSQL 18 wait for it, too.
        raise error.replace(transient=True) from None
    return with_definitions(definitions, stored)


def store_publishing(connection: sa.Connection, subid: int, publishing: Publishing) -> None:
    """Store the publisher's tables of ``publishing``, without system tables."""
    set_publisher_tables(connection, subid, table_values(publishing))


def with_stored_tables(connection: sa.Connection, subid: int, publishing: Publishing) -> Publishing:
    """The publications with the tables just read, and earlier facts from the stored tables."""
    stored = publisher_tables(connection, subid)
    if stored is None:
        return publishing
    before = with_definitions(publishing.publications, stored)
    return replace(before.with_tables(publishing.tables), publications=publishing.publications)


def store_followed(connection: sa.Connection, before: Publishing, now: Publishing) -> None:
    """Store definitions that have followed renamed tables, unless altered meanwhile."""
    for was, one in zip(before.publications, now.publications, strict=True):
        if one != was and find_publication(connection, one.name) == was:
            replace_publication(connection, one)
