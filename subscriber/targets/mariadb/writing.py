r"""Statements that write to MariaDB, for one row and for many. Texts are compared exactly, whatever
collation a column has: the server's default ignores case, usually not by the user's decision.

Blocks of a copy have COPY's text, as PostgreSQL writes it. LOAD DATA reads almost the same: fields
end with a tab, lines end with a line feed, a backslash escapes, and ``\N`` is NULL. Escapes that
MariaDB does not know (``\f``, ``\v``) are replaced by their characters first. Values of the few
types that MariaDB writes in another form pass through a user variable. With LOCAL, the server turns
errors into warnings and continues. Therefore every warning is raised as an error, and the number of
rows must be the number of lines. If the server does not accept local data, the rows are parsed here
and inserted.

The text of many statements, or of an INSERT of many rows, is written column by column::

    compiled          UPDATE t SET b = %s WHERE a = %s
    pieces            ┊UPDATE t SET b = ┊   ┊ WHERE a = ┊ ┊;┊
    texts of a row                      'x'              1        one text for each row, made by Arrow

The protocol of PyMySQL has no parameters: the driver writes every value into the statement, one
after the other. Here Arrow writes all values of a column at once, in the same forms. In texts a
backslash escapes a backslash and a quote: the session's character set is utf8mb4, and its SQL mode
is the one that :mod:`subscriber.targets.mariadb.target` sets.

Bulk writes send many rows in one packet, because a round trip and the driver's work take several
times what the server needs for a statement. Several statements in a packet find, store and refuse
what they do one by one::

    LOAD DATA LOCAL INFILE 'block' INTO TABLE t … (a, b)     many new rows: their texts are half of the work
    INSERT INTO t (a, b) VALUES (1, 'x'),(2, 'y'),…          a few, or LOAD DATA cannot be used
    UPDATE t SET b = 'x' WHERE a = 1;UPDATE t SET b = 'y' WHERE a = 2;…
    DELETE FROM t WHERE a IN (1,2,…)
    DELETE FROM t WHERE a = 1 AND b = 'x';DELETE FROM t WHERE a = 1 AND b = 'y';…

LOAD DATA is used if the server allows it and the table has no trigger: the server would ignore
errors within the trigger. It gets values that were converted and checked for the statement of one
row. If a row is refused, the caller rolls back, as after a failed INSERT. A warning about a value
that is stored nevertheless, such as a decimal whose last zeros are cut, is an error too; then the
next rows of this table are inserted.

*Rejected:*

- a temporary table and a join. The server takes four fifths of the time, needs a privilege, and
  may refuse it within a transaction.
- INSERT … ON DUPLICATE KEY UPDATE. It would insert a row that is missing. To lock and count the
  rows first would take half of the time, but a CHECK or a column without a default could refuse the
  row that is not inserted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from pymysql.err import MySQLError
from sqlalchemy.dialects.mysql import BINARY, CHAR
from typing_extensions import override

from subscriber.base.errors import ConflictError, SubscriberError, TargetError, UnsupportedValue
from subscriber.postgres.types.equality import EXACT, Equality
from subscriber.postgres.types.registry import decode_column, family_of
from subscriber.targets.base import loading
from subscriber.targets.base.errors import Errors
from subscriber.targets.base.writing import Change, Matching, Writing
from subscriber.targets.mariadb.catalog import counts, may_have_trigger, references_to
from subscriber.targets.mariadb.ddl import MariaDBDDL, quote
from subscriber.targets.mariadb.errors import translate_driver, translate_number
from subscriber.targets.mariadb.transactions import CounterRestarts, facts_of
from subscriber.targets.mariadb.values import INEXACT_KEY, INTEGERS, STORED_ALIKE, TEXTS, MariaDBValues, from_text
from subscriber.targets.target_table import TargetColumn, TargetTable

_OWN_STORAGE: Final = {17: "varbinary", 1082: "date", 1700: "decimal", 2950: "uuid"}
"""Types that store exactly the values of a PostgreSQL type: bytea, date, numeric and uuid."""


class MariaDBMatching(Matching):
    def __init__(self, ddl: MariaDBDDL) -> None:
        self._ddl = ddl

    @override
    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """A DECIMAL is compared like numeric."""
        return EXACT if column.storage == "decimal" else super().equality(type_oid, column)

    @override
    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """Texts are compared exactly, also blanks at the end, which a CHAR does not have. Where no
        collation compares blanks, the bytes of the characters are compared.
        """
        storage = column.storage.removesuffix(INEXACT_KEY)
        if storage not in TEXTS | {"char"}:
            return clause
        text = sa.cast(clause, CHAR(charset="utf8mb4"))
        if storage != "char" and not self._ddl.compares_blanks:
            return sa.type_coerce(sa.cast(text, BINARY()), text.type)  # it is compared with bound texts
        return sa.collate(text, "utf8mb4_bin" if storage == "char" else self._ddl.collation)

    @override
    def finds(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """By its index, then with blanks at the end, which most ``_bin`` collations ignore."""
        equal = super().finds(column, clause, value)
        if column.storage not in TEXTS:
            return equal
        return sa.and_(equal, self.comparable(column, clause) == value)

    @override
    def tells_apart(self, type_oid: int, column: TargetColumn) -> bool:
        if column.storage in INTEGERS:
            return bool(pa.types.is_integer(family_of(type_oid).arrow_type))
        return column.storage in TEXTS or _OWN_STORAGE.get(type_oid) == column.storage

    @override
    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """Triggers do not depend on the columns that SET names."""
        return column.storage in STORED_ALIKE and self.equality(type_oid, column) == EXACT

    @override
    def change_first(self, statement: Change) -> Change:
        return statement.with_dialect_options(mysql_limit=1)


# Writing ---------------------------------------------------------------------------------------


class MariaDBWriting(Writing):
    def __init__(self, errors: Errors, counters: CounterRestarts) -> None:
        super().__init__(errors)
        self._counters = counters

    @override
    def referencing(self, connection: sa.Connection, table: TargetTable, truncated: Sequence[TargetTable]) -> set[str]:
        return references_to(connection, table, truncated)

    @override
    def restart_identities(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
        """AUTO_INCREMENT is reset after the transaction has committed."""
        self._counters.want(connection, [table for table in tables if any(map(counts, table.columns))])


# Loading ---------------------------------------------------------------------------------------

_FORBIDDEN: Final = frozenset({1148, 3948, 4166})
"""Errors of a server that does not allow local data, or not to this user."""

_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_WRITTEN_OUT: Final = {b"f": b"\f", b"v": b"\v"}
_ESCAPES: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class MariaDBLoading(loading.Loading):
    def __init__(
        self, engine: sa.Engine, errors: Errors, values: MariaDBValues, bulk: MariaDBBulk, writing: Writing
    ) -> None:
        super().__init__(engine, errors, values, writing)
        self._bulk = bulk

    @override
    def block_format(self, columns: Sequence[loading.LoadColumn]) -> loading.BlockFormat:
        return "text" if self._bulk.loads_exactly else "arrow"

    @override
    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[loading.LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        """LOAD DATA LOCAL, or INSERT if the server forbids it or changes values silently."""
        if not self._bulk.loads_exactly:
            yield partial(self._insert, connection, table, columns)
            return
        # MariaDB may read the text of another type in its own way. Such rows are inserted, because
        # the conversion for INSERT reads the text as PostgreSQL does.
        reads = all(self._values.read_as(one.type_oid, one.column) is None for one in columns)
        with super().loader(connection, table, columns) as insert:
            yield _load_blocks(connection, table, columns, insert, reads=reads)

    def _insert(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[loading.LoadColumn], block: bytes
    ) -> None:
        batch = loading.read_block(block)
        for number, one in enumerate(columns):
            if one.column.null_is_generated and batch.column(number).null_count:
                raise loading.generated_null(one.column.name)
        rows = [
            loading.BulkColumn(one.column, one.type_oid, batch.column(number)) for number, one in enumerate(columns)
        ]
        if batch.num_rows:
            self._bulk.insert(connection, table, rows)


_PROBED: Final = "`subscriber probe`"
_LOAD_PROBE: Final = f"LOAD DATA LOCAL INFILE 'block' INTO TABLE {_PROBED} (a)"


def loads_exactly(connection: sa.Connection) -> bool:
    """Whether LOAD DATA LOCAL reports a value that it changes, here ``x`` in a column of integers.
    The table is temporary, because a load of some servers commits.
    """
    driver: Any = connection.connection.driver_connection
    try:
        connection.exec_driver_sql(f"CREATE TEMPORARY TABLE {_PROBED} (a INTEGER)")
    except sa.exc.DBAPIError:
        return False  # a load would not be known to be exact
    try:
        return bool(driver.load(_LOAD_PROBE, b"x\n")[1])
    except MySQLError as error:
        return _is_report(error, facts_of(connection.dialect).database)
    finally:
        connection.exec_driver_sql(f"DROP TEMPORARY TABLE {_PROBED}")


def _is_report(error: MySQLError, database: str) -> bool:
    """True for an error that reports the value, and where the server forbids local data; another
    error is raised.
    """
    translated = translate_driver(error, database)
    if isinstance(translated, UnsupportedValue) or (error.args and error.args[0] in _FORBIDDEN):
        return True
    raise translated from None


def _load_blocks(
    connection: sa.Connection,
    table: TargetTable,
    columns: Sequence[loading.LoadColumn],
    insert: Callable[[bytes], None],
    *,
    reads: bool,
) -> Callable[[bytes], None]:
    expressions = [from_text(one.type_oid, one.column, _variable(number)) for number, one in enumerate(columns)]
    statement = _load_statement(table, [one.column for one in columns], expressions)
    generated = [number for number, one in enumerate(columns) if one.column.null_is_generated]
    forbidden = not reads

    def load(block: bytes) -> None:
        nonlocal forbidden
        for number in generated:
            _check_nulls(block, number, columns[number].column.name)
        if not forbidden:
            forbidden = not _load(connection, statement, _readable(block), block.count(b"\n"))
        if forbidden:
            insert(loading.write_block(_decoded(columns, block)))

    return load


def _load(connection: sa.Connection, statement: str, data: bytes, rows: int) -> bool:
    """Whether the server allows it. Raises an error unless it loads all rows as they are."""
    driver: Any = connection.connection.driver_connection
    try:
        loaded, warnings = driver.load(statement, data)
    except MySQLError as error:
        if not error.args or error.args[0] not in _FORBIDDEN:
            raise translate_driver(error, facts_of(connection.dialect).database) from None
        return False
    if warnings or loaded != rows:
        raise _refused(connection)
    return True


def _variable(number: int) -> str:
    return f"@c{number}"


def _load_statement(table: TargetTable, columns: Sequence[TargetColumn], expressions: Sequence[str | None]) -> str:
    """An expression is of the column's variable (:func:`_variable`)."""
    name = quote(table.name) if table.schema is None else f"{quote(table.schema)}.{quote(table.name)}"
    fields, assignments = [], []
    for number, (column, expression) in enumerate(zip(columns, expressions, strict=True)):
        if expression is None:
            fields.append(quote(column.name))
        else:
            fields.append(_variable(number))
            assignments.append(f"{quote(column.name)} = {expression}")
    return (
        f"LOAD DATA LOCAL INFILE 'block' INTO TABLE {name} CHARACTER SET utf8mb4"
        r" FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n'"
        f" ({', '.join(fields)})" + (f" SET {', '.join(assignments)}" if assignments else "")
    )


