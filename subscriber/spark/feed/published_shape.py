"""How the publisher describes a table now, for a journal that has no change of it yet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from subscriber.base.errors import PublisherNotReady
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.publication.publishing import Publishing
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.publisher.catalog import announced_relations
from subscriber.publisher.connection import Connection, connected
from subscriber.publisher.conninfo import session_conninfo
from subscriber.publisher.server_publications import PublicationsInSnapshot
from subscriber.spark.feed.feed_options import FeedOptions

APPLICATION_NAME: Final = "pgoutput"


def published_shape(options: FeedOptions, publishing: Publishing | None = None) -> Relation:
    """The table as the publisher would describe it now, or with ``publishing`` as it is published
    by emulated publications. PublisherError: it is not, or the publisher cannot say it.
    """
    assert options.table is not None
    with publisher_of(options) as connection:
        schema, name = options.table
        published = PublishedTable(schema, name)
        if publishing is not None:
            published = publishing.published_table(schema, name)
        elif options.publications is not None:
            publications = PublicationsInSnapshot.read(connection, options.publications)
            if publications.published_actions(schema, name) is None:
                raise PublisherNotReady(
                    f'table "{schema}.{name}" is in none of the publications {", ".join(options.publications)}',
                    hint="Name the publications that the journal's receiver has.",
                    relation=f"{schema}.{name}",
                )
            published = publications.published_table(schema, name)
        found = announced_relations(connection, [published])
    if not found:
        raise PublisherNotReady(
            f'table "{schema}.{name}" not found on publisher', sqlstate="42P01", relation=f"{schema}.{name}"
        )
    return found[0]


@contextlib.contextmanager
def publisher_of(options: FeedOptions) -> Iterator[Connection]:
    """A session at the publisher that the options name."""
    assert options.connection is not None
    with connected(session_conninfo(options.connection, APPLICATION_NAME)) as connection:
        yield connection
