"""The role ``errors``: the driver's errors become ours, without its text (invariant
names_are_data).
"""

from __future__ import annotations

import traceback

import pytest

from subscriber.base.errors import ConflictError, SubscriberError, TargetError
from tests.targets.tables import created, insert, qualified, shape_of

SHAPE = shape_of({"a": "text", "b": "text"}, ["a"])


@pytest.fixture
def refused(target):
    """Whether an INSERT is refused, and how; in a table that has a row."""
    created(target, SHAPE)
    with target.begin() as connection:
        insert(target, connection, SHAPE, ("secret", "hidden"))

    def refused(*row: str | None) -> SubscriberError:
        with pytest.raises(SubscriberError) as raised, target.begin() as connection:
            insert(target, connection, SHAPE, row)
        return raised.value

    return refused


@pytest.mark.parametrize(("row", "sqlstate"), [(("secret", "hidden"), "23505"), ((None, "hidden"), "23502")])
def test_a_constraint_has_its_sqlstate_and_no_values(refused, target, row, sqlstate):
    error = refused(*row)
    assert isinstance(error, ConflictError)
    assert error.sqlstate == sqlstate
    printed = "".join(traceback.format_exception(error)) + error.report()
    assert "secret" not in printed
    assert "hidden" not in printed


def test_a_refused_statement_is_an_error_without_its_text(target):
    created(target, SHAPE)
    with pytest.raises(SubscriberError) as raised, target.begin() as connection:
        connection.exec_driver_sql(f"SELECT 'secret' FROMM {qualified(target, SHAPE)} WHERE")
    assert "secret" not in "".join(traceback.format_exception(raised.value)) + raised.value.report()


def test_what_is_no_error_of_the_drivers_is_left_alone(target):
    error = TargetError("ours")
    with pytest.raises(TargetError) as raised, target.reporting():
        raise error
    assert raised.value is error
