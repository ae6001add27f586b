"""DuckDB as a target: changes reach its tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.protocol import messages as m
from subscriber.targets import open_target
from tests.frames import relation, transaction, values
from tests.unit.targets.tables import execute, insert, load, reflected, rows


@pytest.mark.parametrize("url", ["duckdb://", "duckdb:///:memory:", "duckdb:///:memory:named"])
def test_an_in_memory_database_is_refused(url):
    with pytest.raises(UsageError, match="in-memory DuckDB"):
        open_target(url)


T = relation("public.t", {"a": "int4", "b": "text"}, ["a"])


def test_changes_reach_the_table(apply, target):
    """C7-C9, C18: executemany counts the rows it found; a key may go and come again within a
    transaction
    """
    execute(target, "CREATE TABLE t (b text, a int PRIMARY KEY, own text DEFAULT 'mine')")
    result = apply(
        [T],
        *transaction(
            200,
            *(insert(str(number), "x") for number in range(5)),
            m.Update(16384, None, None, values("0", m.UNCHANGED)),
            m.Update(16384, None, None, values("1", None)),
            m.Update(16384, None, None, values("77", None)),
            m.Update(16384, "K", values("2", None), values("20", "moved")),
            insert("2", "again"),
            *(m.Delete(16384, "K", values(key, None)) for key in ("3", "88", "99")),
        ),
    )
    assert rows(target, "SELECT a, b, own FROM t ORDER BY a") == [
        {"a": 0, "b": "x", "own": "mine"},
        {"a": 1, "b": None, "own": "mine"},
        {"a": 2, "b": "again", "own": "mine"},
        {"a": 4, "b": "x", "own": "mine"},
        {"a": 20, "b": "moved", "own": "mine"},
    ]
    assert result.conflicts == {"update_missing": 1, "delete_missing": 2}


def test_any_name_is_only_a_name(apply, target):
    """names_are_data"""
    names = ["%s", ":p0", "$1", 'q"q', ") VALUES (", "p0", "rowid%", "select"]
    quoted = ", ".join('"' + name.replace('"', '""') + '" text' for name in names)
    execute(target, 'CREATE SCHEMA "s.%(x)s"', f'CREATE TABLE "s.%(x)s"."t;--" (id int PRIMARY KEY, {quoted})')
    remote = relation("s.%(x)s.t;--", {"id": "int4", **dict.fromkeys(names, "text")}, ["id"])
    apply([remote], *transaction(200, insert("1", *names), m.Update(16384, None, None, values("1", *names))))
    assert rows(target, 'SELECT * FROM "s.%(x)s"."t;--"') == [{"id": 1} | {name: name for name in names}]
    batch = pa.record_batch([pa.array([2], pa.int32()), *([name] for name in names)], names=["id", *names])
    load(target, reflected(target, "t;--", "s.%(x)s"), {"id": 23, **dict.fromkeys(names, 25)}, batch)
    assert rows(target, 'SELECT * FROM "s.%(x)s"."t;--" ORDER BY id')[1] == {"id": 2} | {name: name for name in names}


def test_one_of_the_files_changes_with_every_commit_and_none_with_a_query(target):
    """``subscriber run`` reads the catalog only after a commit."""

    def state() -> list[tuple[int, int] | None]:
        return [(file.stat().st_size, file.stat().st_mtime_ns) if file.exists() else None for file in target.files]

    execute(target, "CREATE TABLE t (a int PRIMARY KEY)")
    before = state()
    with target.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar_one() == 0
    assert state() == before
    execute(target, "INSERT INTO t VALUES (1)")
    assert state() != before


def test_control_c_during_a_query_is_an_interruption_and_not_an_error_of_the_driver(target, monkeypatch):
    def interrupted(*_):
        raise RuntimeError("Query interrupted")

    with target.engine.connect() as connection:
        monkeypatch.setattr("duckdb_engine.CursorWrapper.execute", interrupted)
        with pytest.raises(KeyboardInterrupt):
            connection.exec_driver_sql("SELECT 1")
