"""The conflicts of UPDATEs and DELETEs with the rows that are in the target: a row that does not
exist (rule C18), and a row that another origin has written (rules C19-C21).

A row count of zero is no conflict if a trigger has suppressed the change of a row that exists.

If commit timestamps are tracked, the target reports for each row the origin of its last version
(:meth:`Origins.others`). The rows of a run are queried together, immediately before they are
changed. Nearly always no other origin has written them, which :class:`OriginProbe` finds out with a
statement that is compiled once. *Rejected:* one query for the rows of a whole frame. Another
session could write a row between the query and the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any, Final

import sqlalchemy as sa

from subscriber.apply.conflicts.collisions import new_row, row_columns, search_condition, search_key
from subscriber.apply.conflicts.conflict import (
    MISSING,
    ORIGIN_DIFFERS,
    ChangePlace,
    Conflict,
    ConflictPolicy,
    row_text,
    stopped_by,
)
from subscriber.apply.relations.target_relations import RelationMap, TargetRelation
from subscriber.apply.statements.change_statements import ChangeStatements
from subscriber.apply.statements.execute import bind_column
from subscriber.apply.statements.identity import RowIdentity
from subscriber.apply.statements.row_statements import CompiledStatement, build_probe, shape_of
from subscriber.catalog.deleted_rows import find_deletion, relation_name
from subscriber.catalog.own_tables import ConflictKind
from subscriber.postgres.protocol.changes import ChangeGroup
from subscriber.postgres.schema.relation_names import QualifiedName
from subscriber.targets import RowVersion, Target


class RowConflicts:
    """Finds the conflicts of one batch's changes."""

    def __init__(
        self,
        target: Target,
        connection: sa.Connection,
        statements: ChangeStatements,
        relations: RelationMap,
        *,
        policy: ConflictPolicy,
        show_values: bool,
        retained_for: str | None = None,
    ) -> None:
        self._target = target
        self._connection = connection
        self._statements = statements
        self._relations = relations
        self._retained_for = retained_for
        self._policy = policy
        self._shows_values = show_values

    @cached_property
    def others(self) -> OriginProbe | None:
        """Finds rows that another origin has written, where the target can report origins."""
        origins = self._target.origins
        differs = None if origins is None else origins.others(self._connection)
        return None if differs is None else OriginProbe(self._target, self._connection, self._statements.cache, differs)

    def of_others(self, changes: ChangeGroup, place: ChangePlace) -> Iterator[tuple[Conflict, int]]:
        """The conflicts of rows that another origin has written, where the target can tell, unless
        the policy stops the transaction. The UPDATEs or DELETEs, of one shape, are executed after
        this call.
        """
        return self._unless_stopped(self.find_others(changes, place))

    def of_missing(self, changes: ChangeGroup, place: ChangePlace, number: int) -> Iterator[tuple[Conflict, int]]:
        """The conflict of ``number`` missing rows (C18), if it does not stop the transaction. Where
        deleted rows are retained, there is one row.
        """
        return self._unless_stopped([(self.missing(changes, place), number)])

    def missing(self, changes: ChangeGroup, place: ChangePlace) -> Conflict:
        """The conflict of a missing row, whatever the policy says."""
        local = self._relations.open(changes.relation)
        version = self._deletion(local, changes)
        return Conflict(
            MISSING[changes.action] if version is None else ConflictKind.UPDATE_DELETED,
            local.qualified_name,
            place,
            search=search_key(self._statements.identity(local), changes, values=self._shows_values),
            remote_row=new_row(local, changes) if self._shows_values else None,
            columns=row_columns(local) if self._shows_values else (),
            version=version,
        )

    def _deletion(self, local: TargetRelation, changes: ChangeGroup) -> RowVersion | None:
        """How another origin has deleted the row of the one UPDATE; else None (C18a)."""
        recorded = self._target.deleted_rows
        if recorded is None or self._retained_for is None or changes.action != "U":
            return None
        rows = recorded.rows(self._connection, local.table, relation_name(local.table))
        condition = search_condition(self._target, rows, local, changes, self._statements.identity(local))
        with self._target.reporting():
            found = find_deletion(self._connection, self._target, rows, condition)
        if found is None or found.origin == self._retained_for:
            return None
        return RowVersion(found.transaction, found.at.replace("T", " ").replace("+00:00", "+00"), found.origin)

    def is_suppressed(self, changes: ChangeGroup) -> bool:
        """Whether a trigger has suppressed the one change, so that its row exists."""
        local = self._relations.open(changes.relation)
        if not self._target.writing.may_suppress(local.table):
            return False
        table = local.table.clause()
        identity = self._statements.identity(local)
        condition = search_condition(self._target, table, local, changes, identity)
        query: sa.Select[Any] = sa.select(sa.literal_column("1")).select_from(table).where(condition)
        own_rows = self._target.matching.own_rows(local.table, query, table)
        with self._target.reporting():
            return self._connection.execute(own_rows).first() is not None

    def find_others(self, changes: ChangeGroup, place: ChangePlace) -> Iterator[tuple[Conflict, int]]:
        """The conflicts of rows that another origin has written, whatever the policy says."""
        if self.others is None:
            return
        local = self._relations.open(changes.relation)
        identity = self._statements.identity(local)
        if self.others.finds(local, changes, identity):
            differs = self.others.differs
            for conflict in find_rows_of_others(
                self._target, self._connection, local, changes, identity, place, differs
            ):
                yield conflict if self._shows_values else without_values(conflict), 1

    def _unless_stopped(self, conflicts: Iterable[tuple[Conflict, int]]) -> Iterator[tuple[Conflict, int]]:
        for conflict, number in conflicts:
            error = stopped_by(conflict, self._policy)
            if error is not None:
                raise error
            yield conflict, number


