"""Every transaction that a publisher could commit is applied to DuckDB, with a primary key and with
unique indexes that come and go: keys and unique values are deleted and written again, moved, and
exchanged, in one transaction and over several.

Meanwhile other transactions of the process are open, checkpoints are written, and the file is
closed and opened again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import BulkApplier
from subscriber.base.errors import TargetUnavailable
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target, open_target
from subscriber.targets.duckdb import objects
from tests.frames import frame, relation, transaction, values
from tests.unit.targets.tables import execute, rows

pytestmark = pytest.mark.slow

T: Final = relation("public.t", {"k": "int4", "u": "int4", "v": "text"}, ["k"])
KEYS: Final = 6
INDEXES: Final = {"by_u": "(u)", "by_expression": "((u + 1))", "plain": "(v)"}

steps = st.tuples(
    st.sampled_from(("insert", "delete", "update", "set u", "move", "write again", "exchange u", "exchange k")),
    st.integers(0, KEYS - 1),
    st.integers(0, KEYS - 1),
)
disturbances = st.sampled_from(("nothing", "reader", "no reader", "checkpoint", *INDEXES))
histories = st.lists(
    st.tuples(disturbances, st.lists(st.lists(steps, min_size=1, max_size=6), min_size=1, max_size=4)),
    min_size=3,
    max_size=12,
)


@dataclass
class Publisher:
    """The rows of the publisher's table, by key, and the changes that led to them. A step that the
    publisher would refuse does nothing.
    """

    rows: dict[int, tuple[int, str]] = field(default_factory=dict)
    changes: list[m.Message] = field(default_factory=list)
    number: int = 0

    def step(self, what: str, key: int, other: int) -> None:
        """Do one step; the steps that are an UPDATE of several rows are statements one by one."""
        self.number += 1
        if what == "insert" and key not in self.rows:
            self._put(key, other if other not in self._taken() else self.number + KEYS)
        elif key not in self.rows:
            return
        elif what == "delete":
            self._delete(key)
        elif what == "update":
            self._update(key, key, self.rows[key][0])
        elif what == "set u" and other not in self._taken():
            self._update(key, key, other)
        elif what == "move" and other not in self.rows:
            self._update(key, other, self.rows[key][0])
        elif what == "write again":
            u = self.rows[key][0]
            self._delete(key)
            self._put(key, u)
        elif other in self.rows and other != key:
            ours, theirs = self.rows[key][0], self.rows[other][0]
            if what == "exchange u":
                self._update(key, key, -1)
                self._update(other, other, ours)
                self._update(key, key, theirs)
            elif what == "exchange k":
                self._update(key, -1, ours)
                self._update(other, key, theirs)
                self._update(-1, other, ours)

    def _taken(self) -> set[int]:
        return {u for u, _ in self.rows.values()}

    def _put(self, key: int, u: int) -> None:
        self.rows[key] = u, str(self.number)
        self.changes.append(m.Insert(T.relation_id, self._values(key)))

    def _delete(self, key: int) -> None:
        del self.rows[key]
        self.changes.append(m.Delete(T.relation_id, "K", values(str(key), None, None)))

    def _update(self, key: int, new: int, u: int) -> None:
        del self.rows[key]
        self.rows[new] = u, str(self.number)
        old = None if new == key else values(str(key), None, None)
        self.changes.append(m.Update(T.relation_id, None if old is None else "K", old, self._values(new)))

    def _values(self, key: int) -> tuple[m.ColumnValue, ...]:
        u, text = self.rows[key]
        return values(str(key), str(u), text)


class Disturbed:
    """A target, and what else goes on there."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.readers = ExitStack()

    def disturb(self, what: str) -> None:
        """Do something between two batches."""
        if what == "reader":
            reader = self.readers.enter_context(self.target.engine.connect())
            reader.execute(sa.text("SELECT count(*) FROM t"))
        elif what == "no reader":
            self.readers.close()
        elif what == "checkpoint":
            with suppress(TargetUnavailable):  # DuckDB refuses it beside some transactions
                execute(self.target, "CHECKPOINT")
        elif what in INDEXES:
            self._create_or_drop(what)

    def _create_or_drop(self, name: str) -> None:
        if rows(self.target, f"SELECT 1 AS found FROM duckdb_indexes() WHERE index_name = '{name}'"):
            execute(self.target, f"DROP INDEX {name}")
            return
        unique = "" if name == "plain" else "UNIQUE"
        try:
            with self.target.objects.building() as connection:
                connection.exec_driver_sql(f"CREATE {unique} INDEX {name} ON t {INDEXES[name]}")
        except TargetUnavailable as error:
            if error.sqlstate != "55006":
                raise


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Iterator[Target]:
    with open_target(f"duckdb:///{tmp_path_factory.mktemp('indexes') / 'target.duckdb'}") as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
        yield target


def begin_again(target: Target) -> None:
    execute(target, "DROP TABLE IF EXISTS t")
    execute(
        target,
        "CREATE TABLE t (k INTEGER PRIMARY KEY, u INTEGER, v VARCHAR)",
        "DELETE FROM subscriber_replication_origin_status",
    )
    with target.begin() as connection:
        OriginProgress(1).create(connection, LSN(0))


def committed(publisher: Publisher, transactions: Sequence[Sequence[Any]], first: int) -> list[m.Message]:
    """The messages of some transactions, which finish at multiples of 1000."""
    messages: list[m.Message] = []
    for number, wanted in enumerate(transactions, start=first):
        publisher.changes = []
        for step in wanted:
            publisher.step(*step)
        messages += transaction(1000 * number, *publisher.changes, xid=number)
    return messages


@settings(max_examples=12)
@given(histories)
def test_every_transaction_of_a_publisher_is_applied_to_duckdb(target, history):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "_ALONE_SECONDS", 0.0)
        begin_again(target)
        publisher, disturbed, done = Publisher(), Disturbed(target), 0
        applier = BulkApplier(target, subscription="s", subid=1)
        with disturbed.readers:
            for what, transactions in history:
                disturbed.disturb(what)
                messages = committed(publisher, transactions, done + 1)
                start, done = done, done + len(transactions)
                apply_batch(applier, lambda: [frame([T], messages)], LSN(1000 * start), LSN(1000 * done))  # noqa: B023 - called at once
                found = {row["k"]: (row["u"], row["v"]) for row in rows(target, "SELECT * FROM t")}
                assert found == publisher.rows
