"""Loading by INSERT, for any SQLAlchemy dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import sqlalchemy as sa

from subscriber.targets.loader import BlockFormat, LoadColumn, insert_blocks, insert_statement
from subscriber.targets.roles.errors import Errors
from subscriber.targets.roles.values import Values
from subscriber.targets.roles.writing import Writing
from subscriber.targets.target_table import (
    TargetTable,
)


class GenericLoading:
    """See :class:`~subscriber.targets.roles.loading.Loading`."""

    def __init__(self, engine: sa.Engine, errors: Errors, values: Values, writing: Writing) -> None:
        self._engine = engine
        self._errors = errors
        self._values = values
        self._writing = writing

    def block_format(self, columns: Sequence[LoadColumn]) -> BlockFormat:
        """See :meth:`Loading.block_format`."""
        del columns  # the format is the same for all columns
        return "arrow"

    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        """See :meth:`Loading.loader`."""
        statement = insert_statement(self._engine.dialect, self._writing, table, columns)
        yield insert_blocks(self._errors, self._values, statement, connection, columns)
