"""PostgreSQL's sequences."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import REGCLASS

from subscriber.schema.shape import SequencePosition
from subscriber.targets.generic.sequences import GenericSequences
from subscriber.targets.target_table import (
    TargetSequence,
    TargetTable,
)

_SEQUENCE: Final = sa.text(
    # The sequence that the column owns (serial: 'a', identity: 'i'), else the only sequence that
    # the default's expression names.
    "SELECT s.oid::regclass::text AS name, q.seqincrement, q.seqmin, q.seqmax FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum"
    " JOIN pg_depend d ON (d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass"
    "  AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype IN ('a', 'i'))"
    "  OR (d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass)"
    " JOIN pg_class s ON s.relkind = 'S' AND s.oid = CASE WHEN d.refobjid = a.attrelid THEN d.objid ELSE d.refobjid END"
    " JOIN pg_sequence q ON q.seqrelid = s.oid WHERE n.nspname = :schema AND c.relname = :table AND a.attname = :column AND NOT a.attisdropped"
    " ORDER BY d.refobjid = a.attrelid LIMIT 1"
)
_NAMED_SEQUENCE: Final = sa.text(
    "SELECT s.oid::regclass::text AS name, q.seqincrement, q.seqmin, q.seqmax FROM pg_class s"
    " JOIN pg_namespace n ON n.oid = s.relnamespace JOIN pg_sequence q ON q.seqrelid = s.oid"
    " WHERE n.nspname = :schema AND s.relname = :name"
)


class PostgreSQLSequences(GenericSequences):
    """See :class:`~subscriber.targets.roles.sequences.Sequences`."""

    def of_column(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """See :meth:`Sequences.of_column`.

        The result is the sequence that the column owns, or from which its default takes values.
        """
        with self._errors.reporting():
            place = {"schema": table.schema, "table": table.name, "column": column}
            return _sequence(connection, connection.execute(_SEQUENCE, place).one_or_none())

    def named(self, connection: sa.Connection, schema: str, name: str) -> TargetSequence | None:
        """See :meth:`Sequences.named`."""
        with self._errors.reporting():
            found = connection.execute(_NAMED_SEQUENCE, {"schema": schema, "name": name}).one_or_none()
            return _sequence(connection, found)

    def widening(self, sequence: TargetSequence, position: SequencePosition) -> str | None:
        """See :meth:`Sequences.widening`."""
        turned = position.increment * sequence.position.increment < 0
        step = f" INCREMENT BY {position.increment}" if turned else ""
        return f"ALTER SEQUENCE {sequence.name} AS bigint{step} MINVALUE {-(2**63)} MAXVALUE {2**63 - 1};"

    def set(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """See :meth:`Sequences.set`."""
        with self._errors.reporting():
            connection.execute(
                sa.select(sa.func.setval(sa.cast(sequence.name, REGCLASS), position.last_value, position.is_called))
            )


def _sequence(connection: sa.Connection, row: sa.Row[Any] | None) -> TargetSequence | None:
    if row is None:
        return None
    # The name has the form of regclass: quoted, with its schema.
    written = str(row.name).replace("%", "%%")
    last, called = connection.exec_driver_sql(f"SELECT last_value, is_called FROM {written}").one()
    position = SequencePosition(last_value=last, is_called=called, increment=row.seqincrement)
    return TargetSequence(row.name, position, row.seqmin, row.seqmax)
