"""Find rows that another origin wrote last, before they are changed: update_origin_differs,
delete_origin_differs (rules C19-C21).

If commit timestamps are tracked, the target reports for each row the origin of its last version
(:meth:`Origins.others`). The rows of a run are queried together, immediately before they are
changed. If the run itself changes a row twice, the second change is no conflict.

Nearly always no other origin has written the rows. :class:`OriginProbe` finds that out with a
statement that is compiled once. *Rejected:* one query for the rows of a whole frame. Another
session could write a row between the query and the change, for as long as the frame takes.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from itertools import chain
from typing import Final

import sqlalchemy as sa

from subscriber.apply.conflicts.collisions import new_row, search_conditions, search_key
from subscriber.apply.conflicts.conflict import ORIGIN_DIFFERS, ChangePlace, Conflict, row_text
from subscriber.apply.relations.local_relations import LocalRelation
from subscriber.apply.statements.bind import bind_column
from subscriber.apply.statements.identity import RowIdentity
from subscriber.apply.statements.row_statements import Statement, build_probe, shape_of
from subscriber.protocol.changes import ChangeGroup
from subscriber.targets import Target

_TOGETHER: Final = 100
"""The number of changes whose rows are read with one query."""
_PROBED: Final = (1, 10, _TOGETHER)
"""The numbers of changes for which a probe is compiled. Fewer changes repeat the last one."""


class OriginProbe:
    """Finds out whether another origin wrote one of some rows last.

    Args:
        target: the target of the rows.
        connection: a connection in a transaction.
        statements: compiled SQL, cached across batches.
        differs: the condition that :meth:`Origins.others` returned.
    """

    def __init__(
        self,
        target: Target,
        connection: sa.Connection,
        statements: MutableMapping[tuple[LocalRelation, tuple[object, ...]], Statement],
        differs: sa.ColumnElement[bool],
    ) -> None:
        self.differs = differs
        self._target = target
        self._connection = connection
        self._statements = statements
        self._text = str(differs)

    def finds(self, local: LocalRelation, changes: ChangeGroup, identity: RowIdentity) -> bool:
        """Whether :func:`find_rows_of_others` may find a row.

        Args:
            local: the target's relation.
            changes: UPDATEs or DELETEs of one shape.
            identity: how their rows are found.

        Raises:
            SubscriberError: an error of the target, as :meth:`Errors.translate` reports it.
        """
        if identity.whole_row:
            return True
        return any(
            self._finds(local, changes.slice(start, min(start + _TOGETHER, len(changes))), identity)
            for start in range(0, len(changes), _TOGETHER)
        )

    def _finds(self, local: LocalRelation, changes: ChangeGroup, identity: RowIdentity) -> bool:
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
    local: LocalRelation,
    changes: ChangeGroup,
    identity: RowIdentity,
    place: ChangePlace,
    differs: sa.ColumnElement[bool],
) -> Iterator[Conflict]:
    """The conflicts of rows that ``changes`` will change and that another origin wrote last.

    Args:
        target: the target of the changes.
        connection: a connection in the transaction of the changes, before they are executed.
        local: the target's relation.
        changes: UPDATEs or DELETEs of one shape.
        identity: how their rows are found.
        place: the place of the run that contains the changes.
        differs: the condition that :meth:`Origins.others` returned.

    Raises:
        SubscriberError: an error of the target, as :meth:`Errors.translate` reports it.
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
        searches = [sa.and_(*search_conditions(target, table, local, change, identity)) for change in one_by_one]
        query = target.matching.own_rows(local.table, sa.select(*wanted).select_from(table), table)
        query = query.where(sa.or_(*searches), differs)
        with target.reporting():
            for row in target.read_result(connection.execute(query)).rows[: len(some)]:
                version = target.row_versions.read(connection, local.table, row[len(columns) :])
                leaf = None if version is None else version.leaf
                yield Conflict(
                    ORIGIN_DIFFERS[changes.action],
                    local.qualified_name if leaf is None else ".".join(leaf),
                    place,
                    search=search_key(identity, some.slice(0, 1), values=True),
                    remote_row=new_row(local, some.slice(0, 1)),
                    local_row=row_text(row[: len(columns)]),
                    version=version,
                )


def without_values(conflict: Conflict) -> Conflict:
    """The conflict without values; only names are left."""
    search = None if conflict.search is None else replace(conflict.search, values=None)
    return replace(conflict, search=search, remote_row=None, local_row=None)
