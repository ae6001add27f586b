"""Translation of MariaDB's errors: names are taken from their texts, values are not."""

from __future__ import annotations

import pytest
from sqlalchemy import exc

from subscriber.base.errors import ConflictError, TargetError, TargetUnavailable, UnsupportedValue
from subscriber.targets.mariadb.errors import PACKET_TOO_LARGE, MariaDBErrors, translate_number


@pytest.mark.parametrize(
    ("number", "text", "message", "hint"),
    [
        (
            1142,
            "INSERT command denied to user 'u'@'localhost' for table `d`.`t`",
            'permission denied: INSERT on table "d.t" (error 1142, TABLEACCESS_DENIED_ERROR)',
            "Run in the target: GRANT INSERT ON `d`.`t` TO 'u'@'localhost';",
        ),
        (
            1142,
            "DELETE command denied to user 'u'@'%' for table 't'",
            'permission denied: DELETE on table "t" (error 1142, TABLEACCESS_DENIED_ERROR)',
            "Run in the target: GRANT DELETE ON `t` TO 'u'@'%';",
        ),
        (
            1143,
            "UPDATE command denied to user 'u'@'%' for column 'b' in table 't'",
            'permission denied: UPDATE on column "b" of table "t" (error 1143, COLUMNACCESS_DENIED_ERROR)',
            "Run in the target: GRANT UPDATE (`b`) ON `t` TO 'u'@'%';",
        ),
        (
            1227,
            "Access denied; you need (at least one of) the SUPER, BINLOG ADMIN privilege(s) for this operation",
            "permission denied: SUPER, BINLOG ADMIN is needed (error 1227, SPECIFIC_ACCESS_DENIED_ERROR)",
            "Grant the user",
        ),
        (
            1142,
            "something else",
            "MariaDB refused a statement (error 1142, TABLEACCESS_DENIED_ERROR)",
            "Grant the user",
        ),
    ],
)
def test_a_missing_privilege_names_the_statement_and_the_table(number, text, message, hint):
    error = translate_number(number, text)
    assert (error.message, error.sqlstate) == (message, "42501")
    assert str(error.hint).startswith(hint)


@pytest.mark.parametrize(
    ("number", "text", "sqlstate", "message", "column"),
    [
        (1062, "Duplicate entry 'secret' for key 'PRIMARY'", "23505", 'duplicate key value violates unique constraint "PRIMARY"', None),
        (1586, "Duplicate entry 'secret' for key 't.u'", "23505", 'duplicate key value violates unique constraint "t.u"', None),
        (1022, "Can't write; duplicate key in table 't'", "23505", "duplicate key value violates unique constraint", None),
        (1048, "Column 'b' cannot be null", "23502", "null value violates not-null constraint", "b"),
        (1364, "Field 'b' doesn't have a default value", "23502", "null value violates not-null constraint", None),
        (1452, "Cannot add or update a child row: a foreign key constraint fails (…)", "23503", "change violates foreign key constraint", None),
        (4025, "CONSTRAINT `c` failed for `db`.`t`", "23514", 'new row violates check constraint "c"', None),
        (3819, "Check constraint 'c' is violated.", "23514", 'new row violates check constraint "c"', None),
        (1644, "secret", "P0001", "a trigger of the target refused the change", None),
    ],
)  # fmt: skip
def test_a_constraint_has_its_sqlstate_and_its_name(number, text, sqlstate, message, column):
    """C22, names_are_data"""
    error = translate_number(number, text)
    assert isinstance(error, ConflictError)
    assert (error.sqlstate, error.message, error.column) == (sqlstate, message, column)
    assert "secret" not in error.report()


