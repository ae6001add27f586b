"""Are source and target equal? Row by row, column by column, in PostgreSQL's own text.

::

    publisher ── COPY (SELECT …) TO STDOUT ──▶ text of each column ─┐
                                                                    ├─▶ cancel equal rows ─▶ what is left differs
    target ──── SELECT …, read back ─────────▶ text of each column ─┘

The publisher's text is what its types' output functions write, the same text that replication carries. The
target's values are turned back into that text here, by rules of this module's own: asking the code that wrote them how
it would write them again would hide its mistakes.

Both sides are read in the order of the key, side by side, and equal rows cancel at once, so memory holds what differs, not
the tables. The order is only that, an economy: rows are compared as a bag, so two collations that disagree cost
memory and nothing else. A table without a key is compared as a bag too: how often each row is there must agree.

No value of a row leaves this module except the keys of differing rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from itertools import zip_longest
from typing import Any, Final

import psycopg
import pyarrow as pa
import sqlalchemy as sa
from psycopg import sql

from subscriber.errors import TargetRelationError, UsageError
from subscriber.publisher.publisher import connect_publisher
from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.targets import Target
from subscriber.targets.target_table import TargetTable
from subscriber.types import family_of
from subscriber.types.float_text import double_text, real_text, rounded_to_real

KEYS_SHOWN: Final = 10
"""Keys of differing rows that a :class:`Difference` names."""

_LONG: Final = 200
"""Texts beyond this many characters are kept as a digest."""
_ROWS_AT_ONCE: Final = 1000
_FLOAT4, _TIMESTAMPTZ = 700, 1184

_Row = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one table that both sides should have.

    Attributes:
        table: ``schema.table`` at the publisher; ``public`` where there is no dot.
        columns: the columns to compare; None for every column of the publisher's table but generated ones.
        where: a condition in the publisher's SQL that the rows satisfy (a row filter), or None.
    """

    table: str
    columns: tuple[str, ...] | None = None
    where: str | None = None

    @property
    def schema_and_name(self) -> tuple[str, str]:
        """The two parts of the table's name."""
        schema, dot, name = self.table.partition(".")
        return (schema, name) if dot else ("public", schema)


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs in one table; counts and keys, no other values.

    Attributes:
        table: ``schema.table``.
        publisher_rows: number of rows at the publisher.
        target_rows: number of rows in the target.
        missing: rows that only the publisher has.
        unexpected: rows that only the target has.
        changed: rows that both have by their key, with other values.
        columns: the columns in which changed rows differ.
        keys: the first :data:`KEYS_SHOWN` keys of all of them; empty for a table without key.
    """

    table: str
    publisher_rows: int
    target_rows: int
    missing: int
    unexpected: int
    changed: int
    columns: tuple[str, ...]
    keys: tuple[tuple[str | None, ...], ...]

    def __str__(self) -> str:
        text = (
            f'table "{self.table}": {self.publisher_rows} rows at the publisher, {self.target_rows} in the target; '
            f"{self.missing} missing, {self.unexpected} unexpected, {self.changed} changed"
        )
        if self.columns:
            text += f" (in {', '.join(self.columns)})"
        if self.keys:
            text += f"; keys {', '.join('(' + ', '.join(map(str, key)) + ')' for key in self.keys)}"
        return text


def compare_tables(publisher_conninfo: str, target: Target, tables: Iterable[Rows | str]) -> list[Difference]:
    """Compare tables of a publisher with a target's; an empty list means that they are equal.

    Each side is read in one transaction. Call it when the target has caught up and nothing is written.

    Args:
        publisher_conninfo: libpq's connection string.
        target: where the tables were replicated to.
        tables: what to compare, such as :func:`published_rows` gives, or names (``schema.table``).

    Raises:
        UsageError: 42P01, the publisher has no such table.
        TargetRelationError: the target has no such table, or lacks one of the columns.
        PublisherError: the publisher cannot be read.
        TargetError: the target cannot be read.
    """
    differences = []
    with _reading(publisher_conninfo) as publisher, target.reporting(), target.engine.connect() as connection:
        for rows in tables:
            difference = _compare(publisher, target, connection, Rows(rows) if isinstance(rows, str) else rows)
            if difference is not None:
                differences.append(difference)
    return differences


def published_rows(publisher_conninfo: str, publications: Sequence[str]) -> list[Rows]:
    """What the publications publish: tables with their row filters (combined with OR, rule B17) and column lists.

    Raises:
        PublisherError: the publisher cannot be read.
    """
    with _reading(publisher_conninfo) as publisher:
        filtered = features_of(publisher).row_filters
        details = "attnames::text[], rowfilter" if filtered else "NULL::text[], NULL::text"
        found = publisher.execute(
            f"SELECT schemaname || '.' || tablename, {details} FROM pg_publication_tables"
            " WHERE pubname = ANY (%s) ORDER BY 1, pubname",
            (list(publications),),
        ).fetchall()
    rows: dict[str, Rows] = {}
    for table, columns, row_filter in found:
        filters = [row_filter] if table not in rows else [rows[table].where, row_filter]
        where = None if None in filters else " OR ".join(f"({text})" for text in filters)
        rows[table] = Rows(table, None if columns is None else tuple(columns), where)
    return list(rows.values())


# One table ----------------------------------------------------------------------------------------


def _compare(publisher: Connection, target: Target, connection: sa.Connection, rows: Rows) -> Difference | None:
    types, partitioned = _columns(publisher, rows)
    table = _target_table(target, connection, rows, types)
    columns = tuple(types)
    key = table.key if table.key is not None and set(table.key) <= set(columns) else ()
    here = _published(publisher, rows, columns, key, only=not partitioned)
    there = replicated_rows(target, connection, table, columns, key)
    counts = [0, 0]
    left: Counter[_Row] = Counter()
    for pair in zip_longest(here, there):
        for side, row in enumerate(pair):
            if row is None:
                continue
            counts[side] += 1
            _cancel(left, _canonical(row, types), 1 if side == 0 else -1)
    return _difference(rows.table, columns, key, counts, left) if left else None


def _cancel(left: Counter[_Row], row: _Row, one: int) -> None:
    left[row] += one
    if not left[row]:
        del left[row]


def _difference(
    table: str, columns: tuple[str, ...], key: tuple[str, ...], counts: list[int], left: Counter[_Row]
) -> Difference:
    """Sort what did not cancel into missing, unexpected and, where there is a key, changed rows."""
    at = [columns.index(name) for name in key]
    sides: tuple[dict[_Row, _Row], dict[_Row, _Row]] = ({}, {})
    numbers = [0, 0]
    for row, number in left.items():
        side = 0 if number > 0 else 1
        numbers[side] += abs(number)
        if key:
            sides[side][tuple(row[index] for index in at)] = row
    changed = sides[0].keys() & sides[1].keys()
    differing = {
        name
        for one in changed
        for name, here, there in zip(columns, sides[0][one], sides[1][one], strict=True)
        if here != there
    }
    keys = sorted({*sides[0], *sides[1]}, key=lambda one: tuple((text is None, len(text or ""), text) for text in one))
    return Difference(
        table=table,
        publisher_rows=counts[0],
        target_rows=counts[1],
        missing=numbers[0] - len(changed),
        unexpected=numbers[1] - len(changed),
        changed=len(changed),
        columns=tuple(name for name in columns if name in differing),
        keys=tuple(keys[:KEYS_SHOWN]),
    )


# The two sides --------------------------------------------------------------------------------------


@contextmanager
def _reading(conninfo: str) -> Iterator[Connection]:
    with connect_publisher(conninfo, "subscriber compare") as publisher, publisher.transaction():
        publisher.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield publisher


def _columns(publisher: Connection, rows: Rows) -> tuple[dict[str, int], bool]:
    """The columns to compare with their types, and whether the table is partitioned."""
    schema, name = rows.schema_and_name
    found = publisher.execute(
        "SELECT attname::text, atttypid::int8, relkind = 'p' FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_attribute ON attrelid = c.oid"
        " WHERE nspname = %s AND relname = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"
        " ORDER BY attnum",
        (schema, name),
    ).fetchall()
    if not found:
        raise UsageError(f'relation "{schema}.{name}" does not exist at the publisher', sqlstate="42P01")
    chosen = {column: oid for column, oid, _ in found if rows.columns is None or column in rows.columns}
    return chosen, found[0][2]


def _target_table(target: Target, connection: sa.Connection, rows: Rows, types: dict[str, int]) -> TargetTable:
    table = target.reflect(connection, *rows.schema_and_name)
    if table is None:
        raise TargetRelationError(f'relation "{rows.table}" does not exist in the target', relation=rows.table)
    for name in types:
        if table.column(name) is None:
            raise TargetRelationError(
                f'relation "{rows.table}" of the target has no column "{name}"', relation=rows.table, column=name
            )
    return table


def _published(
    publisher: Connection, rows: Rows, columns: Sequence[str], key: Sequence[str], *, only: bool
) -> Iterator[_Row]:
    # Inheritance children are published, and compared, as tables of their own.
    where = sql.SQL("") if rows.where is None else sql.SQL(" WHERE ({})").format(sql.SQL(rows.where))
    source = sql.SQL("{}{}{}").format(sql.SQL("ONLY " if only else ""), sql.Identifier(*rows.schema_and_name), where)
    return _copy(publisher, source, columns, key)


def replicated_rows(
    target: Target, connection: sa.Connection, table: TargetTable, columns: Sequence[str], key: Sequence[str] = ()
) -> Iterator[tuple[Any, ...]]:
    """The rows of a target's table as its driver gives them, in the order of ``key``; :func:`text_of` gives their text."""
    if target.capabilities.postgresql_text:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        name = [table.name] if table.schema is None else [table.schema, table.name]
        yield from _copy(driver, sql.Identifier(*name), columns, key)
        return
    # Columns without a type: the driver's values as they are stored.
    here = {column.name: column for column in table.columns}
    query: sa.Select[*tuple[Any, ...]] = sa.select(*(target.readable(here[name]) for name in columns))
    query = query.select_from(table.clause())
    query = query.order_by(*(sa.column(name) for name in key))
    yield from map(tuple, connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(query))


