"""CREATE, ALTER and DROP PUBLICATION for emulated publications, which are stored in the target, and
``subscriber publication import``, which stores a server's publications as such.

The names in a command are looked up at a publisher, as PostgreSQL does in its own catalog; nothing
is created there. A filter that cannot be evaluated exactly is refused (refuse_not_guess).
"""

from __future__ import annotations

from collections.abc import Sequence

from subscriber.base.errors import NotSupportedError, PublisherNotReady, SubscriberError, UsageError
from subscriber.base.settings import redact_conninfo
from subscriber.catalog import publications
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.subscriptions import list_subscriptions
from subscriber.commands.notices import Notify, notice, quoted, warning
from subscriber.postgres.expressions.check_filter import check_filter, kept_text
from subscriber.postgres.publication import membership, publication_statements
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.schema.publisher_tables import PublisherTable, PublisherTables
from subscriber.postgres.sql.option_list import OptionList
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.server_publications import read_publications
from subscriber.targets import Target


def run_publication_command(
    target: Target, command: publication_statements.PublicationCommand, publisher: str | None, notify: Notify
) -> str:
    if isinstance(command, publication_statements.AlterPublicationOwner) and command.owner is not None:
        _refuse_owner(command)  # PostgreSQL also looks for the role before it looks for the publication
    with target.reporting():
        ensure_catalog(target.engine)
    match command:
        case publication_statements.CreatePublication():
            _create(target, command, publisher, notify)
            return "CREATE PUBLICATION"
        case publication_statements.DropPublication():
            _drop(target, command, notify)
            return "DROP PUBLICATION"
        case publication_statements.RenamePublication():
            with target.begin() as connection:
                publications.rename_publication(connection, command.name, command.new_name)
        case (
            publication_statements.AlterPublicationObjects()
            | publication_statements.AlterPublicationAll()
            | publication_statements.AlterPublicationOptions()
            | publication_statements.AlterPublicationOwner()
        ):
            _alter(target, command, publisher, notify)
    return "ALTER PUBLICATION"


def _create(
    target: Target, command: publication_statements.CreatePublication, publisher: str | None, notify: Notify
) -> None:
    with target.reporting(), target.engine.connect() as connection:
        if publications.find_publication(connection, command.name) is not None:
            raise UsageError(f'publication "{command.name}" already exists', sqlstate="42710")
    tables = _tables(target, publisher)
    publication = membership.created(command, tables, _kept_filter)
    _ignored_options(publication, command.options, notify)
    with target.begin() as connection:
        publications.insert_publication(connection, publication, tables.role)


def _alter(
    target: Target,
    command: publication_statements.AlterPublicationObjects
    | publication_statements.AlterPublicationAll
    | publication_statements.AlterPublicationOptions
    | publication_statements.AlterPublicationOwner,
    publisher: str | None,
    notify: Notify,
) -> None:
    with target.reporting(), target.engine.connect() as connection:
        before = publications.get_publication(connection, command.name)
    match command:
        case publication_statements.AlterPublicationObjects():
            after = membership.altered(before, command, _tables(target, publisher), _kept_filter)
        case publication_statements.AlterPublicationAll():
            after = membership.with_everything(before, command, _tables(target, publisher))
        case publication_statements.AlterPublicationOptions():
            after = membership.with_options(before, command, lambda: _tables(target, publisher))
            _ignored_options(after, command.options, notify)
        case publication_statements.AlterPublicationOwner():
            _refuse_owner(command)
    _replace(target, before, after)


def _ignored_options(publication: Publication, options: OptionList, notify: Notify) -> None:
    if publication.all_sequences and options.given:
        notice(
            notify,
            "publication parameters are not applicable to sequence synchronization and will be ignored for sequences",
        )


def _replace(target: Target, before: Publication, after: Publication) -> None:
    """Store a publication, unless another session has changed it while it was computed."""
    with target.begin() as connection:
        if publications.get_publication(connection, before.name) != before:
            raise UsageError(
                f'publication "{before.name}" was changed by another command at the same time',
                sqlstate="40001",
                hint="Give the command again.",
            )
        publications.replace_publication(connection, after)


