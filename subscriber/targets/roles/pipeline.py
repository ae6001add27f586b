"""Pipelines: many different statements with one round trip (an optional role)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import sqlalchemy as sa


class Pipeline(Protocol):
    """Sends statements without waiting for the result of the statement before.

    A target has this role if its driver can do this.
    """

    def execute(self, connection: sa.Connection, statements: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[int]:
        """Execute statements in order; returns the row count of each.

        If a statement fails, the statements after it are not executed, and the caller rolls the
        transaction back.

        Args:
            connection: a connection of :meth:`Transactions.begin`.
            statements: SQL in the driver's parameter style, each with its positional parameters.

        Raises:
            SubscriberError: a statement failed, as translated by :meth:`Errors.translate`.
        """
        ...
