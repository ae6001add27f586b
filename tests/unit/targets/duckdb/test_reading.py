from __future__ import annotations

import pytest

from subscriber.errors import SubscriberError
from subscriber.targets.target_table import TargetColumn, TargetTable
from subscriber.verify.canonical_columns import texts_of


def read(target, table):
    with target.engine.connect() as connection:
        return list(target.reading.rows(connection, table, table.columns))


def test_every_type_is_read_as_the_text_that_postgresql_writes(target):
    values = {
        "DECIMAL(12, 10)": ("0.0000000001", 1700, "0.0000000001"),
        "DECIMAL(38, 9)": ("12345678901234567890123456789.123456789", 1700, "12345678901234567890123456789.123456789"),
        "HUGEINT": ("170141183460469231731687303715884105727", 1700, "170141183460469231731687303715884105727"),
        "UBIGINT": ("18446744073709551615", 20, "18446744073709551615"),
        "BOOLEAN": ("false", 16, "f"),
        "BLOB": ("'\\x00\\xFF'::BLOB", 17, "\\x00ff"),
        "DOUBLE": ("0.1", 701, "0.1"),
        "DATE": ("'0044-03-15 (BC)'::DATE", 1082, "0044-03-15 BC"),
        "TIMESTAMP": ("'infinity'::TIMESTAMP", 1114, "infinity"),
        "UUID": ("'11111111-2222-3333-4444-555555555555'", 2950, "11111111-2222-3333-4444-555555555555"),
        "JSON": ("'null'::JSON", 114, "null"),
        "VARCHAR": ("'text'", 25, "text"),
    }
    names = [f"c{number}" for number in range(len(values))]
    with target.begin() as connection:
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, values, strict=True))
        connection.exec_driver_sql(f"CREATE TABLE t ({columns})")
        connection.exec_driver_sql(f"INSERT INTO t VALUES ({', '.join(sql for sql, _, _ in values.values())})")
        connection.exec_driver_sql("INSERT INTO t (c0) VALUES (NULL)")
        table = target.shapes.reflect(connection, "public", "t")
    (part,) = read(target, table)
    assert part.rows == 2
    for (_, oid, text), column in zip(values.values(), part.columns, strict=True):
        assert sorted(texts_of(oid, column).to_pylist(), key=str) == sorted([None, text], key=str)


def test_an_error_of_the_driver_is_translated(target):
    table = TargetTable(None, "nowhere", (TargetColumn("a", "INTEGER", "INTEGER"),), None)
    with pytest.raises(SubscriberError) as raised:
        read(target, table)
    assert "nowhere" in raised.value.report()
