"""Tables of the target that hold the history of a publisher's table: the options ``history`` and
``history_tables`` of a subscription, and the columns that such a table has.

::

    history = append                        every table gets a row for each change
    history = scd2                          every table keeps the versions of its rows
    history_tables = 'public.t = append'    only this table, whatever the option history says
    history_tables = 'public.u = off'       this table has the publisher's rows, as without the option

A table with history is announced to the apply path as a relation with more columns
(:meth:`HistoryRules.relation`), copied with constants in them (:meth:`HistoryRules.copied`), and
created without the publisher's keys and constraints (:meth:`HistoryRules.shape`), which only the
present rows meet.

With ``scd2`` (slowly changing dimension, type 2) the open version of a row is the one that ends at
:data:`OPEN_LSN`. This end is part of the primary key, so a row has at most one open version, and
changes find it by the key as they find any other row::

    k  v    _from_lsn  _from_sequence  _to_lsn  _to_sequence
    1  one        100               2      200             2    ended by a change at 200
    1  uno        200               2      max             0    open
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, get_args

from subscriber.base.errors import NotSupportedError, SQLSyntaxError, UsageError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol.messages import IDENTITY_FLAG, Relation, RelationColumn
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.schema.relation_names import TableName
from subscriber.postgres.sql.cursor import Cursor, read_label, read_name
from subscriber.postgres.sql.quoting import delimited_identifier, quote_qualified_name

History = Literal["off", "append", "scd2"]
MODES: Final[tuple[History, ...]] = get_args(History)

_TEXT, _BIGINT, _TIMESTAMPTZ = 25, 20, 1184
_TYPE_NAMES: Final = {_TEXT: "text", _BIGINT: "bigint", _TIMESTAMPTZ: "timestamp with time zone"}
APPENDED: Final = {
    "_op": _TEXT,
    "_lsn": _BIGINT,
    "_commit_timestamp": _TIMESTAMPTZ,
    "_xid": _BIGINT,
    "_sequence": _BIGINT,
    "_unchanged": _TEXT,
}
"""The columns of an append table that describe the change, with their types.
docs/history.md says what they mean.
"""

REPLACED, COPIED = 0, 1
"""The sequence of the end of rows that a copy replaces, and of the copied rows. Those of changes
are greater.
"""

VALIDITY: Final = {
    "_valid_from": _TIMESTAMPTZ,
    "_valid_to": _TIMESTAMPTZ,
    "_from_lsn": _BIGINT,
    "_from_sequence": _BIGINT,
    "_to_lsn": _BIGINT,
    "_to_sequence": _BIGINT,
}
"""The columns of a table with versions."""
END: Final = ("_to_lsn", "_to_sequence")
"""The columns of the primary key that tell the versions of a row apart."""
OPEN_LSN: Final = 2**63 - 1
"""The ``_to_lsn`` of an open version; its ``_to_sequence`` is 0."""

_ADDED: Final[dict[History, dict[str, int]]] = {"off": {}, "append": APPENDED, "scd2": VALIDITY}

_HINT: Final = (
    f"Write a list such as 'public.t = append, public.u = off', with identifiers quoted as in SQL. "
    f"The words are {', '.join(MODES)}."
)


@dataclass(frozen=True, slots=True)
class HistoryRules:
    """Which tables have a history. ``tables`` have precedence over ``everywhere``."""

    everywhere: History = "off"
    tables: tuple[tuple[TableName, History], ...] = ()

    def of(self, schema: str, table: str) -> History:
        """The history of a table, by the publisher's names.

        >>> HistoryRules("append", parse_history_tables("public.t = off")).of("public", "t")
        'off'
        """
        return dict(self.tables).get((schema, table), self.everywhere)

    @property
    def any(self) -> bool:
        """Whether any table may have a history."""
        return self.everywhere != "off" or any(mode != "off" for _, mode in self.tables)

    def relation(self, remote: Relation) -> Relation:
        """The relation as the target's table has it.

        Raises:
            NotSupportedError: 42701, a column has the name of one that describes the change.
        """
        mode = self.of(remote.namespace, remote.name)
        if mode == "off":
            return remote
        check_column_names(remote.qualified_name, [column.name for column in remote.columns], mode)
        added = tuple(
            RelationColumn(IDENTITY_FLAG if name in END else 0, name, type_oid, -1)
            for name, type_oid in _ADDED[mode].items()
        )
        if mode == "scd2":
            return replace(remote, columns=(*remote.columns, *added))
        columns = tuple(replace(column, flags=0) for column in remote.columns)
        return replace(remote, replica_identity="n", columns=(*columns, *added))

    def shape(self, table: PublisherTable) -> PublisherTable:
        """The table that ``create_tables`` creates. NotSupportedError as :meth:`relation`."""
        mode = self.of(*table.key)
        if mode == "off":
            return table
        check_column_names(table.qualified_name, [column.name for column in table.columns], mode)
        if mode == "scd2" and not table.key_columns:
            raise without_key(table.qualified_name)
        columns = [
            replace(
                column,
                generated="",
                expression=None,
                nullable=True,
                default=None,
                constant=None,
                identity="",
                serial=False,
            )
            for column in table.columns
        ]
        last = max((column.number for column in columns), default=0)
        for number, (name, type_oid) in enumerate(_ADDED[mode].items(), last + 1):
            nullable = name not in _ALWAYS
            columns.append(PublisherColumn(name, number, type_oid, type_name=_TYPE_NAMES[type_oid], nullable=nullable))
        return PublisherTable(
            table.oid,
            table.schema,
            table.name,
            table.kind,
            tuple(columns),
            identity="default" if mode == "scd2" else "nothing",
            key_columns=(*table.key_columns, *END) if mode == "scd2" else (),
            comment=table.comment,
            column_comments=table.column_comments,
            types=table.types,
        )

    def copied(self, schema: str, table: str, lsn: LSN) -> tuple[str, ...]:
        """The SQL of the columns that a copy adds to the publisher's; ``lsn`` is its snapshot's."""
        values = {
            "_op": "'insert'",
            "_lsn": str(int(lsn)),
            "_sequence": str(COPIED),
            "_from_lsn": str(int(lsn)),
            "_from_sequence": str(COPIED),
            "_to_lsn": str(OPEN_LSN),
            "_to_sequence": "0",
        }
        return tuple(
            f"{values.get(name, 'NULL')}::{_TYPE_NAMES[type_oid]} AS {delimited_identifier(name)}"
            for name, type_oid in _ADDED[self.of(schema, table)].items()
        )


NO_HISTORY: Final = HistoryRules()
"""The rules of a subscription without history."""


_ALWAYS: Final = frozenset({"_op", "_lsn", "_sequence", "_from_lsn", "_from_sequence", *END})
"""Added columns that are never NULL."""


def without_key(relation: str) -> NotSupportedError:
    """The error for a table whose rows have no key by which their versions could be told apart."""
    return NotSupportedError(
        f'table "{relation}" has no key, so that versions of its rows cannot be kept',
        relation=relation,
        hint="Give the table a primary key, or a replica identity index, at the publisher; or use history = append.",
    )


def check_column_names(relation: str, names: list[str], mode: History) -> None:
    """Refuse a column that is named as one that the history adds (42701)."""
    for name in names:
        if name.lower() in _ADDED[mode]:
            raise NotSupportedError(
                f'column "{name}" of table "{relation}" has the name of a column that the history adds',
                sqlstate="42701",
                relation=relation,
                column=name,
                hint="Rename the column at the publisher, leave it out by a column list of the publication, or give the"
                " table no history with history_tables.",
            )


@lru_cache(maxsize=64)
def parse_history_tables(text: str) -> tuple[tuple[TableName, History], ...]:
    """Read ``history_tables``: SQLSyntaxError (42601); UsageError (42710) for a table that is named
    twice.
    """
    tables: dict[TableName, History] = {}
    try:
        cursor = Cursor(text)
        while not cursor.at_end():
            if tables:
                cursor.expect(",")
            table, mode = _entry(cursor)
            if table in tables:
                raise UsageError(f'table "{".".join(table)}" is named more than once', sqlstate="42710")
            tables[table] = mode
    except SQLSyntaxError as error:
        found = " ".join(part for part in (f"{error.message}.", error.detail) if part)
        raise SQLSyntaxError('invalid syntax in parameter "history_tables"', detail=found, hint=_HINT) from None
    return tuple(tables.items())


def history_tables_text(tables: tuple[tuple[TableName, History], ...]) -> str:
    """What :func:`parse_history_tables` reads."""
    return ", ".join(f"{quote_qualified_name(*table)} = {mode}" for table, mode in tables)


def _entry(cursor: Cursor) -> tuple[TableName, History]:
    schema = read_name(cursor)
    cursor.expect(".")
    table = read_label(cursor)
    cursor.expect("=")
    for mode in MODES:
        if cursor.accept(mode):
            return (schema, table), mode
    raise cursor.error()
