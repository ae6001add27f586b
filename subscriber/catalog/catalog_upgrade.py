"""Creates the catalog in a target, and changes one that an earlier version has created."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa

from subscriber.catalog.own_tables import CATALOG, CONFLICT, CONTROL, CUTOVER, LEASE, SUBSCRIPTION
from subscriber.targets.statements import AddColumn, DropColumn

RETIRED: Final = sa.MetaData()
"""Tables that earlier versions had in the place of ``subscriber_lease``."""
_RUNNER: Final = sa.Table(
    "subscriber_runner",
    RETIRED,
    *(
        sa.Column(name)
        for name in ("runnerid", "host", "processid", "startedat", "heartbeatat", "busysince", "endedat")
    ),
)
sa.Table(
    "subscriber_apply_hold",
    RETIRED,
    *(sa.Column(name) for name in ("subid", "holder", "host", "processid", "heldsince", "heartbeatat", "state")),
    *(sa.Column(name) for name in ("boundlsn", "reachedlsn")),
)
_RETIRED_COLUMNS: Final = {
    CUTOVER.name: frozenset({"holder", "host", "processid", "heartbeatat"}),
    CONFLICT.name: frozenset({"key_values", "local_row", "remote_row"}),
}


def has_catalog(connection: sa.Connection) -> bool:
    return sa.inspect(connection).has_table(SUBSCRIPTION.name)


def ensure_catalog(engine: sa.Engine) -> None:
    """Create or update the catalog. If a process ends in between, the next call does the rest."""
    CATALOG.create_all(engine)
    with engine.connect() as connection:
        changes = list(_changes(connection))
        identified = connection.execute(sa.select(CONTROL)).one_or_none() is not None
        # A table of the user may have the name of a table that the catalog no longer has.
        retired = [
            table
            for table in RETIRED.sorted_tables
            if sa.inspect(connection).has_table(table.name)
            and _columns_there(connection, table) <= set(table.columns.keys())
        ]
    if _RUNNER in retired:
        _move_run(engine)
    for change in [*changes, *map(sa.schema.DropTable, retired)]:
        with engine.begin() as connection:
            connection.execute(change)
    if not identified:
        # If two processes do this at the same time, the identifier of the first one is used.
        with contextlib.suppress(sa.exc.IntegrityError), engine.begin() as connection:
            connection.execute(sa.insert(CONTROL).values(controlid=1, targetidentifier=uuid.uuid4().hex))


def target_identifier(connection: sa.Connection) -> str:
    """The target's identifier, 32 hexadecimal digits, which never changes."""
    identifier: str = connection.execute(sa.select(CONTROL.c.targetidentifier)).scalar_one()
    return identifier


def _changes(connection: sa.Connection) -> Iterator[sa.schema.ExecutableDDLElement]:
    """Add what is missing in a catalog of an earlier version, and drop what has moved elsewhere."""
    for table in CATALOG.sorted_tables:
        there = _columns_there(connection, table)
        yield from (AddColumn(table, column) for column in table.columns if column.name not in there)
        yield from (DropColumn(table, name) for name in sorted(_RETIRED_COLUMNS.get(table.name, frozenset()) & there))


def _columns_there(connection: sa.Connection, table: sa.Table) -> set[str]:
    # A query is used instead of SQLAlchemy's reflection, which cannot read DuckDB's columns.
    nothing: sa.Select[Any] = sa.select(sa.literal_column("*")).select_from(table).where(sa.false())
    with connection.execute(nothing) as result:
        return set(result.keys())


def _move_run(engine: sa.Engine) -> None:
    """Keep what is known of the last run of an earlier version, unless there was a later one."""
    with engine.begin() as connection:
        last = connection.execute(sa.select(_RUNNER)).one_or_none()
        if last is None or connection.execute(sa.select(LEASE).where(LEASE.c.kind == "run")).first() is not None:
            return
        connection.execute(
            sa.insert(LEASE).values(
                kind="run",
                subid=0,
                holder="",
                host=last.host,
                processid=last.processid,
                machine="",
                since=last.startedat,
                heartbeatat=last.heartbeatat,
                busysince=last.busysince,
                endedat=last.endedat,
            )
        )
