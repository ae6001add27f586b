"""Translation of MariaDB's and MySQL's errors, by their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from pymysql.err import MySQLError
from sqlalchemy import exc
from typing_extensions import override

from subscriber.base.errors import ConflictError, SubscriberError, TargetError, TargetUnavailable, UnsupportedValue
from subscriber.targets.base.errors import Errors

MARIADB: Final = "MariaDB"
_CONSTRAINTS: Final = {
    1022: ("23505", "duplicate key value violates unique constraint"),
    1062: ("23505", "duplicate key value violates unique constraint"),
    1586: ("23505", "duplicate key value violates unique constraint"),
    1048: ("23502", "null value violates not-null constraint"),
    1263: ("23502", "null value violates not-null constraint"),
    1364: ("23502", "null value violates not-null constraint"),
    1216: ("23503", "change violates foreign key constraint"),
    1217: ("23503", "change violates foreign key constraint"),
    1451: ("23503", "change violates foreign key constraint"),
    1452: ("23503", "change violates foreign key constraint"),
    3819: ("23514", "new row violates check constraint"),
    4025: ("23514", "new row violates check constraint"),
    1644: ("P0001", "a trigger of the target refused the change"),
}
PACKET_TOO_LARGE: Final = "54000"
_VALUES: Final = {
    1301: (PACKET_TOO_LARGE, "a value is larger than the server's max_allowed_packet"),
    1153: (PACKET_TOO_LARGE, "a value is larger than the server's max_allowed_packet"),
    1264: ("22003", "value out of range for the column's type"),
    1265: ("22001", "value would be cut to the column's type"),
    1292: ("22007", "invalid input syntax for the column's type"),
    1366: ("22P02", "invalid input syntax for the column's type"),
    1406: ("22001", "value too long for the column's type"),
    1411: ("22007", "invalid input syntax for the column's type"),
}
_CHARACTER: Final = ("22021", "character not in the column's character set")
"""Error 1366 has this meaning too."""
_LOCK_WAIT_TIMEOUT: Final = 1205
_DENIED: Final = frozenset({1142, 1143, 1227, 1370})
_UNAVAILABLE: Final = frozenset(
    {
        1040,
        1041,
        1044,
        1045,
        1049,
        1053,
        1077,
        1129,
        1158,
        1159,
        1160,
        1161,
        1203,
        1213,
        1226,
        1290,
        1927,
        2002,
        2003,
    }
    | {2005, 2006, 2013, 2014, 2055, 1020, 1021, 1114, 3024, 1969, 0}
    | {1026, 1037, 1038, 1135, 1206, 1317, 1412, 1613, 1614, 1637, 1792, 1836, 4031}
)
"""Connections, logins, locks, full disks, memory, read-only servers, statements that another
session has ended, and tables altered since the transaction began.
"""
_CONNECTING: Final = frozenset({1044, 1045, 1049, 1130, 1698, 2002, 2003, 2005, 2026})
"""Their texts contain names of hosts, users and databases, and nothing else."""
_CONNECTING_HINT: Final = "Check host, port, user, password and database of the target's URL, and that the server runs."
_DISK_FULL: Final = "Got error 28 "
"""Error 1030, which stands for any failure of a storage engine, begins so if the disk is full."""
_OTHER_NAME: Final = "Use option map to replicate the table into a table of another name."
_NO_KEY: Final = "The server wants a primary key in every table. Set {} = OFF, also for the catalog's tables, or give the table a primary key."
_HINTS: Final = {
    1173: _NO_KEY.format("innodb_force_primary_key"),
    3750: _NO_KEY.format("sql_require_primary_key"),
    1059: f"Its names have 64 letters, and a schema is part of a name. {_OTHER_NAME}",
    1103: f"Its names have 64 letters, and a schema is part of a name. {_OTHER_NAME}",
    1300: f"Its names have no characters beyond U+FFFF. {_OTHER_NAME}",
    1005: "A table has up to 1,017 columns, and the columns of a foreign key have the same type, character set and collation as those"
    " that they refer to. SHOW ENGINE INNODB STATUS in the target says more.",
    1071: "Create the table yourself, with shorter columns in its keys.",
    1118: "A row has up to 65,535 bytes without LONGTEXTs, and less than 8,126 bytes in its page, in which a text of up to 40 bytes counts."
    " Declare long VARCHARs as LONGTEXT, or leave columns out with a column list of the publication.",
    1419: "The server's binary log is on: SET GLOBAL log_bin_trust_function_creators = 1 allows its users to create triggers.",
    1665: "Changes are applied row by row: set binlog_format to ROW or MIXED.",
}

_COLUMN: Final = re.compile(
    r"(?:for column |^Column )(?:`[^`]*`\.`[^`]*`\.)?[`']([^`']+)[`'](?: at row \d+| cannot be null)$"
)
_KEY_NAME: Final = re.compile(r"for key '([^']+)'$")
_CHECK_NAME: Final = re.compile(r"^(?:CONSTRAINT|Check constraint) [`']([^`']+)[`'] ")


class MariaDBErrors(Errors):
    """``database`` is the server's own name as soon as a connection has found it."""

    def __init__(self) -> None:
        super().__init__(MARIADB)

    @override
    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        arguments = getattr(getattr(error, "orig", None), "args", ())
        if not arguments or not isinstance(arguments[0], int):
            return super().translate(error, columns)
        return translate_number(arguments[0], str(arguments[1]) if len(arguments) > 1 else "", self.database)


