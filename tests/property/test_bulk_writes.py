"""Invariant fast_equals_exact for a target with bulk writes (DuckDB): for every history they leave
the same tables, progress, conflict records and counters as the exact path.

A DuckDB file is opened slowly, so all examples use the same two files, and there are few examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.apply import change_writer, regroup
from subscriber.apply.bulk import BulkApplier
from subscriber.apply.exact import ExactApplier
from subscriber.catalog import CATALOG, OriginProgress
from subscriber.lsn import LSN
from subscriber.protocol import messages as m
from subscriber.targets import Target, open_target
from subscriber.targets.duckdb import bulk as duckdb_bulk
from subscriber.targets.duckdb.bulk import DuckDBBulk
from tests.frames import transaction, values
from tests.property.test_apply import cut
from tests.property.test_fast_equals_exact import SEEN, SHAPES, Step, applied, pairs, rare, rows, usual

pytestmark = pytest.mark.slow

TABLES = {
    "plain": "k INTEGER PRIMARY KEY, v TEXT NOT NULL CHECK (v <> 'never'), big TEXT",
    "pair": "a INTEGER, b TEXT, v TEXT, PRIMARY KEY (a, b)",
    "uniq": "k BIGINT PRIMARY KEY, v TEXT UNIQUE",
    "watched": "own TEXT DEFAULT 'mine', k INTEGER PRIMARY KEY, v TEXT",
    "log": "v TEXT",
}
LEFT = (
    *(f"SELECT * FROM {name} ORDER BY ALL" for name in TABLES),
    *SEEN[-3:],  # of the catalog
)
KNOWN = transaction(
    500, *(m.Insert(oid, values("99", "99", "99")[: len(SHAPES[oid - 1].columns)]) for oid in range(1, 6))
)
"""After this transaction every table's shape is known, so that the following ones are regrouped."""

steps = st.integers(0, 19).flatmap(lambda number: usual if number else rare)
histories = st.lists(st.lists(steps, min_size=1, max_size=8), min_size=2, max_size=12)


@pytest.fixture(scope="module")
def targets(tmp_path_factory) -> Iterator[tuple[Target, Target]]:
    folder = tmp_path_factory.mktemp("duckdb")
    with open_target(f"duckdb:///{folder / 'one.db'}") as one, open_target(f"duckdb:///{folder / 'two.db'}") as two:
        for target in (one, two):
            with target.begin() as connection:
                CATALOG.create_all(connection)
                for name, columns in TABLES.items():
                    connection.exec_driver_sql(f"CREATE TABLE {name} ({columns})")
        yield one, two


@pytest.fixture(scope="module", autouse=True)
def bulk_writes() -> Iterator[Counter[str]]:
    """Bulk writes are used for any number of rows, and at the end each of them was used."""
    used: Counter[str] = Counter()

    def counted(name: str) -> Any:
        method = getattr(DuckDBBulk, name)

        def call(*arguments: Any) -> int:
            used[name] += 1
            found: int = method(*arguments)
            return found

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regroup, "_LEAST_RUNS", 0)
        patch.setattr(regroup, "_LEAST_SAVED", 0)
        patch.setattr(regroup, "_LEAST_MESSAGES", 1)
        patch.setattr(duckdb_bulk, "_LEAST_ROWS", 1)
        patch.setattr(change_writer, "LEAST_IN_BULK", 1)
        for name in ("insert", "update", "delete"):
            patch.setattr(DuckDBBulk, name, counted(name))
        yield used
    assert set(used) == {"insert", "update", "delete"}


def refill(target: Target, plain: dict[int, str], pairs: set[tuple[int, str]]) -> None:
    """Replace what the example before has left."""
    with target.begin() as connection:
        for name in (*TABLES, *(table.name for table in CATALOG.sorted_tables)):
            connection.exec_driver_sql(f'DELETE FROM "{name}"')
    with target.begin() as connection:
        OriginProgress(1).create(connection, LSN(0))
        for key, text in plain.items():
            connection.exec_driver_sql("INSERT INTO plain VALUES (?, ?, 'big')", (key, text))
            connection.exec_driver_sql("INSERT INTO watched VALUES (NULL, ?, ?)", (key, text))
        for pair in sorted(pairs):
            connection.exec_driver_sql("INSERT INTO pair VALUES (?, ?, '')", pair)


def possible(step: Step, plain: set[int], pair: set[tuple[int, str]]) -> Step:
    """The step, or the one that is possible in its place; a rare step is left as it is.

    Impossible changes make the batch be applied in order, without bulk writes.
    """
    present: set[Any] = pair if step.what.startswith("pair") else plain
    key = (step.key, str(step.other)) if present is pair else step.key
    insert, update, delete = ("pair+", "pair~", "pair-") if present is pair else ("insert", "update", "delete")
    what = step.what
    if what == "truncate":
        plain.clear()
    elif what in (insert, update, delete, "touch"):
        what = insert if key not in present else update if what == insert else what
        (present.discard if what == delete else present.add)(key)
    return replace(step, what=what)


@settings(max_examples=12)
@given(histories, rows, pairs, st.lists(st.integers(0, 200), max_size=2), st.integers(3, 12))
def test_bulk_writes_leave_what_the_exact_path_leaves(targets, history, plain, pairs, cuts, together):
    keys, both = set(plain), set(pairs)
    transactions = [
        transaction(1000 * number, *(possible(step, keys, both).message() for step in steps), xid=number)
        for number, steps in enumerate(history, start=1)
    ]
    batches = [(cut(KNOWN, [], SHAPES), LSN(500))]
    for first in range(0, len(transactions), together):
        part = transactions[first : first + together]
        frames = cut([message for one in part for message in one], cuts, SHAPES)
        batches.append((frames, LSN(1000 * (first + len(part)))))
    for target in targets:
        refill(target, plain, pairs)
    exact = applied(ExactApplier, targets[0], batches, LEFT, LSN(0))
    fast = applied(BulkApplier, targets[1], batches, LEFT, LSN(0))
    assert fast == exact
