"""ALTER SUBSCRIPTION … PUBLICATION and REFRESH PUBLICATION: the publications and tables of a
subscription (rules D11, D12, C52, C54, C55).

The publisher is queried first, while the command holds no lock for which other sessions of the
target would wait. Then one transaction of the target creates missing tables, and adds and removes
tables of the subscription.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from subscriber import catalog
from subscriber.catalog import RelationState, Subscription
from subscriber.catalog.kept_publishing import keep_publishing
from subscriber.commands import publisher_slots, requirements
from subscriber.commands.check_publications import check_publications, read_uncopied
from subscriber.commands.check_target_tables import check_tables, warn_of_shapes
from subscriber.commands.create_subscription import check_named_once
from subscriber.commands.create_tables import create_missing_tables, design_tables
from subscriber.commands.create_tables_differences import find_differences, tell_differences
from subscriber.commands.notices import Notify
from subscriber.commands.publisher_connection import connected
from subscriber.commands.subscription_options import REFRESHING, read_options
from subscriber.commands.subscription_statements import AlterPublications, RefreshPublication
from subscriber.errors import UsageError
from subscriber.targets import Target


def alter_publications(target: Target, subscription: Subscription, command: AlterPublications, notify: Notify) -> None:
    """ALTER SUBSCRIPTION … SET, ADD, DROP PUBLICATION.

    Raises:
        UsageError: the list of publications is not valid, or the tables cannot be refreshed.
        PublisherError: the publisher could not be queried; nothing has changed.
    """
    given = {"refresh": True, "copy_data": True} | read_options(command.options.sql, command.options.given, REFRESHING)
    publications = _new_list(subscription, command)
    if not given["refresh"]:
        with target.begin() as connection:
            catalog.set_publications(connection, subscription.subid, publications)
        publisher_slots.end_receiver(subscription, notify)
        return
    form = f"ALTER SUBSCRIPTION ... {command.action.upper()} PUBLICATION"
    if not subscription.enabled:
        without = f"{form} ... WITH (refresh = false)"
        raise UsageError(
            "ALTER SUBSCRIPTION with refresh is not allowed for disabled subscriptions",
            sqlstate="55000",
            hint=f"Use {without}." if command.action == "set" else f"Use {without} instead.",
        )
    if subscription.two_phase_state == "e" and given["copy_data"]:
        raise UsageError(
            "ALTER SUBSCRIPTION with refresh and copy_data is not allowed when two_phase is enabled",
            sqlstate="55000",
            hint=f"Use {form} with refresh = false, or with copy_data = false, or use DROP/CREATE SUBSCRIPTION.",
        )
    named = () if command.action == "drop" else command.publications
    _refresh(target, replace(subscription, publications=publications), named, notify, copy_data=given["copy_data"])
    publisher_slots.end_receiver(subscription, notify)


def refresh_publication(
    target: Target, subscription: Subscription, command: RefreshPublication, notify: Notify
) -> None:
    """ALTER SUBSCRIPTION … REFRESH PUBLICATION.

    Raises:
        UsageError: the tables cannot be refreshed.
        PublisherError: the publisher could not be queried; nothing has changed.
    """
    if not subscription.enabled:
        raise UsageError("ALTER SUBSCRIPTION ... REFRESH is not allowed for disabled subscriptions", sqlstate="55000")
    given = {"copy_data": True} | read_options(command.options.sql, command.options.given, REFRESHING - {"refresh"})
    if subscription.two_phase_state == "e" and given["copy_data"]:
        raise UsageError(
            "ALTER SUBSCRIPTION ... REFRESH with copy_data is not allowed when two_phase is enabled",
            sqlstate="42601",
            hint="Use ALTER SUBSCRIPTION ... REFRESH with copy_data = false, or use DROP/CREATE SUBSCRIPTION.",
        )
    _refresh(target, subscription, (), notify, copy_data=given["copy_data"])


def _new_list(subscription: Subscription, command: AlterPublications) -> tuple[str, ...]:
    """The subscription's publications after the command."""
    check_named_once(command.publications)
    if command.action == "set":
        return command.publications
    publications = list(subscription.publications)
    for name in command.publications:
        if command.action == "add" and name in publications:
            raise UsageError(f'publication "{name}" is already in subscription "{subscription.name}"', sqlstate="42710")
        if command.action == "drop" and name not in publications:
            raise UsageError(f'publication "{name}" is not in subscription "{subscription.name}"', sqlstate="42P17")
        if command.action == "add":
            publications.append(name)
        else:
            publications.remove(name)
    if not publications:
        raise UsageError("cannot drop all the publications from a subscription", sqlstate="42P17")
    return tuple(publications)


def _refresh(
    target: Target, subscription: Subscription, named: Sequence[str], notify: Notify, *, copy_data: bool
) -> None:
    """Change the subscription's tables to those that the publications publish.

    Args:
        target: the subscriber's database.
        subscription: the subscription, with its publications after the command.
        named: the publications for which a warning is given if they do not exist.
        notify: called with warnings and notices.
        copy_data: whether new tables are copied.
    """
    options = subscription.options
    with target.reporting(), target.engine.connect() as connection:
        known = {(one.schema, one.name) for one in catalog.relations_of(connection, subscription.subid)}
        differing = catalog.differing_relations(connection, subscription.subid)
    with connected(subscription.conninfo, subscription.name) as publisher:
        publisher.check_server()
        requirements.check_publisher(publisher.version, asdict(options))
        system_identifier = publisher.system_identifier()
        with target.reporting(), target.engine.connect() as connection:
            requirements.check_other_database(target, connection, system_identifier, publisher.database)
        now = check_publications(
            target,
            publisher,
            subscription.name,
            subscription.publications,
            replace(options, copy_data=copy_data),
            notify,
            named=named,
            known=tuple(known),
        )
        tables = now.tables
        missing = check_tables(target, publisher, tables, options.map, create_tables=options.create_tables)
        new = [one.published for one in missing]
        made = [table for table in tables if table not in new and table.qualified_name in differing]
        differences = find_differences(
            publisher, [*missing, *design_tables(target, publisher, tables, made, options.map)]
        )
        warn_of_shapes(target, publisher, now, options, notify)
        uncopied = []
        if not copy_data:
            unknown = [table for table in tables if table.key not in known]
            uncopied = read_uncopied(publisher, now.publications(publisher, subscription.publications), unknown)
    published = {table.key for table in tables}
    state = RelationState.INIT if copy_data else RelationState.READY
    with target.begin() as connection:
        create_missing_tables(target, connection, missing, notify)
        told = {table.qualified_name for table in new}
        tell_differences([one for one in differences if one.relation in told], notify)
        catalog.set_publications(connection, subscription.subid, subscription.publications)
        catalog.set_schema_differences(connection, subscription.subid, differences)
        if now.publishing is not None:
            keep_publishing(connection, subscription.subid, now.publishing)
        catalog.set_relation_states(connection, subscription.subid, sorted(published - known), state)
        catalog.delete_relations(connection, subscription.subid, sorted(known - published))
        catalog.keep_published_shapes(connection, subscription.subid, uncopied)
