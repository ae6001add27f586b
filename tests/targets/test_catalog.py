"""The catalog's tables in each target: two sessions may write one row at the same time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from subscriber.base.errors import ConflictError, SubscriberError, TargetUnavailable
from subscriber.base.lsn import LSN
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.own_tables import SUBSCRIPTION_REL, ConflictKind
from subscriber.catalog.replaced_values import (
    ReplacedColumn,
    ReplacedValues,
    count_replaced_values,
    replaced_counts,
)
from subscriber.catalog.schema_changes import read_shape, store_shape
from subscriber.catalog.statistics import count_conflicts, statistics_of
from subscriber.postgres.schema.stored_shape import StoredColumn, StoredShape
from subscriber.targets import Target
from tests.targets.tables import is_unknown
from tests.waits import PATIENCE

T = ("public", "t")
V = ReplacedColumn("public", "t", "v", "public.t")
SHAPES = [StoredShape((StoredColumn("a", 23, -1),)), StoredShape((StoredColumn("a", 20, -1),))]


@pytest.fixture
def target(target: Target) -> Target:
    ensure_catalog(target.engine)
    return target


def write_shape(connection: sa.Connection, number: int) -> None:
    store_shape(connection, 1, T, SHAPES[number])


def count_values(connection: sa.Connection, number: int) -> None:
    count_replaced_values(connection, 1, {V: ReplacedValues(LSN(100), LSN(100 + number), 1)})


def count_conflict(connection: sa.Connection, number: int) -> None:
    count_conflicts(connection, 1, "s", {ConflictKind.INSERT_EXISTS: 1 + number})


def in_two_sessions(target: Target, write: Callable[[sa.Connection, int], None]) -> None:
    """Write in a session, and in another one that has read the catalog before, and has not seen
    that row. Where the target has one writer, a run gives the two sessions their turns. DuckDB
    finds out when the row is written or at the commit, and a database without an upsert when the
    row is inserted: the second session tries again, as a run does.
    """
    turn = threading.Lock() if target.capabilities.single_writer else contextlib.nullcontext()
    has_written, has_read = threading.Event(), threading.Event()

    def attempt() -> None:
        with turn, target.begin() as connection:
            read_shape(connection, 1, ("public", "other"))
            has_read.set()
            assert has_written.wait(PATIENCE)
            write(connection, 1)

    def second() -> None:
        try:
            attempt()
        except (ConflictError, TargetUnavailable):
            assert target.engine.dialect.name == "duckdb" or is_unknown(target)
            attempt()

    with ThreadPoolExecutor(1) as pool:
        with turn, target.begin() as connection:
            running = pool.submit(second)
            if not target.capabilities.single_writer:
                assert has_read.wait(PATIENCE)
            write(connection, 0)
            # Before the commit, so that the second session waits for it.
            has_written.set()
        running.result(PATIENCE)


def test_two_sessions_store_the_shape_of_one_table(target):
    """The copy of a table, and the apply worker: MariaDB said duplicate key … "PRIMARY"."""
    in_two_sessions(target, write_shape)
    with target.engine.connect() as connection:
        assert read_shape(connection, 1, T) == SHAPES[1]


def test_two_sessions_count_the_replaced_values_of_one_column(target):
    in_two_sessions(target, count_values)
    with target.engine.connect() as connection:
        ((count),) = replaced_counts(connection, 1)
    assert (count.count, count.first_lsn, count.last_lsn) == (2, "0/64", "0/65")


def test_two_sessions_count_conflicts_of_one_subscription(target):
    in_two_sessions(target, count_conflict)
    with target.engine.connect() as connection:
        assert statistics_of(connection, 1)["confl_insert_exists"] == 3


def test_an_error_of_a_catalog_write_names_the_table(target):
    insert = sa.insert(SUBSCRIPTION_REL).values(srsubid=1, srschema="public", srrelname="t", srsubstate="i")
    with target.begin() as connection:
        connection.execute(insert)
    with pytest.raises(SubscriberError) as raised, target.begin() as connection:
        connection.execute(insert)
    error = raised.value
    assert isinstance(error, ConflictError)
    assert error.relation == "subscriber_subscription_rel"
    assert error.context == 'writing table "subscriber_subscription_rel" of the catalog'
