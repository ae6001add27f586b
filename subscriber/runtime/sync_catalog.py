"""Reads and writes the catalog for the table synchronization of one subscription."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from subscriber import catalog
from subscriber.catalog import CatchUpProgress, RelationState, Subscription, SubscriptionRelation
from subscriber.catalog.kept_publishing import read_publishing
from subscriber.lsn import LSN
from subscriber.publication.publishing import Publishing
from subscriber.runtime.gate import Turn
from subscriber.targets import Connection, Target


class SyncCatalog:
    """The catalog as the table synchronization uses it. Each method is a separate transaction, and
    raises TargetUnavailable if the target cannot be reached.

    Args:
        target: the target that contains the catalog.
        subscription: the subscription whose tables are synchronized.
        turn: held while the target is written.

    Attributes:
        target: the target that contains the catalog.
        subscription: the subscription whose tables are synchronized.
        turn: held while the target is written.
    """

    def __init__(self, target: Target, subscription: Subscription, turn: Turn) -> None:
        self.target = target
        self.subscription = subscription
        self.turn = turn

    def relations(self) -> list[SubscriptionRelation]:
        """Return the tables of the subscription with their current states.

        Raises:
            TargetUnavailable: the target cannot be queried.
        """
        with self._read() as connection:
            return catalog.relations_of(connection, self.subscription.subid)

    def publishing(self) -> Publishing | None:
        """Return the emulated publications; None if the server evaluates the publications.

        Raises:
            TargetUnavailable: the target cannot be queried.
        """
        with self._read() as connection:
            return read_publishing(connection, self.subscription)

    def applied(self) -> LSN:
        """Return the position of the apply worker.

        Raises:
            TargetUnavailable: the target cannot be queried.
        """
        with self._read() as connection:
            return self.subscription.progress.read(connection)

    def position(self, relation: SubscriptionRelation) -> LSN:
        """Return the position of a copied table: the LSN of its copy, or the position of its
        catch-up.

        Raises:
            TargetUnavailable: the target cannot be queried.
        """
        with self._read() as connection:
            return CatchUpProgress(self.subscription.subid, relation).read(connection)

    def has_rows(self, relation: SubscriptionRelation) -> bool:
        """Return whether the target's table has rows; False if the table does not exist.

        Raises:
            TargetUnavailable: the target cannot be queried.
        """
        place = self.subscription.options.map.local(relation.schema, relation.name)
        with self._read() as connection:
            table = self.target.shapes.reflect(connection, *place)
            return table is not None and table.has_rows(connection)

    def advance(self, relation: SubscriptionRelation, state: RelationState, lsn: LSN | None) -> SubscriptionRelation:
        """Set the state of a table, and return the table in its new state.

        Raises:
            ProgressConflict: another process has changed the state meanwhile.
            TargetUnavailable: the target cannot be written.
        """
        with self.write() as connection:
            return catalog.advance_relation(connection, self.subscription.subid, relation, state, lsn)

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """Begin a transaction of the target in its turn.

        Raises:
            TargetUnavailable: the target cannot be written.
        """
        with self.turn, self.target.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def _read(self) -> Iterator[Connection]:
        with self.target.reporting(), self.target.engine.connect() as connection:
            yield connection
