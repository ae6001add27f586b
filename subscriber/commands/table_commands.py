"""ALTER SUBSCRIPTION … REFRESH TABLE copies tables again; TRUNCATE empties them.

REFRESH TABLE sets the tables to state i and returns. A running worker replaces the rows of each in
one transaction (:mod:`subscriber.worker.table_copy`). Until its commit, readers see the old rows,
and only the changes of this table wait. A table that is not ready is copied again as well, so the
command helps a table whose initial copy fails because the target's table has rows.

TRUNCATE empties only tables that a subscription of this target fills, or has filled until it was
dropped (:mod:`subscriber.catalog.released`), named as at the publisher. Their subscriptions must be
disabled, and copy the tables again when they are enabled: a table that is emptied while changes
arrive would lack rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from subscriber.base.errors import COPY_FROM_SCRATCH, SubscriberError, TargetRelationError, UsageError
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.released import dropped_tables, forget_dropped_table
from subscriber.catalog.subscriptions import Subscription, list_subscriptions
from subscriber.catalog.table_states import relations_of, replace_relations
from subscriber.commands.notices import Notify, first_names, notice
from subscriber.commands.subscription_grammar import RefreshTables, TruncateTables
from subscriber.postgres.publication.publication_statements import RelationName
from subscriber.postgres.schema.relation_names import TableName
from subscriber.targets import Target

_TWO_PHASE: Final = (
    "A prepared transaction may have changed the table before the copy, and would be committed after it."
    f" {COPY_FROM_SCRATCH}"
)


def refresh_tables(target: Target, subscription: Subscription, command: RefreshTables) -> None:
    """42704: not a table of the subscription; 42P09: a name without schema is ambiguous; 42601:
    two-phase commit is enabled; 55000: another subscription replicates into the table.
    """
    if subscription.two_phase_state == "e":
        raise UsageError(
            "ALTER SUBSCRIPTION ... REFRESH TABLE is not allowed when two_phase is enabled",
            sqlstate="42601",
            hint=_TWO_PHASE,
        )
    with target.begin() as connection:
        relations = {one.subid: one for one in list_subscriptions(connection)}
        tables = {
            subid: [(table.schema, table.name) for table in relations_of(connection, subid)] for subid in relations
        }
        wanted = [_find(name, subscription, tables, relations) for name in command.tables]
        check_not_shared(target, connection, subscription, wanted)
        replace_relations(connection, subscription.subid, dict.fromkeys(wanted))


def _find(
    name: RelationName,
    subscription: Subscription,
    tables: Mapping[int, Sequence[TableName]],
    subscriptions: Mapping[int, Subscription],
) -> TableName:
    own = tables[subscription.subid]
    found = [table for table in own if is_named(name, table)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f'table name "{name.as_written}" is ambiguous',
            sqlstate="42P09",
            detail=f"The subscription has the tables {first_names(_texts(found))}.",
            hint="Write the schema of the table.",
        )
    others = [
        subscriptions[subid].name for subid, theirs in tables.items() if any(is_named(name, table) for table in theirs)
    ]
    its = f"The subscription has the tables {first_names(_texts(own))}." if own else "The subscription has no tables."
    raise UsageError(
        f'relation "{name.as_written}" is not part of the subscription',
        sqlstate="42704",
        detail=f"{its} The table belongs to subscription {first_names(others)}." if others else its,
        hint="Tables are named as at the publisher."
        " ALTER SUBSCRIPTION ... REFRESH PUBLICATION adds tables that were published later.",
    )


def is_named(name: RelationName, table: TableName) -> bool:
    """Whether a command means this table, with its schema or without."""
    schema, relation = table
    return name.name == relation and name.schema in (None, schema)


def _texts(tables: Sequence[TableName]) -> list[str]:
    return [".".join(table) for table in tables]


def check_not_shared(
    target: Target, connection: sa.Connection, subscription: Subscription, tables: Sequence[TableName]
) -> None:
    """Refuse (55000) tables whose rows come from several subscriptions: all would be deleted."""
    place = target.ddl.qualified
    theirs = {
        place(*other.options.map.in_target(one.schema, one.name)): other.name
        for other in list_subscriptions(connection)
        if other.subid != subscription.subid
        for one in relations_of(connection, other.subid)
    }
    for table in tables:
        local = subscription.options.map.in_target(*table)
        other = theirs.get(place(*local))
        if other is not None:
            raise UsageError(
                f'table "{".".join(local)}" cannot be copied again, because it has rows of subscription "{other}", too',
                sqlstate="55000",
                detail="The copy replaces all rows of the table.",
                hint="Delete the rows of one subscription in the target, then drop that subscription and create it again.",
            )


# TRUNCATE -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Filled:
    """A table of the target, its publishers' names, and the subscriptions that fill it."""

    local: TableName
    published: set[TableName] = field(default_factory=set)
    subscriptions: list[tuple[Subscription, TableName]] = field(default_factory=list)


