"""Reads and writes the catalog for the table synchronization of one subscription."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from subscriber.base.lsn import LSN
from subscriber.catalog import table_states
from subscriber.catalog.stored_publishing import read_publishing
from subscriber.catalog.subscriptions import Subscription
from subscriber.postgres.publication.publishing import Publishing
from subscriber.spark.apply_pause import WriterLock
from subscriber.targets import Connection, Target


class SyncCatalog:
    """The catalog as the table synchronization of one subscription uses it. Each method is a
    separate transaction, which holds ``writer_lock`` while it writes.
    """

    def __init__(self, target: Target, subscription: Subscription, writer_lock: WriterLock) -> None:
        self.target = target
        self.subscription = subscription
        self.writer_lock = writer_lock

    def relations(self) -> list[table_states.SubscriptionRelation]:
        with self._read() as connection:
            return table_states.relations_of(connection, self.subscription.subid)

    def publishing(self) -> Publishing | None:
        with self._read() as connection:
            return read_publishing(connection, self.subscription)

    def applied(self) -> LSN:
        with self._read() as connection:
            return self.subscription.progress.read(connection)

    def position(self, progress: table_states.CatchUpProgress) -> LSN:
        """The position of copied tables: the LSN of their copy, or of their catch-up."""
        with self._read() as connection:
            return progress.read(connection)

    def has_rows(self, relation: table_states.SubscriptionRelation) -> bool:
        """Whether the target's table has rows; False if it does not exist."""
        place = self.subscription.options.map.in_target(relation.schema, relation.name)
        with self._read() as connection:
            table = self.target.shapes.reflect(connection, *place)
            return table is not None and table.has_rows(connection)

    def advance(
        self, relation: table_states.SubscriptionRelation, state: table_states.RelationState, lsn: LSN | None
    ) -> table_states.SubscriptionRelation:
        with self.write() as connection:
            return table_states.advance_relation(connection, self.subscription.subid, relation, state, lsn)

    def advance_all(
        self, relations: Iterable[table_states.SubscriptionRelation], state: table_states.RelationState, lsn: LSN | None
    ) -> None:
        with self.write() as connection:
            for relation in relations:
                table_states.advance_relation(connection, self.subscription.subid, relation, state, lsn)

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        with self.writer_lock, self.target.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def _read(self) -> Iterator[Connection]:
        with self.target.reporting(), self.target.engine.connect() as connection:
            yield connection
