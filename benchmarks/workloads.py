"""The workloads W1 to W11, as data: what the publisher has, what it does, and how the result is
checked.

::

    stream    the subscription is disabled, the publisher commits, ENABLE ──▶ the last row is visible
    copy      ENABLE ──▶ the tables are copied and ready (state r)
    latency   the subscription is enabled, one row is committed 20 times a second, each is seen after …

A workload has one table or many, which one subscription has, or several in turn. Without a number
the table is ``t``, the marker ``runs``, the publication ``p`` and the subscription ``bench``; of
several, each has its number at its end.

A backlog is produced at the publisher by one procedure that commits in a loop. It is not produced
by a client, because the round trips would take longer than what is measured. Transactions are
numbered over all runs, so that a later run continues where the one before has ended, and needs no
new copy of the tables.

A check is a query in SQL that every target understands. It adds up keys, numbers and lengths of
each table, and the keys of about half the rows, chosen by their text. It is the same at the
publisher and in the target if the rows are the same. Many tables take several checks: SQLite reads
at most 500 tables in one query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

FEWEST_ROWS: Final = 1_000
"""A table does not become smaller than this, so that the hot rows of W4 stay as hot."""
FEWEST_TABLES: Final = 10
"""The tables do not become fewer than this, so that a tenth of them is one."""
CARRIER: Final = "carrier"
"""The publication that leaves nothing out, for emulated publications."""

_TABLES_OF_A_CHECK: Final = 200


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload at full size; :meth:`scaled` gives a smaller one.

    Attributes:
        name: ``W1`` to ``W11``.
        phrase: a phrase for tables and pictures, with places for numbers.
        kind: how it is measured; see the module's docstring.
        table: the columns of each table.
        check: what a check selects of a table.
        row: the values of a row with the key ``k``, as SQL.
        rows: the rows that each table has before the measurement.
        transactions: the transactions of a run, over all tables.
        changes: the changes of a transaction.
        transaction: the statements of transaction ``i``, as PL/pgSQL; ``{tables}``, ``{rows}``,
            ``{changes}`` and ``{row}`` stand for the attributes, and likewise in ``phrase``.
        tables: the number of tables.
        subscriptions: the number of subscriptions, each with its own publication and tables.
        filter: the row filter of a tenth of the tables. The publication of this program is then an
            emulated one.
        full_old_rows: whether the tables have REPLICA IDENTITY FULL.
        rate: the commits a second, of kind ``latency`` only.
        slowness: how many times as long it takes as the others, about. It has so many times their
            limit, and is measured so many times less often, but once.
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
    tables: int = 1
    subscriptions: int = 1
    filter: str = ""
    full_old_rows: bool = False
    rate: int = 20
    slowness: int = 1

    @property
    def what(self) -> str:
        """The phrase with the numbers of this size."""
        return self.phrase.format(
            rows=self.rows,
            changes=self.changes,
            transactions=self.transactions,
            tables=self.tables,
            subscriptions=self.subscriptions,
            interval=1000 / self.rate,
        )

    @property
    def amount(self) -> int:
        """The changes of a run, or the rows that are copied, or the commits that are timed."""
        return self.rows * self.tables if self.kind == "copy" else self.transactions * self.changes

    @property
    def table_names(self) -> list[str]:
        """The names of the tables, without the markers."""
        return _numbered("t", self.tables)

    @property
    def marker_tables(self) -> list[str]:
        """The tables, one for each subscription, that get a row after a backlog. Changes arrive in
        commit order, so that everything has arrived when the row is visible.
        """
        return _numbered("runs", self.subscriptions)

    @property
    def marker(self) -> str:
        """A query of the last run of which every subscription has applied the whole backlog."""
        return f"SELECT min(run) FROM ({self._of_markers('SELECT coalesce(max(run), 0) AS run FROM {}')}) m"

    def marked(self, run: int) -> str:
        """A query of the number of subscriptions that have applied the backlog of a run."""
        return f"SELECT sum(n) FROM ({self._of_markers(f'SELECT count(*) AS n FROM {{}} WHERE run = {run}')}) m"

    def marks(self, run: int) -> str:
        """The statements that mark the end of a run's backlog."""
        return "; ".join(f"INSERT INTO {name} VALUES ({run})" for name in self.marker_tables)

    def scaled(self, size: float) -> Workload:
        """The workload with ``size`` times the changes, tables, and rows of the only table. The
        transactions keep their size, unless there is only one.
        """
        fewest = max(self.subscriptions, min(self.tables, FEWEST_TABLES))
        return replace(
            self,
            rows=max(int(self.rows * size), min(self.rows, FEWEST_ROWS)),
            transactions=self.transactions if self.transactions == 1 else int(self.transactions * size),
            changes=int(self.changes * size) if self.transactions == 1 else self.changes,
            tables=max(int(self.tables * size), fewest) if self.tables > 1 else 1,
        )

    def tables_to_create(self) -> list[str]:
        """The statements that create the tables, in the publisher and where a subscriber needs
        them.
        """
        return [
            *(f"CREATE TABLE {name} ({self.table})" for name in self.table_names),
            *(f"CREATE TABLE {name} (run int PRIMARY KEY)" for name in self.marker_tables),
        ]

    def preparation(self) -> list[str]:
        """The statements that create the tables with their rows, the procedure, and the
        publications. If a copy is measured, there are only a few rows and published tables at
        first.
        """
        loop = f"BEGIN FOR i IN first..last LOOP {self._statements()}; COMMIT; END LOOP; END"
        return [
            *self.tables_to_create(),
            *(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in self.table_names if self.full_old_rows),
            *self._rows(1, min(self.rows, FEWEST_ROWS) if self.kind == "copy" else self.rows),
            f"CREATE PROCEDURE produce(first bigint, last bigint) LANGUAGE plpgsql AS $${loop}$$",
            *(
                f"CREATE PUBLICATION {publication} FOR TABLE {published}"
                for publication, published in self._published(FEWEST_TABLES if self.kind == "copy" else self.tables)
            ),
            *([f"CREATE PUBLICATION {CARRIER} FOR ALL TABLES"] if self.filter else []),
        ]

    def filling(self) -> list[str]:
        """The statements that insert and publish what else is copied, if that is measured."""
        if self.kind != "copy":
            return []
        return [
            *(self._rows(FEWEST_ROWS + 1, self.rows) if self.rows > FEWEST_ROWS else []),
            *(
                f"ALTER PUBLICATION {publication} SET TABLE {published}"
                for publication, published in self._published(self.tables)
                if self.tables > FEWEST_TABLES
            ),
        ]

    def emulated_publications(self) -> list[str]:
        """The statements that create the publications in a target that emulates them; or none."""
        return [
            f"CREATE PUBLICATION {publication} FOR TABLE {published}"
            for publication, published in self._published(self.tables)
            if self.filter
        ]

    def subscribed(self) -> Iterator[tuple[str, str]]:
        """Each subscription with its publication."""
        return zip(_numbered("bench", self.subscriptions), _numbered("p", self.subscriptions), strict=True)

    def backlog(self, run: int) -> str:
        """The statement that commits the transactions of a run; the first run is 1."""
        return f"CALL produce({(run - 1) * self.transactions + 1}, {run * self.transactions})"

    def checks(self, *, published: bool = False) -> Iterator[str]:
        """Queries that are equal at both ends if the rows are: a row for each table, with its
        number and what is added up. ``published``: only the rows that the publications send, which
        are all rows of a target.
        """
        selects = [
            f"SELECT {number} AS number, {self.check} FROM {name}{self._where(number) if published else ''}"
            for number, name in enumerate(self.table_names, 1)
        ]
        for first in range(0, len(selects), _TABLES_OF_A_CHECK):
            yield f"{' UNION ALL '.join(selects[first : first + _TABLES_OF_A_CHECK])} ORDER BY 1"

    def _published(self, tables: int) -> Iterator[tuple[str, str]]:
        """Each publication with its tables among the first ``tables``, and its marker."""
        names = list(enumerate(self.table_names[:tables], 1))
        for number, ((_, publication), marker) in enumerate(zip(self.subscribed(), self.marker_tables, strict=True)):
            share = names[number :: self.subscriptions]
            yield publication, ", ".join([*(f"{name}{self._where(place)}" for place, name in share), marker])

    def _where(self, number: int) -> str:
        return f" WHERE ({self.filter})" if self.filter and number * 10 <= self.tables else ""

    def _of_markers(self, query: str) -> str:
        return " UNION ALL ".join(query.format(name) for name in self.marker_tables)

    def _rows(self, first: int, last: int) -> list[str]:
        rows = f"SELECT {self.row} FROM generate_series({first}::bigint, {last}) k"
        return [*(f"INSERT INTO {name} {rows}" for name in self.table_names if last >= first), "VACUUM ANALYZE"]

    def _statements(self) -> str:
        return self.transaction.format(rows=self.rows, changes=self.changes, row=self.row, tables=self.tables) or "NULL"


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}{number}" for number in range(1, count + 1)]


