"""Which table of the target a change is for, and which of its columns (rules C1-C3).

A relation is looked up when the first change for it arrives and is remembered for one batch only: between
batches the target's tables may change, and looking again costs a millisecond. A relation message with
another shape is another key, so a change is always applied by the shape that was announced before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from subscriber.errors import SubscriberError, TargetRelationError
from subscriber.protocol.messages import Relation
from subscriber.target import Target, TargetColumn, TargetTable


@dataclass(frozen=True, slots=True)
class LocalRelation:
    """A publisher's relation together with the target's table.

    Attributes:
        remote: as announced.
        table: the target's.
        columns: the target's column for each remote column, in remote order (rule C2).
    """

    remote: Relation
    table: TargetTable
    columns: tuple[TargetColumn, ...]


class RelationMap:
    """The relations of one batch, looked up at their first change (rule C1)."""

    def __init__(self, target: Target, connection: sa.Connection) -> None:
        self._target = target
        self._connection = connection
        self._open: dict[Relation, LocalRelation] = {}

    def open(self, remote: Relation) -> LocalRelation:
        """The target's side of ``remote``.

        Raises:
            TargetRelationError: with PostgreSQL's text (rule C3): no such table, not a table, columns
                missing, columns generated; or a column that would change values.
        """
        local = self._open.get(remote)
        if local is None:
            try:
                local = self._open[remote] = self._resolve(remote)
            except SubscriberError as error:
                error.relation = error.relation or remote.qualified_name
                raise
        return local

    def _resolve(self, remote: Relation) -> LocalRelation:
        table = self._target.reflect(self._connection, remote.namespace, remote.name)
        if table is None:
            raise TargetRelationError(
                f'logical replication target relation "{remote.qualified_name}" does not exist',
                hint="Create the table in the target; the change waits until then.",
            )
        if table.kind not in ("table", "partitioned table"):
            raise TargetRelationError(
                f'cannot use relation "{remote.qualified_name}" as logical replication target',
                sqlstate="42809",
                detail=f"This operation is not supported for {table.kind}s." if table.kind != "other" else None,
            )
        columns = _match_columns(remote, table)
        for column, announced in zip(columns, remote.columns, strict=True):
            self._target.check_column(announced.type_oid, column)
        return LocalRelation(remote, table, columns)


def _match_columns(remote: Relation, table: TargetTable) -> tuple[TargetColumn, ...]:
    """Columns by exact name; what is missing is reported before what is generated (rule C3)."""
    by_name = {column.name: column for column in table.columns}
    target = f'logical replication target relation "{remote.qualified_name}"'
    missing = [column.name for column in remote.columns if column.name not in by_name]
    if missing:
        raise TargetRelationError(f"{target} is missing replicated {_named(missing)}")
    columns = tuple(by_name[column.name] for column in remote.columns)
    generated = [column.name for column in columns if column.generated]
    if generated:
        raise TargetRelationError(f"{target} has incompatible generated {_named(generated)}")
    return columns


def _named(names: Iterable[str]) -> str:
    quoted = [f'"{name}"' for name in names]
    return f"{'column' if len(quoted) == 1 else 'columns'}: {', '.join(quoted)}"
