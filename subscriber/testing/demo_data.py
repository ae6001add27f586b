"""The tables and changes of the demo: the row-filter example of the manual, and an order load.

The order load does what a shop does for some seconds: it places, pays, ships and cancels orders,
renumbers a few (a change of the key), and leaves a long note unchanged while the row changes (an
unchanged out-of-line value). At last it imports rows in one large transaction with a savepoint that
is rolled back.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import psycopg
import sqlalchemy as sa

from subscriber.targets import Target

PUBLISHER_SCHEMA: Final = """
CREATE TABLE t1(a int, b int, c text, PRIMARY KEY(a, c));
CREATE TABLE t2(d int, e int, f int, PRIMARY KEY(d));
CREATE TABLE t3(g int, h int, i int, PRIMARY KEY(g));
CREATE PUBLICATION p1 FOR TABLE t1 WHERE (a > 5 AND c = 'NSW');
CREATE PUBLICATION p3 FOR TABLE t2 WHERE (d = 10), t3 WHERE (g = 10);
CREATE TABLE orders(
    id bigint PRIMARY KEY, customer text NOT NULL, status text NOT NULL, total numeric(12,2) NOT NULL,
    note text, placed_at timestamptz NOT NULL DEFAULT now());
ALTER TABLE orders ALTER COLUMN note SET STORAGE EXTERNAL;
CREATE TABLE order_lines(
    order_id bigint, line int, product text NOT NULL, quantity int NOT NULL, price numeric(10,2) NOT NULL,
    PRIMARY KEY(order_id, line));
CREATE TABLE events(at timestamptz NOT NULL, kind text NOT NULL, details jsonb);
ALTER TABLE events REPLICA IDENTITY FULL;
CREATE PUBLICATION shop FOR TABLE orders, order_lines, events;
"""
"""p1 and p3 are the manual's publications. The manual's p2 publishes t1 without a filter, so it
would make the filter of p1 useless, and it is left out.
"""

EARLIER_ORDERS: Final = """
INSERT INTO orders SELECT -i, 'archive', 'shipped', i * 0.01, NULL, now() FROM generate_series(1, 50000) i;
INSERT INTO order_lines SELECT -i, 1, 'anvil', 1, i * 0.01 FROM generate_series(1, 50000) i;
"""
"""Rows that exist before the subscription does. The initial copy brings them."""

PUBLICATIONS: Final = ("p1", "p3", "shop")

TABLES: Final = ("t1", "t2", "t3", "orders", "order_lines", "events")

ROW_FILTER_EXAMPLE: Final = """
INSERT INTO t1 VALUES (2, 102, 'NSW'), (3, 103, 'QLD'), (4, 104, 'VIC'), (5, 105, 'ACT'),
                      (6, 106, 'NSW'), (7, 107, 'NT'), (8, 108, 'QLD'), (9, 109, 'NSW');
UPDATE t1 SET b = 999 WHERE a = 6;
UPDATE t1 SET a = 555 WHERE a = 2;
UPDATE t1 SET c = 'VIC' WHERE a = 9;
INSERT INTO t2 VALUES (10, 1, 1), (11, 1, 1);
INSERT INTO t3 VALUES (10, 1, 1), (11, 1, 1);
"""
"""The statements in the manual. Afterwards the subscriber has (6, 999, NSW) and (555, 102, NSW)."""

_CUSTOMERS: Final = ("Ada", "Boris", "Chidi", "Dagny", "Emre", "Fatou", "Goran", "Hana")
_PRODUCTS: Final = ("anvil", "bellows", "chisel", "drill", "easel", "file")


def row_counts(target: Target) -> dict[str, int]:
    """The number of rows in each of :data:`TABLES`, read from the target in one transaction."""
    with target.reporting(), target.engine.connect() as connection:
        return {
            name: connection.execute(sa.select(sa.func.count()).select_from(sa.table(name))).scalar_one()
            for name in TABLES
        }


@dataclass(slots=True)
class OrderLoad:
    """Processes orders at a publisher, one transaction after another, until it is stopped."""

    conninfo: str
    seed: int = 1
    transactions: int = 0
    _next_id: int = 1
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self, seconds: float) -> None:
        """Work for ``seconds``, or until :meth:`stop` is called. Then run the large import."""
        chance = random.Random(self.seed)
        with psycopg.connect(self.conninfo) as connection:
            timer = threading.Timer(seconds, self._stop.set)
            timer.start()
            try:
                while not self._stop.is_set():
                    self._transaction(connection, chance)
                    self._stop.wait(chance.uniform(0.0, 0.02))
                self._import(connection, 20_000)
            finally:
                timer.cancel()

    def stop(self) -> None:
        """End :meth:`run` after its current transaction."""
        self._stop.set()

    def _transaction(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        action = chance.choices((self._place, self._pay, self._ship, self._cancel, self._renumber), (5, 4, 3, 1, 1))[0]
        with connection.transaction():
            action(connection, chance)
        self.transactions += 1

    def _place(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        order, self._next_id = self._next_id, self._next_id + 1
        lines = [
            (order, line, chance.choice(_PRODUCTS), chance.randint(1, 9), Decimal(chance.randint(100, 99_999)) / 100)
            for line in range(1, chance.randint(2, 5))
        ]
        total = sum((quantity * price for *_, quantity, price in lines), Decimal(0))
        note = "please ring twice. " * chance.choice((0, 1, 500))
        connection.execute(
            "INSERT INTO orders VALUES (%s, %s, 'placed', %s, %s)",
            (order, chance.choice(_CUSTOMERS), total, note or None),
        )
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO order_lines VALUES (%s, %s, %s, %s, %s)", lines)
        self._event(connection, "placed", order)

    def _pay(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        # The long note does not change, so pgoutput sends it as an unchanged value.
        connection.execute("UPDATE orders SET status = 'paid' WHERE id = %s", (self._some_order(chance),))

    def _ship(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        order = self._some_order(chance)
        connection.execute(
            "UPDATE orders SET status = 'shipped', note = note || ' (left at the door)' WHERE id = %s", (order,)
        )
        self._event(connection, "shipped", order)

    def _cancel(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        order = self._some_order(chance)
        connection.execute("DELETE FROM order_lines WHERE order_id = %s", (order,))
        connection.execute("DELETE FROM orders WHERE id = %s", (order,))
        connection.execute("DELETE FROM events WHERE details->>'order' = %s", (str(order),))

    def _renumber(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        order = self._some_order(chance)
        connection.execute("UPDATE order_lines SET order_id = order_id + 1000000 WHERE order_id = %s", (order,))
        connection.execute("UPDATE orders SET id = id + 1000000 WHERE id = %s", (order,))

    def _import(self, connection: psycopg.Connection[Any], rows: int) -> None:
        """Run one large transaction: it is streamed before it commits, and partly rolled back."""
        with connection.transaction():
            connection.execute(
                "INSERT INTO orders SELECT 2000000 + i, 'import', 'placed', i * 0.01 FROM generate_series(1, %s) i",
                (rows,),
            )
            connection.execute("SAVEPOINT mistake")
            connection.execute("UPDATE orders SET total = 0 WHERE customer = 'import'")
            connection.execute("ROLLBACK TO SAVEPOINT mistake")
        self.transactions += 1

    def _some_order(self, chance: random.Random) -> int:
        return chance.randint(1, max(1, self._next_id - 1))

    def _event(self, connection: psycopg.Connection[Any], kind: str, order: int) -> None:
        connection.execute(
            "INSERT INTO events VALUES (now(), %s, jsonb_build_object('order', %s::bigint))", (kind, order)
        )