_FIVE = "a bigint PRIMARY KEY, b int, c text, d numeric(12,2), e timestamptz"
_FIVE_ROW = "k, k % 1000, md5(k::text), (k % 100000) / 100.0, timestamptz '2026-01-01' + k * interval '1 s'"
_FIVE_CHECK = (
    "count(*), count(d), count(e), sum(a), sum(b), sum(length(c)), sum(a % 97 * b),"
    " sum(CASE WHEN c < '8' THEN a ELSE 0 END)"
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

_TABLE: Final = "(1 + i::bigint * 7919 % {tables})"
"""The number of the table of transaction ``i``."""
_INSERT_INTO_ONE: Final = (
    f"EXECUTE 'INSERT INTO t' || {_TABLE} || $q$ SELECT {{row}} FROM"
    " generate_series(($1 - 1) * {changes} + 1, $1 * {changes}) k$q$ USING i"
)

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
        "count(*), count(c39), sum(a), sum(c1), sum(a % 97 * c12), sum(length(c13)), sum(length(c20)),"
        " sum(CASE WHEN c13 < '8' THEN a ELSE 0 END)",
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
        "one row committed every {interval:g} ms, p50 and p99 until it is visible",
        "latency",
        "a int PRIMARY KEY",
        "count(*), sum(a)",
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
    Workload(
        "W8",
        "{transactions:,} transactions of 1 insert, over {tables:,} tables",
        "stream",
        _FIVE,
        _FIVE_CHECK,
        _FIVE_ROW,
        transactions=100_000,
        changes=1,
        transaction=_INSERT_INTO_ONE,
        tables=1_000,
    ),
    Workload(
        "W9",
        "{transactions:,} transactions of {changes} updates with full old rows, {tables} tables, a tenth with filters",
        "stream",
        _FIVE,
        _FIVE_CHECK,
        _FIVE_ROW,
        rows=1_000,
        transactions=20_000,
        changes=5,
        # Some of the rows fulfil the filter before the update, some after it, some both times.
        transaction="FOR n IN 1..{changes} LOOP EXECUTE 'UPDATE t' ||"
        f" {_TABLE} || $q$ SET b = (b + 377) % 1000, c = md5($1::text) WHERE a = $2$q$"
        " USING i, 1 + (i * 7919 + n * 104729) % {rows}; END LOOP",
        tables=100,
        filter="b < 600 AND c < 'c'",
        full_old_rows=True,
    ),
    Workload(
        "W10",
        "initial copy of {tables:,} tables of {rows} rows",
        "copy",
        _FIVE,
        _FIVE_CHECK,
        _FIVE_ROW,
        rows=10,
        tables=10_000,
        slowness=4,
    ),
    Workload(
        "W11",
        "{transactions:,} transactions of {changes} inserts, over {tables} tables of {subscriptions} subscriptions",
        "stream",
        _FIVE,
        _FIVE_CHECK,
        _FIVE_ROW,
        transactions=20_000,
        changes=5,
        transaction=_INSERT_INTO_ONE,
        tables=100,
        subscriptions=20,
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
    "W8": ("sqlite",),
}
"""The workloads and targets of ``make bench-smoke``. At a tenth of the size they take about two
minutes, and each part of the way has a workload that depends on it.
"""

LARGER: Final = 10
"""How much larger ``--large`` makes a workload."""
