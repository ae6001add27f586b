"""Executes a parsed command on a target: finds the function that carries it out."""

from __future__ import annotations

from subscriber import catalog
from subscriber.commands import alter_publications, alter_subscription
from subscriber.commands.create_subscription import create_subscription
from subscriber.commands.drop_subscription import drop_subscription
from subscriber.commands.notices import Notify
from subscriber.commands.publication_commands import run_publication_command
from subscriber.commands.recreate_slot import recreate_slot
from subscriber.commands.refresh_sequences import refresh_sequences
from subscriber.commands.refresh_tables import refresh_tables
from subscriber.commands.subscription_statements import (
    AlterConnection,
    AlterEnabled,
    AlterOptions,
    AlterOwner,
    AlterPublications,
    AlterSkip,
    AlterSubscription,
    CreateSubscription,
    DropSubscription,
    RecreateSlot,
    RefreshPublication,
    RefreshSequences,
    RefreshTables,
    RenameSubscription,
    SubscriptionCommand,
    TruncateTables,
)
from subscriber.commands.truncate_tables import truncate_tables
from subscriber.commands.wake import wake_run
from subscriber.publication.publication_statements import PublicationCommand
from subscriber.settings import Settings
from subscriber.targets import Target


def run_command(
    target: Target,
    command: SubscriptionCommand | PublicationCommand | TruncateTables,
    settings: Settings,
    notify: Notify,
    publisher: str | None = None,
) -> str:
    """Execute a command on a target, and wake a ``subscriber run`` of this machine.

    Args:
        target: the database with the catalog and the replicated tables.
        command: the parsed command.
        settings: the settings; they contain the place of the journals.
        notify: called with each notice and warning, as psql prints them.
        publisher: the connection string of the server with the tables of a publication; None for
            the publisher of the target's subscriptions.

    Returns:
        The command's tag, such as ``CREATE SUBSCRIPTION``.

    Raises:
        SubscriberError: it could not be executed; the message is PostgreSQL's if PostgreSQL can
            raise the same error.
    """
    tag = _run(target, command, settings, notify, publisher)
    wake_run(settings)
    return tag


def _run(
    target: Target,
    command: SubscriptionCommand | PublicationCommand | TruncateTables,
    settings: Settings,
    notify: Notify,
    publisher: str | None,
) -> str:
    if isinstance(command, TruncateTables):
        truncate_tables(target, command, notify)
        return "TRUNCATE TABLE"
    if isinstance(command, PublicationCommand):
        return run_publication_command(target, command, publisher, notify)
    match command:
        case CreateSubscription():
            create_subscription(target, command, settings, notify)
            return "CREATE SUBSCRIPTION"
        case DropSubscription():
            drop_subscription(target, command, settings, notify)
            return "DROP SUBSCRIPTION"
        case _:
            _alter(target, command, settings, notify)
            return "ALTER SUBSCRIPTION"


def _alter(target: Target, command: AlterSubscription, settings: Settings, notify: Notify) -> None:
    if isinstance(command, AlterOwner) and command.owner is not None:
        alter_subscription.refuse_owner(
            command
        )  # PostgreSQL also looks for the role before it looks for the subscription
    with target.reporting():
        catalog.ensure_catalog(target.engine)
        with target.engine.connect() as connection:
            subscription = catalog.get_subscription(connection, command.name)
    match command:
        case AlterConnection():
            alter_subscription.alter_connection(target, subscription, command, notify)
        case AlterEnabled():
            alter_subscription.alter_enabled(target, subscription, command)
        case AlterOptions():
            alter_subscription.alter_options(target, subscription, command, settings, notify)
        case AlterSkip():
            alter_subscription.alter_skip(target, subscription, command)
        case AlterOwner():
            alter_subscription.refuse_owner(command)
        case RenameSubscription():
            alter_subscription.rename_subscription(target, subscription, command)
        case AlterPublications():
            alter_publications.alter_publications(target, subscription, command, notify)
        case RefreshPublication():
            alter_publications.refresh_publication(target, subscription, command, notify)
        case RefreshSequences():
            refresh_sequences(target, subscription, settings, notify)
        case RefreshTables():
            refresh_tables(target, subscription, command)
        case RecreateSlot():
            recreate_slot(target, subscription, command, settings, notify)