def truncate_tables(target: Target, command: TruncateTables, notify: Notify) -> None:
    """Execute TRUNCATE. 42704: no subscription fills the table, or has filled it; 42P09: an
    ambiguous name; 55000: a subscription of the table is enabled; 42601: two-phase commit is
    enabled; 0A000: a foreign key of another table refers to it.
    """
    with target.reporting():
        ensure_catalog(target.engine)
    with target.begin() as connection:
        filled = _filled(target, connection)
        tables = list({one.local: one for one in (_find_filled(name, filled) for name in command.tables)}.values())
        for one in tables:
            _check_disabled(one)
        for one in tables:
            for subscription, published in one.subscriptions:
                replace_relations(connection, subscription.subid, [published])
            forget_dropped_table(connection, one.local)
        _truncate(target, connection, [one.local for one in tables], restart_identity=command.restart_identity)
    for one in tables:
        for subscription, published in one.subscriptions:
            notice(
                notify,
                f'table "{".".join(published)}" is copied again when subscription "{subscription.name}" is enabled',
            )


def _filled(target: Target, connection: sa.Connection) -> list[_Filled]:
    found: dict[object, _Filled] = {}

    def table(local: TableName, published: TableName) -> _Filled:
        one = found.setdefault(target.ddl.qualified(*local), _Filled(local))
        one.published.add(published)
        return one

    for subscription in list_subscriptions(connection):
        for relation in relations_of(connection, subscription.subid):
            published = relation.schema, relation.name
            one = table(subscription.options.map.in_target(*published), published)
            one.subscriptions.append((subscription, published))
    for dropped in dropped_tables(connection):
        table(dropped.local, dropped.published)
    return list(found.values())


def _find_filled(name: RelationName, filled: Sequence[_Filled]) -> _Filled:
    found = [one for one in filled if any(is_named(name, published) for published in one.published)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f'table name "{name.as_written}" is ambiguous',
            sqlstate="42P09",
            detail=f"It means the tables {first_names(['.'.join(one.local) for one in found])} of the target.",
            hint="Write the schema of the table at the publisher.",
        )
    raise UsageError(
        f'no subscription fills relation "{name.as_written}", or has filled it',
        sqlstate="42704",
        detail="TRUNCATE is for the tables of subscriptions of this target, also of those that were dropped.",
        hint="Tables are named as at the publisher. Empty other tables with a client of the target's database.",
    )


def _check_disabled(table: _Filled) -> None:
    name = ".".join(table.local)
    for subscription, published in table.subscriptions:
        if subscription.enabled:
            raise UsageError(
                f'cannot truncate table "{name}" while subscription "{subscription.name}" is enabled',
                sqlstate="55000",
                hint="Use ALTER SUBSCRIPTION ... DISABLE first. ALTER SUBSCRIPTION ... REFRESH TABLE replaces the rows of a table while"
                " readers see them.",
            )
        if subscription.two_phase_state == "e":
            raise UsageError(
                "TRUNCATE is not allowed when two_phase is enabled",
                sqlstate="42601",
                detail=f'Table "{".".join(published)}" would be copied again, and a prepared transaction may have changed it before.',
                hint="DROP SUBSCRIPTION first.",
            )


def _truncate(
    target: Target, connection: sa.Connection, tables: Sequence[TableName], *, restart_identity: bool
) -> None:
    reflected = []
    for local in tables:
        table = target.shapes.reflect(connection, *local)
        if table is None:
            raise TargetRelationError(
                f'relation "{".".join(local)}" does not exist', sqlstate="42P01", relation=".".join(local)
            )
        reflected.append(table)
    try:
        target.writing.truncate(connection, reflected, restart_identity=restart_identity)
    except SubscriberError as error:
        if error.sqlstate != "0A000":
            raise
        raise error.replace(
            hint="Name the table that refers to it in the same command, or drop the foreign key."
        ) from None
