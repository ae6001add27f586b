"""ALTER SUBSCRIPTION … PUBLICATION and REFRESH PUBLICATION: the publications and tables of a
subscription (rules D11, D12, C52, C54, C55).

The publisher is queried first, while the command holds no lock for which other sessions of the
target would wait. Then one transaction creates missing tables, and adds and removes tables of the
subscription.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from subscriber.base.errors import UsageError
from subscriber.catalog.schema_changes import differing_relations, set_schema_differences, store_published_shapes
from subscriber.catalog.stored_publishing import store_publishing, with_stored_tables
from subscriber.catalog.subscription_options import option_values, read_options
from subscriber.catalog.subscriptions import Subscription, set_publications
from subscriber.catalog.table_states import (
    RelationState,
    delete_relations,
    relations_of,
    sequences_of,
    set_relation_states,
)
from subscriber.commands import create_tables, requirements, subscription_slots
from subscriber.commands.check_publications import check_publications, read_uncopied, warn_of_origins
from subscriber.commands.check_target_tables import check_tables, warn_of_shapes
from subscriber.commands.check_transforms import check_transforms
from subscriber.commands.create_subscription import check_named_once
from subscriber.commands.notices import Notify
from subscriber.commands.refresh_sequences import keys_of
from subscriber.commands.sequence_rows import follow_sequences
from subscriber.commands.subscription_grammar import AlterPublications, RefreshPublication
from subscriber.commands.subscription_slots import connected
from subscriber.targets import Target


def alter_publications(
    target: Target, subscription: Subscription, command: AlterPublications, notify: Notify, version: int = 18
) -> None:
    given = {"refresh": True, "copy_data": True} | read_options(command.options, "PUBLICATION")
    publications = _new_list(subscription, command)
    if not given["refresh"]:
        with target.begin() as connection:
            set_publications(connection, subscription.subid, publications)
        subscription_slots.end_receiver(subscription, notify)
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
    altered = replace(subscription, publications=publications)
    _refresh(target, altered, named, notify, version, copy_data=given["copy_data"])
    subscription_slots.end_receiver(subscription, notify)


def refresh_publication(
    target: Target, subscription: Subscription, command: RefreshPublication, notify: Notify, version: int = 18
) -> None:
    """Errors have the words of a major version of PostgreSQL (rule C52)."""
    form = "ALTER SUBSCRIPTION ... REFRESH PUBLICATION" if version >= 19 else "ALTER SUBSCRIPTION ... REFRESH"
    if not subscription.enabled:
        raise UsageError(f"{form} is not allowed for disabled subscriptions", sqlstate="55000")
    given = {"copy_data": True} | read_options(command.options, "REFRESH")
    if subscription.two_phase_state == "e" and given["copy_data"]:
        raise UsageError(
            f"{form} with copy_data is not allowed when two_phase is enabled",
            sqlstate="42601",
            hint=f"Use {form} with copy_data = false, or use DROP/CREATE SUBSCRIPTION.",
        )
    _refresh(target, subscription, (), notify, version, copy_data=given["copy_data"])


def _new_list(subscription: Subscription, command: AlterPublications) -> tuple[str, ...]:
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
    target: Target, subscription: Subscription, named: Sequence[str], notify: Notify, version: int, *, copy_data: bool
) -> None:
    """Change the subscription's tables; warns of ``named`` publications that do not exist."""
    options = subscription.options
    with target.reporting(), target.engine.connect() as connection:
        known = set(keys_of(relations_of(connection, subscription.subid)))
        followed = set(keys_of(sequences_of(connection, subscription.subid)))
        differing = differing_relations(connection, subscription.subid)
    with connected(subscription.conninfo, subscription.name) as publisher:
        publisher.check_server()
        requirements.check_publisher(publisher.version, option_values(options))
        system_identifier = publisher.system_identifier()
        with target.reporting(), target.engine.connect() as connection:
            requirements.check_other_database(target, connection, system_identifier, publisher.database)
        now = check_publications(
            target,
            publisher,
            subscription.publications,
            replace(options, copy_data=copy_data),
            notify,
            named=named,
            known=tuple(known),
        )
        warn_of_origins(
            publisher,
            subscription.name,
            subscription.publications,
            replace(options, copy_data=copy_data),
            notify,
            version,
            known=(*known, *followed),
        )
        tables = now.tables
        missing = check_tables(
            target,
            publisher,
            tables,
            options.map,
            create_tables=options.create_tables,
            version=version,
            reshape=options.shape,
        )
        new = [one.published for one in missing]
        made = [table for table in tables if table not in new and table.qualified_name in differing]
        created = create_tables.design_tables(target, publisher, tables, made, options.map, options.shape)
        differences = create_tables.find_differences(publisher, [*missing, *created])
        warn_of_shapes(target, publisher, now, options, notify)
        check_transforms(target, publisher, tables, options, notify, expected=known)
        uncopied = []
        if not copy_data:
            unknown = [table for table in tables if table.key not in known]
            uncopied = read_uncopied(publisher, now.publications(publisher, subscription.publications), unknown)
    published = {table.key for table in tables}
    state = RelationState.INIT if copy_data else RelationState.READY
    with target.begin() as connection:
        create_tables.create_missing_tables(target, connection, missing, notify)
        new_names = {table.qualified_name for table in new}
        create_tables.notify_of_differences([one for one in differences if one.relation in new_names], notify)
        set_publications(connection, subscription.subid, subscription.publications)
        set_schema_differences(connection, subscription.subid, differences)
        if now.publishing is not None:
            publishing = with_stored_tables(connection, subscription.subid, now.publishing)
            store_publishing(connection, subscription.subid, publishing)
        set_relation_states(connection, subscription.subid, sorted(published - known), state)
        delete_relations(connection, subscription.subid, sorted(known - published))
        published_sequences = {one.key for one in now.sequences}
        new_sequences = [one for one in now.sequences if one.key not in followed]
        added = follow_sequences(target, connection, subscription, new_sequences, notify)
        set_relation_states(connection, subscription.subid, added, state, are_sequences=True)
        delete_relations(connection, subscription.subid, sorted(followed - published_sequences))
        store_published_shapes(connection, subscription.subid, uncopied)