def _copy(connection: Connection, source: sql.Composable, columns: Sequence[str], key: Sequence[str]) -> Iterator[_Row]:
    """Rows as the types' output functions write them; ``::text`` would cut the blanks of character(n)."""
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    order = sql.SQL(" ORDER BY {}").format(sql.SQL(", ").join(map(sql.Identifier, key))) if key else sql.SQL("")
    query = sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT").format(listed, source, order)
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        yield from copy.rows()


# Text -------------------------------------------------------------------------------------------


def _canonical(row: Sequence[Any], types: dict[str, int]) -> _Row:
    return tuple(_shorten(text_of(oid, value)) for oid, value in zip(types.values(), row, strict=True))


def _shorten(text: str | None) -> str | None:
    if text is None or len(text) <= _LONG:
        return text
    return f"{len(text)} characters {blake2b(text.encode(), digest_size=16).hexdigest()}"


def text_of(type_oid: int, value: Any) -> str | None:
    r"""PostgreSQL's text for a value that a driver gave, or for that text itself.

    Numbers that PostgreSQL calls equal have one text: the zeros of a floating-point type (SQLite has one zero only).

    >>> text_of(16, 1), text_of(701, 0.1), text_of(17, b"\x00"), text_of(1184, "2026-01-01 00:00:00+00:00")
    ('t', '0.1', '\\x00', '2026-01-01 00:00:00+00')
    """
    if value is None:
        return None
    arrow_type = family_of(type_oid).arrow_type
    if pa.types.is_boolean(arrow_type):
        return {"1": "t", "0": "f", "True": "t", "False": "f"}.get(str(value), str(value))
    if pa.types.is_floating(arrow_type):
        return _float_text(type_oid, value)
    if isinstance(value, float) and pa.types.is_integer(arrow_type) and value.is_integer():
        return str(int(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return "\\x" + bytes(value).hex()
    # A Decimal's own text has an exponent where PostgreSQL's has none.
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    if type_oid == _TIMESTAMPTZ and "+00:00" in text:
        return text.replace("+00:00", "+00")
    return text


def _float_text(type_oid: int, value: Any) -> str:
    try:
        number = float(value) + 0.0
    except ValueError:  # a text that is no number: a difference to report
        return str(value)
    return real_text(rounded_to_real(number)) if type_oid == _FLOAT4 else double_text(number)
