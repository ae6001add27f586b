"""``subscriber publication import``: stores a server's publications as emulated publications.

With this command the filters move from the server to the subscriber, before a subscription with a
carrier replaces a subscription without a carrier.
"""

from __future__ import annotations

from collections.abc import Sequence

from subscriber import catalog
from subscriber.commands.notices import Notify, notice, warning
from subscriber.errors import PublisherNotReady, SubscriberError
from subscriber.filters.check import check_filter
from subscriber.publication.definition import Publication
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.schema.publisher_tables import PublisherTables
from subscriber.targets import Target


def import_publications(
    target: Target, conninfo: str, names: Sequence[str], notify: Notify, *, replace: bool = False
) -> None:
    """Store publications of a server in the target: all of them, or none.

    Args:
        target: the database in which they are stored.
        conninfo: the connection string of the server.
        names: the names of the publications.
        notify: called with a notice for each publication.
        replace: whether existing publications of these names are replaced.

    Raises:
        PublisherNotReady: 42704, the server has no publication of that name.
        UsageError: 42710, the target already has a publication of that name.
        NotSupportedError: a filter that cannot be evaluated exactly here.
    """
    wanted = list(dict.fromkeys(names))
    with connect_publisher(conninfo, "subscriber") as server:
        publisher = Publisher(server)
        found = {publication.name: publication for publication in publisher.publications(wanted)}
        tables = read_publisher_tables(server)
        of_sequences = publisher.publications_of_sequences(wanted)
    for name in wanted:
        if name not in found:
            raise PublisherNotReady(
                f'publication "{name}" does not exist',
                sqlstate="42704",
                hint="`psql -c '\\dRp'` lists the publications of the server.",
            )
        _check_filters(found[name], tables)
    with target.reporting():
        catalog.ensure_catalog(target.engine)
    with target.begin() as connection:
        for name in wanted:
            if replace and catalog.find_publication(connection, name) is not None:
                catalog.replace_publication(connection, found[name])
            else:
                catalog.insert_publication(connection, found[name], tables.role)
    for name in wanted:
        notice(notify, f'imported publication "{name}": {_summary(found[name])}')
        if name in of_sequences:
            warning(
                notify,
                f'publication "{name}" is FOR ALL SEQUENCES at the publisher, and the imported one has no sequences',
                hint="ALTER SUBSCRIPTION … REFRESH SEQUENCES sets the target's sequences, whatever is published.",
            )


def _check_filters(publication: Publication, tables: PublisherTables) -> None:
    for entry in publication.tables:
        if entry.where is None:
            continue
        try:
            check_filter(entry.where, tables.tables[entry.key], tables)
        except SubscriberError as error:
            relation = f"{entry.schema}.{entry.name}"
            context = f'row filter of table "{relation}" in publication "{publication.name}"'
            raise error.replace(relation=relation, context=context) from None


def _summary(publication: Publication) -> str:
    """The content of a publication in words, such as ``2 tables, 1 row filter``."""
    if publication.all_tables:
        excepted = len(publication.excepted)
        return f"all tables but {excepted}" if excepted else "all tables"
    filters = sum(entry.where is not None for entry in publication.tables)
    counted = (
        (len(publication.tables), "table"),
        (len(publication.schemas), "schema"),
        (filters, "row filter"),
    )
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counted if count) or "no tables"
