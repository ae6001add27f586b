"""New tables in MariaDB, how large their rows and keys are, and the triggers that record deleted
rows.

::

    what                    limit in bytes             columns of a row that is too large
    key                     3,072                      its longest texts are shorter
    row, without LONGTEXT   65,535                     its longest texts are LONGTEXT
    row in a page           less than 8,126 (InnoDB)   its texts of up to 63 characters are VARCHAR(64)

A page has texts of up to 255 bytes itself, and of longer ones a pointer: so a ``VARCHAR(64)``,
which may have 256 bytes, takes less of a page than a ``VARCHAR(63)``. The limits are for pages of
16 kB, the server's default. A row that has many texts of 21 to 40 bytes can be too large
nevertheless, because InnoDB moves only longer ones out of the page.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects.mysql.base import MySQLDialect
from typing_extensions import override

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.schema.shape import SchemaDifference
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.targets.base.ddl import DDL
from subscriber.targets.base.writing import NEW_ROUND, RECORDED, TOLD, DeletedRows, found_by
from subscriber.targets.mariadb.values import BLOBS, INTEGERS, declaration, holds_every_length
from subscriber.targets.target_table import AutoIncrement, Declarations, TargetColumn, TargetTable
from subscriber.targets.translate_expression import TranslationRules


def quote(name: str) -> str:
    """A name in SQL. SQLAlchemy's quoting doubles percent signs for the driver's parameters."""
    return "`" + name.replace("`", "``") + "`"


class MariaDBDDL(DDL):
    rules = TranslationRules(
        quote=quote,
        length="char_length",  # length counts bytes
        concat="concat({left}, {right})",  # || is OR
        date="DATE'{text}'",
        distinct="NOT ({left} <=> {right})",
    )

    @override
    def qualified(self, schema: str, table: str) -> tuple[str | None, str]:
        return None, table if schema == "public" else f"{schema}.{table}"

    @override
    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        return declaration(type_oid, type_name, key=key, collation=self.collation)

    @override
    def fit(self, shape: PublisherTable, declared: Mapping[str, str]) -> Declarations:
        return fit(shape, declared)

    @property
    def collation(self) -> str:
        """A collation that compares exactly, including blanks at the end."""
        # Before the first connection it is not known whether the server is MariaDB or MySQL.
        dialect = self._engine.dialect
        is_mysql = isinstance(dialect, MySQLDialect) and bool(dialect.server_version_info) and not dialect.is_mariadb
        return "utf8mb4_0900_bin" if is_mysql else "utf8mb4_nopad_bin"

    @override
    def storage(self, declared: str) -> str:
        word = re.split(r"[ (]", declared, maxsplit=1)[0].lower()
        return {"boolean": "tinyint"}.get(word, word)

    @override
    def literal(self, value: Any) -> str | None:
        return f"X'{value.hex()}'" if isinstance(value, bytes) else super().literal(value)

    @override
    def auto_increment(self, shape: PublisherTable, column: PublisherColumn, declared: str) -> AutoIncrement | None:
        """A table can have one such column, and it must be the first of a key."""
        if column.name != _incremented(shape) or self.storage(declared) not in INTEGERS:
            return None
        return AutoIncrement(f"{declared} AUTO_INCREMENT")


def _incremented(shape: PublisherTable) -> str | None:
    first = {
        columns[0]
        for columns in (shape.key_columns, *(key.columns for key in shape.unique if not key.deferrable))
        if columns
    }
    return next((one.name for one in shape.columns if (one.identity or one.serial) and one.name in first), None)


# Row size --------------------------------------------------------------------------------------

KEY_BYTES: Final = 3_072
ROW_BYTES: Final = 65_535
PAGE_BYTES: Final = 8_125

_DECLARED: Final = re.compile(r"(?P<type>\w+)(?:\((?P<size>\d+)(?:,(?P<scale>\d+))?\))?")
_FIXED: Final = {
    "BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "MEDIUMINT": 3, "INT": 4, "BIGINT": 8, "DOUBLE": 8, "FLOAT": 4,
    "DATE": 3, "TIME": 6, "DATETIME": 8, "TIMESTAMP": 7, "UUID": 16,
}  # fmt: skip
_BYTES_OF_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4)
_DIGITS: Final = 9
"""The digits of a DECIMAL that are stored together, in four bytes."""
_CHARACTER: Final = 4
_LONGEST_INSIDE: Final = 255
"""The bytes of the longest column that is always stored in the page."""
_LEAST_OUTSIDE: Final = 64
"""The characters of the shortest VARCHAR that can be stored outside the page."""
_POINTER: Final = 21
_LONG_IN_ROW: Final = 12
_KEPT_INSIDE: Final = 41
"""The bytes that a long column takes in the page if its value has 40 bytes."""
_HEADER: Final = 5 + 6 + 7
"""The header of a row, and the transaction that has written it."""
_ROW_NUMBER: Final = 6
"""The number of a row in a table without a key."""


@dataclass(frozen=True, slots=True)
class _Column:
    """``longest`` is in bytes, None for LONGTEXT. If it ``varies``, a shorter value takes less."""

    name: str
    declared: str
    nullable: bool
    longest: int | None
    varies: bool

    @property
    def in_row(self) -> int:
        if self.longest is None:
            return _LONG_IN_ROW
        return self.longest + (0 if not self.varies else 1 if self.longest <= _LONGEST_INSIDE else 2)

    @property
    def in_page(self) -> int:
        return _POINTER if self.is_outside else self.in_row

    @property
    def is_outside(self) -> bool:
        return self.longest is None or (self.varies and self.longest > _LONGEST_INSIDE)

    @property
    def short_name(self) -> str:
        found = _DECLARED.match(self.declared)
        return self.declared if found is None else found[0]


def fit(shape: PublisherTable, declared: Mapping[str, str]) -> Declarations:
    columns = {
        column.name: _column(
            column.name, declared[column.name], column.nullable and column.name not in shape.key_columns
        )
        for column in shape.columns
    }
    keys = [
        columns_of_key
        for columns_of_key in (shape.key_columns, *(key.columns for key in shape.unique))
        if columns_of_key
    ]
    in_keys = {name for key in keys for name in key}
    for key in keys:
        columns |= _shortened(columns, key)
    free = [name for name in reversed(columns) if name not in in_keys and columns[name].varies]
    has_key = any(all(not columns[name].nullable for name in key) for key in keys)
    before = dict(columns)
    for name in _longest_first(columns, (one for one in free if not columns[one].is_outside)):
        if _page(columns, has_key=has_key) <= PAGE_BYTES:
            break
        if columns[name].in_page > _POINTER:
            columns[name] = _declared_as(columns[name], f"VARCHAR({_LEAST_OUTSIDE})")
    for name in _longest_first(columns, free):
        if _row(columns) <= ROW_BYTES:
            break
        columns[name] = _declared_as(columns[name], "LONGTEXT")
    referring = {name for key in shape.foreign_keys for name in key.columns}
    return Declarations(
        {name: column.declared for name, column in columns.items()},
        (
            *_limited(shape, [columns[one.name] for one in shape.columns if one.name in in_keys | referring]),
            *_changed(shape, before, columns),
            *_may_be_too_large(columns, has_key=has_key),
        ),
        _obstacle(columns, has_key=has_key),
    )


def key_bytes(declared: str) -> int:
    return _column("", declared, nullable=False).longest or 0


def _column(name: str, declared: str, nullable: bool) -> _Column:
    found = _DECLARED.match(declared.upper())
    assert found is not None
    kind, size = found["type"], int(found["size"] or 0)
    if kind == "VARCHAR":
        return _Column(name, declared, nullable, _CHARACTER * size, varies=True)
    if kind == "VARBINARY":
        return _Column(name, declared, nullable, size, varies=True)
    if kind == "DECIMAL":
        scale = int(found["scale"] or 0)
        return _Column(name, declared, nullable, _digits(size - scale) + _digits(scale), varies=False)
    if kind == "CHAR":
        return _Column(name, declared, nullable, _CHARACTER * size, varies=False)
    return _Column(name, declared, nullable, _FIXED.get(kind), varies=False)


def _digits(number: int) -> int:
    return number // _DIGITS * _CHARACTER + _BYTES_OF_DIGITS[number % _DIGITS]


def _declared_as(column: _Column, kind: str) -> _Column:
    rest = column.declared.removeprefix(column.short_name)
    return _column(column.name, kind + rest, column.nullable)


def _longest_first(columns: Mapping[str, _Column], names: Iterator[str] | list[str]) -> list[str]:
    return sorted(names, key=lambda name: columns[name].longest or 0, reverse=True)


def _shortened(columns: Mapping[str, _Column], key: tuple[str, ...]) -> dict[str, _Column]:
    """The columns of a key, the longest of them shorter if the key would be too long."""
    room = KEY_BYTES - sum(columns[name].longest or 0 for name in key if not columns[name].varies)
    varying = sorted((columns[name] for name in key if columns[name].varies), key=lambda one: one.longest or 0)
    shorter = {}
    for place, column in enumerate(varying):
        longest = min(column.longest or 0, room // (len(varying) - place))
        is_text = column.declared.startswith("VARCHAR")
        size = longest // _CHARACTER if is_text else longest
        shorter[column.name] = _declared_as(column, f"{'VARCHAR' if is_text else 'VARBINARY'}({size})")
        room -= longest
    return shorter


def _row(columns: Mapping[str, _Column]) -> int:
    return sum(column.in_row for column in columns.values()) + _null_bytes(columns)


def _page(columns: Mapping[str, _Column], *, has_key: bool, long: int = _POINTER) -> int:
    values = sum(long if column.is_outside else column.in_page for column in columns.values())
    return _HEADER + (0 if has_key else _ROW_NUMBER) + _null_bytes(columns) + values


def _null_bytes(columns: Mapping[str, _Column]) -> int:
    return (sum(column.nullable for column in columns.values()) + 7) // 8


def _limited(shape: PublisherTable, columns: list[_Column]) -> Iterator[SchemaDifference]:
    for column in columns:
        if column.varies and not holds_every_length(_of(shape, column), column.longest or 0):
            kind = column.short_name
            reason = (
                f'column "{column.name}" is {kind}, because MariaDB has no keys of unlimited length;'
                " a longer value is refused (22001), and stops the subscription"
            )
            ddl = f"{column.name} {_of(shape, column).type_name}"
            yield SchemaDifference("key length", column.name, ddl, reason, instead=kind)


def _changed(
    shape: PublisherTable, before: Mapping[str, _Column], after: Mapping[str, _Column]
) -> Iterator[SchemaDifference]:
    for name, column in after.items():
        if column.declared != before[name].declared:
            reason = (
                f'column "{name}" is {column.short_name} and not {before[name].short_name}, so that a row of the'
                " table is not too large"
            )
            ddl = f"{name} {_of(shape, column).type_name}"
            yield SchemaDifference("row size", name, ddl, reason, instead=column.short_name)


def _may_be_too_large(columns: Mapping[str, _Column], *, has_key: bool) -> Iterator[SchemaDifference]:
    largest = _page(columns, has_key=has_key, long=_KEPT_INSIDE)
    if largest > PAGE_BYTES and _obstacle(columns, has_key=has_key) is None:
        reason = (
            f"a row that needs more than {PAGE_BYTES:,} bytes, in which a long text counts up to 40 bytes, is refused"
            f" and stops the subscription; {largest:,} are possible with {len(columns):,} columns"
        )
        yield SchemaDifference("large row", "", "", reason)


def _obstacle(columns: Mapping[str, _Column], *, has_key: bool) -> str | None:
    row, page = _row(columns), _page(columns, has_key=has_key)
    if row > ROW_BYTES:
        return f"a row of it has up to {row:,} bytes, without its long texts, and {ROW_BYTES:,} are possible"
    if page > PAGE_BYTES:
        return f"a row of it needs {page:,} bytes of a page, and {PAGE_BYTES:,} are possible"
    return None


def _of(shape: PublisherTable, column: _Column) -> PublisherColumn:
    return next(one for one in shape.columns if one.name == column.name)


# Deleted rows ----------------------------------------------------------------------------------

_NUMBER: Final = RECORDED.c.deletedid
_NUMBERED: Final = (
    "SELECT count(*) FROM information_schema.columns"
    " WHERE table_schema = DATABASE() AND table_name = 'subscriber_deleted_row' AND column_name = 'deletedid'"
)
_BODIES: Final = sa.text(
    "SELECT trigger_name, action_statement FROM information_schema.triggers"
    " WHERE event_object_schema = COALESCE(:database, DATABASE()) AND event_object_table = :name"
)
_ACTIONS: Final = sa.text(
    "SELECT c.column_name, r.update_rule, r.delete_rule FROM information_schema.referential_constraints r"
    " JOIN information_schema.key_column_usage c ON c.constraint_schema = r.constraint_schema"
    " AND c.constraint_name = r.constraint_name AND c.table_name = r.table_name"
    " WHERE r.constraint_schema = COALESCE(:database, DATABASE()) AND r.table_name = :name"
)
_LOCK_SECONDS: Final = 10
"""How long the creation of a trigger waits for transactions that use the table."""
_TOGETHER: Final = 1_000
_LONGEST_RECORDED: Final = 65_535
"""The bytes of the longest value that is recorded of a row without a key: a trigger must not exceed
max_allowed_packet, because then the row could not be deleted.
"""
_ORIGIN: Final = "@subscriber_origin"


class MariaDBDeletedRows(DeletedRows):
    """A recorded row is a JSON array of the values by which it is found, as texts; those of texts
    and bytes are hexadecimal digits.

    InnoDB locks every row that a statement reads, and waits for those that are not committed. So
    the triggers read a row's origin from a variable of the session, and the rows have a number, by
    which those that a plain SELECT has found are changed.
    """

    transaction = sa.literal_column("0")

    def __init__(self, ddl: MariaDBDDL) -> None:
        self._ddl = ddl

    @override
    def are_recorded(self, connection: sa.Connection, table: TargetTable) -> bool:
        """Also whether they are those of the present key."""
        given = {"database": table.schema, "name": table.name}
        there = {row[0]: row[1] for row in connection.execute(_BODIES, given)}
        wanted = _bodies(connection, table, relation=_stored_relation(table))
        return _are_numbered(connection) and all(there.get(name) == body for name, body in wanted.items())

    @override
    def record(self, connection: sa.Connection, table: TargetTable, relation: str) -> None:
        _check_actions(connection, table)
        events = ("DELETE", "UPDATE")
        with _altering(connection) as altering:
            if not _are_numbered(altering):
                altering.exec_driver_sql(
                    "ALTER TABLE subscriber_deleted_row ADD COLUMN deletedid BIGINT UNSIGNED NOT NULL PRIMARY KEY"
                )
            _drop(altering, table)
            for event, (name, body) in zip(events, _bodies(connection, table, relation).items(), strict=True):
                place = f"{_in_schema(table, name)} AFTER {event} ON {_in_schema(table, table.name)}"
                altering.exec_driver_sql(f"CREATE TRIGGER {place} FOR EACH ROW {body}")

    @override
    def forget(self, connection: sa.Connection, table: TargetTable) -> None:
        with _altering(connection) as altering:
            _drop(altering, table)

    @override
    def rows(self, connection: sa.Connection, table: TargetTable, relation: str) -> sa.Subquery:
        columns = (table.column(name) for name in found_by(table))
        kept = [self._value(column, place) for place, column in enumerate(columns) if column is not None]
        told = ("deletedat", "transactionid", "origin", "deletedid")
        return (
            sa.select(*kept, *(sa.literal_column(name).label(label) for name, label in zip(told, TOLD, strict=True)))
            .select_from(RECORDED)
            .where(RECORDED.c.relation == relation)
            .subquery("subscriber_deleted")
        )

    @override
    @contextmanager
    def deleted_by(self, connection: sa.Connection, origin: str | None) -> Iterator[None]:
        set_origin = sa.text(f"SET {_ORIGIN} = :origin")
        connection.execute(set_origin, {"origin": origin or ""})
        try:
            yield
        finally:
            try:
                connection.execute(set_origin, {"origin": None})
            except exc.SQLAlchemyError:
                connection.invalidate()  # the variable outlives the transaction

    @override
    def move(self, connection: sa.Connection, rows: sa.ColumnElement[bool], round_: int | None) -> None:
        if not _are_numbered(connection):  # no table has triggers
            return
        query = sa.select(_NUMBER).where(rows).order_by(_NUMBER).limit(_TOGETHER)
        last = -1
        while numbers := connection.execute(query.where(last < _NUMBER)).scalars().all():
            super().move(connection, _NUMBER.in_(numbers), round_)
            last = numbers[-1]

    @override
    def last(
        self, connection: sa.Connection, rows: sa.Subquery, condition: sa.ColumnElement[bool]
    ) -> Sequence[Any] | None:
        """A transaction sees what was committed before it began, and what it has written itself;
        another session sees what is committed now.
        """
        own = super().last(connection, rows, condition)
        with connection.engine.connect() as other:
            committed = super().last(other, rows, condition)
        found = [row for row in (own, committed) if row is not None]
        return max(found, key=lambda row: (row[0], row[-1]), default=None)

    def _value(self, column: TargetColumn, place: int) -> sa.ColumnElement[Any]:
        """A value of a recorded row, of the column's type."""
        text = f"NULLIF(JSON_UNQUOTE(JSON_EXTRACT(deletedrow, '$[{place}]')), 'null')"
        sql: str
        match column.storage:
            case storage if storage in INTEGERS:
                sql = f"CAST({text} AS {'UNSIGNED' if 'unsigned' in column.declared_type else 'SIGNED'})"
            case "decimal":
                sql = f"CAST({text} AS {column.declared_type.partition(' ')[0]})"
            case "double":
                sql = f"({text} + 0e0)"
            case "date":
                sql = f"CAST({text} AS DATE)"
            case "datetime" | "time" as storage:
                sql = f"CAST({text} AS {storage}(6))"
            case "timestamp":
                sql = f"FROM_UNIXTIME({text})"
            case storage if storage in BLOBS:
                sql = f"UNHEX({text})"
            case storage:
                collation = "utf8mb4_bin" if storage == "char" else self._ddl.collation
                sql = f"CONVERT(UNHEX({text}) USING utf8mb4) COLLATE {collation}"
        return sa.literal_column(sql).label(column.name)


