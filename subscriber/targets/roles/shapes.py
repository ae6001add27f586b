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

    def refuses_rows(self, connection: sa.Connection, table: TargetTable) -> bool:
        """Whether the target may refuse to write a row although each of its columns accepts its
        value (:meth:`Values.accepts`), no value is NULL where it must not be, and the row's key is
        free.

        True for a table with a CHECK or exclusion constraint, a generated column, an index of an
        expression or with a predicate, or an index that limits the length of values; or if this
        user may not insert, update and delete. Also true if this is not known. A table for which
        the order of changes matters is not asked about.
        """
        ...

    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """The unique indexes of ``table``, in PostgreSQL's order (rule C22).

        The primary key is first; the others follow in the order of their creation.
        """
        ...

    def refused_key_hint(self, connection: sa.Connection, table: TargetTable) -> str | None:
        """What the user can do if ``table`` refuses a key although none of its rows has it; None if
        that cannot happen.
        """
        ...
