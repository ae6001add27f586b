"""``unrepresentable_values`` against real targets: the copy and the stream replace the same values,
and count each of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from subscriber.targets import open_target
from tests.crash.harness import Runner
from tests.target_databases import opened

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

KINDS = (
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.long),
    pytest.param("duckdb", marks=pytest.mark.long),
    pytest.param("mariadb", marks=pytest.mark.long),
)
DECLARED = {
    "sqlite": ("DOUBLE PRECISION", "NUMERIC_TEXT(5,2)", "DATE_TEXT", "CHARACTER VARYING(3)"),
    "postgresql": ("double precision", "numeric(5,2)", "date", "varchar(3)"),
    "duckdb": ("DOUBLE", "DECIMAL(5,2)", "DATE", "VARCHAR"),
    "mariadb": ("DOUBLE", "DECIMAL(5,2)", "DATE", "VARCHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
}
REPLACED = {
    "sqlite": {"n": {"Infinity", "123456"}, "v": {"longer"}},
    "postgresql": {"n": {"Infinity", "123456"}, "v": {"longer"}},
    "duckdb": {"n": {"NaN", "Infinity", "123456"}},
    "mariadb": {
        "x": {"NaN", "Infinity", "-Infinity"},
        "n": {"NaN", "Infinity", "123456"},
        "d": {"infinity", "0044-03-15 BC"},
        "v": {"longer"},
    },
}
"""For each target and column: the values that it cannot hold."""
VALUES = {
    "x": ["1.5", "NaN", "Infinity", "-Infinity"],
    "n": ["1.25", "NaN", "Infinity", "123456"],
    "d": ["2026-01-01", "infinity", "0044-03-15 BC", "9999-12-31"],
    "v": ["abc", "longer", "a\tb", "\\"],
}
ROUNDS = 25
"""How often the rows occur, each time with other keys."""


def rows(first: int) -> str:
    """INSERT the rows of :data:`VALUES`, with keys from ``first`` on."""
    columns = [[value.replace("'", "''") for value in VALUES[name]] for name in "xndv"]
    lines = ", ".join(
        f"({place}, '{x}'::float8, '{n}'::numeric, '{d}'::date, '{v}')"
        for place, (x, n, d, v) in enumerate(zip(*columns, strict=True))
    )
    return (
        f"INSERT INTO t SELECT {first} + r.round * 4 + l.place, l.x, l.n, l.d, l.v"
        f" FROM generate_series(0, {ROUNDS - 1}) r (round), (VALUES {lines}) l (place, x, n, d, v)"
    )


@pytest.fixture(params=KINDS)
def runner(request, publisher_database, tmp_path) -> Iterator[Runner]:
    kind = request.param
    publisher_database.execute(
        "CREATE TABLE t (k int PRIMARY KEY, x float8, n numeric, d date, v text); CREATE PUBLICATION p FOR TABLE t;"
        + rows(0)
    )
    with contextlib.ExitStack() as stack:
        url = f"{kind}:///{tmp_path / f'target.{kind}'}"
        if kind in ("mariadb", "postgresql"):
            target = stack.enter_context(opened(kind, request, tmp_path))
            url = target.engine.url.render_as_string(hide_password=False)
        x, n, d, v = DECLARED[kind]
        execute(url, f"CREATE TABLE t (k integer PRIMARY KEY, x {x}, n {n}, d {d}, v {v})")
        runner = Runner(url, tmp_path)
        stack.callback(runner.close)
        runner.sql(
            f"CREATE SUBSCRIPTION s CONNECTION '{publisher_database.conninfo}' PUBLICATION p"
            f" WITH (slot_name = {publisher_database.name}, unrepresentable_values = null, log_conflict_values = true)"
        )
        yield runner


def execute(url: str, sql: str) -> list[tuple[Any, ...]]:
    with open_target(url) as target, target.begin() as connection:
        if target.capabilities.postgresql_text:
            connection.exec_driver_sql("SET LOCAL search_path = public")
        result = connection.execution_options(no_parameters=True).exec_driver_sql(sql)
        return [tuple(row) for row in result] if result.returns_rows else []


def test_copy_and_stream_replace_the_same_values_and_count_them(runner, publisher_database):
    """fast_equals_exact, progress_with_data"""
    replaced = REPLACED[runner.target.partition(":")[0].partition("+")[0].replace("mysql", "mariadb")]
    once(runner)
    nulls = {name: execute(runner.target, f"SELECT k FROM t WHERE {name} IS NULL ORDER BY k") for name in VALUES}
    for name, values in VALUES.items():
        places = [place for place, value in enumerate(values) if value in replaced.get(name, ())]
        assert [key for (key,) in nulls[name]] == [4 * turn + place for turn in range(ROUNDS) for place in places]
    assert counted(runner) == {name: ROUNDS * len(values) for name, values in replaced.items()}

    publisher_database.execute(rows(1000))
    publisher_database.execute("UPDATE t SET v = v WHERE k = 1; DELETE FROM t WHERE k = 2")
    once(runner)
    for name in VALUES:
        again = execute(runner.target, f"SELECT k FROM t WHERE {name} IS NULL AND k >= 1000 ORDER BY k")
        assert [key - 1000 for (key,) in again] == [key for (key,) in nulls[name]]
    updated = {name: int(VALUES[name][1] in values) for name, values in replaced.items()}
    assert counted(runner) == {name: 2 * ROUNDS * len(values) + updated[name] for name, values in replaced.items()}

    recorded = execute(
        runner.target, "SELECT columnname, key_columns, key_values, replaced_value FROM subscriber_replaced_row"
    )
    for name, texts in replaced.items():
        mine = [row for row in recorded if row[0] == name]
        assert {row[3] for row in mine} == texts
        assert len(mine) == counted(runner)[name]
        assert {row[1] for row in mine} == {'["k"]'}
        assert len({row[2] for row in mine}) == 2 * ROUNDS * len(texts)
    shown = runner.call("status").stdout
    assert "Values that were replaced by NULL" in shown


def once(runner: Runner) -> None:
    answer = runner.once()
    assert answer.returncode == 0, answer.stderr


def counted(runner: Runner) -> dict[str, int]:
    return {one["column"]: one["count"] for one in runner.status()["s"]["replaced_values"]}
