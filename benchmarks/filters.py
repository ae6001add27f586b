"""The speed at which row filters are evaluated, in rows per second on one core.

The filters are ``a > 500 AND c = 'NSW'`` and some others, each measured alone. ``python -m
benchmarks.filters`` prints the median of three runs over two million rows, in batches of 16384 rows
as in the pipeline. The columns are as in a frame: numbers and text are decoded, numeric and
timestamp are PostgreSQL's text.
"""

from __future__ import annotations

import statistics
import time
from typing import Final

import pyarrow as pa

from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.evaluate.row_filter import CompiledFilter, compile_filter

BATCH_ROWS = 16_384
BATCHES = 122
RUNS = 3

_BOOL, _INT4, _TEXT, _NUMERIC = tree.BOOL, 23, 25, 1700
_A: Final = tree.Var(_INT4, 0, "a")
_C: Final = tree.Var(_TEXT, 100, "c")
_PRICE: Final = tree.Var(_NUMERIC, 0, "price")


def _number(value: int) -> tree.Const:
    return tree.Const(_INT4, 0, str(value))


def _text(value: str) -> tree.Const:
    return tree.Const(_TEXT, 100, value)


def _call(signature: str, *arguments: tree.Expression, type_oid: int = _BOOL) -> tree.Call:
    return tree.Call(type_oid, 0, signature, arguments)


def _and(*arguments: tree.Expression) -> tree.BoolExpr:
    return tree.BoolExpr(_BOOL, 0, "and", arguments)


FILTERS: Final = {
    # a > 500 AND c = 'NSW'
    "filter_rows_per_second": _and(
        _call("int4gt(int4,int4)", _A, _number(500)), _call("texteq(text,text)", _C, _text("NSW"))
    ),
    # c IN ('NSW', 'VIC', 'QLD', 'TAS', 'ACT', 'NT')
    "filter_in_rows_per_second": tree.ScalarArrayOpExpr(
        _BOOL,
        0,
        "texteq(text,text)",
        (_C, tree.ArrayExpr(1009, 100, tuple(map(_text, ("NSW", "VIC", "QLD", "TAS", "ACT", "NT"))))),
    ),
    # a <> 0 AND 1000 / a > 1
    "filter_division_rows_per_second": _and(
        _call("int4ne(int4,int4)", _A, _number(0)),
        _call("int4gt(int4,int4)", _call("int4div(int4,int4)", _number(1000), _A, type_oid=_INT4), _number(1)),
    ),
    # price > 99.99
    "filter_numeric_rows_per_second": _call("numeric_gt(numeric,numeric)", _PRICE, tree.Const(_NUMERIC, 0, "99.99")),
}


def measure() -> dict[str, float]:
    """Rows per second of each filter, as medians."""
    columns = _columns()
    return {name: _rate(compile_filter(expression), columns) for name, expression in FILTERS.items()}


def _rate(compiled: CompiledFilter, columns: dict[str, pa.Array]) -> float:
    compiled.evaluate(columns, BATCH_ROWS)  # the first call of each Arrow kernel initialises it
    return BATCH_ROWS * BATCHES / statistics.median(_seconds(compiled, columns) for _ in range(RUNS))


def _seconds(compiled: CompiledFilter, columns: dict[str, pa.Array]) -> float:
    began = time.perf_counter()
    for _ in range(BATCHES):
        compiled.evaluate(columns, BATCH_ROWS)
    return time.perf_counter() - began


def _columns() -> dict[str, pa.Array]:
    states = ("NSW", "VIC", "QLD", None, "WA")
    return {
        "a": pa.array([row * 7919 % 1000 for row in range(BATCH_ROWS)], pa.int32()),
        "c": pa.array([states[row * 31 % 5] for row in range(BATCH_ROWS)], pa.string()),
        "price": pa.array([f"{row * 7919 % 100_000}.{row % 100:02d}" for row in range(BATCH_ROWS)], pa.string()),
    }


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:32s} {value:14,.0f}")
