"""The workloads W1 to W7, as data: what the publisher has, what it does, and how the result is
checked.

::

    stream    the subscription is disabled, the publisher commits, ENABLE ──▶ the last row is visible
    copy      ENABLE ──▶ the table is copied and ready (state r)
    latency   the subscription is enabled, one row is committed every 50 ms, each is seen after …

A backlog is produced at the publisher by one procedure that commits in a loop. It is not produced
by a client, because the round trips would take longer than what is measured. Transactions are
numbered over all runs, so that a later run continues where the one before has ended, and needs no
new copy of the table.

A check is a query in SQL that every target understands. It adds up keys, numbers and lengths, and
the keys of about half the rows, chosen by their text. It is the same at the publisher and in the
target if the rows are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

FEWEST_ROWS: Final = 1_000
"""A table does not become smaller than this, so that the hot rows of W4 stay as hot."""

MARKER_TABLE: Final = "runs"
"""Its row is committed after a backlog. Changes arrive in commit order, so that everything has
arrived when the row is visible.
"""
MARKER: Final = f"SELECT coalesce(max(run), 0) FROM {MARKER_TABLE}"


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload at full size; :meth:`scaled` gives a smaller one.

    Attributes:
        name: ``W1`` to ``W7``.
        phrase: a phrase for tables and pictures, with places for numbers.
        kind: how it is measured; see the module's docstring.
        table: the columns of the table ``t``.
        check: a query of one row that is equal at both ends if the rows are.
        row: the values of a row with the key ``k``, as SQL.
        rows: the rows that the table has before the measurement.
        transactions: the transactions of a run.
        changes: the changes of a transaction.
        transaction: the statements of transaction ``i``, as PL/pgSQL; ``{rows}``, ``{changes}`` and
            ``{row}`` stand for the attributes, and likewise in ``phrase``.
    """

    name: str
    phrase: str
    kind: Literal["stream", "copy", "latency"]
    table: str
    check: str
    row: str
    rows: int = 0
    transactions: int = 0
    changes: int = 0
    transaction: str = ""

    @property
    def what(self) -> str:
        """The phrase with the numbers of this size."""
        return self.phrase.format(rows=self.rows, changes=self.changes, transactions=self.transactions)

    @property
    def amount(self) -> int:
        """The changes of a run, or the rows that are copied, or the commits that are timed."""
        return self.rows if self.kind == "copy" else self.transactions * self.changes

    def scaled(self, size: float) -> Workload:
        """The workload with ``size`` times the changes and rows. The transactions keep their size,
        unless there is only one.
        """
        return replace(
            self,
            rows=max(int(self.rows * size), min(self.rows, FEWEST_ROWS)),
            transactions=self.transactions if self.transactions == 1 else int(self.transactions * size),
            changes=int(self.changes * size) if self.transactions == 1 else self.changes,
        )

    def preparation(self) -> list[str]:
        """The statements that create the table with its rows, the procedure, and the publication
        ``p``. A table whose copy is measured has only a few rows at first.
        """
        loop = f"BEGIN FOR i IN first..last LOOP {self._statements()}; COMMIT; END LOOP; END"
        return [
            f"CREATE TABLE t ({self.table})",
            f"CREATE TABLE {MARKER_TABLE} (run int PRIMARY KEY)",
            *self._rows(1, min(self.rows, FEWEST_ROWS) if self.kind == "copy" else self.rows),
            f"CREATE PROCEDURE produce(first bigint, last bigint) LANGUAGE plpgsql AS $${loop}$$",
            f"CREATE PUBLICATION p FOR TABLE t, {MARKER_TABLE}",
        ]

    def filling(self) -> list[str]:
        """The statements that insert the other rows of a table whose copy is measured."""
        return self._rows(FEWEST_ROWS + 1, self.rows) if self.kind == "copy" else []

    def backlog(self, run: int) -> str:
        """The statement that commits the transactions of a run; the first run is 1."""
        return f"CALL produce({(run - 1) * self.transactions + 1}, {run * self.transactions})"

    def _rows(self, first: int, last: int) -> list[str]:
        return [f"INSERT INTO t SELECT {self.row} FROM generate_series({first}::bigint, {last}) k", "VACUUM ANALYZE t"]

    def _statements(self) -> str:
        return self.transaction.format(rows=self.rows, changes=self.changes, row=self.row) or "NULL"


_FIVE = "a bigint PRIMARY KEY, b int, c text, d numeric(12,2), e timestamptz"
_FIVE_ROW = "k, k % 1000, md5(k::text), (k % 100000) / 100.0, timestamptz '2026-01-01' + k * interval '1 s'"
_FIVE_CHECK = (
    "SELECT count(*), count(d), count(e), sum(a), sum(b), sum(length(c)), sum(a % 97 * b),"
    " sum(CASE WHEN c < '8' THEN a ELSE 0 END) FROM t"
)
_INSERTS = "INSERT INTO t SELECT {row} FROM generate_series((i - 1) * {changes} + 1, i * {changes}) k"

