"""TRUNCATE in MariaDB. tests/targets/test_writing.py truncates tables of a real server."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pyarrow as pa
import pytest
import sqlalchemy as sa
from pymysql.err import IntegrityError, OperationalError

from subscriber.base.errors import ConflictError, SubscriberError, TargetError, TargetUnavailable, UnsupportedValue
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.base.loading import BulkColumn, LoadColumn, RowStatement
from subscriber.targets.mariadb import writing as mariadb_bulk
from subscriber.targets.mariadb.errors import MariaDBErrors
from subscriber.targets.mariadb.transactions import CounterRestarts
from subscriber.targets.mariadb.writing import MariaDBWriting, literals, packets, pieces
from tests.unit.targets.recorded_server import RecordedServer

URL = "mariadb+pymysql://user@host/db"
COUNTER = TargetColumn("a", "int(11)", "int", nullable=False, null_is_generated=True)
COUNTING = TargetTable(None, "t", (COUNTER,), ("a",))
PLAIN = TargetTable(None, "u", (TargetColumn("a", "int(11)", "int"),), ("a",))


def truncate(server: RecordedServer, *tables: TargetTable, restart_identity: bool) -> list[TargetTable]:
    """The tables whose counters are to be reset."""
    engine, errors = server.engine(URL), MariaDBErrors()
    counters = CounterRestarts(engine, errors)
    with engine.connect() as connection, counters.collected(connection) as wanted:
        MariaDBWriting(errors, counters).truncate(connection, tables, restart_identity=restart_identity)
    return wanted


@pytest.mark.parametrize(("restart", "reset"), [(True, [COUNTING]), (False, [])])
def test_truncate_deletes_all_rows_and_resets_the_counters_later(restart, reset):
    """C29: TRUNCATE and ALTER TABLE would commit."""
    server = RecordedServer()
    assert truncate(server, COUNTING, PLAIN, restart_identity=restart) == reset
    changes = [statement for statement in server.statements if not statement.startswith("SELECT")]
    assert changes == ["CONNECT", "DELETE FROM t", "DELETE FROM u", "ROLLBACK"]


def test_nothing_is_deleted_if_another_table_references_one_of_them():
    """C30"""
    server = RecordedServer({"key_column_usage": [{"place": "db", "name": "c", "here": 1}]})
    with pytest.raises(ConflictError, match="cannot truncate a table referenced in a foreign key constraint"):
        truncate(server, COUNTING, PLAIN, restart_identity=True)
    assert not any(statement.startswith("DELETE") for statement in server.statements)


# The texts of many statements. tests/targets/test_bulk.py executes them on a real server.


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([1, None, -(2**63)]), ["1", "NULL", "-9223372036854775808"]),
        (pa.array([True, False]).cast(pa.int8()), ["1", "0"]),
        (pa.array([b"", b"\x00'\\", None]), ["X''", "X'00275c'", "NULL"]),
        (pa.array(["", "NULL", None, "%s", "é\n"]), ["''", "'NULL'", "NULL", "'%s'", "'é\n'"]),
        (pa.array(["'", "\\", "\\'", "''"]), [r"'\''", r"'\\'", r"'\\\''", r"'\'\''"]),
        (pa.array([], pa.string()), []),
    ],
)
def test_values_become_sql(values, texts):
    assert literals(values).to_pylist() == texts


def test_numbers_are_double_precision_numbers_and_keep_every_digit():
    """Without an exponent the server would read a decimal number."""
    numbers = [0.1, 1.0, 1e22, 1e-7, -2.5, 5e-324, 1.7976931348623157e308, 123456789012345680.0]
    texts = literals(pa.array(numbers)).to_pylist()
    assert [float(text) for text in texts] == numbers
    assert all("e" in text for text in texts)


def test_a_statement_is_cut_at_its_values():
    by_name = RowStatement("UPDATE `%%s` SET b = %(p1)s WHERE a = %(p0)s AND c = %(p0)s", (0, 1), ("p0", "p1"))
    assert pieces(by_name) == (["UPDATE `%s` SET b = ", " WHERE a = ", " AND c = ", ""], [1, 0, 0])
    by_place = RowStatement("INSERT INTO t (a, b) VALUES (%s, %s)", (1, 0), None)
    assert pieces(by_place) == (["INSERT INTO t (a, b) VALUES (", ", ", ")"], [1, 0])


ROWS = [pa.array(["1", "22", "3"]), pa.array(["'a'", "'b'", "NULL"])]


def test_rows_are_joined_into_one_text():
    assert list(packets("I ", ["(", ",", ")"], ROWS, ",", tail=";", most=100)) == [b"I (1,'a'),(22,'b'),(3,NULL);"]
    assert list(packets("", ["U ", " W ", ""], ROWS, ";", most=100)) == [b"U 1 W 'a';U 22 W 'b';U 3 W NULL"]


@pytest.mark.parametrize(
    ("most", "texts"),
    [
        (1, [b"x1|", b"x22|", b"x3|"]),
        (5, [b"x1|", b"x22|", b"x3|"]),
        (6, [b"x1,22|", b"x3|"]),
        (7, [b"x1,22|", b"x3|"]),
        (8, [b"x1,22,3|"]),
    ],
)
def test_a_text_has_as_many_rows_as_fit(most, texts):
    """A row that is too large has a text of its own: the server refuses it, or not."""
    assert list(packets("x", ["", ""], ROWS[:1], ",", tail="|", most=most)) == texts


def test_a_slice_of_rows_has_only_its_own_rows():
    assert list(packets("", ["", ""], [ROWS[0].slice(1, 1)], ",", most=100)) == [b"22"]
    assert list(packets("", ["", ""], [ROWS[0].slice(0, 0)], ",", most=100)) == []


# Bulk writes to MariaDB. The server is a recorder of what it receives.
#
# tests/targets/test_bulk.py writes into a real server.


A, B = TargetColumn("a", "int(11)", "int"), TargetColumn("b%", "varchar(3)", "varchar")
TABLE = TargetTable(None, "t", (A, B), ("a",))


@dataclass
class Server:
    """What a connection sends, and what it answers.

    Attributes:
        affected: the affected rows of each text.
        error: the error of every text.
        warnings: the rows of SHOW WARNINGS after LOAD DATA: level, number, text.
        largest_statement: the driver's attribute.
        sent: the statements of each text, or LOAD DATA and its data.
    """

    affected: int = 1
    error: Exception | None = None
    warnings: tuple[tuple[str, int, str], ...] = ()
    largest_statement: int = 2**24
    sent: list[list[str]] = field(default_factory=list)

    def query(self, text: bytes) -> int:
        """The driver's function."""
        self.sent.append([text.decode()])
        if self.error is not None:
            raise self.error
        return self.affected

    def query_many(self, text: bytes) -> int:
        """The driver's function."""
        affected = self.query(text)
        self.sent[-1] = text.decode().split(";")
        return affected

    def load(self, statement: str, data: bytes) -> tuple[int, int]:
        """The driver's function."""
        self.sent.append([statement, data.decode()])
        if self.error is not None:
            raise self.error
        return self.affected, len(self.warnings)

    @property
    def connection(self) -> sa.Connection:
        """The server as the role uses it."""
        driver = SimpleNamespace(driver_connection=self)
        warnings = SimpleNamespace(all=lambda: list(self.warnings))
        return cast(
            "sa.Connection", SimpleNamespace(connection=driver, dialect=None, exec_driver_sql=lambda _: warnings)
        )


