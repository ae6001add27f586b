"""Loading many rows: the initial copy of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa

from subscriber.targets.loader import BlockFormat, LoadColumn
from subscriber.targets.target_table import (
    TargetTable,
)


class Loading(Protocol):
    """How blocks of rows come into a table."""

    def block_format(self, columns: Sequence[LoadColumn]) -> BlockFormat:
        """What :meth:`loader` takes for these columns."""
        ...

    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> AbstractContextManager[Callable[[bytes], None]]:
        """Load many rows inside the caller's transaction: each call gets one block; when the
        with-block ends all are in.

        Args:
            connection: of :meth:`Transactions.begin`.
            table: where the rows go; columns of it that are not loaded get their defaults,
                identities are overridden.
            columns: what the blocks hold, in the order in which they hold it (see
                :mod:`subscriber.targets.loader`).

        Raises:
            SubscriberError: as :meth:`Errors.translate` words it, from a call or from the end of
                the block.
        """
        ...
