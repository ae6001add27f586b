"""Asks the publisher of a subscription about the columns of its tables
(:mod:`subscriber.apply.relations.added_columns`).
"""

from __future__ import annotations

from subscriber.catalog import Subscription
from subscriber.catalog.kept_publishing import read_publishing
from subscriber.protocol.messages import Relation
from subscriber.publisher.published_tables import ServerPublications
from subscriber.publisher.publisher import connect_publisher
from subscriber.publisher.read_attributes import read_attributes
from subscriber.schema.attributes import TableAttributes
from subscriber.targets import Target


class PublisherAttributes:
    """Reads the attributes of a table from the publisher of a subscription; it is called with a
    relation message.
    """

    def __init__(self, target: Target, subscription: Subscription) -> None:
        self._target = target
        self._subscription = subscription

    def __call__(self, remote: Relation) -> TableAttributes | None:
        """Return the current attributes of the relation's table; None if the table does not exist,
        or is no longer published.

        Raises:
            PublisherError: the publisher cannot be queried.
            TargetUnavailable: the emulated publications of the subscription cannot be read.
        """
        with self._target.reporting(), self._target.engine.connect() as connection:
            publishing = read_publishing(connection, self._subscription)
        key = (remote.namespace, remote.name)
        if publishing is not None and all(table.key != key for table in publishing.published_tables()):
            return None
        with connect_publisher(self._subscription.conninfo, self._subscription.name) as server:
            publications = publishing or ServerPublications(server, self._subscription.publications)
            return read_attributes(server, publications, *key)