_MIXED: Final = (
    *(("int", f"k % {2 + number}") for number in range(8)),
    *(("bigint", f"k * {number + 1}") for number in range(4)),
    *(("text", f"md5((k + {number})::text)") for number in range(8)),
    *(("numeric(14,4)", f"k / {3 + number}.0") for number in range(4)),
    *(("timestamptz", f"timestamptz '2026-01-01' + k * interval '{number + 1} s'") for number in range(4)),
    *(("date", f"date '2026-01-01' + (k % {300 + number})::int") for number in range(3)),
    *(("boolean", f"k % {2 + number} = 0") for number in range(3)),
    *(("double precision", f"sqrt(k + {number})") for number in range(3)),
    ("uuid", "md5(k::text)::uuid"),
    ("jsonb", "jsonb_build_object('number', k, 'text', md5(k::text))"),
)
"""The types of W3's columns beside its key, and their values."""

_UPDATE = "UPDATE t SET b = b + 1, c = md5(i::text) WHERE a = "

WORKLOADS: Final = (
    Workload(
        "W1",
        "one transaction of {changes:,} inserts, 5 columns",
        "stream",
        _FIVE,
        _FIVE_CHECK,
        _FIVE_ROW,
        transactions=1,
        changes=1_000_000,
        transaction=_INSERTS,
    ),
    Workload(
        "W2",
        "{transactions:,} transactions of 2 updates, 1 insert, 1 delete, on {rows:,} rows",
        "stream",
        _FIVE,
        _FIVE_CHECK,
        _FIVE_ROW,
        rows=1_000_000,
        transactions=100_000,
        changes=4,
        # Before transaction i the table has the keys i to i + rows - 1, so each statement finds its
        # row.
        transaction=f"{_UPDATE} i + 1 + i::bigint * 7919 % ({{rows}} - 1); {_UPDATE} i + 1 + i::bigint * 104729 % ({{rows}} - 1);"
        " INSERT INTO t SELECT {row} FROM (SELECT i + {rows} AS k) n; DELETE FROM t WHERE a = i",
    ),
    Workload(
        "W3",
        "{transactions:,} transactions of {changes} inserts, 40 mixed columns",
        "stream",
        ", ".join(["a bigint PRIMARY KEY", *(f"c{number} {kind}" for number, (kind, _) in enumerate(_MIXED, 1))]),
        "SELECT count(*), count(c39), sum(a), sum(c1), sum(a % 97 * c12), sum(length(c13)), sum(length(c20)),"
        " sum(CASE WHEN c13 < '8' THEN a ELSE 0 END) FROM t",
        ", ".join(["k", *(value for _, value in _MIXED)]),
        transactions=2_000,
        changes=100,
        transaction=_INSERTS,
    ),
    Workload(
        "W4",
        "{transactions:,} transactions of {changes} updates, {rows:,} hot rows",
        "stream",
        _FIVE,
        _FIVE_CHECK,
        _FIVE_ROW,
        rows=1_000,
        transactions=40_000,
        changes=10,
        transaction=f"FOR n IN 1..{{changes}} LOOP {_UPDATE} 1 + (i::bigint * 7919 + n * 104729) % 1000; END LOOP",
    ),
    Workload("W5", "initial copy of {rows:,} rows", "copy", _FIVE, _FIVE_CHECK, _FIVE_ROW, rows=3_000_000),
    Workload(
        "W6",
        "one row committed every 50 ms, p50 and p99 until it is visible",
        "latency",
        "a int PRIMARY KEY",
        "SELECT count(*), sum(a) FROM t",
        "k",
        transactions=400,
        changes=1,
    ),
    Workload(
        "W7",
        "{transactions:,} transactions of 1 insert",
        "stream",
        _FIVE,
        _FIVE_CHECK,
        _FIVE_ROW,
        transactions=100_000,
        changes=1,
        transaction=_INSERTS,
    ),
)

BY_NAME: Final = {workload.name: workload for workload in WORKLOADS}
"""The workloads by name."""

SMOKE: Final = {
    "W1": ("sqlite",),
    "W2": ("sqlite",),
    "W3": ("duckdb",),
    "W5": ("postgresql",),
    "W7": ("sqlite", "postgresql"),
}
"""The workloads and targets of ``make bench-smoke``. At a tenth of the size they take about two
minutes, and each part of the way has a workload that depends on it.
"""

LARGER: Final = 10
"""How much larger ``--large`` makes a workload."""
