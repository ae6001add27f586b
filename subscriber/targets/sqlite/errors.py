"""Translation of SQLite's errors by result codes; only names of the schema and file are shown."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sqlalchemy import exc
from typing_extensions import override

from subscriber.base.errors import ConflictError, SubscriberError, TargetError, TargetUnavailable, UnsupportedValue
from subscriber.targets.base.errors import Errors
from subscriber.targets.database_files import hint_at, obstacle

_CONSTRAINTS: Final = {
    "SQLITE_CONSTRAINT_NOTNULL": ("23502", "null value violates not-null constraint"),
    "SQLITE_CONSTRAINT_FOREIGNKEY": ("23503", "change violates foreign key constraint"),
    "SQLITE_CONSTRAINT_UNIQUE": ("23505", "duplicate key value violates unique constraint"),
    "SQLITE_CONSTRAINT_PRIMARYKEY": ("23505", "duplicate key value violates unique constraint"),
    "SQLITE_CONSTRAINT_ROWID": ("23505", "duplicate key value violates unique constraint"),
    "SQLITE_CONSTRAINT_CHECK": ("23514", "new row violates check constraint"),
    "SQLITE_CONSTRAINT_TRIGGER": ("P0001", "a trigger of the target refused the change"),
}
_NAMELESS: Final = {3091: "SQLITE_CONSTRAINT_DATATYPE"}
"""Result codes for which Python's sqlite3 has no name."""
_ABOUT_NAMES: Final = re.compile(
    r'no such \w+: .*|ambiguous column name: .*|near "\w+": syntax error|incomplete input'
    r"|Expression tree is too large \(maximum depth \d+\)|too many SQL variables|too many columns .*"
)
"""They contain words of the statement, but nothing of any row."""
_QUOTES: Final = str.maketrans("'", '"')
_UNAVAILABLE: Final = ("BUSY", "READONLY", "LOCKED", "CANTOPEN", "IOERR", "FULL", "PROTOCOL", "NOMEM", "INTERRUPT")


_CODES_OF_TEXTS: Final = (
    (re.compile(r"UNIQUE constraint failed: .*", re.DOTALL), "SQLITE_CONSTRAINT_UNIQUE"),
    (re.compile(r"NOT NULL constraint failed: .*", re.DOTALL), "SQLITE_CONSTRAINT_NOTNULL"),
    (re.compile(r"CHECK constraint failed: .*", re.DOTALL), "SQLITE_CONSTRAINT_CHECK"),
    (re.compile(r"FOREIGN KEY constraint failed.*", re.DOTALL), "SQLITE_CONSTRAINT_FOREIGNKEY"),
    (re.compile(r"cannot store .* \(19\)", re.DOTALL), "SQLITE_CONSTRAINT_DATATYPE"),
    (re.compile(r"database is locked.*|Locking error: .*", re.DOTALL), "SQLITE_BUSY"),
    (re.compile(r"(?i:.*file is not a database.*)", re.DOTALL), "SQLITE_NOTADB"),
    (re.compile(r"(?i:i/o error.*)", re.DOTALL), "SQLITE_IOERR"),
    (re.compile(r"interrupted?", re.IGNORECASE), "SQLITE_INTERRUPT"),
)
"""The result codes of a driver that has only texts."""


class SQLiteErrors(Errors):
    """``driver_error`` is the class of the driver's errors."""

    def __init__(self, file: str, driver_error: type[Exception] = sqlite3.Error, database: str = "SQLite") -> None:
        super().__init__(database)
        self._file = file
        self._driver_error = driver_error

    @override
    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        original = getattr(error, "orig", None)
        if isinstance(original, self._driver_error) and _result_code(original) is not None:
            return self.translate_driver(original)
        return super().translate(error, columns)

    def translate_driver(self, error: Exception) -> SubscriberError:
        """The translation of an error that the driver's connection raised, without SQLAlchemy."""
        name = _result_code(error)
        if name is None:
            return UnsupportedValue(f"{self.database} cannot hold a value exactly ({type(error).__name__})")
        return _translate(name, str(error).removeprefix("Parse error: "), self._file, self.database)

    @contextmanager
    def reporting_driver(self) -> Iterator[None]:
        """As :meth:`reporting`, for errors of the driver's connection."""
        try:
            yield
        except self._driver_error as error:
            raise self.translate_driver(error) from None


def _result_code(error: Exception) -> str | None:
    name = _NAMELESS.get(getattr(error, "sqlite_errorcode", 0)) or getattr(error, "sqlite_errorname", None)
    if name is not None or isinstance(error, sqlite3.Error):
        return name
    return next((code for text, code in _CODES_OF_TEXTS if text.fullmatch(str(error))), "SQLITE_ERROR")


def is_locked_file(error: Exception) -> bool:
    """Whether another process has locked the whole file."""
    return str(error).startswith("Locking error: ")


def _translate(name: str, text: str, file: str, database: str) -> SubscriberError:
    if name in _CONSTRAINTS:
        sqlstate, message = _CONSTRAINTS[name]
        column = text.rpartition(".")[2] if name == "SQLITE_CONSTRAINT_NOTNULL" else None
        return ConflictError(message, sqlstate=sqlstate, detail=_constraint_detail(name, text), column=column)
    if name in ("SQLITE_CONSTRAINT_DATATYPE", "SQLITE_MISMATCH", "SQLITE_TOOBIG"):
        # "cannot store TEXT value in INTEGER column t.a", in a STRICT table.
        column = text.rpartition(".")[2] if name == "SQLITE_CONSTRAINT_DATATYPE" else None
        return UnsupportedValue("a value does not fit the column's type", sqlstate="22000", column=column)
    if name.startswith("SQLITE_CONSTRAINT"):
        return ConflictError("a constraint of the target forbids the change", sqlstate="23000")
    kind = name.removeprefix("SQLITE_").partition("_")[0]
    if kind in _UNAVAILABLE:
        found = obstacle(file) if kind in ("CANTOPEN", "READONLY") else None
        return TargetUnavailable(
            f"the {database} database {file} is not available ({name})",
            hint="Another program may hold it locked, its disk may be full, or it may be read-only. A run tries the change again."
            if found is None
            else hint_at(found, "sqlite"),
        )
    if name == "SQLITE_NOTADB":
        return TargetError(
            f"{file} is not a {database} database ({name})",
            hint="Name another file in the target URL; this file has not been changed.",
        )
    if name == "SQLITE_ERROR" and _ABOUT_NAMES.fullmatch(text):
        return TargetError(text, sqlstate="42000")
    return TargetError(f"{database} refused a statement ({name})", hint=f"The database is {file}.")


def _constraint_detail(name: str, text: str) -> str | None:
    # "UNIQUE constraint failed: t.a, t.b" contains names of the schema, never values. The message
    # of a CHECK may contain its expression, which may have constants of the schema, and the text of
    # a trigger may contain anything. Both are left out.
    if name not in ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_NOTNULL"):
        return None
    _, _, place = text.partition("constraint failed: ")
    if place.startswith("index "):
        return f"Key already exists in unique index {place.removeprefix('index ').translate(_QUOTES)}."
    if name == "SQLITE_CONSTRAINT_NOTNULL":
        return f'Column "{place.rpartition(".")[2]}" must not be null.'
    columns = ", ".join(part.rpartition(".")[2] for part in place.split(", "))
    return f"Key ({columns}) already exists."
