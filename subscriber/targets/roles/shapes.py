"""Table shapes: what the target's catalog says of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import sqlalchemy as sa

from subscriber.targets.target_table import (
    TargetTable,
    UniqueIndex,
)


class Shapes(Protocol):
    """Tables and their unique indexes."""

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """The target's table for the publisher's ``schema.table`` (rule C1), None where there is
        none.
        """
        ...

    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """What is unique in ``table``, in PostgreSQL's order: the primary key, then as they were
        made (rule C22).
        """
        ...
