"""What the table synchronization of one subscription reads and writes in the target's catalog."""

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
    """Each method is a transaction of its own, and raises TargetUnavailable where the target is
    away.

    Args:
        target: where the catalog is.
        subscription: whose tables.
        turn: held while the target is written.

    Attributes:
        target: the same.
        subscription: the same.
        turn: the same.
    """

    def __init__(self, target: Target, subscription: Subscription, turn: Turn) -> None:
        self.target = target
        self.subscription = subscription
        self.turn = turn

    def relations(self) -> list[SubscriptionRelation]:
        """The tables as they are now.

        Raises:
            TargetUnavailable: the target cannot be asked.
        """
        with self._read() as connection:
            return catalog.relations_of(connection, self.subscription.subid)

    def publishing(self) -> Publishing | None:
        """What the subscriber publishes the changes by; None where the server does so.

        Raises:
            TargetUnavailable: the target cannot be asked.
        """
        with self._read() as connection:
            return read_publishing(connection, self.subscription)

    def applied(self) -> LSN:
        """The position of the apply worker.

        Raises:
            TargetUnavailable: the target cannot be asked.
        """
        with self._read() as connection:
            return self.subscription.progress.read(connection)

    def position(self, relation: SubscriptionRelation) -> LSN:
        """How far a table is that was copied: the copy's LSN, or how far its catch-up is.

        Raises:
            TargetUnavailable: the target cannot be asked.
        """
        with self._read() as connection:
            return CatchUpProgress(self.subscription.subid, relation).read(connection)

    def has_rows(self, relation: SubscriptionRelation) -> bool:
        """Whether the target's table has rows; one that is not there has none.

        Raises:
            TargetUnavailable: the target cannot be asked.
        """
        place = self.subscription.options.map.local(relation.schema, relation.name)
        with self._read() as connection:
            table = self.target.shapes.reflect(connection, *place)
            return table is not None and table.has_rows(connection)

    def advance(self, relation: SubscriptionRelation, state: RelationState, lsn: LSN | None) -> SubscriptionRelation:
        """Give a table its next state; gives the table as it is then.

        Raises:
            ProgressConflict: somebody else has changed its state meanwhile.
            TargetUnavailable: the target cannot be written.
        """
        with self.write() as connection:
            return catalog.advance_relation(connection, self.subscription.subid, relation, state, lsn)

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction of the target, when it is its turn.

        Raises:
            TargetUnavailable: the target cannot be written.
        """
        with self.turn, self.target.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def _read(self) -> Iterator[Connection]:
        with self.target.reporting(), self.target.engine.connect() as connection:
            yield connection
