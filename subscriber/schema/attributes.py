"""The columns of a publisher's table in ``pg_attribute`` at one moment. They determine the value of
a column in older rows.

:mod:`subscriber.publisher.read_attributes` reads them, and
:mod:`subscriber.apply.relations.added_columns` uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column that is not dropped.

    Attributes:
        number: ``attnum``. Columns are numbered in the order in which they were added, and no
            number is used twice.
        name: ``attname``.
        type_oid: ``atttypid``.
        type_modifier: ``atttypmod``, -1 for none.
        missing: ``attmissingval``, as the type's output function writes it: the value in the rows
            that existed before the column. A partitioned table has those of its partitions; a table
            that was rewritten since has none.
        generated: whether the column is computed from other columns.
    """

    number: int
    name: str
    type_oid: int
    type_modifier: int
    missing: frozenset[str] = frozenset()
    generated: bool = False


@dataclass(frozen=True, slots=True)
class TableAttributes:
    """The columns of a table, and properties that show how the table has changed.

    Attributes:
        columns: the columns, ordered by number.
        last: the highest number that was ever used, including dropped columns (``relnatts``).
        files: the file node of the table, or of each partition that has rows, by oid. A file node
            that equals the oid is left out; it equals the oid until the table is rewritten
            (TRUNCATE, VACUUM FULL, some forms of ALTER TABLE).
        whole: whether no publication of the subscription has a column list for the table.
        oid: the OID of the table; None if it was not read.
    """

    columns: tuple[Attribute, ...]
    last: int
    files: Mapping[int, int]
    whole: bool = True
    oid: int | None = None
