"""The definitions and tables by which a subscription with a ``carrier`` evaluates its publications,
as the catalog stores them.

::

    subscriber_publication ──┐
                             ├── Publishing ──▶ the query's executors, initial copies
    subpublishertables ──────┘       │
          ▲                          ├─ PublisherTablesOutdated: the stream has a table that differs from what is stored
          └── the publisher ◀────────┘  (created, altered or attached since): the tables are read again

The definitions belong to the target, so ALTER PUBLICATION takes effect with the next batch. Each
batch checks in its transaction that its rows were filtered by the current definitions. The
publisher's tables are stored with the subscription, so that received changes can be applied while
the publisher is not available.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from subscriber.catalog.publications import find_publication
from subscriber.catalog.subscriptions import Subscription, publisher_tables, set_publisher_tables
from subscriber.errors import UsageError
from subscriber.protocol.decode import decode
from subscriber.protocol.encode import encode
from subscriber.protocol.messages import Relation
from subscriber.publication.definition import Publication
from subscriber.publication.publishing import Publishing
from subscriber.schema.publisher_tables import from_json, to_json

_TABLES: Final = "tables"
_SETTLED: Final = "settled"


def read_definitions(connection: sa.Connection | None, names: Sequence[str]) -> tuple[Publication, ...]:
    """The emulated publications with these names, in this order. None is a target without a
    catalog, which has no publications.

    Raises:
        UsageError: 42704, a publication does not exist.
    """
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
    """The definitions and tables by which a subscription evaluates its publications; None if the
    server evaluates them.

    Raises:
        UsageError: a publication was dropped, or the publisher's tables were not read yet.
    """
    if subscription.options.carrier is None:
        return None
    kept = publisher_tables(connection, subscription.subid)
    if kept is None:
        raise UsageError(
            f'the publisher\'s tables of subscription "{subscription.name}" have not been read yet',
            sqlstate="55000",
            hint="Run ALTER SUBSCRIPTION … REFRESH PUBLICATION to read them.",
        )
    content = json.loads(kept)
    try:
        definitions = read_definitions(connection, subscription.publications)
    except UsageError as error:
        # The publication may be created again: servers before PostgreSQL 18 wait for it, too.
        raise error.replace(transient=True) from None
    return Publishing(
        definitions,
        from_json(content[_TABLES]),
        frozenset(_relation(bytes.fromhex(message)) for message in content[_SETTLED]),
    )


def keep_publishing(connection: sa.Connection, subid: int, publishing: Publishing) -> None:
    """Store the publisher's tables of ``publishing``, without system tables. The definitions are
    already in the catalog.
    """
    settled = sorted(encode(relation).hex() for relation in publishing.settled)
    tables = to_json(publishing.tables.without_system())
    set_publisher_tables(connection, subid, json.dumps({_TABLES: tables, _SETTLED: settled}))


def _relation(message: bytes) -> Relation:
    relation = decode(message)
    assert isinstance(relation, Relation)
    return relation
