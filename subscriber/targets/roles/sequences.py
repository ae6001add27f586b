"""Generators of values in the target: sequences, and counters of columns."""

from __future__ import annotations

from typing import Protocol

import sqlalchemy as sa

from subscriber.schema.shape import SequencePosition
from subscriber.targets.target_table import (
    TargetSequence,
    TargetTable,
)


class Sequences(Protocol):
    """Reads and sets the sequences and counters of a target, for REFRESH SEQUENCES."""

    def of_column(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """The sequence or counter that generates a column's values for INSERTs without this column.

        None if the column has no sequence or counter.

        Raises:
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        ...

    def named(self, connection: sa.Connection, schema: str, name: str) -> TargetSequence | None:
        """The sequence of this name; None if it does not exist or if the target has no such
        sequences.

        Only sequences that are independent objects, as in PostgreSQL, have a name.

        Raises:
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        ...

    def widening(self, sequence: TargetSequence, position: SequencePosition) -> str | None:
        """The statement after which a sequence can continue from a position of the publisher's
        sequence, for a hint.

        None if the target has no such statement.
        """
        ...

    def set(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """Set a sequence or counter to continue like a sequence of the publisher.

        As with PostgreSQL's REFRESH SEQUENCES, the publisher's position replaces the target's
        position, even if this is a step back. Later values may then conflict with rows that exist
        only in the target.

        Args:
            connection: a connection of :meth:`Transactions.begin`. Some targets cannot roll this
                change back with the transaction.
            sequence: a result of :meth:`of_column` or :meth:`named`.
            position: the position of the publisher's sequence. :meth:`TargetSequence.obstacle` must
                be None for it.

        Raises:
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        ...