def _readable(block: bytes) -> bytes:
    # One character is found in a tenth of the time of two.
    if b"\\" not in block or (b"\\f" not in block and b"\\v" not in block):
        return block
    return _ESCAPE.sub(lambda match: _WRITTEN_OUT.get(match[1], match[0]), block)


def _check_nulls(block: bytes, number: int, column: str) -> None:
    if b"\\N" in block and re.search(rb"^(?:[^\t\n]*\t){%d}\\N[\t\n]" % number, block, re.MULTILINE):
        raise loading.generated_null(column)


def _refused(connection: sa.Connection) -> SubscriberError:
    warnings = connection.exec_driver_sql("SHOW WARNINGS").all()
    database = facts_of(connection.dialect).database
    translated = [translate_number(number, text, database) for _, number, text in warnings]
    # An ignored row causes one of these warnings; the first is enough.
    known = [error for error in translated if not isinstance(error, TargetError)]
    if known:
        return known[0]
    numbers = ", ".join(sorted({str(number) for _, number, _ in warnings})) or "none given"
    return TargetError(f"{database} did not load every row as it is (warnings: {numbers})")


# Without LOAD DATA --------------------------------------------------------------------------------


def _decoded(columns: Sequence[loading.LoadColumn], block: bytes) -> pa.RecordBatch:
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