@pytest.mark.parametrize(
    ("number", "text", "sqlstate", "column"),
    [
        (1264, "Out of range value for column 'a' at row 1", "22003", "a"),
        (1264, "Out of range value for column `db`.`t`.`a` at row 12", "22003", "a"),
        (1265, "Data truncated for column 'a' at row 1", "22001", "a"),
        (1406, "Data too long for column 'a' at row 1", "22001", "a"),
        (1292, "Incorrect date value: 'secret' for column `db`.`t`.`a` at row 1", "22007", "a"),
        (1292, "Truncated incorrect DOUBLE value: 'secret'", "22007", None),
        (1366, "Incorrect integer value: 'secret' for column `db`.`t`.`a` at row 1", "22P02", "a"),
        (1366, r"Incorrect string value: '\xF0secret' for column `db`.`t`.`a` at row 1", "22021", "a"),
    ],
)
def test_a_value_that_does_not_fit_names_its_column_and_not_itself(number, text, sqlstate, column):
    """names_are_data"""
    error = translate_number(number, text)
    assert isinstance(error, UnsupportedValue)
    assert (error.sqlstate, error.column) == (sqlstate, column)
    assert "secret" not in error.report()


@pytest.mark.parametrize("number", [1153, 1301])
def test_a_value_that_is_larger_than_a_packet_says_which_setting_to_raise(number):
    error = translate_number(number, "Got a packet bigger than 'max_allowed_packet' bytes")
    assert isinstance(error, UnsupportedValue)
    assert error.sqlstate == PACKET_TOO_LARGE == "54000"
    assert "max_allowed_packet" in str(error.hint)


@pytest.mark.parametrize(
    "number", [1040, 1045, 1053, 1130, 1205, 1213, 1290, 1317, 1412, 2003, 2006, 2013, 3024, 1836, 1698]
)
def test_an_error_that_may_end_by_itself_is_tried_again(number):
    error = translate_number(number, "Access denied for user 'u'@'h'")
    assert isinstance(error, TargetUnavailable)
    assert error.transient
    assert f"error {number}" in error.message


@pytest.mark.parametrize("number", [1045, 2003])
def test_a_connection_that_fails_is_told_with_the_servers_words(number):
    error = translate_number(number, "Can't connect to\nMySQL server on 'h'")
    assert error.detail == "Can't connect to MySQL server on 'h'"
    assert "target's URL" in str(error.hint)


def test_a_row_that_stays_locked_says_who_may_hold_it():
    error = translate_number(1205, "Lock wait timeout exceeded; try restarting transaction")
    assert error.message == "MariaDB is not available (error 1205, LOCK_WAIT_TIMEOUT)"
    assert "XA RECOVER" in str(error.hint)


@pytest.mark.parametrize(
    ("text", "unavailable"),
    [('Got error 28 "No space left on device" from storage engine InnoDB', True), ("Got error 1 from engine", False)],
)
def test_a_failure_of_the_storage_engine_is_tried_again_if_the_disk_is_full(text, unavailable):
    error = translate_number(1030, text)
    assert isinstance(error, TargetUnavailable) is unavailable


def test_any_other_number_is_named_without_the_text():
    """names_are_data"""
    error = translate_number(1064, "You have an error in your SQL syntax near 'secret'")
    assert type(error) is TargetError
    assert error.message == "MariaDB refused a statement (error 1064, PARSE_ERROR)"
    assert translate_number(9999, "secret").message == "MariaDB refused a statement (error 9999)"


@pytest.mark.parametrize(
    ("number", "hint"), [(1059, "64 letters"), (1118, "8,126"), (1005, "same type"), (1665, "binlog_format")]
)
def test_what_a_user_can_do_is_in_the_hint(number, hint):
    assert hint in str(translate_number(number, "").hint)


def raised_by_driver(*arguments: object) -> exc.OperationalError:
    return exc.OperationalError("INSERT …", {}, Exception(*arguments))


def test_a_driver_error_is_translated_by_its_number():
    error = MariaDBErrors().translate(raised_by_driver(1048, "Column 'b' cannot be null"))
    assert (error.sqlstate, error.column) == ("23502", "b")
    assert MariaDBErrors().translate(raised_by_driver(1213)).transient


@pytest.mark.parametrize("arguments", [(), ("secret",)])
def test_a_driver_error_without_a_number_is_translated_by_its_class(arguments):
    error = MariaDBErrors().translate(raised_by_driver(*arguments))
    assert isinstance(error, TargetUnavailable)
    assert error.message == "MariaDB is not available (Exception)"
