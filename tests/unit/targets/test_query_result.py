"""A query's values as PostgreSQL would write them. The proof against a server is in
tests/conformance/test_sql_results.py.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from subscriber.apply.conflicts.collisions import sent_texts
from subscriber.base.errors import SubscriberError, UnsupportedValue
from subscriber.stream.decode.explain_journal import _values
from subscriber.targets import TargetColumn, conversion, open_target
from subscriber.targets.conversion import converted
from subscriber.targets.query_result import value_text
from subscriber.verify.canonical_text import text_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "t"),
        (False, "f"),
        (-7, "-7"),
        (0.1, "0.1"),
        (3.0, "3"),
        (-0.0, "-0"),
        (1e15, "1e+15"),
        (-1234567890123456.7, "-1.2345678901234568e+15"),
        (1e22, "1e+22"),
        (1e23, "9.999999999999999e+22"),
        (5e-324, "5e-324"),
        (0.0001, "0.0001"),
        (1.5e-5, "1.5e-05"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("1E-7"), "0.0000001"),
        (Decimal("12.50"), "12.50"),
        (Decimal("NaN"), "NaN"),
        (b"\x00\xff", r"\x00ff"),
        pytest.param(memoryview(b""), r"\x", id="memoryview"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4, 5), "03:04:05"),
        (datetime(2026, 1, 2, 3, 4, 5), "2026-01-02 03:04:05"),  # noqa: DTZ001 - a timestamp without time zone
        (datetime(2026, 1, 2, 3, 4, 5, 1200, tzinfo=UTC), "2026-01-02 03:04:05.0012+00"),
        (datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-5, minutes=-30))), "2026-01-02 00:00:00-05:30"),
        ("it's", "it's"),
    ],
    ids=repr,
)
def test_a_value_reads_as_in_postgresql(value, text):
    assert value_text(value) == text


def test_a_column_of_numbers_stands_right_and_every_other_left(target):
    result = target.query("SELECT 1 AS i, 1.5 AS f, 'x' AS t, NULL AS n UNION ALL SELECT NULL, 2, '1', NULL ORDER BY 1")
    assert result.names == ("i", "f", "t", "n")
    assert result.rows == [(None, "2", "1", None), ("1", "1.5", "x", None)]
    assert [oid == 1700 for oid in result.type_oids] == [True, True, False, False]


def test_a_percent_sign_is_no_parameter(target):
    assert target.query("SELECT 'a%s', 'ab' LIKE 'a%'").rows == [("a%s", "1")]


def test_an_error_is_ours_and_does_not_show_the_query(target):
    with pytest.raises(SubscriberError) as caught:
        target.query("SELECT 'secret' FROM nowhere")
    assert "secret" not in caught.value.report()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Control-C means what it means at a terminal, also where the shell that started the tests
    ignores it (a job in the background).
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_control_c_ends_a_query_of_sqlite_that_computes(target):
    for_ever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        target.query(for_ever)
    timer.join()
    assert target.query("SELECT 1").rows == [("1",)]


def test_a_real_of_a_target_that_has_them_reads_as_float4out_writes_it(tmp_path):
    """The driver gives the double that the real is, which has more digits than the real needs"""
    with open_target(f"duckdb:///{tmp_path / 'target.duckdb'}") as duckdb:
        answer = duckdb.query("SELECT 0.1::FLOAT, 0.1::DOUBLE, 16777216::FLOAT, 1e23::DOUBLE, NULL::FLOAT")
    assert answer.rows == [("0.1", "0.1", "1.6777216e+07", "9.999999999999999e+22", None)]


@pytest.mark.parametrize(
    ("type_oid", "value", "text"),
    [(701, 1e23, "9.999999999999999e+22"), (701, 1e15, "1e+15"), (700, "16777216", "1.6777216e+07"), (701, -0.0, "0")],
)
def test_rows_are_compared_by_the_same_text_of_floating_point_numbers(type_oid, value, text):
    assert text_of(type_oid, value) == text


@pytest.mark.parametrize(
    ("number", "arrow_type", "text"),
    [(0.1, pa.float32(), "0.1"), (1e23, pa.float64(), "9.999999999999999e+22"), (None, pa.float32(), None)],
)
def test_what_conflicts_and_explain_show_of_a_row_is_the_same_text(number, arrow_type, text):
    row = pa.record_batch({"f": pa.array([number], arrow_type)})
    assert sent_texts(row) == {"f": text}
    assert _values(row) == {"f": text}


# Values for a column of another type: the types' own input functions, and what a target refuses
# beyond them.


COLUMN = TargetColumn("c", "declared", "storage")


@pytest.mark.parametrize(
    ("into", "text", "sqlstate", "message"),
    [
        (conversion.BOOLEAN, "o", "22P02", "invalid input syntax for type boolean"),
        (conversion.SMALLINT, "32768", "22003", "value is out of range for type smallint"),
        (conversion.INTEGER, "secret", "22P02", "invalid input syntax for type integer"),
        (conversion.BIGINT, "9" * 40 + "x", "22003", "value is out of range for type bigint"),
        (conversion.DOUBLE, "1e400x", "22003", "value is out of range for type double precision"),
        (conversion.DOUBLE, "0x1p-2x", "22P02", "invalid input syntax for type double precision"),
        (conversion.DOUBLE, "0x1.00000000000001p0", "22003", "value would be rounded to type double precision"),
        (conversion.DOUBLE, "0.10000000000000000001", "22003", "value would be rounded to type double precision"),
        (conversion.REAL, "16777217", "22003", "value would be rounded to type real"),
        (conversion.NUMERIC, "1e131072", "22003", "value overflows numeric format"),
    ],
)
def test_what_is_none_of_the_type_has_postgresqls_error_without_the_value(into, text, sqlstate, message):
    """C5, names_are_data: an error that stands behind digits too many is noticed after them."""
    with pytest.raises(UnsupportedValue) as caught:
        converted(into, COLUMN, pa.array(["1", text]))
    assert (caught.value.sqlstate, caught.value.message, caught.value.column) == (sqlstate, message, "c")


@pytest.mark.parametrize(
    ("into", "texts", "values"),
    [
        (conversion.BOOLEAN, [" YES", "of", None], [True, False, None]),
        (conversion.INTEGER, ["0x1F", "-1_000", None], [31, -1000, None]),
        (conversion.DOUBLE, ["1e23", " -inf", "0e309", "-0x1p-2"], [1e23, float("-inf"), 0.0, -0.25]),
        (conversion.REAL, ["0.1", "3.4028235e+38"], [pa.scalar(0.1, pa.float32()).as_py(), 3.4028234663852886e38]),
        (conversion.NUMERIC, ["1e3", "0e200000", "-0.00", "0b101", "nan"], ["1000", "0", "0.00", "5", "NaN"]),
        (conversion.TIMESTAMP, ["2024-02-29", "0044-03-15 BC", "infinity"], ["2024-02-29 00:00:00", "0044-03-15 00:00:00 BC", "infinity"]),
        (conversion.TIMESTAMP, ["2024-02-29 12:00:00+00", "0044-03-15 00:00:00+00 BC"], ["2024-02-29 12:00:00", "0044-03-15 00:00:00 BC"]),
    ],
)  # fmt: skip
def test_texts_are_read_as_the_types_input_function_reads_them(into, texts, values):
    """C5: in the Arrow type of the type that is read."""
    assert converted(into, COLUMN, pa.array(texts)).to_pylist() == values


def test_a_date_beyond_the_last_timestamp_is_out_of_range():
    with pytest.raises(UnsupportedValue, match="timestamp out of range") as caught:
        converted(conversion.TIMESTAMP, COLUMN, pa.array(["294277-01-01"]))
    assert caught.value.sqlstate == "22008"
