"""PostgreSQL's sequences."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import REGCLASS

from subscriber.schema.shape import SequencePosition
from subscriber.targets.generic.sequences import GenericSequences
from subscriber.targets.postgresql.catalog import (
    find_named_sequence,
    find_sequence,
)
from subscriber.targets.target_table import (
    TargetSequence,
    TargetTable,
)


class PostgreSQLSequences(GenericSequences):
    """See :class:`~subscriber.targets.roles.sequences.Sequences`."""

    def of_column(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """See :meth:`Sequences.of_column`.

        The result is the sequence that the column owns, or from which its default takes values.
        """
        with self._errors.reporting():
            return find_sequence(connection, table, column)

    def named(self, connection: sa.Connection, schema: str, name: str) -> TargetSequence | None:
        """See :meth:`Sequences.named`."""
        with self._errors.reporting():
            return find_named_sequence(connection, schema, name)

    def widening(self, sequence: TargetSequence, position: SequencePosition) -> str | None:
        """See :meth:`Sequences.widening`."""
        turned = position.increment * sequence.position.increment < 0
        step = f" INCREMENT BY {position.increment}" if turned else ""
        return f"ALTER SEQUENCE {sequence.name} AS bigint{step} MINVALUE {-(2**63)} MAXVALUE {2**63 - 1};"

    def set(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """See :meth:`Sequences.set`."""
        with self._errors.reporting():
            connection.execute(
                sa.select(sa.func.setval(sa.cast(sequence.name, REGCLASS), position.last_value, position.is_called))
            )
