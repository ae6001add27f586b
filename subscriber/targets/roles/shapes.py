"""Table shapes: the description of a table in the target's catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import sqlalchemy as sa

from subscriber.targets.target_table import (
    TargetTable,
    UniqueIndex,
)


class Shapes(Protocol):
    """Reads tables and their unique indexes from the target's catalog."""

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """The target's table for the publisher's ``schema.table`` (rule C1); None if it does not
        exist.
        """
        ...

    def order_matters(self, connection: sa.Connection, table: TargetTable) -> bool:
        """Whether changes of different rows of ``table`` may have another result in another order.

        True for a table with a trigger that fires, an enforced foreign key that it has or that
        references it, a unique key beside :attr:`TargetTable.key`, or a key that compares values in
        another way than PostgreSQL. Also true if this is not known.
        """
        ...

    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """The unique indexes of ``table``, in PostgreSQL's order (rule C22).

        The primary key is first; the others follow in the order of their creation.
        """
        ...
