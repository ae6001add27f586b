"""ALTER SUBSCRIPTION … REFRESH TABLE: copies tables again.

The command sets the tables to state i and returns. A running worker copies each of them in one
transaction of the target, in which the rows of the table are replaced
(:mod:`subscriber.runtime.table_copy`). Until that transaction commits, readers see the old rows,
and the changes of the table wait, as during an initial copy; the changes of the other tables are
applied.

A table that is not ready is copied again as well. If its copy is in progress, that copy is rolled
back, and the next one replaces the rows. So the command also helps a table whose initial copy fails
because the target's table has rows. If the subscription is disabled, the tables are copied when it
is enabled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.commands.notices import first_names
from subscriber.commands.subscription_statements import RefreshTables
from subscriber.errors import COPY_FROM_SCRATCH, UsageError
from subscriber.publication.publication_statements import RelationName
from subscriber.schema.relation_names import TableName
from subscriber.targets import Target

_TWO_PHASE: Final = (
    "A prepared transaction may have changed the table before the copy, and would be committed after it."
    f" {COPY_FROM_SCRATCH}"
)


def refresh_tables(target: Target, subscription: Subscription, command: RefreshTables) -> None:
    """ALTER SUBSCRIPTION … REFRESH TABLE.

    Raises:
        UsageError: 42704, a table does not belong to the subscription; 42P09, a name without schema
            has several meanings; 42601, two-phase commit is enabled; 55000, another subscription
            replicates into the same table of the target. Nothing has changed.
    """
    if subscription.two_phase_state == "e":
        raise UsageError(
            "ALTER SUBSCRIPTION ... REFRESH TABLE is not allowed when two_phase is enabled",
            sqlstate="42601",
            hint=_TWO_PHASE,
        )
    with target.begin() as connection:
        relations = {one.subid: one for one in catalog.list_subscriptions(connection)}
        tables = {
            subid: [(table.schema, table.name) for table in catalog.relations_of(connection, subid)]
            for subid in relations
        }
        wanted = [_find(name, subscription, tables, relations) for name in command.tables]
        check_not_shared(target, connection, subscription, wanted)
        catalog.replace_relations(connection, subscription.subid, dict.fromkeys(wanted))


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
    """Refuse tables whose rows come from several subscriptions: all of them would be deleted.

    Raises:
        UsageError: 55000, another subscription replicates into the same table of the target.
    """
    place = target.ddl.place
    theirs = {
        place(*other.options.map.local(one.schema, one.name)): other.name
        for other in catalog.list_subscriptions(connection)
        if other.subid != subscription.subid
        for one in catalog.relations_of(connection, other.subid)
    }
    for table in tables:
        local = subscription.options.map.local(*table)
        other = theirs.get(place(*local))
        if other is not None:
            raise UsageError(
                f'table "{".".join(local)}" cannot be copied again, because it has rows of subscription "{other}", too',
                sqlstate="55000",
                detail="The copy replaces all rows of the table.",
                hint="Delete the rows of one subscription in the target, then drop that subscription and create it again.",
            )
