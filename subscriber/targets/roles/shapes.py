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

    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """The unique indexes of ``table``, in PostgreSQL's order (rule C22).

        The primary key is first; the others follow in the order of their creation.
        """
        ...
