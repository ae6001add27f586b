from __future__ import annotations

from subscriber.targets.generic import reading


def test_rows_come_in_batches_of_some_fetches(target, monkeypatch):
    monkeypatch.setattr(reading, "_ROWS_OF_A_FETCH", 2)
    monkeypatch.setattr(reading, "_FETCHES", 3)
    with target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a INTEGER, b TEXT)")
        connection.exec_driver_sql(
            "INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f'), (7, 'g')"
        )
    with target.engine.connect() as connection:
        table = target.shapes.reflect(connection, "public", "t")
        parts = list(target.reading.rows(connection, table, table.columns))
    assert [part.rows for part in parts] == [6, 1]
    assert [list(column) for column in parts[0].columns] == [[1, 2, 3, 4, 5, 6], ["a", None, "c", "d", "e", "f"]]
    assert [list(column) for column in parts[1].columns] == [[7], ["g"]]
