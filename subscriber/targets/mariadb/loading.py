r"""Loading many rows into MariaDB from blocks of COPY's text, as PostgreSQL writes it.

LOAD DATA reads almost the same format: fields end with a tab, lines end with a line feed, a
backslash escapes, and ``\N`` is NULL. Escapes that MariaDB does not know (``\f``, ``\v``) are
replaced by their characters first. Values of the few types that MariaDB writes in another form pass
through a user variable.

With LOCAL, the server turns errors into warnings and continues. Therefore every warning is raised
as an error, and the number of rows must be the number of lines. If the server does not accept local
data, the rows are parsed here and inserted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa
from pymysql.err import MySQLError

from subscriber.errors import ConflictError, SubscriberError, TargetError
from subscriber.targets.generic.loading import GenericLoading
from subscriber.targets.loader import BlockFormat, LoadColumn, insert_blocks, insert_statement, write_block
from subscriber.targets.mariadb.errors import translate_driver, translate_number
from subscriber.targets.mariadb.values import conversion_of, from_text
from subscriber.targets.target_table import TargetTable
from subscriber.types import decode_column

_FORBIDDEN: Final = frozenset({1148, 3948, 4166})
"""Error numbers that a server returns if it, or the user's grants, do not allow local data."""

_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_WRITTEN_OUT: Final = {b"f": b"\f", b"v": b"\v"}
_ESCAPES: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class MariaDBLoading(GenericLoading):
    """See :class:`~subscriber.targets.roles.loading.Loading`."""

    def block_format(self, columns: Sequence[LoadColumn]) -> BlockFormat:
        """See :meth:`Loading.block_format`."""
        del columns  # the format is the same for all columns
        return "text"

    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        """See :meth:`Loading.loader`; LOAD DATA LOCAL, or INSERT if the server forbids it."""
        statement = insert_statement(self._engine.dialect, self._writing, table, columns)
        insert = insert_blocks(self._errors, self._values, statement, connection, columns)
        yield _load_blocks(connection, table, columns, insert)


def _load_blocks(
    connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn], insert: Callable[[bytes], None]
) -> Callable[[bytes], None]:
    driver: Any = connection.connection.driver_connection
    statement = _load_statement(table, columns)
    generated = [number for number, one in enumerate(columns) if one.column.null_is_generated]
    # MariaDB may read the text of another type in its own way. Such rows are inserted, because the
    # conversion for INSERT reads the text as PostgreSQL does.
    forbidden = any(conversion_of(one.type_oid, one.column) is not None for one in columns)

    def load(block: bytes) -> None:
        nonlocal forbidden
        for number in generated:
            _check_nulls(block, number, columns[number].column.name)
        if not forbidden:
            try:
                rows, warnings = driver.load(statement, _readable(block))
            except MySQLError as error:
                if not error.args or error.args[0] not in _FORBIDDEN:
                    raise translate_driver(error) from None
                forbidden = True
            else:
                if warnings or rows != block.count(b"\n"):
                    raise _refused(connection)
                return
        insert(write_block(_decoded(columns, block)))

    return load


def _load_statement(table: TargetTable, columns: Sequence[LoadColumn]) -> str:
    # SQLAlchemy's quoting is not used: it doubles percent signs for the driver's parameters, and
    # this statement does not pass through them.
    name = _quote(table.name) if table.schema is None else f"{_quote(table.schema)}.{_quote(table.name)}"
    fields, assignments = [], []
    for number, one in enumerate(columns):
        expression = from_text(one.type_oid, one.column, f"@c{number}")
        if expression is None:
            fields.append(_quote(one.column.name))
        else:
            fields.append(f"@c{number}")
            assignments.append(f"{_quote(one.column.name)} = {expression}")
    return (
        f"LOAD DATA LOCAL INFILE 'block' INTO TABLE {name} CHARACTER SET utf8mb4"
        r" FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n'"
        f" ({', '.join(fields)})" + (f" SET {', '.join(assignments)}" if assignments else "")
    )


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _readable(block: bytes) -> bytes:
    if b"\\f" not in block and b"\\v" not in block:
        return block
    return _ESCAPE.sub(lambda match: _WRITTEN_OUT.get(match[1], match[0]), block)


def _check_nulls(block: bytes, number: int, column: str) -> None:
    if b"\\N" in block and re.search(rb"^(?:[^\t\n]*\t){%d}\\N[\t\n]" % number, block, re.MULTILINE):
        raise ConflictError(
            f'null value in column "{column}" violates not-null constraint',
            sqlstate="23502",
            column=column,
            detail="The target would replace the null with a generated value.",
        )


def _refused(connection: sa.Connection) -> SubscriberError:
    warnings = connection.exec_driver_sql("SHOW WARNINGS").all()
    translated = [translate_number(number, text) for _, number, text in warnings]
    # An ignored row causes one of these warnings; the first is enough.
    known = [error for error in translated if not isinstance(error, TargetError)]
    if known:
        return known[0]
    numbers = ", ".join(sorted({str(number) for _, number, _ in warnings})) or "none given"
    return TargetError(f"MariaDB did not load every row as it is (warnings: {numbers})")


# Without LOAD DATA --------------------------------------------------------------------------------


def _decoded(columns: Sequence[LoadColumn], block: bytes) -> pa.RecordBatch:
    """A block of COPY's text as the record batch that other loaders receive."""
    rows = [[_value(field) for field in line.split(b"\t")] for line in block.split(b"\n")[:-1]]
    arrays = [
        decode_column(
            one.type_oid, pa.array([row[number] for row in rows], pa.binary()), binary=False, column=number + 1
        )
        for number, one in enumerate(columns)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[one.column.name for one in columns])


def _value(field: bytes) -> bytes | None:
    if field == rb"\N":
        return None
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), field) if b"\\" in field else field
