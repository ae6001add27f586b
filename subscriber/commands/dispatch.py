"""Executes a parsed command on a target: finds the function that carries it out."""

from __future__ import annotations

from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.subscriptions import get_subscription
from subscriber.commands import alter_publications, alter_subscription, server_grammar, subscription_grammar
from subscriber.commands.create_subscription import create_subscription
from subscriber.commands.drop_subscription import drop_subscription
from subscriber.commands.notices import Notify
from subscriber.commands.publication_commands import run_publication_command
from subscriber.commands.recreate_slot import recreate_slot
from subscriber.commands.refresh_sequences import refresh_sequences
from subscriber.commands.server_commands import run_server_command
from subscriber.commands.table_commands import refresh_tables, truncate_tables
from subscriber.commands.wake import wake_run
from subscriber.postgres.publication.publication_statements import PublicationCommand
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.targets import Target

RunnableCommand = (
    subscription_grammar.SubscriptionCommand
    | PublicationCommand
    | server_grammar.ServerCommand
    | subscription_grammar.TruncateTables
)


def run_command(
    target: Target,
    command: RunnableCommand,
    settings: Settings,
    notify: Notify,
    publisher: str | None = None,
) -> str:
    """Execute a command, and wake a ``subscriber run`` of this machine; returns the tag, such as
    ``CREATE SUBSCRIPTION``. An error has PostgreSQL's message if PostgreSQL can raise it.

    ``notify`` gets each notice and warning, as psql prints them. ``publisher`` is the connection
    string of the server with the tables of a publication; None for that of the subscriptions.
    """
    tag = _run(target, command, settings, notify, publisher)
    wake_run(settings)
    return tag


def _run(
    target: Target,
    command: RunnableCommand,
    settings: Settings,
    notify: Notify,
    publisher: str | None,
) -> str:
    if isinstance(command, subscription_grammar.TruncateTables):
        truncate_tables(target, command, notify)
        return "TRUNCATE TABLE"
    if isinstance(command, server_grammar.ServerCommand):
        return run_server_command(target, command, notify)
    if isinstance(command, PublicationCommand):
        return run_publication_command(target, command, publisher, notify)
    match command:
        case subscription_grammar.CreateSubscription():
            create_subscription(target, command, settings, notify)
            return "CREATE SUBSCRIPTION"
        case subscription_grammar.DropSubscription():
            drop_subscription(target, command, settings, notify)
            return "DROP SUBSCRIPTION"
        case _:
            _alter(target, command, settings, notify)
            return "ALTER SUBSCRIPTION"


def _alter(target: Target, command: subscription_grammar.AlterSubscription, settings: Settings, notify: Notify) -> None:
    if isinstance(command, subscription_grammar.AlterOwner) and command.owner is not None:
        alter_subscription.refuse_owner(
            command
        )  # PostgreSQL also looks for the role before it looks for the subscription
    with target.reporting():
        ensure_catalog(target.engine)
        with target.engine.connect() as connection:
            subscription = get_subscription(connection, command.name)
    match command:
        case subscription_grammar.AlterConnection():
            alter_subscription.alter_connection(target, subscription, command, notify)
        case subscription_grammar.AlterEnabled():
            alter_subscription.alter_enabled(target, subscription, command, notify)
        case subscription_grammar.AlterOptions():
            alter_subscription.alter_options(target, subscription, command, settings, notify)
        case subscription_grammar.SetResolvers() | subscription_grammar.ResetResolvers():
            alter_subscription.alter_resolvers(target, subscription, command, settings)
        case subscription_grammar.AlterSkip():
            alter_subscription.alter_skip(target, subscription, command, settings.postgresql_version)
        case subscription_grammar.AlterOwner():
            alter_subscription.refuse_owner(command)
        case subscription_grammar.RenameSubscription():
            alter_subscription.rename_subscription(target, subscription, command)
        case subscription_grammar.AlterPublications():
            alter_publications.alter_publications(target, subscription, command, notify, settings.postgresql_version)
        case subscription_grammar.RefreshPublication():
            alter_publications.refresh_publication(target, subscription, command, notify, settings.postgresql_version)
        case subscription_grammar.RefreshSequences():
            acts_as_19 = ServerFeatures(settings.postgresql_version * 10000).published_sequences
            refresh_sequences(target, subscription, settings, notify, as_postgresql=acts_as_19)
        case subscription_grammar.RefreshTables():
            refresh_tables(target, subscription, command)
        case subscription_grammar.RecreateSlot():
            recreate_slot(target, subscription, command, settings, notify)
