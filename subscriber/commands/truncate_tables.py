"""TRUNCATE in ``subscriber sql``: empties tables that a subscription of this target fills, or has
filled until it was dropped.

Tables are named as at the publisher, as in REFRESH TABLE, and ``map`` says which tables of the
target they are. The subscriptions of a table must be disabled: a table that is emptied while
changes arrive would lack rows. For the same reason the table is copied again when its subscription
is enabled. The tables of a dropped subscription are remembered
(:mod:`subscriber.catalog.dropped_tables`) until they are emptied.

Other tables are refused. The user of the target can empty these, but this program has no reason to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.catalog.dropped_tables import dropped_tables, forget_dropped_table
from subscriber.commands.notices import Notify, first_names, notice
from subscriber.commands.refresh_tables import is_named
from subscriber.commands.subscription_statements import TruncateTables
from subscriber.errors import SubscriberError, TargetRelationError, UsageError
from subscriber.publication.publication_statements import RelationName
from subscriber.schema.relation_names import TableName
from subscriber.targets import Target


@dataclass(slots=True)
class _Filled:
    """A table of the target that subscriptions fill, or have filled.

    Attributes:
        local: its schema and name in the target.
        published: its schemas and names at the publishers.
        subscriptions: the subscriptions that fill it, with its name at the publisher.
    """

    local: TableName
    published: set[TableName] = field(default_factory=set)
    subscriptions: list[tuple[Subscription, TableName]] = field(default_factory=list)


def truncate_tables(target: Target, command: TruncateTables, notify: Notify) -> None:
    """Execute TRUNCATE.

    Raises:
        UsageError: 42704, no subscription fills the table, or has filled it; 42P09, a name without
            schema has several meanings; 55000, a subscription of the table is enabled; 42601,
            two-phase commit is enabled.
        TargetRelationError: 42P01, the target does not have the table.
        SubscriberError: 0A000, a foreign key of another table refers to it.
    """
    with target.reporting():
        catalog.ensure_catalog(target.engine)
    with target.begin() as connection:
        filled = _filled(target, connection)
        tables = list({one.local: one for one in (_find(name, filled) for name in command.tables)}.values())
        for one in tables:
            _check_disabled(one)
        for one in tables:
            for subscription, published in one.subscriptions:
                catalog.replace_relations(connection, subscription.subid, [published])
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
        one = found.setdefault(target.ddl.place(*local), _Filled(local))
        one.published.add(published)
        return one

    for subscription in catalog.list_subscriptions(connection):
        for relation in catalog.relations_of(connection, subscription.subid):
            published = relation.schema, relation.name
            one = table(subscription.options.map.local(*published), published)
            one.subscriptions.append((subscription, published))
    for dropped in dropped_tables(connection):
        table(dropped.local, dropped.published)
    return list(found.values())


def _find(name: RelationName, filled: Sequence[_Filled]) -> _Filled:
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
