"""Sequences of a database that has no sequences."""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.errors import (
    NotSupportedError,
)
from subscriber.schema.shape import SequencePosition
from subscriber.targets.roles.errors import Errors
from subscriber.targets.target_table import (
    TargetSequence,
    TargetTable,
)


class GenericSequences:
    """See :class:`~subscriber.targets.roles.sequences.Sequences`."""

    def __init__(self, errors: Errors) -> None:
        self._errors = errors

    def of_column(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """See :meth:`Sequences.of_column`."""
        del connection, table, column
        return None

    def named(self, connection: sa.Connection, schema: str, name: str) -> TargetSequence | None:
        """See :meth:`Sequences.named`."""
        del connection, schema, name
        return None

    def widening(self, sequence: TargetSequence, position: SequencePosition) -> str | None:
        """See :meth:`Sequences.widening`."""
        del sequence, position
        return None

    def set(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """See :meth:`Sequences.set`."""
        del connection, position
        raise NotSupportedError(f'{self._errors.database} has no sequence "{sequence.name}"')
