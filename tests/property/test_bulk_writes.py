"""Invariant fast_equals_exact for targets with bulk writes: for every history they leave the same
tables, progress, conflict records and counters as the exact path.

A database is opened slowly, so all examples use the same two databases, and there are few examples.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.apply import reorder
from subscriber.apply.exact import BulkApplier, ExactApplier
from subscriber.apply.writing import bulk_writer
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target
from subscriber.targets.postgresql.transactions import PostgreSQLOrigins
from tests.frames import transaction, values
from tests.property.test_apply import cut
from tests.property.test_fast_equals_exact import SEEN, SHAPES, Step, applied, pairs, rare, rows, usual
from tests.target_databases import opened

pytestmark = pytest.mark.slow

TABLES = {
    "plain": "k INTEGER PRIMARY KEY, v TEXT NOT NULL CHECK (v <> 'never'), big TEXT",
    "pair": "a INTEGER, b TEXT, v TEXT, PRIMARY KEY (a, b)",
    "uniq": "k BIGINT PRIMARY KEY, v TEXT UNIQUE",
    "watched": "own TEXT DEFAULT 'mine', k INTEGER PRIMARY KEY, v TEXT",
    "log": "v TEXT",
    "free": "k INTEGER PRIMARY KEY, v TEXT, big TEXT",
}
TEXTS = {"mariadb": "VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"}
"""What TEXT is called where the texts of a key have a length."""
KNOWN = transaction(
    500, *(m.Insert(shape.relation_id, values("99", "99", "99")[: len(shape.columns)]) for shape in SHAPES)
)
"""After this transaction every table's shape is known, so that the following ones are reordered."""

_OWN = re.compile(r"in transaction \d+(?: at \S+ \S+)?|(?<=subscriber_)\d+(?=_)")

KINDS = (
    "duckdb",
    "sqlite",
    pytest.param("mariadb", marks=pytest.mark.server),
    pytest.param("postgresql", marks=pytest.mark.server),
    # Changes whose order matters wait and are sent together.
    pytest.param("postgresql without commit times", marks=pytest.mark.server),
)

steps = st.integers(0, 19).flatmap(lambda number: usual if number else rare)
histories = st.lists(st.lists(steps, min_size=1, max_size=8), min_size=2, max_size=12)


@pytest.fixture(scope="module", params=KINDS)
def targets(request, tmp_path_factory) -> Iterator[tuple[Target, Target]]:
    kind, _, without = request.param.partition(" ")
    folders = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    with ExitStack() as stack:
        one, two = (stack.enter_context(opened(kind, request, folder)) for folder in folders)
        if one.bulk is None:
            pytest.skip("it has no bulk writes")
        for target in (one, two):
            with target.begin() as connection:
                CATALOG.create_all(connection)
                for name, columns in TABLES.items():
                    made = columns.replace("TEXT", TEXTS.get(kind, "TEXT"))
                    connection.exec_driver_sql(f"CREATE TABLE {place(target, name)} ({made})")
        patch, sent = stack.enter_context(pytest.MonkeyPatch.context()), Counter[str]()
        if without:
            patch.setattr(PostgreSQLOrigins, "others", lambda *_: None)
        if one.statement_pipeline is not None:
            patch.setattr(
                type(one.statement_pipeline), "execute", counted(type(one.statement_pipeline), "execute", sent)
            )
        with bulk_writes(type(one.bulk)):
            yield one, two
        assert bool(sent) is bool(without)


def place(target: Target, name: str) -> str:
    """The name of a table in SQL: a transaction in PostgreSQL has an empty search_path."""
    schema, _ = target.ddl.qualified("public", name)
    return name if schema is None else f"{schema}.{name}"


def left(target: Target) -> list[str]:
    """Queries for what can be seen in a target. Those of the catalog are the last of SEEN."""
    rows = [f"SELECT * FROM {place(target, name)}" for name in TABLES]
    return rows + [query.replace("FROM ", f"FROM {place(target, '')}") for query in SEEN[-3:]]


def comparable(results: list[object]) -> list[object]:
    """The results without what differs between two databases: the numbers and times of their
    transactions, the database's number in an origin's name, and the order of a table's rows.
    """
    *before, progress, conflicts, counters = [
        tuple(_OWN.sub("", part) if isinstance(part, str) else part for part in one) if isinstance(one, tuple) else one
        for one in results
    ]
    tables = [sorted(one, key=repr) if isinstance(one, list) else one for one in before]
    return [*tables, progress, conflicts, counters]


def counted(role: type[Any], name: str, used: Counter[str]) -> Any:
    """A method that counts its calls."""
    method = getattr(role, name)

    def call(*arguments: Any) -> Any:
        used[name] += 1
        return method(*arguments)

    return call


@contextmanager
def bulk_writes(role: type[Any]) -> Iterator[None]:
    """Bulk writes are used for any number of rows, and at the end each of them was used."""
    used: Counter[str] = Counter()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reorder, "_LEAST_RUNS", 0)
        patch.setattr(reorder, "_LEAST_SAVED", 0)
        patch.setattr(reorder, "_LEAST_MESSAGES", 1)
        patch.setattr(sys.modules[role.__module__], "_LEAST_ROWS", 1)
        patch.setattr(sys.modules[role.__module__], "_LEAST_LOADED", 1, raising=False)
        patch.setattr(bulk_writer, "LEAST_IN_BULK", 1)
        for name in ("insert", "update", "delete"):
            patch.setattr(role, name, counted(role, name, used))
        yield
    assert set(used) == {"insert", "update", "delete"}


def refill(target: Target, plain: dict[int, str], pairs: set[tuple[int, str]]) -> None:
    """Replace what the example before has left."""
    with target.begin() as connection:
        for name in (*TABLES, *(table.name for table in CATALOG.sorted_tables)):
            connection.exec_driver_sql(f"DELETE FROM {place(target, name)}")
    with target.begin() as connection:
        OriginProgress(1).create(connection, LSN(0))
        for key, text in plain.items():
            fill(target, connection, "watched", k=key, v=text, own=None)
    with target.begin() as connection:
        if target.origins is not None:
            target.origins.set(connection, "pg_1")  # the rows above are of another origin
        for key, text in plain.items():
            fill(target, connection, "plain", k=key, v=text, big="big")
        for a, b in sorted(pairs):
            fill(target, connection, "pair", a=a, b=b, v="")


def fill(target: Target, connection: sa.Connection, name: str, **row: object) -> None:
    schema = target.ddl.qualified("public", name)[0]
    connection.execute(sa.insert(sa.table(name, *map(sa.column, row), schema=schema)), row)


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
    exact = applied(ExactApplier, targets[0], batches, left(targets[0]), LSN(0))
    fast = applied(BulkApplier, targets[1], batches, left(targets[1]), LSN(0))
    assert comparable(fast) == comparable(exact)