def sent(column: TargetColumn, *values: int | str | None, type_oid: int | None = None) -> BulkColumn:
    array = pa.array(values)
    return BulkColumn(column, type_oid or (25 if pa.types.is_string(array.type) else 23), array)


def test_inserted_rows_are_in_one_statement(target):
    server = Server(affected=2)
    assert target.bulk.insert(server.connection, TABLE, [sent(A, 2, 1), sent(B, "it", None)]) == 2
    assert server.sent == [["INSERT INTO `t` (`a`, `b%`) VALUES (2, 'it'),(1, NULL)"]]


@pytest.fixture
def loads(target, monkeypatch) -> None:
    """LOAD DATA is quicker from two values on, and exact, and no table has a trigger."""
    target.bulk.loads_exactly = True
    monkeypatch.setattr(mariadb_bulk, "_LEAST_LOADED", 2)
    monkeypatch.setattr(mariadb_bulk, "may_have_trigger", lambda *_: False)


INSERTED = ["INSERT INTO `t` (`a`, `b%`) VALUES (2, 'it'),(1, NULL)"]
LOADED = [
    (
        r"LOAD DATA LOCAL INFILE 'block' INTO TABLE `t` CHARACTER SET utf8mb4"
        r" FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' (`a`, `b%`)"
    ),
    "2\tit\n1\t\\N\n",
]
NEW = [sent(A, 2, 1), sent(B, "it", None)]


