"""What the target's catalog and tables are asked: shapes, sequences, last writers, all rows."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Final, TypeAlias

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.targets.base.errors import Errors
from subscriber.targets.base.values import Values
from subscriber.targets.target_table import RowVersion, TargetColumn, TargetSequence, TargetTable, UniqueIndex


class Shapes:
    """Reads tables and their unique indexes from the target's catalog. ``qualified`` is
    :meth:`DDL.qualified`, by which :meth:`inspect` finds a table.
    """

    def __init__(self, errors: Errors, qualified: Callable[[str, str], tuple[str | None, str]] | None = None) -> None:
        self._errors = errors
        self._qualified = qualified

    def versions(
        self, connection: sa.Connection, tables: Iterable[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Hashable]:
        """Versions of the tables for the publisher's tables: in a later transaction in which one
        has the same, the answers of this role about it are the same, except unique indexes. A table
        of which this is not known is left out, and is read in each transaction.
        """
        return {}

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """The table for the publisher's ``schema.table`` (rule C1); None if it does not exist."""
        return self.reflect_all(connection, [(schema, table)]).get((schema, table))

    def reflect_all(
        self, connection: sa.Connection, tables: Iterable[tuple[str, str]]
    ) -> Mapping[tuple[str, str], TargetTable]:
        """Those that exist. A dialect's number of queries does not depend on that of the tables."""
        found = {place: self.inspect(connection, *place) for place in tables}
        return {place: table for place, table in found.items() if table is not None}

    def inspect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """A table as SQLAlchemy's inspector describes it."""
        assert self._qualified is not None
        inside, table = self._qualified(schema, table)
        with self._errors.reporting():
            inspector = sa.inspect(connection)
            # Some dialects find a table whatever the case of its name is.
            if not inspector.has_table(table, inside) or table not in {
                *inspector.get_table_names(inside),
                *inspector.get_view_names(inside),
            }:
                return None
            columns = inspector.get_columns(table, inside)
            key = inspector.get_pk_constraint(table, inside)["constrained_columns"]
            is_view = table in inspector.get_view_names(inside)
        return TargetTable(
            inside,
            table,
            tuple(
                TargetColumn(
                    name=column["name"],
                    declared_type=declared_as(column["type"], connection.dialect),
                    storage=declared_storage(declared_as(column["type"], connection.dialect)),
                    nullable=column.get("nullable", True),
                    generated="computed" in column,
                    null_is_generated=column.get("autoincrement") is True,
                    required=not column.get("nullable", True)
                    and column.get("default") is None
                    and column.get("autoincrement") is not True
                    and not {"computed", "identity"} & set(column),
                )
                for column in columns
            ),
            tuple(key) or None,
            "view" if is_view else "table",
        )

    def order_matters(self, connection: sa.Connection, table: TargetTable) -> bool:
        """Whether changes of different rows may have another result in another order: the table has
        a trigger that fires, an enforced foreign key from or to it, a unique key beside
        :attr:`TargetTable.key`, or a key that compares values in another way than PostgreSQL. Also
        true if this is not known.
        """
        return True

    def refuses_rows(self, connection: sa.Connection, table: TargetTable) -> bool:
        """Whether the target may refuse to write a row although each of its columns accepts its
        value (:meth:`Values.accepts`), no value is NULL where it must not be, and the row's key is
        free.

        Reasons are a CHECK or exclusion constraint, a generated column, an index of an expression,
        with a predicate or with a limit for values, and a missing privilege. Also true if this is
        not known. It is not asked where :meth:`order_matters`.
        """
        return True

    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """The unique indexes of ``table``, in PostgreSQL's order (rule C22): the primary key first,
        the others in the order of their creation. Here partial indexes and indexes of expressions
        are left out.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", exc.SAWarning)  # about expression indexes, which are left out
            inspector = sa.inspect(connection)
            primary = inspector.get_pk_constraint(table.name, table.schema)
            uniques = inspector.get_unique_constraints(table.name, table.schema)
            indexes = inspector.get_indexes(table.name, table.schema)
        found = [(primary["name"] or f"{table.name}_pkey", primary["constrained_columns"])]
        for unique in uniques:
            columns = unique["column_names"]
            found.append((unique["name"] or "_".join([table.name, *columns, "key"]), columns))
        for index in indexes:
            names = [name for name in index["column_names"] if name is not None]
            # The predicate of a partial index is not known here.
            # Some dialects report constraints also as indexes, some of these under other names.
            is_known = names in [columns for _, columns in found]
            if index["unique"] and len(names) == len(index["column_names"]) and not (is_known or _is_partial(index)):
                found.append((str(index["name"]), names))
        return list({name: UniqueIndex(name, tuple(columns)) for name, columns in found if columns}.values())

    def refused_key_hint(self, connection: sa.Connection, table: TargetTable) -> str | None:
        """What the user can do if a key is refused although no row of ``table`` has it."""
        return None


def declared_as(type_: sa.types.TypeEngine[Any], dialect: sa.Dialect) -> str:
    """A column's type in the database's SQL."""
    try:
        return type_.compile(dialect=dialect)
    except exc.CompileError:  # a type that SQLAlchemy does not know
        return type(type_).__name__


def declared_storage(declared: str) -> str:
    """The name of a type without sizes and character sets."""
    return re.split(r"\s*\(|\s+(?:CHARACTER SET|COLLATE|SEGMENT)\b", declared)[0]


def by_table(rows: Iterable[sa.Row[Any]]) -> Mapping[Any, list[sa.Row[Any]]]:
    """The rows of a query about several tables, by its column ``place``; an empty list for none."""
    found: dict[Any, list[sa.Row[Any]]] = defaultdict(list)
    for row in rows:
        found[row.place].append(row)
    return found


def _is_partial(index: Mapping[str, Any]) -> bool:
    return any(
        option.endswith("_where") and value is not None for option, value in index.get("dialect_options", {}).items()
    )


class Sequences:
    """Reads and sets the sequences and counters of a target, for REFRESH SEQUENCES."""

    def __init__(self, errors: Errors) -> None:
        self._errors = errors

    def of_column(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """The sequence or counter that generates the column's values for INSERTs without it."""
        return None

    def named(self, connection: sa.Connection, schema: str, name: str) -> TargetSequence | None:
        """The sequence of this name, in a target whose sequences are independent objects."""
        return None

    def widening(self, sequence: TargetSequence, position: SequencePosition) -> str | None:
        """For a hint: the statement after which the sequence can continue from the position."""
        return None

    def set(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """Set a sequence or counter to continue like a sequence of the publisher, for which
        :meth:`TargetSequence.obstacle` is None.

        As with PostgreSQL's REFRESH SEQUENCES, the publisher's position replaces the target's, even
        if this is a step back. Later values may then conflict with rows that exist only in the
        target. Some targets cannot roll this back with the transaction.
        """
        raise NotSupportedError(f'{self._errors.database} has no sequence "{sequence.name}"')


class RowVersions:
    """Reads what a target records about the last writer of a row (rule C20), if anything."""

    def columns(self) -> Sequence[sa.ColumnElement[Any]]:
        """The columns of a row to select for :meth:`read`; empty if the target records nothing."""
        return ()

    def read(self, connection: sa.Connection, table: TargetTable, values: Sequence[str | None]) -> RowVersion | None:
        """The last writer of the row with these values of :meth:`columns`, as text."""
        return None

    def index_of_partition(
        self, connection: sa.Connection, table: TargetTable, index: str, leaf: tuple[str, str]
    ) -> str:
        """The name of a partitioned table's index in its partition ``leaf`` (schema and name)."""
        return index


# All rows of a table -----------------------------------------------------------------------------

_ROWS_OF_A_FETCH: Final = 500
_FETCHES: Final = 40
_FIRST_ROWS: Final = 10
BATCH_BYTES: Final = 8 * 1024 * 1024
"""The approximate size, in bytes, of the rows that are given at once."""

_Columns: TypeAlias = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Some rows of a table. A column is an Arrow array if the driver returns Arrow."""

    rows: int
    columns: Sequence[pa.Array | Sequence[Any]]


@dataclass(frozen=True, slots=True)
class TableRange:
    """The rows in which a column or pseudo-column of integers, which is never NULL, is at least
    ``first`` and less than ``end``. None is no limit.
    """

    column: str
    first: int | None
    end: int | None


class TableReader:
    """Reads all rows of a table, in no particular order."""

    def __init__(self, values: Values) -> None:
        self.values = values

    def ranges(self, connection: sa.Connection, table: TargetTable, count: int) -> Sequence[TableRange]:
        """At most ``count`` ranges that together have all rows of a table, for several connections
        at a time; none if one connection is to read it. Errors are SQLAlchemy's.
        """
        return ()

    def value(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """The expression that reads a column. Without a type, the driver's values are as stored."""
        return self.values.readable(column)

    def query(self, table: TargetTable, columns: Sequence[TargetColumn]) -> sa.Select[Any]:
        read: list[sa.ColumnElement[Any]] = [self.value(column) for column in columns]
        source = table.clause() if table.read_from is None else table.read_from
        query = sa.select(*read or [sa.literal_column("1")]).select_from(source)
        return query.where(*(sa.column(name) == value for name, value in table.only))

    def rows(
        self,
        connection: sa.Connection,
        table: TargetTable,
        columns: Sequence[TargetColumn],
        part: TableRange | None = None,
    ) -> Iterator[ReadRows]:
        """The rows of a table or of one of its :meth:`ranges`, some at a time, with each value as
        it is stored (see :meth:`Values.readable`). There may be no columns. Errors are
        SQLAlchemy's, which the caller translates, or translated, if the driver is used without
        SQLAlchemy.
        """
        options = connection.execution_options(yield_per=_ROWS_OF_A_FETCH)
        query = self.query(table, columns)
        if part is not None:
            query = query.where(*_conditions(part))
        with closing(options.execute(query)) as result:
            for some in _batches(result):
                rows = sum(len(first) for first, *_ in some)
                together = [list(chain.from_iterable(parts)) for parts in zip(*some, strict=True)]
                yield ReadRows(rows, together if columns else [])


def ranges_of(connection: sa.Connection, table: TargetTable, column: str, count: int) -> Sequence[TableRange]:
    """At most ``count`` equally wide ranges of an indexed column of integers; none for few rows."""
    place: sa.ColumnClause[int] = sa.column(column)
    smallest, largest = connection.execute(
        sa.select(
            sa.select(sa.func.min(place)).select_from(table.clause()).scalar_subquery(),
            sa.select(sa.func.max(place)).select_from(table.clause()).scalar_subquery(),
        )
    ).one()
    if smallest is None or largest - smallest < count:
        return ()
    cuts = [None, *(smallest + (largest - smallest) * number // count for number in range(1, count)), None]
    return [TableRange(column, first, end) for first, end in pairwise(cuts)]


def _conditions(part: TableRange) -> Iterator[sa.ColumnElement[bool]]:
    place: sa.ColumnClause[int] = sa.column(part.column)
    if part.first is not None:
        yield place >= part.first
    if part.end is not None:
        yield place < part.end


def _batches(result: sa.CursorResult[Any]) -> Iterator[Sequence[_Columns]]:
    """Some fetches at a time: the columns of each.

    They are made of the driver's tuples, because SQLAlchemy's rows take three times as long. So do
    larger fetches: Python's garbage collector runs when some hundreds of new tuples are held.
    Fetches of large rows are smaller, by the size of those that were fetched before.
    """
    cursor = result.cursor
    assert cursor is not None
    some: list[_Columns] = []
    size, count = 0, min(_FIRST_ROWS, _ROWS_OF_A_FETCH)
    while rows := result.cursor_strategy.fetchmany(result, cursor, count):
        some.append(list(zip(*rows, strict=True)))
        of_fetch = _size(rows)
        size += of_fetch
        count = max(1, min(_ROWS_OF_A_FETCH, BATCH_BYTES * len(rows) // max(1, of_fetch)))
        if len(some) == _FETCHES or size >= BATCH_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _size(rows: Sequence[Sequence[Any]]) -> int:
    """The approximate bytes of texts and binary values, by a sample of ten rows."""
    sample = rows[:: max(1, len(rows) // 10)]
    size = sum(len(value) for row in sample for value in row if isinstance(value, str | bytes))
    return size * len(rows) // len(sample)
