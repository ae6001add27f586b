"""Errors of any driver, by the class of SQLAlchemy's exception."""

from __future__ import annotations

import pytest
from sqlalchemy import exc

from subscriber.base.errors import ConflictError, TargetError, TargetUnavailable, UnsupportedValue
from subscriber.targets.base.errors import Errors
from tests.unit.targets.tables import execute

ERRORS = Errors("the target")


class DriverError(Exception):
    """An error of a driver, which quotes a row in its text."""


def raised_by_driver(kind: type[exc.DBAPIError], *, invalidated: bool = False) -> exc.DBAPIError:
    return kind("INSERT …", {}, DriverError("secret"), connection_invalidated=invalidated)


@pytest.mark.parametrize(
    ("kind", "translation", "sqlstate", "message"),
    [
        (exc.IntegrityError, ConflictError, "23000", "a constraint of the target forbids the change (DriverError)"),
        (exc.DataError, UnsupportedValue, "22000", "the target cannot hold a value exactly (DriverError)"),
        (exc.OperationalError, TargetUnavailable, "08006", "the target is not available (DriverError)"),
        (exc.InterfaceError, TargetUnavailable, "08006", "the target is not available (DriverError)"),
        (exc.ProgrammingError, TargetError, TargetError.sqlstate, "the target refused a statement (DriverError)"),
        (exc.InternalError, TargetError, TargetError.sqlstate, "the target refused a statement (DriverError)"),
    ],
)
def test_the_class_of_the_exception_gives_the_error(kind, translation, sqlstate, message):
    """names_are_data: the driver's text is discarded."""
    error = ERRORS.translate(raised_by_driver(kind), ["a"])
    assert type(error) is translation
    assert (error.sqlstate, error.message, error.column) == (sqlstate, message, None)
    assert "secret" not in error.report()


@pytest.mark.parametrize("kind", [exc.IntegrityError, exc.OperationalError, exc.ProgrammingError])
def test_a_lost_connection_is_unavailable_whatever_the_exception_is(kind):
    error = ERRORS.translate(raised_by_driver(kind, invalidated=True))
    assert isinstance(error, TargetUnavailable)
    assert (error.message, error.transient) == ("the connection to the target was lost", True)


def test_a_pool_without_a_free_connection_is_unavailable():
    error = ERRORS.translate(exc.TimeoutError("QueuePool limit"))
    assert isinstance(error, TargetUnavailable)
    assert error.message == "the target is not available (TimeoutError)"


def test_an_error_of_sqlalchemy_itself_is_named_by_its_class(target):
    with pytest.raises(TargetError, match="ResourceClosedError"), target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a)").all()


def test_reporting_raises_the_translation_without_the_drivers_exception(target):
    """names_are_data: a printed traceback would show the driver's text."""
    execute(target, "CREATE TABLE t (a CHECK (a <> 'secret'))")
    with pytest.raises(ConflictError) as raised, target.reporting(), target.engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES ('secret')")
    assert raised.value.message == "a constraint of the target forbids the change (IntegrityError)"
    assert raised.value.__suppress_context__


def test_reporting_leaves_other_exceptions_alone():
    with pytest.raises(KeyError), ERRORS.reporting():
        raise KeyError
