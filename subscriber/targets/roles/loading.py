"""Loading: fast writing of many new rows in the initial copy of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import sqlalchemy as sa

from subscriber.targets.target_table import (
    TargetTable,
)

if TYPE_CHECKING:
    from subscriber.targets.loader import BlockFormat, LoadColumn


class Loading(Protocol):
    """Writes blocks of COPY data to a table."""

    def block_format(self, columns: Sequence[LoadColumn]) -> BlockFormat:
        """The format of the blocks that :meth:`loader` accepts for these columns; text or Arrow if
        values of one of them are replaced.
        """
        ...

    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> AbstractContextManager[Callable[[bytes], None]]:
        """Load many rows in the caller's transaction.

        The result is a function; each call of it passes one block. All rows are in the table when
        the with-block ends.

        Args:
            connection: a connection of :meth:`Transactions.begin`.
            table: the table to load. Columns that are not loaded get their defaults. Values for
                identity columns override the generated values.
            columns: the columns of the blocks, in the order of the blocks (see
                :mod:`subscriber.targets.loader`).

        Raises:
            SubscriberError: as translated by :meth:`Errors.translate`, from a call of the function
                or from the end of the with-block.
        """
        ...
