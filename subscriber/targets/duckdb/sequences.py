"""DuckDB's sequences, from which the defaults of columns take values."""

from __future__ import annotations

import re
from typing import Any, Final

import sqlalchemy as sa

from subscriber.schema.shape import SequencePosition
from subscriber.targets.generic.sequences import GenericSequences
from subscriber.targets.target_table import (
    TargetSequence,
    TargetTable,
)

_DEFAULT: Final = sa.text(
    "SELECT column_default FROM duckdb_columns() WHERE database_name = current_database()"
    " AND schema_name = :schema AND table_name = :table AND column_name = :column"
)
_SEQUENCES: Final = sa.text(
    # DuckDB 2.0 loses START when it opens the file again. Then the default first value is used.
    "SELECT schema_name, sequence_name, CASE WHEN increment_by > 0 THEN min_value ELSE max_value END AS first,"
    " increment_by, min_value, max_value, last_value FROM duckdb_sequences() WHERE database_name = current_database()"
)
_SET_SEQUENCE: Final = sa.text("SELECT setval(:sequence, :last, :called)")


class DuckDBSequences(GenericSequences):
    """See :class:`~subscriber.targets.roles.sequences.Sequences`."""

    def of_column(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """See :meth:`Sequences.of_column`; the sequence from which the column's default takes
        values.
        """
        with self._errors.reporting():
            written = _sequence_of(connection, table, column)
            found = written and next(
                (one for one in connection.execute(_SEQUENCES) if written in _spellings(connection, one)), None
            )
        if not written or not found:
            return None
        last = found.last_value
        position = SequencePosition(
            last_value=found.first if last is None else last, is_called=last is not None, increment=found.increment_by
        )
        return TargetSequence(written, position, found.min_value, found.max_value)

    def set(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """See :meth:`Sequences.set`; takes effect immediately, even if the transaction is rolled
        back.
        """
        last, called = position.last_value, position.is_called
        before = last - sequence.position.increment
        if not called and sequence.least <= before <= sequence.greatest:
            last, called = before, True  # DuckDB does not report a value that has not been used yet
        with self._errors.reporting():
            connection.execute(_SET_SEQUENCE, {"sequence": sequence.name, "last": last, "called": called})


def _sequence_of(connection: sa.Connection, table: TargetTable, column: str) -> str | None:
    """The sequence from which a column's default takes values, spelled as in the default."""
    place = {"schema": table.schema, "table": table.name, "column": column}
    default = connection.execute(_DEFAULT, place).scalar_one_or_none()
    found = re.fullmatch(r"nextval\('((?:[^']|'')+)'\)", default or "")
    return found[1].replace("''", "'") if found else None


def restart_sequences(connection: sa.Connection, table: TargetTable) -> None:
    """Restart the sequences of a table's defaults from their first values."""
    names = {_sequence_of(connection, table, column.name) for column in table.columns} - {None}
    if not names:
        return
    for found in connection.execute(_SEQUENCES).all():
        for name in names & _spellings(connection, found):
            connection.execute(_SET_SEQUENCE, {"sequence": name, "last": found.first, "called": False})


def _spellings(connection: sa.Connection, sequence: sa.Row[Any]) -> set[str]:
    """The spellings of a sequence's name that a column's default may use."""
    quote = connection.dialect.identifier_preparer.quote
    schema, name = sequence.schema_name, sequence.sequence_name
    return {name, quote(name), f"{schema}.{name}", f"{quote(schema)}.{quote(name)}"}
