"""The columns of a publisher's table as ``pg_attribute`` has them at one moment: what tells which
value its older rows have in a column.

:mod:`subscriber.publisher.read_attributes` reads them, :mod:`subscriber.apply.added_columns`
decides by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column that is not dropped.

    Attributes:
        number: ``attnum``: columns are numbered in the order in which they were added, and no
            number is given twice.
        name: ``attname``.
        type_oid: ``atttypid``.
        type_modifier: ``atttypmod``, -1 for none.
        missing: ``attmissingval``, as the type's output function writes it: what the rows from
            before the column have. A partitioned table has those of its partitions; a table that
            was rewritten since has none.
        generated: the column is computed from others.
    """

    number: int
    name: str
    type_oid: int
    type_modifier: int
    missing: frozenset[str] = frozenset()
    generated: bool = False


@dataclass(frozen=True, slots=True)
class TableAttributes:
    """A table's columns.

    Attributes:
        columns: by number.
        last: the highest number that was ever given, to columns since dropped included
            (``relnatts``).
        files: the file node of the table, or of each partition that has rows, by oid; only where it
            is not the oid, as it is until the table is rewritten (TRUNCATE, VACUUM FULL, some of
            ALTER TABLE).
        whole: no publication of the subscription has a column list for it.
    """

    columns: tuple[Attribute, ...]
    last: int
    files: Mapping[int, int]
    whole: bool = True
