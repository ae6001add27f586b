"""The tables that dropped subscriptions have filled."""

from __future__ import annotations

from subscriber.catalog.released import DroppedTable, dropped_tables, forget_dropped_table, store_dropped_tables

ORDERS = DroppedTable(("archive", "orders"), ("public", "orders"), "s")
LINES = DroppedTable(("public", "lines"), ("public", "lines"), "s")


def test_tables_are_read_back_in_the_order_of_their_names(connection):
    store_dropped_tables(connection, [LINES, ORDERS])
    assert dropped_tables(connection) == [ORDERS, LINES]


def test_a_table_belongs_to_the_subscription_that_was_dropped_last(connection):
    later = DroppedTable(ORDERS.local, ("shop", "orders"), "t")
    for one in (ORDERS, later):
        store_dropped_tables(connection, [one])
    assert dropped_tables(connection) == [later]


def test_a_table_that_was_emptied_is_forgotten(connection):
    store_dropped_tables(connection, [LINES, ORDERS])
    for _ in range(2):
        forget_dropped_table(connection, ORDERS.local)
    assert dropped_tables(connection) == [LINES]
