"""Publications of the subscriber's own, at work: what a subscription with a ``carrier`` publishes by.

::

    subscriber_publication ──┐
                             ├── Publishing ──▶ the query's executors, the copy's selection
    subpublishertables ──────┘       │
          ▲                          ├─ PublisherTablesOutdated: the stream has a table that is not known as it is
          └── the publisher ◀────────┘  (created, altered or attached since): read them anew, and try again

The definitions are the target's, so ALTER PUBLICATION holds from the next batch on: each batch looks whether they are still those
that its rows were filtered by, in its own transaction. The publisher's tables are kept with the subscription: what was received is
applied while the publisher is away.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.errors import PublisherError, PublisherTablesOutdated, UsageError
from subscriber.protocol.decode import decode
from subscriber.protocol.encode import encode
from subscriber.protocol.messages import Relation
from subscriber.publication.definition import Publication
from subscriber.publication.published_relations import published_relations
from subscriber.publication.publishing import Publishing
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.copy_plan import Selection
from subscriber.publisher.publisher import connect_publisher
from subscriber.schema.publisher_tables import PublisherTables, from_json, to_json
from subscriber.targets import Target

_TABLES: Final = "tables"
_SETTLED: Final = "settled"


def read_definitions(connection: Any, names: Sequence[str]) -> tuple[Publication, ...]:
    """The emulated publications of these names, in this order.

    Raises:
        UsageError: 42704, one does not exist.
    """
    definitions = []
    for name in names:
        found = catalog.find_publication(connection, name)
        if found is None:
            raise UsageError(
                f'publication "{name}" does not exist',
                sqlstate="42704",
                hint="With a carrier, publications are the subscriber's own: CREATE PUBLICATION it in this target, or take a"
                " server's with `subscriber publication import`.",
            )
        definitions.append(found)
    return tuple(definitions)


def read_publishing(connection: Any, subscription: Subscription) -> Publishing | None:
    """What a subscription publishes by; None for one whose publications are the server's.

    Raises:
        UsageError: a publication has been dropped, or the publisher's tables have not been read yet.
    """
    if subscription.options.carrier is None:
        return None
    kept = catalog.publisher_tables(connection, subscription.subid)
    if kept is None:
        raise UsageError(
            f'the publisher\'s tables of subscription "{subscription.name}" have not been read yet',
            sqlstate="55000",
            hint="ALTER SUBSCRIPTION … REFRESH PUBLICATION reads them.",
        )
    content = json.loads(kept)
    try:
        definitions = read_definitions(connection, subscription.publications)
    except UsageError as error:
        # It may be made again: servers before 18 wait for it, too.
        raise error.replace(transient=True) from None
    return Publishing(
        definitions,
        from_json(content[_TABLES]),
        frozenset(_relation(bytes.fromhex(message)) for message in content[_SETTLED]),
    )


def kept_text(publishing: Publishing) -> str:
    """The publisher's tables as the catalog keeps them."""
    settled = sorted(encode(relation).hex() for relation in publishing.settled)
    return json.dumps({_TABLES: to_json(_own(publishing.tables)), _SETTLED: settled})


def read_tables_at_start(target: Target, subscription: Subscription) -> bool:
    """Read the publisher's tables again where it can be asked, and keep them; tells that this is done.

    A partition that was attached or detached looks in the stream as it did before, so nothing else would ask.

    Raises:
        TargetUnavailable: try again.
    """
    if subscription.options.carrier is not None:
        with contextlib.suppress(PublisherError):
            _read_tables(target, subscription, None)
    return True


def read_tables_anew(target: Target, subscription: Subscription, error: PublisherTablesOutdated) -> None:
    """Read the publisher's tables again and keep them, because the stream has one that is not as it was.

    Raises:
        PublisherError: the publisher cannot be asked.
        TargetUnavailable: try again.
    """
    if not isinstance(error.shape, Relation):
        raise error
    _read_tables(target, subscription, error.shape)


def _read_tables(target: Target, subscription: Subscription, shape: Relation | None) -> None:
    with target.reporting(), target.engine.connect() as connection:
        before = read_publishing(connection, subscription)
    assert before is not None
    with connect_publisher(subscription.conninfo, subscription.name) as server:
        now = before.read_anew(_own(read_publisher_tables(server)), shape)
    if now != before:
        with target.begin() as connection:
            catalog.set_publisher_tables(connection, subscription.subid, kept_text(now))


def _own(tables: PublisherTables) -> PublisherTables:
    """Without the system's own, which nothing can publish."""
    return replace(tables, tables={key: table for key, table in tables.tables.items() if not table.is_system})


def selection_of(publishing: Publishing | None, schema: str, name: str) -> Selection | None:
    """What of a table is copied; None: the server knows.

    Raises:
        PublisherError: 42704, the table is published no more.
    """
    if publishing is None:
        return None
    for relation in published_relations(publishing.publications, publishing.tables):
        if relation.table.key == (schema, name):
            return Selection(relation.columns, relation.filters)
    raise PublisherError(
        f'table "{schema}.{name}" is not published any more',
        sqlstate="42704",
        hint="ALTER SUBSCRIPTION … REFRESH PUBLICATION takes it out of the subscription.",
        relation=f"{schema}.{name}",
    )


def _relation(message: bytes) -> Relation:
    relation = decode(message)
    assert isinstance(relation, Relation)
    return relation
