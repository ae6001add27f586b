"""The way between the catalog's rows and dataclasses, and the column types of each database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.engine.interfaces import Dialect

from subscriber.base.lsn import LSN
from subscriber.catalog.rows import (
    NAME,
    TEXT,
    JsonText,
    Lsn,
    RowMapper,
    RowNumbers,
    change_rows,
    delete_rows,
    matching,
)
from subscriber.targets.mariadb.transactions import MariaDBFacts, learn

TABLE = sa.Table(
    "ledger",
    sa.MetaData(),
    sa.Column("ledgername", NAME, primary_key=True),
    sa.Column("lsn", Lsn),
    sa.Column("words", JsonText),
    sa.Column("writtenby", sa.Text, server_default="nobody"),
)


@dataclass(frozen=True)
class Ledger:
    name: str
    lsn: LSN | None = None
    words: list[str] | None = None


LEDGERS = RowMapper(TABLE, Ledger, name="ledgername")
A, B = Ledger("a", LSN(0x100000001), ["x", "é"]), Ledger("b")


@pytest.fixture
def ledgers(connection):
    TABLE.create(connection)
    LEDGERS.insert(connection, [A, B])
    return connection


def stored(connection: sa.Connection) -> list[tuple[object, ...]]:
    return [tuple(row) for row in connection.execute(sa.text("SELECT * FROM ledger ORDER BY ledgername"))]


def test_a_row_is_stored_as_a_user_reads_it(ledgers):
    LEDGERS.write(ledgers, B, writtenby="us")
    assert stored(ledgers) == [("a", "1/1", '["x", "é"]', "nobody"), ("b", None, None, "us")]


def test_rows_are_read_by_their_values_in_an_order(ledgers):
    assert LEDGERS.select(ledgers, TABLE.c.ledgername.desc()) == [B, A]
    assert LEDGERS.select(ledgers, lsn=A.lsn) == [A]
    assert LEDGERS.find(ledgers, ledgername="b") == B
    assert LEDGERS.find(ledgers, ledgername="c") is None


def test_a_row_takes_the_place_of_that_with_its_key(ledgers):
    later = replace(A, lsn=LSN(9), words=None)
    LEDGERS.write(ledgers, later)
    assert LEDGERS.select(ledgers, TABLE.c.ledgername) == [later, B]


def test_a_change_happens_only_where_its_condition_holds(ledgers):
    def advance(expected: int, to: int) -> int:
        return change_rows(ledgers, matching(TABLE, ledgername="a", lsn=LSN(expected)), TABLE, lsn=LSN(to))

    assert (advance(7, 8), advance(0x100000001, 8), advance(0x100000001, 9)) == (0, 1, 0)
    assert LEDGERS.find(ledgers, ledgername="a") == replace(A, lsn=LSN(8))


def test_rows_are_deleted_by_their_values(ledgers):
    assert (delete_rows(ledgers, TABLE, ledgername="a"), delete_rows(ledgers, TABLE, ledgername="a")) == (1, 0)
    assert LEDGERS.select(ledgers) == [B]


def dialect(url: str) -> Dialect:
    return sa.make_url(url).get_dialect()()


def with_collation(collation: str | None) -> Dialect:
    """The dialect as it is after the first connection to a server of MySQL's family."""
    connected = mysql.dialect()
    learn(connected, MariaDBFacts(exact_collation=collation))
    return connected


@pytest.mark.parametrize(
    ("database", "sql"),
    [
        (dialect("mariadb://"), "VARCHAR(63) COLLATE utf8mb4_nopad_bin"),
        (with_collation("utf8mb4_0900_bin"), "VARCHAR(63) COLLATE utf8mb4_0900_bin"),
        (with_collation(None), "VARBINARY(252)"),
        (dialect("postgresql://"), "VARCHAR(63)"),
        (dialect("sqlite://"), "VARCHAR(63)"),
    ],
    ids=["MariaDB", "MySQL", "seekdb", "PostgreSQL", "SQLite"],
)
def test_a_name_is_compared_with_its_case_and_with_the_spaces_at_its_end(database, sql):
    """The default collations of MySQL and MariaDB compare "S" and "s" as equal, and most of them
    "s " and "s".
    """
    assert NAME.compile(database) == sql


@pytest.mark.parametrize(("url", "sql"), [("mysql://", "LONGTEXT"), ("mariadb://", "LONGTEXT"), ("sqlite://", "TEXT")])
def test_a_text_has_any_length(url, sql):
    """MySQL's TEXT has at most 65535 bytes."""
    assert TEXT.compile(dialect(url)) == sql


def test_numbers_grow_when_the_clock_stands_still_or_is_set_back(monkeypatch):
    moments = iter([100, 100, 50, 200])
    monkeypatch.setattr("subscriber.catalog.rows.time.time_ns", lambda: next(moments))
    numbers = RowNumbers()
    assert [numbers.next() for _ in range(4)] == [100, 101, 102, 200]


def test_threads_never_get_the_same_number():
    numbers = RowNumbers()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: [numbers.next() for _ in range(1000)], range(8)))
    assert all(part == sorted(part) for part in found)
    assert len({number for part in found for number in part}) == 8000