# Statement texts -------------------------------------------------------------------------------

_MARK: Final = "\0"
"""Surrounds the index of a column in a statement. A name cannot contain this character."""


def literals(values: pa.Array) -> pa.Array:
    r"""The values as SQL.

    >>> literals(pa.array(["it's", None])).to_pylist(), literals(pa.array([0.5, 1e30])).to_pylist()
    (["'it\\'s'", 'NULL'], ['0.5e0', '1e+30'])
    """
    if pa.types.is_integer(values.type):
        texts = values.cast(pa.string())
    elif pa.types.is_floating(values.type):
        texts = values.cast(pa.string())
        # Without an exponent it would be a decimal number.
        texts = pc.if_else(pc.match_substring(texts, "e"), texts, pc.binary_join_element_wise(texts, "e0", ""))
    elif pa.types.is_binary(values.type):
        texts = pc.binary_join_element_wise("X'", _hexadecimal(values), "'", "")
    else:
        texts = values.cast(pa.string())
        for character in ("\\", "'"):
            texts = pc.replace_substring(texts, character, f"\\{character}")
        texts = pc.binary_join_element_wise("'", texts, "'", "")
    return pc.fill_null(texts, "NULL")


def _hexadecimal(values: pa.Array) -> pa.Array:
    return pa.array([None if one is None else one.hex() for one in values.to_pylist()], pa.string())