def test_many_rows_are_loaded(target, loads):
    server = Server(affected=2)
    assert target.bulk.insert(server.connection, TABLE, NEW) == 2
    assert server.sent == [LOADED]


def test_bytes_are_loaded_as_hexadecimal_digits(target, loads):
    server, blob = Server(affected=2), TargetColumn("c", "longblob", "longblob")
    target.bulk.insert(server.connection, TABLE, [BulkColumn(blob, 17, pa.array([b"\0\n\xff", None]))])
    ((statement, data),) = server.sent
    assert statement.endswith(" (@c0) SET `c` = UNHEX(@c0)")
    assert data == "000aff\n\\N\n"


@pytest.mark.parametrize("patched", ["_LEAST_LOADED", "may_have_trigger", "largest_statement"])
def test_a_few_rows_and_rows_that_a_trigger_sees_and_rows_that_are_too_large_are_inserted(
    target, loads, monkeypatch, patched
):
    """The server ignores errors within a trigger, and limits only the length of a statement."""
    server = Server(affected=2)
    if patched == "largest_statement":
        server.largest_statement = 5
    else:
        monkeypatch.setattr(mariadb_bulk, patched, 5 if patched == "_LEAST_LOADED" else lambda *_: True)
    assert target.bulk.insert(server.connection, TABLE, NEW) == 2
    assert server.sent == [INSERTED]


def test_a_server_that_forbids_local_data_is_not_asked_again(target, loads, monkeypatch):
    server = Server(affected=2)
    load = Mock(side_effect=OperationalError(4166, "The used command is not allowed"))
    monkeypatch.setattr(server, "load", load)
    for _ in range(2):
        assert target.bulk.insert(server.connection, TABLE, NEW) == 2
    assert server.sent == [INSERTED, INSERTED]
    assert load.call_count == 1


@pytest.mark.parametrize(
    ("warning", "error", "again"),
    [
        (("Warning", 1062, "Duplicate entry 'secret' for key 'PRIMARY'"), ConflictError, LOADED),
        (("Note", 1265, "Data truncated for column 'a' at row 1"), UnsupportedValue, INSERTED),
    ],
)
def test_a_warning_is_an_error_and_a_table_whose_values_cause_one_is_not_loaded_again(
    target, loads, warning, error, again
):
    """names_are_data"""
    server = Server(affected=2, warnings=(warning,))
    with pytest.raises(error) as raised:
        target.bulk.insert(server.connection, TABLE, NEW)
    assert "secret" not in raised.value.report()
    server.warnings = ()
    target.bulk.insert(server.connection, TABLE, NEW)
    assert server.sent == [LOADED, again]


