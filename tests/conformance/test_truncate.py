"""TRUNCATE in ``subscriber sql`` on the four targets."""

from __future__ import annotations

import pytest

from subscriber.base.errors import SubscriberError, UsageError
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.table_states import RelationState
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import Query, parse
from tests.subscriptions import create_subscription, set_state
from tests.target_databases import opened


@pytest.fixture(
    params=[
        "sqlite",
        "duckdb",
        pytest.param("mariadb", marks=pytest.mark.server),
        pytest.param("postgresql", marks=pytest.mark.server),
    ]
)
def target(request, tmp_path):
    """A target with a disabled subscription to t and u; c refers to t."""
    with opened(request.param, request, tmp_path) as target:
        ensure_catalog(target.engine)
        create_subscription(target, enabled=False)
        for table in ("t", "u"):
            set_state(target, table, RelationState.READY)
        execute(
            target,
            "CREATE TABLE t (a integer PRIMARY KEY)",
            "CREATE TABLE u (a integer PRIMARY KEY)",
            "CREATE TABLE c (a integer PRIMARY KEY, FOREIGN KEY (a) REFERENCES t (a))",
            "INSERT INTO t VALUES (1), (2)",
            "INSERT INTO u VALUES (1), (2)",
        )
        yield target


def execute(target, *statements: str) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    with target.begin() as connection:
        if target.capabilities.postgresql_text:
            connection.exec_driver_sql("SET LOCAL search_path = public")
        for statement in statements:
            result = connection.exec_driver_sql(statement)
            rows = [tuple(row) for row in result] if result.returns_rows else []
    return rows


def run(target, tmp_path, sql: str) -> list[str]:
    command = parse(sql)
    assert not isinstance(command, Query)
    said: list[str] = []
    run_command(target, command, Settings(journal=str(tmp_path)), said.append)
    return said


def count(target) -> tuple[object, ...]:
    return execute(target, "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u)")[0]


def test_a_table_that_a_foreign_key_refers_to_is_refused_and_the_others_are_emptied(target, tmp_path):
    """C30: as in PostgreSQL, also where the referring table is empty"""
    with pytest.raises(SubscriberError) as refused:
        run(target, tmp_path, "TRUNCATE t, u")
    assert refused.value.sqlstate == "0A000"
    assert "in the same command" in str(refused.value.hint)
    assert count(target) == (2, 2)
    (said,) = run(target, tmp_path, "TRUNCATE u")
    assert said.startswith('NOTICE:  table "public.u" is copied again')
    assert count(target) == (2, 0)


def test_the_tables_of_a_dropped_subscription_are_emptied(target, tmp_path):
    execute(target, "DROP TABLE c")
    run(target, tmp_path, "ALTER SUBSCRIPTION s SET (slot_name = NONE)")
    run(target, tmp_path, "DROP SUBSCRIPTION s")
    assert count(target) == (2, 2)
    assert run(target, tmp_path, "TRUNCATE TABLE t, public.u") == []
    assert count(target) == (0, 0)
    with pytest.raises(UsageError, match="no subscription fills relation"):
        run(target, tmp_path, "TRUNCATE t")


def test_an_enabled_subscription_refuses(target, tmp_path):
    run(target, tmp_path, "ALTER SUBSCRIPTION s ENABLE")
    with pytest.raises(UsageError, match='while subscription "s" is enabled'):
        run(target, tmp_path, "TRUNCATE u")
    assert count(target) == (2, 2)