def pieces(statement: loading.RowStatement) -> tuple[list[str], list[int]]:
    """The parts of a statement between its values, and the index of the column of each value.

    >>> pieces(loading.RowStatement("UPDATE t SET `%%s` = %(b)s WHERE a=%(a)s", (0, 1), ("a", "b")))
    (['UPDATE t SET `%s` = ', ' WHERE a=', ''], [1, 0])
    """
    marks = [f"{_MARK}{index}{_MARK}" for index in statement.order]
    filled = statement.sql % (
        tuple(marks) if statement.names is None else dict(zip(statement.names, marks, strict=True))
    )
    parts = filled.split(_MARK)
    return parts[::2], [int(index) for index in parts[1::2]]


def packets(
    head: str, parts: Sequence[str], values: Sequence[pa.Array], separator: str, *, tail: str = "", most: int
) -> Iterator[bytes]:
    """Rows in up to ``most`` bytes, at least one: ``head``, values between ``parts``, ``tail``."""
    mixed: list[pa.Array | str] = [parts[0]]
    for value, part in zip(values, parts[1:], strict=True):
        mixed += [value, part]
    rows = pc.binary_join_element_wise(*mixed, separator, "")
    _, offsets, data = rows.buffers()
    ends = np.frombuffer(offsets, np.int32)[rows.offset : rows.offset + len(rows) + 1]
    text, begin, end, start = memoryview(data), head.encode(), tail.encode(), 0
    room = most - len(begin) - len(end) + 1  # the separator after the last row is not sent
    while start < len(rows):
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + room, "right")) - 1)
        yield begin + bytes(text[ends[start] : ends[stop] - 1]) + end
        start = stop


# Bulk ------------------------------------------------------------------------------------------

_LEAST_ROWS: Final = 8
"""From this many rows on one packet is quicker than a packet for each row."""
_LEAST_LOADED: Final = 1_500
"""From this many values on LOAD DATA is quicker than INSERT, with a look for triggers."""
_PACKET: Final = 256 * 1024
"""Below max_allowed_packet, and so many bytes that the number of packets does not matter."""
_STATEMENTS: Final = 16 * 1024
"""Some hundreds of statements: OceanBase takes three times as long for each of some thousands."""


