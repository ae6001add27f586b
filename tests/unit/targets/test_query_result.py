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
from subscriber.errors import SubscriberError
from subscriber.stages.explain_journal import _values
from subscriber.targets import open_target
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