def translate_driver(error: MySQLError, database: str) -> SubscriberError:
    """As :meth:`Errors.translate`, without SQLAlchemy. The driver's error may quote rows."""
    return translate_number(error.args[0] if error.args else 0, str(error.args[-1]) if error.args else "", database)


def translate_number(number: int, text: str, database: str = MARIADB) -> SubscriberError:
    """Only names are taken from the text, and only from places that cannot contain a value."""
    column = found[1] if (found := _COLUMN.search(text)) else None
    if number in _CONSTRAINTS:
        sqlstate, message = _CONSTRAINTS[number]
        key = found[1] if sqlstate == "23505" and (found := _KEY_NAME.search(text)) else None
        check = found[1] if sqlstate == "23514" and (found := _CHECK_NAME.search(text)) else None
        name = key or check
        return ConflictError(
            message if name is None else f'{message} "{name}"',
            sqlstate=sqlstate,
            column=column,
            detail=None if key is None else f'Key already exists in unique index "{key}".',
        )
    if number in _VALUES:
        sqlstate, message = _CHARACTER if text.startswith("Incorrect string value") else _VALUES[number]
        too_large = sqlstate == PACKET_TOO_LARGE
        hint = "Raise max_allowed_packet of the target's server; it may be up to 1 GB." if too_large else None
        return UnsupportedValue(message, sqlstate=sqlstate, column=column, hint=hint)
    symbol = _names().get(number)
    known = f"error {number}" + ("" if symbol is None else f", {symbol}")
    if number == _LOCK_WAIT_TIMEOUT:
        return TargetUnavailable(
            f"{database} is not available ({known})",
            detail="Another transaction holds a lock on a row that the change needs.",
            hint="A prepared transaction holds its locks until COMMIT PREPARED (XA RECOVER lists them); if the publisher has finished it"
            " since, run XA COMMIT or XA ROLLBACK in the target, too. A row of a table without a key is found by reading the table, which"
            " waits for each of its locks: give the table a primary key.",
        )
    if number in _CONNECTING:
        return TargetUnavailable(
            f"{database} is not available ({known})", detail=" ".join(text.split()), hint=_CONNECTING_HINT
        )
    if number in _UNAVAILABLE or text.startswith(_DISK_FULL):
        return TargetUnavailable(f"{database} is not available ({known})")
    if number in _DENIED:
        return _denied(text, known, database)
    return TargetError(f"{database} refused a statement ({known})", hint=_HINTS.get(number))


_COMMAND_DENIED: Final = re.compile(
    r"^(?P<command>[A-Za-z_ ,]+) command denied to user (?P<user>'[^']*'@'[^']*')"
    r" for (?:column '(?P<column>[^']+)' in )?(?P<kind>table|routine) (?P<name>`[^`]+`\.`[^`]+`|`[^`]+`|'[^']+')$"
)
"""Errors 1142, 1143 and 1370. Their texts contain names, but nothing of any row."""
_PRIVILEGE_NEEDED: Final = re.compile(
    r"you need \(at least one of\) the ([A-Z_, ]+) privilege\(s\) for this operation$"
)
"""The text of error 1227."""


def _denied(text: str, known: str, database: str) -> TargetError:
    if (found := _COMMAND_DENIED.match(text)) is not None:
        command = found["command"].upper()
        name = found["name"].replace("`", "").replace("'", "")
        column = found["column"]
        where = f'{found["kind"]} "{name}"' if column is None else f'column "{column}" of table "{name}"'
        privilege = f"{command} (`{column}`)" if column is not None else command
        place = found["name"] if found["name"].startswith("`") else f"`{name}`"
        grant = f"GRANT {privilege} ON {'PROCEDURE ' if found['kind'] == 'routine' else ''}{place} TO {found['user']};"
        return TargetError(
            f"permission denied: {command} on {where} ({known})",
            sqlstate="42501",
            column=column,
            hint=f"Run in the target: {grant}",
        )
    needed = _PRIVILEGE_NEEDED.search(text)
    return TargetError(
        f"{database} refused a statement ({known})"
        if needed is None
        else f"permission denied: {needed[1]} is needed ({known})",
        sqlstate="42501",
        hint="Grant the user of the target URL SELECT, INSERT, UPDATE and DELETE, and also CREATE and ALTER if subscriber"
        " creates or alters tables.",
    )


@cache
def _names() -> Mapping[int, str]:
    from pymysql.constants import CR, ER  # PyMySQL need not be installed for other targets

    return {
        1792: "CANT_EXECUTE_IN_READ_ONLY_TRANSACTION",
        1836: "READ_ONLY_MODE",
        **{
            number: name.removeprefix("CR_")
            for constants in (ER, CR)
            for name, number in vars(constants).items()
            if isinstance(number, int) and not name.endswith(("_FIRST", "_LAST"))
        },
    }