class MariaDBBulk(loading.RowBulk):
    def __init__(
        self, engine: sa.Engine, errors: Errors, values: MariaDBValues, matching: Matching, writing: Writing
    ) -> None:
        super().__init__(engine, matching, writing)
        self._engine = engine
        self._errors = errors
        self._values = values
        self._is_forbidden = False
        self._never_loaded: set[tuple[str | None, str]] = set()

    @override
    def least_rows(self, connection: sa.Connection, table: TargetTable, key: Sequence[loading.LoadColumn]) -> int:
        return _LEAST_ROWS

    @override
    def insert(self, connection: sa.Connection, table: TargetTable, written: Sequence[loading.BulkColumn]) -> int:
        rows = len(written[0].values)
        if rows * len(written) < _LEAST_LOADED or not self._may_load(connection, table):
            return super().insert(connection, table, written)
        expressions = [
            f"UNHEX({_variable(number)})" if pa.types.is_binary(one.values.type) else None
            for number, one in enumerate(written)
        ]
        statement = _load_statement(table, [one.column for one in written], expressions)
        for part in loading.parts(written):
            if not self._load(connection, table, statement, part):
                super().insert(connection, table, part)
        return rows

    @cached_property
    def loads_exactly(self) -> bool:
        """Whether LOAD DATA LOCAL stores what it is given, or reports what it changes."""
        with self._errors.reporting(), self._engine.connect() as connection:
            return loads_exactly(connection)

    def _may_load(self, connection: sa.Connection, table: TargetTable) -> bool:
        if not self.loads_exactly or self._is_forbidden or (table.schema, table.name) in self._never_loaded:
            return False
        with self._errors.reporting():
            return not may_have_trigger(connection, table)

    def _load(
        self, connection: sa.Connection, table: TargetTable, statement: str, part: Sequence[loading.BulkColumn]
    ) -> bool:
        """Load the rows, or nothing and return False."""
        values = [self._values.as_stored(one.type_oid, one.column, one.values) for one in part]
        texts = [_hexadecimal(one) if pa.types.is_binary(one.type) else one.cast(pa.string()) for one in values]
        data = loading.copy_data(texts)
        driver: Any = connection.connection.driver_connection
        if self._is_forbidden or len(data) >= driver.largest_statement:
            return False  # a value that no INSERT can have would be stored
        try:
            self._is_forbidden = not _load(connection, statement, data, len(texts[0]))
        except SubscriberError as error:
            if not (error.transient or isinstance(error, ConflictError)):
                self._never_loaded.add((table.schema, table.name))
            raise
        return not self._is_forbidden

    @override
    def delete(self, connection: sa.Connection, table: TargetTable, key: Sequence[loading.BulkColumn]) -> int:
        """An integer is found in a list as it is found alone."""
        if len(key) != 1 or key[0].column.storage not in INTEGERS or not pa.types.is_integer(key[0].values.type):
            return super().delete(connection, table, key)
        driver: Any = connection.connection.driver_connection
        (first, _), order = pieces(self._delete_of(table, (key[0].column,)))
        head = first.removesuffix("= ") + "IN ("
        values = self._literals(loading.in_order(key, key), order)
        return self._sum(driver.query, packets(head, ["", ""], values, ",", tail=")", most=_PACKET))

    @override
    def _execute(
        self, connection: sa.Connection, statement: loading.RowStatement, columns: Sequence[loading.BulkColumn]
    ) -> int:
        driver: Any = connection.connection.driver_connection
        parts, order = pieces(statement)
        return self._sum(driver.query_many, packets("", parts, self._literals(columns, order), ";", most=_STATEMENTS))

    @override
    def _insert(
        self, connection: sa.Connection, statement: loading.RowStatement, columns: Sequence[loading.BulkColumn]
    ) -> int:
        driver: Any = connection.connection.driver_connection
        (first, *rest), order = pieces(statement)
        head = first.removesuffix("(")
        return self._sum(driver.query, packets(head, ["(", *rest], self._literals(columns, order), ",", most=_PACKET))

    def _literals(self, columns: Sequence[loading.BulkColumn], order: Sequence[int]) -> list[pa.Array]:
        values = [literals(self._values.as_stored(one.type_oid, one.column, one.values)) for one in columns]
        return [values[index] for index in order]

    def _sum(self, send: Callable[[bytes], int], texts: Iterable[bytes]) -> int:
        try:
            return sum(send(text) for text in texts)
        except MySQLError as error:
            raise translate_driver(error, self._errors.database) from None
