"""The role values of DuckDB. Its rules are tested in test_values.py."""

from __future__ import annotations

import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.errors import TargetRelationError
from subscriber.targets import TargetColumn
from subscriber.targets.duckdb.column_values import DuckDBValues
from tests.unit.targets.tables import execute, reflected

VALUES = DuckDBValues()


@pytest.mark.parametrize(
    ("declared", "stored", "read"),
    [
        ("DATE", "'44-03-15 (BC)'", "0044-03-15 BC"),
        ("DATE", "'infinity'", "infinity"),
        ("TIMESTAMP", "'44-03-15 (BC) 01:02:03.5'", "0044-03-15 01:02:03.5 BC"),
        ("TIME", "'24:00:00'", "24:00:00"),
        ("JSON", "'null'", "null"),
        ("INTEGER", "7", 7),
    ],
)
def test_a_value_that_python_does_not_have_is_read_as_text(target, declared, stored, read):
    execute(target, f"CREATE TABLE t (a {declared})", f"INSERT INTO t VALUES ({stored})")
    table = reflected(target, "t")
    query = sa.select(VALUES.readable(table.columns[0])).select_from(table.clause())
    with target.engine.connect() as connection:
        assert connection.execute(query).scalar_one() == read


def test_the_rules_are_duckdbs():
    column = TargetColumn("a", "BOOLEAN", "BOOLEAN")
    assert VALUES.bind_values(16, column, pa.array([True, None])) == [True, None]
    with pytest.raises(TargetRelationError):
        VALUES.check_column(17, column)


def test_a_single_precision_number_is_shown_as_postgresql_shows_it(target):
    execute(target, "CREATE TABLE t (a FLOAT, b DOUBLE)", "INSERT INTO t VALUES (0.1, 0.1)")
    with target.engine.connect() as connection:
        result = target.read_result(connection.exec_driver_sql("SELECT a, b FROM t"))
    assert result.rows == [("0.1", "0.1")]
