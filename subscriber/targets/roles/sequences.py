"""What makes values in the target: sequences, and counters of columns."""

from __future__ import annotations

from typing import Protocol

import sqlalchemy as sa

from subscriber.schema.shape import SequencePosition
from subscriber.targets.target_table import (
    TargetSequence,
    TargetTable,
)


class Sequences(Protocol):
    """Sequences and counters, which REFRESH SEQUENCES sets."""

    def of_column(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """What makes the values of a column for rows that name none; None where nothing does.

        Raises:
            SubscriberError: as :meth:`Errors.translate` words it.
        """
        ...

    def named(self, connection: sa.Connection, schema: str, name: str) -> TargetSequence | None:
        """The sequence of this name, where the target has sequences as PostgreSQL has them; else
        None.

        Raises:
            SubscriberError: as :meth:`Errors.translate` words it.
        """
        ...

    def set(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """Let a sequence or counter go on as a sequence of the publisher does.

        As with PostgreSQL's REFRESH SEQUENCES the publisher's value counts, whatever the target's
        own was: it may go back, and rows that only the target has may stand in its way.

        Args:
            connection: of :meth:`Transactions.begin`; some targets cannot take the change back with
                the transaction.
            sequence: of :meth:`of_column` or :meth:`named`.
            position: where the publisher's stands; :meth:`TargetSequence.obstacle` has nothing
                against it.

        Raises:
            SubscriberError: as :meth:`Errors.translate` words it.
        """
        ...
