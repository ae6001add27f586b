"""Translation of DuckDB's errors, by the class of the exception."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sqlalchemy import exc
from typing_extensions import override

from subscriber.base.errors import ConflictError, SubscriberError, TargetError, TargetUnavailable, UnsupportedValue
from subscriber.targets.base.errors import Errors
from subscriber.targets.database_files import hint_at, holders, is_locked, obstacle

_CONSTRAINTS: Final = (
    ("Duplicate key", "23505", "duplicate key value violates unique constraint"),
    ("PRIMARY KEY or UNIQUE constraint", "23505", "duplicate key value violates unique constraint"),
    ("Data contains duplicates", "23505", "could not create unique index, because rows have the same key"),
    ("NOT NULL constraint failed", "23502", "null value violates not-null constraint"),
    ("Violates foreign key constraint", "23503", "change violates foreign key constraint"),
    ("CHECK constraint failed", "23514", "new row violates check constraint"),
)
_VALUES: Final = frozenset(
    {"ConversionException", "OutOfRangeException", "InvalidInputException", "TypeMismatchException"}
)
_UNKNOWN_OPTION: Final = re.compile(r'unrecognized configuration parameter "(\w+)"')
_UNAVAILABLE: Final = frozenset({"IOException", "ResourceInUseException", "InterruptException", "ConnectionException"})


class DuckDBErrors(Errors):
    def __init__(self, file: str) -> None:
        super().__init__("DuckDB")
        self._file = file

    @override
    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        original = getattr(error, "orig", None)
        return super().translate(error, columns) if original is None else self.translate_driver(original)

    def translate_driver(self, error: BaseException) -> SubscriberError:
        """The translation of an error that the driver's connection raised, without SQLAlchemy."""
        return _translate(type(error).__name__, str(error), self._file)

    @contextmanager
    def reporting_driver(self) -> Iterator[None]:
        """As :meth:`reporting`, for errors of the driver's connection."""
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            raise self.translate_driver(error) from None
        except RuntimeError as error:
            if is_interruption(error):
                raise KeyboardInterrupt from None
            raise


def is_interruption(error: BaseException) -> bool:
    """Whether DuckDB has replaced the KeyboardInterrupt that ends its query by this error."""
    return type(error) is RuntimeError and str(error) == "Query interrupted"


def _translate(kind: str, text: str, database: str) -> SubscriberError:
    if kind == "ConstraintException":
        for words, sqlstate, message in _CONSTRAINTS:
            if words in text:
                null = re.search(r"NOT NULL constraint failed: .*\.([^.\n]+)", text)
                column = null[1] if null and sqlstate == "23502" else None
                return ConflictError(message, sqlstate=sqlstate, column=column)
        return ConflictError("a constraint of DuckDB forbids the change", sqlstate="23000")
    if kind in _VALUES:
        return UnsupportedValue("a value does not fit the column's type", sqlstate="22000")
    if kind == "TransactionException":
        return TargetUnavailable(
            "another transaction changed the same rows of the DuckDB database",
            sqlstate="40001",
            hint="A run tries the change again.",
        )
    if kind == "OutOfMemoryException":
        return TargetUnavailable(
            f"DuckDB has reached its memory limit with the database {database}",
            sqlstate="53200",
            hint="Raise the limit in the target URL, such as duckdb:///….duckdb?memory_limit=8GB. A run tries the change again.",
        )
    if kind == "CatalogException" and "already exists" in text:
        return TargetError(
            "DuckDB has a table or a column of this name already",
            sqlstate="42P07",
            hint='Its names do not distinguish upper and lower case. Option "map" replicates a table into a table of another name.',
        )
    if kind in _UNAVAILABLE:
        if "not a valid DuckDB database file" in text:
            return TargetError(
                f"{database} is not a DuckDB database",
                hint="Name another file in the target URL; this file has not been changed.",
            )
        processes = holders(database) if is_busy(kind, text) else []
        if processes:
            return _in_use(database, processes)
        found = obstacle(database) if kind == "IOException" else None
        return TargetUnavailable(
            f"the DuckDB database {database} is not available ({kind})",
            hint="Another process may have it open, or its disk may be full. A run tries the change again."
            if found is None
            else hint_at(found, "duckdb"),
        )
    if kind == "CatalogException" and (unknown := _UNKNOWN_OPTION.search(text)):
        return TargetError(
            f'DuckDB does not know the option "{unknown[1]}" of the target URL',
            hint="The options are DuckDB's settings, such as duckdb:///….duckdb?memory_limit=2GB.",
        )
    if kind == "CatalogException":
        # The error is about something that does not exist, or that exists already. Its first line
        # contains only names; the other lines quote the statement.
        return TargetError(text.partition("\n")[0].removeprefix("Catalog Error: "), hint=f"The database is {database}.")
    return TargetError(f"DuckDB refused a statement ({kind})", hint=f"The database is {database}.")


def is_busy(kind: str, text: str) -> bool:
    """Whether another process has the file open, or another thread is just closing it."""
    return kind == "ResourceInUseException" or (kind == "IOException" and "lock" in text)


def _in_use(database: str, processes: Sequence[str]) -> TargetUnavailable:
    if is_locked(database):
        hint = (
            "`subscriber run` has it open for a batch or the copy of a table, and closes it for others when that transaction"
            " has ended: `subscriber status` shows which it is, and the same command then works."
        )
    else:
        hint = "Close it there, or end that process. A run tries the change again."
    return TargetUnavailable(
        f"the DuckDB database {database} is in use by another process",
        detail=f"It is open in {', '.join(processes)}.",
        hint=hint,
    )
