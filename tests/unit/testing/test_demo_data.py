"""The tables and changes of the demo. ``make demo`` runs them on servers."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from subscriber.base.errors import TargetError
from subscriber.targets import open_target
from subscriber.testing.demo_data import TABLES, OrderLoad, row_counts


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        yield opened


class RecordingConnection:
    """A connection that keeps what it is asked to execute."""

    def __init__(self) -> None:
        self.executed: list[tuple[str, Any]] = []

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def execute(self, sql: str, parameters: Any = ()) -> None:
        self.executed.append((sql, parameters))

    @contextlib.contextmanager
    def cursor(self):
        yield self

    def executemany(self, sql: str, rows: list[Any]) -> None:
        self.executed += [(sql, row) for row in rows]


def orders_of(seed: int, transactions: int = 200) -> RecordingConnection:
    load, connection, chance = OrderLoad("", seed), RecordingConnection(), random.Random(seed)
    for _ in range(transactions):
        load._transaction(connection, chance)  # type: ignore[arg-type]
    assert load.transactions == transactions
    return connection


def test_every_table_of_the_demo_is_counted(target):
    with target.begin() as connection:
        for name in TABLES:
            connection.exec_driver_sql(f"CREATE TABLE {name} (id INTEGER)")
        connection.exec_driver_sql("INSERT INTO orders VALUES (1), (2)")
    assert row_counts(target) == dict.fromkeys(TABLES, 0) | {"orders": 2}


def test_a_target_without_the_tables_is_an_error_of_the_target(target):
    with pytest.raises(TargetError):
        row_counts(target)


def test_the_same_seed_makes_the_same_changes():
    assert orders_of(1).executed == orders_of(1).executed
    assert orders_of(1).executed != orders_of(2).executed


def test_the_load_has_every_kind_of_change():
    """Also a change of the key, and an update that leaves a long value as it is."""
    executed = orders_of(1).executed
    sqls = [sql for sql, _ in executed]
    for beginning in (
        "INSERT INTO orders",
        "INSERT INTO order_lines",
        "UPDATE orders SET status = 'paid'",
        "UPDATE orders SET status = 'shipped'",
        "DELETE FROM orders",
        "UPDATE orders SET id = id + 1000000",
    ):
        assert any(sql.startswith(beginning) for sql in sqls), beginning
    notes = [parameters[3] for sql, parameters in executed if sql.startswith("INSERT INTO orders ")]
    assert {None} < {note if note is None else "long" for note in notes if note is None or len(note) > 8_000}


def test_the_total_of_an_order_is_the_sum_of_its_lines():
    executed = orders_of(1).executed
    totals = {row[0]: row[2] for sql, row in executed if sql.startswith("INSERT INTO orders ")}
    lines = [row for sql, row in executed if sql.startswith("INSERT INTO order_lines")]
    assert totals == {
        order: sum(quantity * price for number, _, _, quantity, price in lines if number == order) for order in totals
    }
