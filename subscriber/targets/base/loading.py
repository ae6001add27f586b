"""Many rows at a time: the blocks of a table's initial copy, and changes of different rows with one
statement.

A block is an Arrow IPC stream of one record batch, or COPY's data if :meth:`Loading.block_format`
says so. Its columns are in the loader's order, and :func:`subscriber.postgres.types.decode_column`
has decoded each. Values are bound as for one row, so a loaded row is equal to an applied row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy import exc
from typing_extensions import override

from subscriber.base.errors import ConflictError
from subscriber.postgres.types import family
from subscriber.targets.base.errors import Errors
from subscriber.targets.base.values import Values
from subscriber.targets.base.writing import Matching, Writing
from subscriber.targets.target_table import TargetColumn, TargetTable

BlockFormat = Literal["text", "binary", "arrow"]
"""COPY's text, COPY's binary rows without header and trailer, or Arrow's IPC stream of one batch.
"""
_MOST_STATEMENTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class LoadColumn:
    """A column that is loaded. ``type_oid`` is the publisher's type. If ``replaced``, NULL takes
    the place of values that the column cannot hold, so blocks must have a form in which single
    values can be replaced.
    """

    column: TargetColumn
    type_oid: int
    replaced: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class BulkColumn(LoadColumn):
    """A column of changed rows, with a value for each row, as decoded."""

    values: pa.Array


# Blocks of a copy ---------------------------------------------------------------------------------


class Loading:
    """Writes blocks of COPY data to a table; here by INSERT."""

    def __init__(self, engine: sa.Engine, errors: Errors, values: Values, writing: Writing) -> None:
        self._engine = engine
        self._errors = errors
        self._values = values
        self._writing = writing

    def block_format(self, columns: Sequence[LoadColumn]) -> BlockFormat:
        """The format of :meth:`loader`'s blocks; text or Arrow if a column is ``replaced``."""
        return "arrow"

    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        """Load many rows in the caller's transaction: each call of the result passes one block. All
        rows are in the table when the with-block ends; either may raise a translated error. Other
        columns get their defaults. Values for identity columns override the generated values.
        """
        statement = insert_statement(self._engine.dialect, self._writing, table, columns)

        def load(block: bytes) -> None:
            batch = read_block(block)
            rows = list(statement.rows(bind_block(self._values, columns, batch), batch.num_rows))
            if not rows:
                return
            try:
                connection.exec_driver_sql(statement.sql, rows)
            except exc.SQLAlchemyError as error:
                # The driver's error quotes rows, so it must not be printed as the cause.
                raise self._errors.translate(error, [columns[index].column.name for index in statement.order]) from None

        yield load


def write_block(batch: pa.RecordBatch) -> bytes:
    """A record batch as a block."""
    return bytes(block_buffer(batch))


def block_buffer(batch: pa.RecordBatch) -> pa.Buffer:
    """:func:`write_block` without a copy. The size is found first: a buffer that grows takes twice
    the time.
    """
    measured = pa.MockOutputStream()
    _write(measured, batch)
    buffer = pa.allocate_buffer(measured.size())
    _write(pa.FixedSizeBufferWriter(buffer), batch)
    return buffer


