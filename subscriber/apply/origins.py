"""Rows that somebody else has written last, about to be changed: update_origin_differs,
delete_origin_differs (rules C19-C21).

Where commit times are kept, a target knows of each row which origin its last version came from
(:meth:`Origins.others`). The rows of a run are asked for together, right before they are changed;
rows that the run itself changes twice are its own by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import sqlalchemy as sa

from subscriber.apply.collisions import new_row, search_conditions, search_key
from subscriber.apply.conflict import ORIGIN_DIFFERS, ChangePlace, Conflict, row_text
from subscriber.apply.identity import RowIdentity
from subscriber.apply.local_relations import LocalRelation
from subscriber.protocol.changes import ChangeGroup
from subscriber.targets import Target

_TOGETHER: Final = 100
"""Changes whose rows are asked for in one query."""


def find_rows_of_others(
    target: Target,
    connection: sa.Connection,
    local: LocalRelation,
    changes: ChangeGroup,
    identity: RowIdentity,
    place: ChangePlace,
    differs: sa.ColumnElement[bool],
) -> Iterator[Conflict]:
    """The conflicts of rows that ``changes`` will touch and somebody else wrote last.

    Args:
        target: where.
        connection: in the transaction of the changes, before they are made.
        local: their relation.
        changes: UPDATEs or DELETEs of one shape.
        identity: how their rows are found.
        place: of the run that they are from.
        differs: what :meth:`Origins.others` has given.

    Raises:
        SubscriberError: as :meth:`Errors.translate` words it.
    """
    # Of equal rows only the first is touched, and each is looked for by itself.
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
            for row in target.values.read_result(connection.execute(query)).rows[: len(some)]:
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
    """The conflict with names only."""
    search = None if conflict.search is None else replace(conflict.search, values=None)
    return replace(conflict, search=search, remote_row=None, local_row=None)
