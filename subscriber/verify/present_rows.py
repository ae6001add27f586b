"""The rows that an append table implies: those that the publisher has now.

::

    changes after the last TRUNCATE ──┬─ with a key:     the last change of each key, without the deleted ones
                                      └─ without a key:  new rows, minus old rows

*With a key:* a value that an UPDATE has left unchanged is not in its row. It is in the last row of
the key that has it. It is not there if the UPDATE changed the key, so such a table is refused.

*Without a key:* each old row has all columns, or there is none, because only a table with ``REPLICA
IDENTITY FULL`` can be updated then. The comparison adds the old rows to those of the publisher, so
no row has to be looked for.

The database computes this in a query that a reader reads in place of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.sql.cursor import Cursor, read_label
from subscriber.postgres.sql.quoting import quote_identifier, quote_qualified_name
from subscriber.targets import TargetTable

_NEW: Final = ("insert", "update_postimage")
_OLD: Final = ("update_preimage", "delete")
_OF_UPDATE: Final = ("update_postimage", "update_preimage")
_OF_CHANGE: Final = ("_op", "_lsn", "_sequence", "_unchanged")


def _number(value: int) -> sa.ColumnElement[Any]:
    return sa.literal_column(str(int(value)))


_ZERO: Final = _number(0)
_ONE: Final = _number(1)
"""Numbers are literals, because Firebird does not know of which type a parameter of an expression
is, and its dialect takes it for 32 bits.
"""


@dataclass(frozen=True, slots=True)
class PresentRows:
    """``table`` is read for the present rows; those of ``removed`` are then to be left out, once
    for each of its rows. ``key`` has the columns of the publisher's key, if any.
    """

    table: TargetTable
    key: tuple[str, ...]
    removed: TargetTable | None = None


def present_rows(connection: sa.Connection, table: TargetTable, remote: Relation, subscription: str) -> PresentRows:
    """How to read the present rows of an append table, while the apply is held. NotSupportedError
    if its changes do not have all values of these rows.
    """
    key = [column.name for column in remote.columns if column.is_identity] if remote.replica_identity != "f" else []
    changes = _Changes(connection, table, [column.name for column in remote.columns], remote, subscription)
    return changes.by_key(key) if key else changes.without_key()


class _Changes:
    """The changes after the last TRUNCATE."""

    def __init__(
        self, connection: sa.Connection, table: TargetTable, names: Sequence[str], remote: Relation, subscription: str
    ) -> None:
        self._connection = connection
        self._table = table
        self._names = names
        self._remote = remote
        self._subscription = subscription
        clause = table.clause()
        self._source = sa.select(*(clause.c[name] for name in (*names, *_OF_CHANGE)))
        if table.kind == "table":  # rows of tables that inherit from it are not the table's
            self._source = self._source.with_hint(clause, "ONLY", "postgresql")
        at = clause.c["_lsn"], clause.c["_sequence"]
        query = sa.select(*at).where(clause.c["_op"] == "truncate").order_by(*(one.desc() for one in at)).limit(1)
        last = connection.execute(query).first()
        if last is not None:
            lsn, sequence = map(_number, last)
            self._source = self._source.where(sa.or_(at[0] > lsn, sa.and_(at[0] == lsn, at[1] > sequence)))

    # With a key -----------------------------------------------------------------------------------

    def by_key(self, key: Sequence[str]) -> PresentRows:
        rows = self._source.subquery("c")
        keyless = sa.or_(*(rows.c[name].is_(None) for name in key))
        if self._count(sa.select(sa.func.count()).select_from(rows).where(keyless)):
            raise self._error(
                "some changes do not have all columns of the key, which the replica identity had not then"
            )
        lacking = self._lacking(key)
        values = self._with_unchanged(key, lacking) if lacking else rows
        # The dialect of Firebird writes row_number without its parentheses.
        rank = sa.func.sum(_ONE).over(
            partition_by=[values.c[name] for name in key],
            order_by=[values.c["_lsn"].desc(), values.c["_sequence"].desc()],
            rows=(None, 0),
        )
        kept = [values.c[name] for name in (*self._names, "_op", *(["_lost"] if lacking else []))]
        last = sa.select(*kept, rank.label("_latest")).subquery("l")
        present = sa.and_(last.c["_latest"] == _ONE, sa.or_(*(last.c["_op"] == op for op in _NEW)))
        if lacking and self._count(
            sa.select(sa.func.count()).select_from(last).where(present, last.c["_lost"] > _ZERO)
        ):
            raise self._error(
                "an UPDATE of a key, or one of a row that the table does not have, left large values (TOAST) unchanged"
            )
        return PresentRows(self._read(sa.select(*(last.c[name] for name in self._names)).where(present)), tuple(key))

    def _lacking(self, key: Sequence[str]) -> dict[str, list[str]]:
        """The columns that some UPDATE did not send, with the values of ``_unchanged`` that name
        them.
        """
        rows = self._source.subquery("u")
        named = rows.c["_unchanged"]
        query = sa.select(named).distinct().where(rows.c["_op"] == "update_postimage", named.is_not(None))
        found: dict[str, list[str]] = {}
        for (text,) in self._connection.execute(query):
            for name in unchanged_columns(text):
                if name in self._names and name not in key:
                    found.setdefault(name, []).append(text)
        return found

    def _with_unchanged(self, key: Sequence[str], lacking: dict[str, list[str]]) -> sa.Subquery:
        """The rows with the unchanged values; ``_lost`` is positive in a row that lacks one still.

        A row that has a value begins a group, to which the later rows of the key belong that do not
        have it. The row of an UPDATE that changed the key begins one too: earlier rows of its key
        are of another row.
        """
        rows = self._source.subquery("c")
        others = self._source.subquery("o")
        moved = others.c["_op"].is_not(None)
        same_change = sa.and_(
            others.c["_op"] == "update_preimage",
            others.c["_lsn"] == rows.c["_lsn"],
            others.c["_sequence"] == rows.c["_sequence"] - _ONE,
            rows.c["_op"] == "update_postimage",
        )
        place = [rows.c["_lsn"], rows.c["_sequence"]]
        partition = [rows.c[name] for name in key]
        columns: list[sa.ColumnElement[Any]] = [rows.c[name] for name in (*self._names, "_op", "_lsn", "_sequence")]
        for number, texts in enumerate(lacking.values()):
            lacks = sa.and_(
                rows.c["_op"] == "update_postimage", sa.or_(*(rows.c["_unchanged"] == text for text in texts))
            )
            begins = sa.case((moved, _ONE), (lacks, _ZERO), else_=_ONE)
            group = sa.func.sum(begins).over(partition_by=partition, order_by=place, rows=(None, 0))
            columns += [group.label(f"_group{number}"), sa.case((lacks, _ONE), else_=_ZERO).label(f"_lacks{number}")]
        grouped = sa.select(*columns).select_from(rows.outerjoin(others, same_change)).subquery("g")
        filled: dict[str, sa.ColumnElement[Any]] = {}
        lost: sa.ColumnElement[Any] = _ZERO
        for number, name in enumerate(lacking):
            window: dict[str, Any] = {
                "partition_by": [*(grouped.c[one] for one in key), grouped.c[f"_group{number}"]],
                "order_by": [grouped.c["_lsn"], grouped.c["_sequence"]],
            }
            filled[name] = sa.func.first_value(grouped.c[name]).over(**window).label(name)
            lost = lost + sa.func.first_value(grouped.c[f"_lacks{number}"]).over(**window)
        kept = (filled.get(name, grouped.c[name]) for name in (*self._names, "_op", "_lsn", "_sequence"))
        return sa.select(*kept, lost.label("_lost")).subquery("f")

    # Without a key --------------------------------------------------------------------------------

    def without_key(self) -> PresentRows:
        rows = self._source.subquery("c")
        # Every UPDATE has two whole rows.
        new, old = (sa.func.sum(sa.case((rows.c["_op"] == op, _ONE), else_=_ZERO)) for op in _OF_UPDATE)
        unpaired = sa.select(sa.func.coalesce(new - old, _ZERO)).select_from(rows)
        incomplete = sa.select(sa.func.count()).select_from(rows).where(rows.c["_unchanged"].is_not(None))
        if self._count(unpaired) or self._count(incomplete):
            raise self._error("some old rows do not have all columns, because the replica identity was not FULL then")
        return PresentRows(self._of_operations(_NEW), (), self._of_operations(_OLD))

    def _of_operations(self, operations: Sequence[str]) -> TargetTable:
        rows = self._source.subquery("c")
        query = sa.select(*(rows.c[name] for name in self._names))
        return self._read(query.where(sa.or_(*(rows.c["_op"] == one for one in operations))))

    # ----------------------------------------------------------------------------------------------

    def _read(self, query: sa.Select[Any]) -> TargetTable:
        return replace(self._table, read_from=query.subquery("r"))

    def _count(self, query: sa.Select[Any]) -> int:
        return int(self._connection.execute(query).scalar_one())

    def _error(self, why: str) -> NotSupportedError:
        subscription = quote_identifier(self._subscription)
        name = quote_qualified_name(self._remote.namespace, self._remote.name)
        return NotSupportedError(
            f'the history of table "{self._remote.qualified_name}" does not have all values of the present rows',
            detail=f"{why[0].upper()}{why[1:]}.",
            hint="Set REPLICA IDENTITY FULL at the publisher, with which every change has all values, and copy the table"
            f" again, with which the comparison begins: ALTER SUBSCRIPTION {subscription} REFRESH TABLE {name};",
            relation=self._remote.qualified_name,
        )


def unchanged_columns(text: str) -> tuple[str, ...]:
    """The columns that a value of ``_unchanged`` names.

    >>> unchanged_columns('v, "Large, one"')
    ('v', 'Large, one')
    """
    cursor = Cursor(text)
    names = [read_label(cursor)]
    while cursor.accept(","):
        names.append(read_label(cursor))
    return tuple(names)