# Other origins ------------------------------------------------------------------------------------

_TOGETHER: Final = 100
"""The number of changes whose rows are read with one query."""
_PROBED: Final = (1, 10, _TOGETHER)
"""The numbers of changes for which a probe is compiled. Fewer changes repeat the last one."""


class OriginProbe:
    """Finds out whether another origin wrote one of some rows last, by :meth:`Origins.others`."""

    def __init__(
        self,
        target: Target,
        connection: sa.Connection,
        statements: MutableMapping[tuple[TargetRelation, tuple[object, ...]], CompiledStatement],
        differs: sa.ColumnElement[bool],
    ) -> None:
        self.differs = differs
        self._target = target
        self._connection = connection
        self._statements = statements
        self._text = str(differs)

    def finds(self, local: TargetRelation, changes: ChangeGroup, identity: RowIdentity) -> bool:
        if identity.whole_row:
            return True
        return any(
            self._finds(local, changes.slice(start, min(start + _TOGETHER, len(changes))), identity)
            for start in range(0, len(changes), _TOGETHER)
        )

    def _finds(self, local: TargetRelation, changes: ChangeGroup, identity: RowIdentity) -> bool:
        count = next(size for size in _PROBED if size >= len(changes))
        key = (local, (self._text, count, *shape_of(changes)))
        statement = self._statements.get(key)
        if statement is None:
            statement = build_probe(self._target, local, changes, identity, self.differs, count)
            self._statements[key] = statement
        of_one = statement.parameters[: len(statement.parameters) // count]
        rows = list(zip(*(bind_column(self._target, one, changes) for one in of_one), strict=True))
        rows += rows[-1:] * (count - len(rows))
        values = tuple(chain.from_iterable(rows))
        bound = values if statement.names is None else dict(zip(statement.names, values, strict=True))
        with self._target.reporting():
            return self._connection.exec_driver_sql(statement.sql, bound).first() is not None


def find_rows_of_others(
    target: Target,
    connection: sa.Connection,
    local: TargetRelation,
    changes: ChangeGroup,
    identity: RowIdentity,
    place: ChangePlace,
    differs: sa.ColumnElement[bool],
) -> Iterator[Conflict]:
    """The conflicts of rows that another origin wrote last (``differs``, of
    :meth:`Origins.others`), and that UPDATEs or DELETEs of one shape will change next in this
    transaction.
    """
    # Of several equal rows only the first one is changed, and each row is searched separately.
    step = 1 if identity.whole_row else _TOGETHER
    table = local.table.clause()
    columns = [target.values.readable(column) for column in local.table.columns]
    wanted = [
        column.label(f"subscriber_{number}") for number, column in enumerate([*columns, *target.row_versions.columns()])
    ]
    for start in range(0, len(changes), step):
        some = changes.slice(start, start + step)
        one_by_one = (some.slice(number, number + 1) for number in range(len(some)))
        searches = [search_condition(target, table, local, change, identity) for change in one_by_one]
        query = target.matching.own_rows(local.table, sa.select(*wanted).select_from(table), table)
        query = query.where(sa.or_(*searches), differs)
        with target.reporting():
            for row in target.read_result(connection.execute(query)).rows[: len(some)]:
                version = target.row_versions.read(connection, local.table, row[len(columns) :])
                leaf = None if version is None else version.leaf
                yield Conflict(
                    ORIGIN_DIFFERS[changes.action],
                    local.qualified_name if leaf is None else QualifiedName.of(*leaf),
                    place,
                    search=search_key(identity, some.slice(0, 1), values=True),
                    remote_row=new_row(local, some.slice(0, 1)),
                    local_row=row_text(row[: len(columns)]),
                    version=version,
                    columns=row_columns(local),
                )


def without_values(conflict: Conflict) -> Conflict:
    search = None if conflict.search is None else replace(conflict.search, values=None, row_columns=())
    return replace(conflict, search=search, remote_row=None, local_row=None, columns=())
