"""The warnings of the check of a migration that ``subscriber sql`` prints after CREATE
SUBSCRIPTION.

They are the findings of :mod:`subscriber.migration.check_migration` that cost a few queries and
that the command itself does not warn of: limits of the publisher under which the slot is lost, row
security, unlogged tables, limits of the target, and disks. Nothing is sampled, and no table is
read. A NOTICE counts the sequences and counters of the target that replication does not advance.

*Rejected:* warnings before the command. They would also be printed for a command that fails, and
the error says more.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from subscriber import catalog
from subscriber.commands.notices import Notify, notice, warning
from subscriber.commands.refresh_sequences import behind_in_words, sequences_behind
from subscriber.commands.subscription_statements import CreateSubscription
from subscriber.errors import SubscriberError
from subscriber.migration import check_publisher, check_tables, check_target
from subscriber.migration.check_failover import check_failover
from subscriber.migration.findings import Finding
from subscriber.publisher.publisher import connect_publisher
from subscriber.publisher.server_facts import read_server_facts
from subscriber.publisher.table_facts import read_table_facts
from subscriber.publisher.unreplicated_objects import unreplicated_objects
from subscriber.schema.published_table import PublishedTable
from subscriber.settings import Settings
from subscriber.targets import Target

_NAME: Final = "subscriber check"


def warn_at_creation(target: Target, command: CreateSubscription, settings: Settings, notify: Notify) -> None:
    """Warn of what may go wrong with a subscription that was created just now.

    Nothing is checked if the command did not connect. If the check fails, a NOTICE says so: the
    subscription has been created.

    Args:
        target: the target of the subscription.
        command: the command that has created it.
        settings: the settings; they contain the place of the journals.
        notify: called with each warning.
    """
    if not command.options.connect:
        return
    try:
        found = [one for one in _findings(target, command, settings) if one.severity != "INFO"]
        with target.reporting(), target.engine.connect() as connection:
            subscription = catalog.get_subscription(connection, command.name)
        behind = sequences_behind(target, subscription)
    except SubscriberError as error:
        notice(notify, f"the publisher and the target could not be checked: {error.message}")
        return
    if behind:
        message, hint = behind_in_words(command.name, behind)
        notice(notify, message, hint=hint)
    for one in found:
        warning(notify, f"{one.object}: {one.message}", detail=one.reason, hint=one.remedy)
    if found:
        notice(notify, f"`subscriber check --subscription {shlex.quote(command.name)}` checks everything.")


def _findings(target: Target, command: CreateSubscription, settings: Settings) -> Iterator[Finding]:
    with target.reporting(), target.engine.connect() as connection:
        subscription = catalog.get_subscription(connection, command.name)
        relations = catalog.relations_of(connection, subscription.subid)
        here = target.read_facts(connection)
    with connect_publisher(command.conninfo, _NAME) as publisher:
        facts = read_server_facts(publisher)
        sizes = read_table_facts(publisher, [PublishedTable(one.schema, one.name) for one in relations])
        unreplicated = unreplicated_objects(publisher)
    yield from check_publisher.check_server(facts, has_slot=command.options.create_slot)
    # A new slot needs some seconds to be at the standbys.
    yield from check_failover(
        command.conninfo,
        command.options,
        facts,
        subscription=command.name,
        application_name=_NAME,
        has_slot=False,
    )
    if command.options.copy_data:
        yield from check_tables.check_row_security(sizes, facts.role)
    yield from check_tables.list_unreplicated(unreplicated)
    yield from check_target.check_server(here, target.capabilities.database, sizes, two_phase=command.options.two_phase)
    yield from check_target.check_disk(target.file, sizes)
    yield from check_target.check_journal(settings.journal, settings.journal_keep_size)
