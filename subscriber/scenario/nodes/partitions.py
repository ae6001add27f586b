"""Where the rows of partitioned tables are in a target that has no partitions.

There the root and its partitions are plain tables, side by side. A row that was replicated into the
root is in the root's table, and one that was replicated into a partition is in the partition's. In
PostgreSQL both are in the partition::

    target                                PostgreSQL
    parent  (1)(2)                        parent
    child   (3)             ──────▶         └─ child  (1)(2)(3)

The way there is easy: what is in the root's table goes through the root. The way back splits a
partition's rows again: those that the root's table has stay there, and the others are the
partition's own. Equal rows belong to the same partition, so comparing values is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from subscriber.scenario.nodes.mirrored_rows import Bag, Row
from subscriber.schema.shape import ColumnShape

Parents = Mapping[int, int]
"""Partition → the table that it is a partition of, by oid."""

Columns = Mapping[int, Sequence[ColumnShape]]
"""The columns of every table that rows have values of; a partition may have its own order."""


def ancestors(table: int, parents: Parents) -> Iterator[int]:
    """From a partition's parent to its root."""
    while (parent := parents.get(table)) is not None:
        yield parent
        table = parent


def families(parents: Parents) -> list[frozenset[int]]:
    """The trees of partitioned tables: each a root and everything below it."""
    members: dict[int, set[int]] = {}
    for table in parents:
        *_, root = ancestors(table, parents)
        members.setdefault(root, {root}).add(table)
    return [frozenset(family) for family in members.values()]


def split(
    leaves: Mapping[int, Bag], above: Mapping[int, Bag], parents: Parents, columns: Columns, columns_above: Columns
) -> dict[int, Bag]:
    """The rows of every table of a family in the target, after its rows in PostgreSQL, or its
    columns, have changed.

    Args:
        leaves: the rows of every partition in PostgreSQL now.
        above: the rows of every partitioned table in the target so far.
        parents: of the family.
        columns: the columns of every table now.
        columns_above: the columns that the rows in ``above`` have; rows are told by those that are
            still the same.

    Returns:
        For the partitioned tables, those of their rows that are still there; for a partition the
        others.
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
    """Take from ``rows`` those that are in ``wanted``, by the columns that both have."""
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
