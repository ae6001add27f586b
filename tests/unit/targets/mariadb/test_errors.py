"""target.mariadb_errors: numbers in our words, with names and never with values."""

from __future__ import annotations

import pytest

from subscriber.targets.mariadb.errors import translate_number


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
