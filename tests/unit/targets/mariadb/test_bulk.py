"""Bulk writes to MariaDB. The server is a recorder of what it receives.

tests/targets/test_bulk.py writes into a real server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
import sqlalchemy as sa
from pymysql.err import IntegrityError, OperationalError

from subscriber.errors import ConflictError, SubscriberError, TargetUnavailable, UnsupportedValue
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.loader import LoadColumn
from subscriber.targets.mariadb import bulk as mariadb_bulk
from subscriber.targets.roles.bulk import BulkColumn

A, B = TargetColumn("a", "int(11)", "int"), TargetColumn("b%", "varchar(3)", "varchar")
TABLE = TargetTable(None, "t", (A, B), ("a",))


@dataclass
class Server:
    """What a connection sends, and what it answers.

    Attributes:
        affected: the affected rows of each text.
        error: the error of every text.
        sent: the statements of each text.
    """

    affected: int = 1
    error: Exception | None = None
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

    @property
    def connection(self) -> sa.Connection:
        """The server as the role uses it."""
        return cast("sa.Connection", SimpleNamespace(connection=SimpleNamespace(driver_connection=self)))


def sent(column: TargetColumn, *values: int | str | None, type_oid: int | None = None) -> BulkColumn:
    array = pa.array(values)
    return BulkColumn(column, type_oid or (25 if pa.types.is_string(array.type) else 23), array)


def test_inserted_rows_are_in_one_statement(target):
    server = Server(affected=2)
    assert target.bulk.insert(server.connection, TABLE, [sent(A, 2, 1), sent(B, "it", None)]) == 2
    assert server.sent == [["INSERT INTO `t` (`a`, `b%`) VALUES (2, 'it'),(1, NULL)"]]


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
