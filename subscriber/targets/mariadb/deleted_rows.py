"""The triggers in MariaDB that record deleted rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc
from typing_extensions import override

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.targets.base.writing import NEW_ROUND, RECORDED, TOLD, DeletedRows, found_by
from subscriber.targets.mariadb.ddl import MariaDBDDL, quote
from subscriber.targets.mariadb.values import BLOBS, INTEGERS
from subscriber.targets.target_table import TargetColumn, TargetTable

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
        # Some servers show the whole statement that has created a trigger.
        return _are_numbered(connection) and all(there.get(name, "").endswith(body) for name, body in wanted.items())

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
                detail=f'The foreign key of column "{column}" deletes or changes rows by {min(acts)}, and such an action executes no'
                " trigger.",
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