def _write(sink: pa.NativeFile, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


def read_block(block: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(pa.py_buffer(block)) as reader:
        return reader.read_next_batch()


def bind_block(values: Values, columns: Sequence[LoadColumn], batch: pa.RecordBatch) -> list[list[Any]]:
    """The values to bind, column by column. Raises UnsupportedValue, and ConflictError (23502) for
    a NULL that the target would replace.
    """
    bound = []
    for number, load in enumerate(columns):
        array, column = batch.column(number), load.column
        if column.null_is_generated and array.null_count:
            raise generated_null(column.name)
        bound.append(values.bind_values(load.type_oid, column, array))
    return bound


def generated_null(column: str) -> ConflictError:
    return ConflictError(
        f'null value in column "{column}" violates not-null constraint',
        sqlstate="23502",
        column=column,
        detail="The target would replace the null with a generated value.",
    )


# Statements for one row, which are executed many times --------------------------------------------


@dataclass(frozen=True, slots=True)
class RowStatement:
    """``order`` has the column of each parameter; ``names`` is None for unnamed parameters."""

    sql: str
    order: tuple[int, ...]
    names: tuple[str, ...] | None

    def rows(self, bound: Sequence[Sequence[Any]], count: int) -> Iterable[Any]:
        if not self.order:
            return repeat((), count)
        rows = zip(*(bound[index] for index in self.order), strict=True)
        names = self.names
        return rows if names is None else (dict(zip(names, row, strict=True)) for row in rows)


def insert_statement(
    dialect: sa.Dialect, writing: Writing, table: TargetTable, columns: Sequence[LoadColumn]
) -> RowStatement:
    """The INSERT for rows of ``columns``; other columns of the table get their defaults."""
    parameters = _parameters(table, len(columns))
    new = {one.column.name: parameter for one, parameter in zip(columns, parameters, strict=True)}
    # "inline": no RETURNING for values that are not used.
    insert = writing.or_fail(table, sa.insert(table.clause()).values(new).inline())
    statement = _compiled(dialect, insert, parameters)
    if not table.has_identity_always:
        return statement
    return RowStatement(writing.override_identity(statement.sql), statement.order, statement.names)


def parameter_prefix(table: TargetTable) -> str:
    """SQLAlchemy Core reserves the names of columns for its own parameters."""
    prefix = "p"
    while any(column.name.startswith(prefix) for column in table.columns):
        prefix += "_"
    return prefix


def _parameters(table: TargetTable, count: int) -> list[sa.BindParameter[Any]]:
    prefix = parameter_prefix(table)
    # NullType: without a cast, so that the driver and the column decide.
    return [sa.bindparam(f"{prefix}{number}", type_=sa.types.NullType()) for number in range(count)]


def _compiled(
    dialect: sa.Dialect, statement: sa.ClauseElement, parameters: Sequence[sa.BindParameter[Any]]
) -> RowStatement:
    compiled: Any = statement.compile(dialect=dialect)
    index_of = {parameter.key: index for index, parameter in enumerate(parameters)}
    names = tuple(index_of if compiled.positiontup is None else compiled.positiontup)
    order = tuple(index_of[name] for name in names)
    return RowStatement(str(compiled), order, names if compiled.positiontup is None else None)


# Bulk writes --------------------------------------------------------------------------------------


class Bulk(ABC):
    """Writes changes of different rows with one statement, in the caller's transaction (an optional
    role), where that is quicker than a statement for each row, with the same result: the same rows
    are found, and the same values are stored.

    All rows of an UPDATE or DELETE have different keys; rows are inserted in their order. If a call
    fails, or does not find all its rows, the caller rolls back. A row that another origin wrote
    last (:meth:`Origins.others`) is not found, so the single statements record the conflict. Each
    method raises UnsupportedValue if a column cannot store a value, and translated errors.
    """

    @abstractmethod
    def least_rows(self, connection: sa.Connection, table: TargetTable, key: Sequence[LoadColumn]) -> int | None:
        """From how many rows on the following methods are quicker than single statements; None if
        they cannot write changes of this table. The answer holds for the transaction. ``key`` is
        empty for INSERT.
        """

    @abstractmethod
    def insert(self, connection: sa.Connection, table: TargetTable, written: Sequence[BulkColumn]) -> int:
        """Insert rows; returns their number. The other columns get their defaults."""

    @abstractmethod
    def update(
        self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn], written: Sequence[BulkColumn]
    ) -> int:
        """Update the rows that have these keys; returns how many were found. Columns that are not
        in ``written`` keep their values; a column of the key has the value by which the row is
        found.
        """

    @abstractmethod
    def delete(self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn]) -> int:
        """Delete the rows that have these keys; returns how many were found."""


