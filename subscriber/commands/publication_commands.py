"""CREATE, ALTER and DROP PUBLICATION for emulated publications, which are stored in the target.

The names in a command are looked up at a publisher, as PostgreSQL looks them up in its own catalog.
Nothing is created at the publisher. A filter that cannot be evaluated exactly is refused by the
command (refuse_not_guess).
"""

from __future__ import annotations

from collections.abc import Sequence

from subscriber import catalog
from subscriber.commands.notices import Notify, notice, quoted, warning
from subscriber.errors import NotSupportedError, UsageError
from subscriber.filters.check import kept_text
from subscriber.publication import membership
from subscriber.publication.definition import Publication
from subscriber.publication.publication_statements import (
    AlterPublicationObjects,
    AlterPublicationOptions,
    AlterPublicationOwner,
    CreatePublication,
    DropPublication,
    PublicationCommand,
    RenamePublication,
)
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.publisher import connect_publisher
from subscriber.schema.publisher_tables import PublisherTable, PublisherTables
from subscriber.settings import redact_conninfo
from subscriber.targets import Target


def run_publication_command(target: Target, command: PublicationCommand, publisher: str | None, notify: Notify) -> str:
    """Execute a command on a target.

    Args:
        target: the database with the catalog.
        command: the parsed command.
        publisher: the connection string of the server with the tables; None for the publisher of
            the target's subscriptions.
        notify: called with notices and warnings, as psql prints them.

    Returns:
        The command's tag, such as ``CREATE PUBLICATION``.

    Raises:
        SubscriberError: it could not be executed; the message is PostgreSQL's if PostgreSQL can
            raise the same error.
    """
    if isinstance(command, AlterPublicationOwner) and command.owner is not None:
        _refuse_owner(command)  # PostgreSQL also looks for the role before it looks for the publication
    with target.reporting():
        catalog.ensure_catalog(target.engine)
    match command:
        case CreatePublication():
            _create(target, command, publisher)
            return "CREATE PUBLICATION"
        case DropPublication():
            _drop(target, command, notify)
            return "DROP PUBLICATION"
        case RenamePublication():
            with target.begin() as connection:
                catalog.rename_publication(connection, command.name, command.new_name)
        case AlterPublicationObjects() | AlterPublicationOptions() | AlterPublicationOwner():
            _alter(target, command, publisher)
    return "ALTER PUBLICATION"


def _create(target: Target, command: CreatePublication, publisher: str | None) -> None:
    with target.reporting(), target.engine.connect() as connection:
        if catalog.find_publication(connection, command.name) is not None:
            raise UsageError(f'publication "{command.name}" already exists', sqlstate="42710")
    tables = _tables(target, publisher)
    publication = membership.created(command, tables, _kept_filter)
    with target.begin() as connection:
        catalog.insert_publication(connection, publication, tables.role)


def _alter(
    target: Target,
    command: AlterPublicationObjects | AlterPublicationOptions | AlterPublicationOwner,
    publisher: str | None,
) -> None:
    with target.reporting(), target.engine.connect() as connection:
        before = catalog.get_publication(connection, command.name)
    match command:
        case AlterPublicationObjects():
            after = membership.altered(before, command, _tables(target, publisher), _kept_filter)
        case AlterPublicationOptions():
            after = membership.with_options(before, command, lambda: _tables(target, publisher))
        case AlterPublicationOwner():
            _refuse_owner(command)
    _replace(target, before, after)


def _replace(target: Target, before: Publication, after: Publication) -> None:
    """Store a publication that was computed while no transaction of the target was open, unless
    another session has changed the publication in the meantime.
    """
    with target.begin() as connection:
        if catalog.get_publication(connection, before.name) != before:
            raise UsageError(
                f'publication "{before.name}" was changed by another command at the same time',
                sqlstate="40001",
                hint="Give the command again.",
            )
        catalog.replace_publication(connection, after)


def _drop(target: Target, command: DropPublication, notify: Notify) -> None:
    with target.begin() as connection:
        found = []
        for name in command.names:
            if catalog.find_publication(connection, name) is not None:
                found.append(name)
            elif command.if_exists:
                notice(notify, f'publication "{name}" does not exist, skipping')
            else:
                raise UsageError(f'publication "{name}" does not exist', sqlstate="42704")
        for name in dict.fromkeys(found):
            catalog.delete_publication(connection, name)
        for subscription in catalog.list_subscriptions(connection):
            if subscription.options.carrier is not None and (
                gone := set(found).intersection(subscription.publications)
            ):
                warning(
                    notify,
                    f'subscription "{subscription.name}" cannot continue without publication {quoted(sorted(gone))}',
                    hint="Create the publication again, or use ALTER SUBSCRIPTION ... DROP PUBLICATION.",
                )


def _refuse_owner(command: AlterPublicationOwner) -> None:
    detail = "subscriber has no roles: it only records the owner of a publication, when the publication is created."
    hint = "Drop the publication and create it again, with a --publisher of that user."
    if command.owner is not None:
        raise UsageError(f'role "{command.owner}" does not exist', sqlstate="42704", detail=detail, hint=hint)
    raise NotSupportedError("ALTER PUBLICATION … OWNER TO is not supported", detail=detail, hint=hint)


# The publisher ------------------------------------------------------------------------------------


def _kept_filter(text: str, table: PublisherTable, tables: PublisherTables) -> str:
    """A filter as it is stored; see :data:`subscriber.publication.membership.CheckFilter`."""
    return kept_text(text, table, tables)


def _tables(target: Target, publisher: str | None) -> PublisherTables:
    if publisher is None:
        with target.reporting(), target.engine.connect() as connection:
            publisher = _only_publisher([one.conninfo for one in catalog.list_subscriptions(connection)])
    with connect_publisher(publisher, "subscriber") as server:
        return read_publisher_tables(server)


def _only_publisher(conninfos: Sequence[str]) -> str:
    """The only publisher of the target's subscriptions.

    Raises:
        UsageError: the subscriptions have no publisher, or more than one.
    """
    different = sorted(set(conninfos))
    if len(different) == 1:
        return different[0]
    raise UsageError(
        "the publisher of the publication's tables is not known",
        detail="The target has no subscription."
        if not different
        else f"The target's subscriptions have different publishers: {'; '.join(map(redact_conninfo, different))}.",
        hint="Give the publisher's connection string with --publisher, or in SUBSCRIBER_PUBLISHER.",
    )
