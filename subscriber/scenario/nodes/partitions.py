"""The rows of partitioned tables in a target without partitions.

In such a target the root and its partitions are separate ordinary tables. A row that was replicated
into the root is in the root's table, and a row that was replicated into a partition is in the
partition's table. In PostgreSQL both rows are in the partition::

    target                                PostgreSQL
    parent  (1)(2)                        parent
    child   (3)             ──────▶         └─ child  (1)(2)(3)

From the target to PostgreSQL, the rows of the root's table are inserted into the root. In the other
direction, the rows of a partition must be split: rows that the root's table already has stay there,
and all other rows go to the partition's table. Equal rows belong to the same partition, so it is
enough to compare values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from subscriber.scenario.nodes.mirrored_rows import Bag, Row
from subscriber.schema.shape import ColumnShape

Parents = Mapping[int, int]
"""Partition → the table that it is a partition of, by oid."""

Columns = Mapping[int, Sequence[ColumnShape]]
"""The columns of every table, in the order of the values in its rows.

The order of a partition's columns may differ from that of its parent.
"""


def ancestors(table: int, parents: Parents) -> Iterator[int]:
    """The ancestors of a partition, from its parent to its root."""
    while (parent := parents.get(table)) is not None:
        yield parent
        table = parent


def families(parents: Parents) -> list[frozenset[int]]:
    """The trees of partitioned tables: each is a root with all its partitions."""
    members: dict[int, set[int]] = {}
    for table in parents:
        *_, root = ancestors(table, parents)
        members.setdefault(root, {root}).add(table)
    return [frozenset(family) for family in members.values()]


def split(
    leaves: Mapping[int, Bag], above: Mapping[int, Bag], parents: Parents, columns: Columns, columns_above: Columns
) -> dict[int, Bag]:
    """The rows of every table of a tree in the target, after its rows or columns changed in
    PostgreSQL.

    Args:
        leaves: the current rows of every partition in PostgreSQL.
        above: the previous rows of every partitioned table in the target.
        parents: the parents of the partitions.
        columns: the current columns of every table.
        columns_above: the columns of the rows in ``above``. Rows are compared by the columns that
            have not changed.

    Returns:
        For each partitioned table, its rows that still exist; for each partition, all other rows.
    """
    rows = {leaf: Counter(bag) for leaf, bag in leaves.items()}
    kept: dict[int, Bag] = {table: Counter() for table in above}
    for leaf in leaves:
        for table in ancestors(leaf, parents):
            found = _take(rows[leaf], above[table], columns[leaf], columns_above[table])
            here, there = [_names(columns[one]) for one in (leaf, table)]
            kept[table].update(_in_order(row, here, there) for row in found.elements())
    return {**kept, **{leaf: +bag for leaf, bag in rows.items()}}


def _take(rows: Bag, wanted: Bag, columns: Sequence[ColumnShape], columns_wanted: Sequence[ColumnShape]) -> Bag:
    """Remove from ``rows`` the rows that are also in ``wanted``, and return them.

    Rows are compared by the columns that both have.
    """
    types = {column.name: column.type_name for column in columns}
    shared = [column.name for column in columns_wanted if types.get(column.name) == column.type_name]
    here, there = _names(columns), _names(columns_wanted)
    by_value: dict[Row, list[Row]] = {}
    for row in rows:
        by_value.setdefault(_in_order(row, here, shared), []).append(row)
    taken: Bag = Counter()
    for row, number in wanted.items():
        left = number
        for candidate in by_value.get(_in_order(row, there, shared), ()):
            found = min(left, rows[candidate])
            rows[candidate] -= found
            taken[candidate] += found
            left -= found
    return +taken


def _names(columns: Sequence[ColumnShape]) -> list[str]:
    return [column.name for column in columns]


def _in_order(row: Row, given: Sequence[str], wanted: Sequence[str]) -> Row:
    by_name = dict(zip(given, row, strict=True))
    return tuple(by_name[name] for name in wanted)