def test_rows_that_were_not_loaded_are_an_error(target, loads):
    with pytest.raises(TargetError, match="did not load every row"):
        target.bulk.insert(Server(affected=1).connection, TABLE, NEW)


def test_updates_are_several_statements_in_the_order_of_the_key(target):
    server = Server(affected=2)
    assert target.bulk.update(server.connection, TABLE, [sent(A, 2, 1)], [sent(B, "x", "y")]) == 2
    assert server.sent == [["UPDATE `t` SET `b%`='y' WHERE `t`.`a` = 1", "UPDATE `t` SET `b%`='x' WHERE `t`.`a` = 2"]]


def test_integers_are_deleted_by_a_list(target):
    server = Server(affected=3)
    assert target.bulk.delete(server.connection, TABLE, [sent(A, 2, 3, 1)]) == 3
    assert server.sent == [["DELETE FROM `t` WHERE `t`.`a` IN (1,2,3)"]]


def test_other_keys_are_deleted_by_several_statements(target):
    """C8, C14: a text is compared with the blanks at its end."""
    server = Server()
    target.bulk.delete(server.connection, TABLE, [sent(B, "y", "x")])
    target.bulk.delete(server.connection, TABLE, [sent(B, "y"), sent(A, 1)])
    (first, second), (both,) = server.sent
    found = "DELETE FROM `t` WHERE `t`.`b%` = {0} AND (CAST(`t`.`b%` AS CHAR CHARACTER SET utf8mb4) COLLATE "
    assert first.startswith(found.format("'x'"))
    assert second.startswith(found.format("'y'"))
    assert both.endswith("AND `t`.`a` = 1")


def test_numbers_in_a_column_of_texts_are_not_deleted_by_a_list(target):
    """The server would compare the texts as numbers."""
    server = Server()
    target.bulk.delete(server.connection, TABLE, [sent(B, 1, 2)])
    assert [len(texts) for texts in server.sent] == [2]


def test_a_packet_has_as_many_rows_as_fit_and_the_row_counts_are_added(target, monkeypatch):
    monkeypatch.setattr(mariadb_bulk, "_PACKET", 40)
    server = Server(affected=1)
    assert target.bulk.insert(server.connection, TABLE, [sent(A, 1, 2, 10_000_000)]) == 2
    assert server.sent == [["INSERT INTO `t` (`a`) VALUES (1),(2)"], ["INSERT INTO `t` (`a`) VALUES (10000000)"]]


@pytest.mark.parametrize("action", ["insert", "update", "delete"])
@pytest.mark.parametrize(
    ("error", "translated", "sqlstate"),
    [
        (IntegrityError(1062, "Duplicate entry 'secret' for key 'PRIMARY'"), ConflictError, "23505"),
        (OperationalError(2013, "Lost connection"), TargetUnavailable, None),
    ],
)
def test_an_error_of_the_driver_is_translated(target, action, error, translated, sqlstate):
    """names_are_data"""
    server, key = Server(error=error), [sent(A, 1)]
    arguments = {"insert": (key,), "update": (key, [sent(B, "x")]), "delete": (key,)}[action]
    with pytest.raises(SubscriberError) as raised:
        getattr(target.bulk, action)(server.connection, TABLE, *arguments)
    assert isinstance(raised.value, translated)
    assert sqlstate in (None, raised.value.sqlstate)
    assert "secret" not in raised.value.report()
    assert raised.value.__suppress_context__


def test_a_value_that_the_column_cannot_store_is_refused_before_anything_is_sent(target):
    server = Server()
    with pytest.raises(UnsupportedValue, match="too long"):
        target.bulk.insert(server.connection, TABLE, [sent(A, 1, 2), sent(B, "fit", "four")])
    assert server.sent == []


def test_any_key_is_accepted(target):
    connection = Server().connection
    keys = [[], [LoadColumn(A, 23)], [LoadColumn(B, 25)]]
    assert None not in {target.bulk.least_rows(connection, TABLE, key) for key in keys}
