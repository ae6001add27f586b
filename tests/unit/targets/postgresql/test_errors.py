"""Translation of PostgreSQL's errors: names are taken from them, values are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.base.errors import (
    ApplyError,
    ConflictError,
    TargetRelationError,
    TargetUnavailable,
    UnsupportedValue,
)
from subscriber.targets.postgresql.errors import (
    PostgreSQLErrors,
    column_of_parameter,
    explain_prepared,
    translate_copy,
    translate_sqlstate,
)
from subscriber.targets.postgresql.target import read_server_text


@pytest.mark.parametrize(
    ("sqlstate", "next_step"),
    [
        ("28P01", "password"),
        ("53100", "Free space"),
        ("53300", "max_connections"),
        ("55P03", "pg_locks"),
        ("57014", "statement_timeout"),
        ("57P03", "tries again"),
    ],
)
def test_a_target_that_is_not_available_says_what_to_do(sqlstate, next_step):
    error = translate_sqlstate(sqlstate, SimpleNamespace(message_primary="secret"))
    assert (error.transient, error.sqlstate) == (True, sqlstate)
    assert next_step in str(error.hint)
    assert "secret" not in error.report()


def diagnostics(**fields: str) -> SimpleNamespace:
    """psycopg's diagnostics, with values in the fields that may contain a row."""
    names = ("constraint_name", "table_name", "column_name", "datatype_name")
    secrets = {"message_primary": "secret", "message_detail": "secret", "context": "secret"}
    return SimpleNamespace(**(dict.fromkeys(names) | secrets | fields))


@pytest.mark.parametrize(
    ("sqlstate", "fields", "message", "column"),
    [
        ("23505", {"constraint_name": "u"}, 'duplicate key value violates unique constraint "u"', None),
        ("23502", {"table_name": "t", "column_name": "a"}, 'null value in column "a" of relation "t" violates not-null constraint', "a"),
        ("23503", {"table_name": "t", "constraint_name": "f"}, 'change of table "t" violates foreign key constraint "f"', None),
        ("23P01", {"constraint_name": "e"}, 'conflicting key value violates exclusion constraint "e"', None),
        ("23514", {"table_name": "t", "constraint_name": "c"}, 'new row for relation "t" violates check constraint "c"', None),
        ("23514", {"datatype_name": "d", "constraint_name": "c"}, 'value for domain d violates check constraint "c"', None),
        ("23514", {"table_name": "t", "message_primary": "no partition of relation …"}, 'no partition of relation "t" found for row', None),
        ("23514", {"table_name": "t"}, 'new row for relation "t" violates partition constraint', None),
        ("23001", {}, "a constraint forbids the change (SQLSTATE 23001)", None),
    ],
)  # fmt: skip
def test_a_constraint_has_its_name_and_no_values(sqlstate, fields, message, column):
    """C22, names_are_data"""
    error = translate_sqlstate(sqlstate, diagnostics(**fields))
    assert isinstance(error, ConflictError)
    assert (error.sqlstate, error.message, error.column) == (sqlstate, message, column)
    assert "secret" not in error.report()


@pytest.mark.parametrize(
    ("sqlstate", "kind", "message"),
    [
        ("22P02", UnsupportedValue, "invalid input syntax for the column's type"),
        ("22012", UnsupportedValue, "the target cannot hold a value"),
        ("25006", TargetUnavailable, "PostgreSQL takes no writes: it is a standby, or read only"),
        ("40P01", TargetUnavailable, "PostgreSQL is not available (deadlock detected, SQLSTATE 40P01)"),
        ("58030", TargetUnavailable, "PostgreSQL is not available (SQLSTATE 58030)"),
        ("P0001", ConflictError, "a trigger of the target refused the change"),
        ("55000", ApplyError, "PostgreSQL refused a statement (SQLSTATE 55000)"),
        ("XX000", ApplyError, "PostgreSQL refused a statement (SQLSTATE XX000)"),
    ],
)
def test_the_class_of_the_sqlstate_gives_the_error(sqlstate, kind, message):
    """names_are_data"""
    error = translate_sqlstate(sqlstate, diagnostics())
    assert (type(error), error.sqlstate, error.message) == (kind, sqlstate, message)
    assert "secret" not in error.report()


@pytest.mark.parametrize("sqlstate", ["42703", "0A000"])
def test_a_message_about_names_is_the_servers(sqlstate):
    error = translate_sqlstate(sqlstate, diagnostics(message_primary='column "b" does not exist'))
    assert isinstance(error, TargetRelationError)
    assert error.message == 'column "b" does not exist'