def _are_numbered(connection: sa.Connection) -> bool:
    return bool(connection.exec_driver_sql(_NUMBERED).scalar_one())


def _recorded(column: TargetColumn, row: str) -> str:
    """A value of the row ``OLD`` or ``NEW`` as ASCII text, which is the same in all sessions."""
    value = f"{row}.{quote(column.name)}"
    match column.storage:
        case storage if storage in INTEGERS | {"decimal", "double", "date", "datetime", "time"}:
            return f"CAST({value} AS CHAR)"
        case "timestamp":
            return f"CAST(UNIX_TIMESTAMP({value}) AS CHAR)"
        case storage if storage in BLOBS:
            return f"HEX({value})"
        case _:
            return f"HEX(CONVERT({value} USING utf8mb4))"


def _bodies(connection: sa.Connection, table: TargetTable, relation: str) -> dict[str, str]:
    """The names of the triggers for DELETE and UPDATE, and what they execute."""
    columns = [column for name in found_by(table) if (column := table.column(name)) is not None]
    values = ", ".join(_recorded(column, "OLD") for column in columns)
    catalog = quote(connection.execute(sa.select(sa.func.database())).scalar_one())
    # SYSDATE is the time now, in the session's time zone, and the others that of the statement.
    now = "UTC_TIMESTAMP(6) + INTERVAL TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) MICROSECOND"
    insert = (
        f"INSERT INTO {catalog}.subscriber_deleted_row"
        " (deletedid, relation, deletedrow, deletedat, transactionid, origin, round)"
        f" VALUES (UUID_SHORT(), {quote_literal(relation)}, JSON_ARRAY({values}),"
        f" DATE_FORMAT({now}, '%Y-%m-%dT%H:%i:%s.%f+00:00'), 0, {_ORIGIN}, {NEW_ROUND});"
    )
    moved = " OR ".join(f"NOT ({_recorded(column, 'OLD')} <=> {_recorded(column, 'NEW')})" for column in columns)
    short = "".join(
        f" AND COALESCE(LENGTH(OLD.{quote(column.name)}), 0) <= {_LONGEST_RECORDED}"
        for column in columns
        if table.key is None
    )
    name = table.name if len(table.name) <= _LONGEST_NAME else hashlib.sha256(table.name.encode()).hexdigest()[:32]
    when = f"({_ORIGIN} IS NULL OR {_ORIGIN} <> ''){short}"
    return {
        f"subscriber_deleted_{name}": f"BEGIN IF {when} THEN {insert} END IF; END",
        f"subscriber_updated_{name}": f"BEGIN IF {when} AND ({moved}) THEN {insert} END IF; END",
    }