def _drop(target: Target, command: publication_statements.DropPublication, notify: Notify) -> None:
    with target.begin() as connection:
        found = []
        for name in command.names:
            if publications.find_publication(connection, name) is not None:
                found.append(name)
            elif command.if_exists:
                notice(notify, f'publication "{name}" does not exist, skipping')
            else:
                raise UsageError(f'publication "{name}" does not exist', sqlstate="42704")
        for name in dict.fromkeys(found):
            publications.delete_publication(connection, name)
        for subscription in list_subscriptions(connection):
            if subscription.options.carrier is not None and (
                gone := set(found).intersection(subscription.publications)
            ):
                warning(
                    notify,
                    f'subscription "{subscription.name}" cannot continue without publication {quoted(sorted(gone))}',
                    hint="Create the publication again, or use ALTER SUBSCRIPTION ... DROP PUBLICATION.",
                )


def _refuse_owner(command: publication_statements.AlterPublicationOwner) -> None:
    detail = "subscriber has no roles: it only records the owner of a publication, when the publication is created."
    hint = "Drop the publication and create it again, with a --publisher of that user."
    if command.owner is not None:
        raise UsageError(f'role "{command.owner}" does not exist', sqlstate="42704", detail=detail, hint=hint)
    raise NotSupportedError("ALTER PUBLICATION … OWNER TO is not supported", detail=detail, hint=hint)


# The publisher ------------------------------------------------------------------------------------


def _kept_filter(text: str, table: PublisherTable, tables: PublisherTables) -> str:
    """A filter as it is stored (:data:`subscriber.postgres.publication.membership.CheckFilter`)."""
    return kept_text(text, table, tables)


def _tables(target: Target, publisher: str | None) -> PublisherTables:
    if publisher is None:
        with target.reporting(), target.engine.connect() as connection:
            publisher = _only_publisher([one.conninfo for one in list_subscriptions(connection)])
    with connect_publisher(publisher, "subscriber") as server:
        return read_publisher_tables(server)


def _only_publisher(conninfos: Sequence[str]) -> str:
    """The one publisher of the target's subscriptions, or an error."""
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


# subscriber publication import --------------------------------------------------------------------


def import_publications(
    target: Target, conninfo: str, names: Sequence[str], notify: Notify, *, replace: bool = False
) -> None:
    """Store publications of a server in the target: all of them, or none. PublisherNotReady 42704:
    the server has no publication of that name. UsageError 42710: the target already has one, and
    ``replace`` is not given.
    """
    wanted = list(dict.fromkeys(names))
    with connect_publisher(conninfo, "subscriber") as server:
        publisher = PublisherClient(server)
        found = {publication.name: publication for publication in read_publications(publisher.connection, wanted)}
        tables = read_publisher_tables(server)
    for name in wanted:
        if name not in found:
            raise PublisherNotReady(
                f'publication "{name}" does not exist',
                sqlstate="42704",
                hint="`psql -c '\\dRp'` lists the publications of the server.",
            )
        _check_filters(found[name], tables)
    with target.reporting():
        ensure_catalog(target.engine)
    with target.begin() as connection:
        for name in wanted:
            if replace and publications.find_publication(connection, name) is not None:
                publications.replace_publication(connection, found[name])
            else:
                publications.insert_publication(connection, found[name], tables.role)
    for name in wanted:
        notice(notify, f'imported publication "{name}": {_summary(found[name])}')


def _check_filters(publication: Publication, tables: PublisherTables) -> None:
    for entry in publication.tables:
        if entry.where is None:
            continue
        try:
            check_filter(entry.where, tables.tables[entry.key], tables)
        except SubscriberError as error:
            relation = f"{entry.schema}.{entry.name}"
            context = f'row filter of table "{relation}" in publication "{publication.name}"'
            raise error.replace(relation=relation, context=context) from None


def _summary(publication: Publication) -> str:
    """The content of a publication in words, such as ``2 tables, 1 row filter``."""
    if publication.all_tables or publication.all_sequences:
        but = f" but {len(publication.excepted)}" if publication.excepted else ""
        everything = ((f"all tables{but}", publication.all_tables), ("all sequences", publication.all_sequences))
        return ", ".join(words for words, has in everything if has)
    filters = sum(entry.where is not None for entry in publication.tables)
    counted = (
        (len(publication.tables), "table"),
        (len(publication.schemas), "schema"),
        (filters, "row filter"),
    )
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counted if count) or "no tables"