class RowBulk(Bulk):
    """Bulk writes with the statements for one row, for a driver that executes many quickly. UPDATE
    and DELETE follow the key's order, which saves half of the time: a page is read once.
    """

    def __init__(self, engine: sa.Engine, matching: Matching, writing: Writing) -> None:
        self._dialect = engine.dialect
        self._matching = matching
        self._writing = writing
        self._insert_of = lru_cache(_MOST_STATEMENTS)(self._compile_insert)
        self._update_of = lru_cache(_MOST_STATEMENTS)(self._compile_update)
        self._delete_of = lru_cache(_MOST_STATEMENTS)(self._compile_delete)

    @abstractmethod
    def _execute(self, connection: sa.Connection, statement: RowStatement, columns: Sequence[BulkColumn]) -> int:
        """Execute an UPDATE or DELETE for each row; ``statement.order`` indexes ``columns``."""

    @abstractmethod
    def _insert(self, connection: sa.Connection, statement: RowStatement, columns: Sequence[BulkColumn]) -> int: ...

    @override
    def insert(self, connection: sa.Connection, table: TargetTable, written: Sequence[BulkColumn]) -> int:
        statement = self._insert_of(table, tuple(LoadColumn(one.column, one.type_oid) for one in written))
        return self._insert(connection, statement, written)

    @override
    def update(
        self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn], written: Sequence[BulkColumn]
    ) -> int:
        statement = self._update_of(table, _columns(key), _columns(written))
        return self._execute(connection, statement, in_order(key, [*key, *written]))

    @override
    def delete(self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn]) -> int:
        return self._execute(connection, self._delete_of(table, _columns(key)), in_order(key, key))

    def _compile_insert(self, table: TargetTable, written: tuple[LoadColumn, ...]) -> RowStatement:
        return insert_statement(self._dialect, self._writing, table, written)

    def _compile_update(
        self, table: TargetTable, key: tuple[TargetColumn, ...], written: tuple[TargetColumn, ...]
    ) -> RowStatement:
        clause, parameters = table.clause(), _parameters(table, len(key) + len(written))
        new = dict(zip([column.name for column in written], parameters[len(key) :], strict=True))
        unchanged = {key[0].name: clause.c[key[0].name]}  # the statement needs something to set
        statement = sa.update(clause).values(new or unchanged).where(*self._found(clause, key, parameters))
        return _compiled(self._dialect, self._writing.or_fail(table, statement), parameters)

    def _compile_delete(self, table: TargetTable, key: tuple[TargetColumn, ...]) -> RowStatement:
        clause, parameters = table.clause(), _parameters(table, len(key))
        return _compiled(self._dialect, sa.delete(clause).where(*self._found(clause, key, parameters)), parameters)

    def _found(
        self, clause: sa.TableClause, key: Sequence[TargetColumn], parameters: Sequence[sa.BindParameter[Any]]
    ) -> list[sa.ColumnElement[bool]]:
        return [
            self._matching.finds(column, clause.c[column.name], value)
            for column, value in zip(key, parameters, strict=False)
        ]


def _columns(columns: Sequence[BulkColumn]) -> tuple[TargetColumn, ...]:
    return tuple(one.column for one in columns)


def in_order(key: Sequence[BulkColumn], columns: Sequence[BulkColumn]) -> list[BulkColumn]:
    """The columns with their rows in the order of the key."""
    names = [str(number) for number in range(len(key))]
    keys = pa.Table.from_arrays([one.values for one in key], names=names)
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in names])
    return [BulkColumn(one.column, one.type_oid, one.values.take(order)) for one in columns]


# Texts of rows ------------------------------------------------------------------------------------

_IN_COPY: Final = b"\\\t\n\r"
"""A value with one of these is escaped in COPY's data."""
_BYTES_AT_A_TIME: Final = 4 * 2**20
"""The bytes of the values of one statement, if they are spread evenly over the rows."""


def copy_data(columns: Sequence[pa.Array]) -> bytes:
    r"""Texts as COPY and LOAD DATA read them: a tab between values, \N for NULL, a row is a line.

    >>> copy_data([pa.array(["1", "2"]), pa.array(["a\tb", None])])
    b'1\ta\\tb\n2\t\\N\n'
    """
    values = [escaped(one, _IN_COPY, (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))) for one in columns]
    null = {"null_handling": "replace", "null_replacement": "\\N"}
    ends = pc.binary_join_element_wise(values.pop(), "", "\n", **null)
    lines = pc.binary_join_element_wise(*values, ends, "\t", **null)
    return family.values_of(lines)[0].tobytes()  # the lines are one after another


def escaped(texts: pa.Array, special: bytes, escapes: Sequence[tuple[str, str]]) -> pa.Array:
    """The texts themselves if they have no special character. Their bytes are searched together,
    which takes a tenth of the time of a regular expression.
    """
    content = family.values_of(texts)[0].tobytes()
    if not any(character in content for character in special):
        return texts
    for character, escape in escapes:
        texts = pc.replace_substring(texts, character, escape)
    return texts


def parts(columns: Sequence[BulkColumn]) -> Iterator[list[BulkColumn]]:
    """The rows in parts of a few megabytes, or of more if a few values are longer."""
    rows = len(columns[0].values)
    count = 1 + sum(one.values.nbytes for one in columns) // _BYTES_AT_A_TIME
    step = max(1, -(-rows // count))
    for start in range(0, rows, step):
        yield [BulkColumn(one.column, one.type_oid, one.values.slice(start, step)) for one in columns]