_LONGEST_NAME: Final = 64 - len("subscriber_deleted_")
"""The characters of the longest table name that the name of its triggers contains."""


def _check_actions(connection: sa.Connection, table: TargetTable) -> None:
    """Refuse a table from which a foreign key deletes rows: MariaDB's actions fire no trigger."""
    key = found_by(table)
    for column, on_update, on_delete in connection.execute(_ACTIONS, {"database": table.schema, "name": table.name}):
        acts = {on_update, on_delete} & {"CASCADE", "SET NULL"} if column in key else {on_delete} & {"CASCADE"}
        if acts:
            raise NotSupportedError(
                f'retain_dead_tuples is not supported for table "{table.name}"',
                detail=f'The foreign key of column "{column}" deletes or changes rows by {min(acts)}, and MariaDB executes no'
                " trigger then.",
                hint=f"Declare the foreign key without {min(acts)} in the target, or leave retain_dead_tuples out.",
                column=column,
            )


@contextmanager
def _altering(connection: sa.Connection) -> Iterator[sa.Connection]:
    """Another session: CREATE TRIGGER would commit the transaction."""
    with connection.engine.connect().execution_options(no_parameters=True) as altering:
        altering.exec_driver_sql(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
        try:
            yield altering
        finally:
            altering.exec_driver_sql("SET SESSION lock_wait_timeout = DEFAULT")


def _drop(altering: sa.Connection, table: TargetTable) -> None:
    given = {"database": table.schema, "name": table.name}
    for name, _ in altering.execute(_BODIES, given).all():
        if name.startswith(("subscriber_deleted_", "subscriber_updated_")):
            altering.exec_driver_sql(f"DROP TRIGGER {_in_schema(table, name)}")


def _in_schema(table: TargetTable, name: str) -> str:
    return quote(name) if table.schema is None else f"{quote(table.schema)}.{quote(name)}"


def _stored_relation(table: TargetTable) -> str:
    return table.name if table.schema is None else f"{table.schema}.{table.name}"
