"""Counters of SQLite: the values that are stored for AUTOINCREMENT tables."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlglot import TokenType, tokenize
from sqlglot.errors import SqlglotError

from subscriber.schema.shape import SequencePosition
from subscriber.targets.generic.sequences import GenericSequences
from subscriber.targets.sqlite.catalog import sql_of
from subscriber.targets.target_table import TargetSequence, TargetTable

_LAST_ROWID: Final = 2**63 - 1


class SQLiteSequences(GenericSequences):
    """See :class:`~subscriber.targets.roles.sequences.Sequences`."""

    def of_column(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """See :meth:`Sequences.of_column`; the values advance by 1.

        SQLite stores a value only for AUTOINCREMENT tables (in ``sqlite_sequence``). Any other
        ``INTEGER PRIMARY KEY`` continues from its largest rowid. When the publisher's rows are in
        the table, this is the publisher's largest value, so nothing has to be set.
        """
        found = table.column(column)
        if found is None or not found.null_is_generated:
            return None
        with self._errors.reporting():
            if not _is_auto_increment(connection, table):
                return None
            kept = _kept_values(table)
            last = connection.execute(sa.select(kept.c.seq).where(kept.c.name == table.name)).scalar_one_or_none()
        position = SequencePosition(last_value=last or 1, is_called=bool(last))
        return TargetSequence(f"{table.schema}.{table.name}", position, 1, _LAST_ROWID, table)

    def set(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """See :meth:`Sequences.set`."""
        assert sequence.table is not None
        kept, name = _kept_values(sequence.table), sequence.table.name
        with self._errors.reporting():
            connection.execute(sa.delete(kept).where(kept.c.name == name))
            connection.execute(sa.insert(kept).values(name=name, seq=position.next_value - 1))


def _kept_values(table: TargetTable) -> sa.TableClause:
    """SQLite's table with the last values of AUTOINCREMENT tables."""
    return sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"), schema=table.schema)


def _is_auto_increment(connection: sa.Connection, table: TargetTable) -> bool:
    """Whether the table is declared AUTOINCREMENT, which only its CREATE TABLE statement shows."""
    try:
        tokens = tokenize(sql_of(connection, table.schema, table.name), read="sqlite")
    except SqlglotError:
        return False
    return any(token.token_type is TokenType.AUTO_INCREMENT for token in tokens)