@pytest.mark.parametrize(
    ("context", "column"),
    [
        ("unnamed portal parameter $2 = 'secret'", "b"),
        ("named portal parameter $1 = 'secret'", "a"),
        ("unnamed portal parameter $3 = 'secret'", None),
        ("PL/pgSQL function f() unnamed portal parameter $1", None),
        ("", None),
    ],
)
def test_the_column_of_a_parameter_is_found_by_its_number(context, column):
    assert column_of_parameter(context, ["a", "b"]) == column


@pytest.mark.parametrize(
    ("context", "column"),
    [
        ('COPY t, line 7, column a: "secret"', "a"),
        ('COPY t, line 7, column a: b: "secret"', "a: b"),
        ('COPY u, line 7, column a: "secret"', None),
        ("COPY t, line 7", None),
    ],
)
def test_the_column_of_a_copy_is_one_that_was_copied(context, column):
    """names_are_data: a column's name may have a colon."""
    error = SimpleNamespace(sqlstate="22P02", diag=diagnostics(context=context))
    assert translate_copy(error, "t", ["a", "a: b"]).column == column


def test_a_copy_that_loses_the_connection_is_unavailable():
    assert translate_copy(SimpleNamespace(sqlstate=None), "t", []).transient


def raised_by_driver(error: psycopg.Error, *, invalidated: bool = False) -> exc.OperationalError:
    return exc.OperationalError("INSERT …", {}, error, connection_invalidated=invalidated)


@pytest.mark.parametrize(
    "error",
    [
        raised_by_driver(psycopg.OperationalError('connection to server at "h"\n failed')),
        raised_by_driver(psycopg.errors.AdminShutdown('connection to server at "h" failed'), invalidated=True),
    ],
    ids=["no connection", "a lost connection"],
)
def test_a_connection_that_fails_is_told_in_libpqs_words(error):
    translated = PostgreSQLErrors().translate(error)
    assert isinstance(translated, TargetUnavailable)
    assert translated.detail == 'connection to server at "h" failed'
    assert "target's URL" in str(translated.hint)


def test_an_error_of_the_server_is_translated_by_its_sqlstate():
    error = exc.DataError("INSERT …", {}, psycopg.errors.InvalidTextRepresentation("secret"))
    translated = PostgreSQLErrors().translate(error, ["a"])
    assert (type(translated), translated.sqlstate) == (UnsupportedValue, "22P02")


def test_an_error_without_an_sqlstate_is_translated_by_its_class():
    error = exc.DataError("INSERT …", {}, psycopg.DataError("secret"))
    assert PostgreSQLErrors().translate(error).message == "PostgreSQL cannot hold a value exactly (DataError)"


def test_an_error_of_a_prepared_transaction_is_told_in_postgresqls_words():
    """C50, C52: any other error stays as it is."""
    error = TargetUnavailable("locked", sqlstate="55P03")
    assert explain_prepared(error, "g") is error
    disabled = explain_prepared(ApplyError("refused", sqlstate="55000"), "g")
    assert disabled.message == "prepared transactions are disabled"
    assert "max_prepared_transactions" in str(disabled.hint)


class _Result:
    """A result of libpq: names, type OIDs and texts of its columns."""

    def __init__(self, columns: dict[str, int], *rows: tuple[bytes | None, ...]) -> None:
        self._columns, self._rows = columns, rows
        self.nfields, self.ntuples = len(columns), len(rows)

    def fname(self, column: int) -> bytes:
        return [*self._columns][column].encode("latin1")

    def ftype(self, column: int) -> int:
        return [*self._columns.values()][column]

    def get_value(self, row: int, column: int) -> bytes | None:
        return self._rows[row][column]


def test_a_result_is_read_as_the_servers_text():
    """In the connection's encoding; psycopg's Python values have no infinity for a date."""
    answer = _Result({"é": 1082, "b": 25}, (b"infinity", "ü".encode("latin1")), (None, b""))
    connection = SimpleNamespace(info=SimpleNamespace(encoding="latin1"))
    cursor: Any = SimpleNamespace(cursor=SimpleNamespace(pgresult=answer, connection=connection))
    result = read_server_text(cast("sa.CursorResult[Any]", cursor))
    assert result.rows == [("infinity", "ü"), (None, "")]
    assert (result.names, result.type_oids) == (("é", "b"), (1082, 25))
