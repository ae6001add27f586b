"""What a subscription with a ``carrier`` publishes by, as the catalog keeps it.

::

    subscriber_publication ──┐
                             ├── Publishing ──▶ the query's executors, initial copies
    subpublishertables ──────┘       │
          ▲                          ├─ PublisherTablesOutdated: the stream has a table that is not known as it is
          └── the publisher ◀────────┘  (created, altered or attached since): the tables are read again

The definitions belong to the target, so ALTER PUBLICATION holds from the next batch on. Each batch
checks in its own transaction that its rows were filtered by the definitions that are there now. The
publisher's tables are kept with the subscription, so that received changes are applied while the
publisher is away.
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


def read_definitions(connection: sa.Connection, names: Sequence[str]) -> tuple[Publication, ...]:
    """The emulated publications of these names, in this order.

    Raises:
        UsageError: 42704, one does not exist.
    """
    definitions = []
    for name in names:
        found = find_publication(connection, name)
        if found is None:
            raise UsageError(
                f'publication "{name}" does not exist',
                sqlstate="42704",
                hint="With a carrier, publications are the subscriber's own: CREATE PUBLICATION it in this target, or take a"
                " server's with `subscriber publication import`.",
            )
        definitions.append(found)
    return tuple(definitions)


def read_publishing(connection: sa.Connection, subscription: Subscription) -> Publishing | None:
    """What a subscription publishes by; None for one whose publications are the server's.

    Raises:
        UsageError: a publication has been dropped, or the publisher's tables have not been read
            yet.
    """
    if subscription.options.carrier is None:
        return None
    kept = publisher_tables(connection, subscription.subid)
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
        # It may be created again: servers before 18 wait for it, too.
        raise error.replace(transient=True) from None
    return Publishing(
        definitions,
        from_json(content[_TABLES]),
        frozenset(_relation(bytes.fromhex(message)) for message in content[_SETTLED]),
    )


def keep_publishing(connection: sa.Connection, subid: int, publishing: Publishing) -> None:
    """Keep the publisher's tables of ``publishing``, but those of the system; the definitions are
    in the catalog already.
    """
    settled = sorted(encode(relation).hex() for relation in publishing.settled)
    tables = to_json(publishing.tables.without_system())
    set_publisher_tables(connection, subid, json.dumps({_TABLES: tables, _SETTLED: settled}))


def _relation(message: bytes) -> Relation:
    relation = decode(message)
    assert isinstance(relation, Relation)
    return relation
