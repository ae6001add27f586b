"""The check of a migration: everything that would go wrong is reported before anything is changed.

::

    CONNECTION, PUBLICATION …, WITH (…)  ─┐
    or a subscription of the target ──────┴─▶ publisher: server, role, transactions, a replication connection
                                              tables: identity, privileges, row security
                                              target: version, limits, disk, tables
                                              what is not replicated
                                              an estimate

Nothing is changed: no slot, no table, no catalog. A target's file that does not exist is not
created; an empty database of the same kind in a temporary folder is looked at in its place.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands import requirements
from subscriber.commands.check_publications import SubscribedTables, find_published_tables
from subscriber.commands.create_subscription import check_named_once
from subscriber.errors import PublisherError, SubscriberError
from subscriber.filters.check import check_filter, columns_of
from subscriber.migration import check_publisher, check_tables, check_target
from subscriber.migration.check_failover import check_failover
from subscriber.migration.estimate_copy import estimate_copy
from subscriber.migration.findings import Finding, finding_of_error, finding_of_notice
from subscriber.migration.scan_values import scan_values
from subscriber.migration.target_tables import check_target_tables
from subscriber.publication.coverage import uncovered
from subscriber.publisher.blockers import transactions_in_progress
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.connection import ReplicationConnection
from subscriber.publisher.conninfo import ANY_SERVER, ANY_SERVER_HINT, names_any_server
from subscriber.publisher.privileges import unreadable_tables
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.publisher.replica_identity import tables_without_identity
from subscriber.publisher.server_facts import ServerFacts, read_server_facts
from subscriber.publisher.table_facts import ReadingSpeed, TableFacts, read_table_facts, sample_reading
from subscriber.publisher.unreplicated_objects import unreplicated_objects
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.publisher_tables import PublisherTable
from subscriber.schema.server_features import OLDEST_VERSION
from subscriber.settings import Settings
from subscriber.sql.keywords import quote_identifier
from subscriber.targets import Target, open_target
from subscriber.targets.place import obstacle

_NAME: Final = "subscriber check"
"""The application name of the connections to the publisher."""
_NO_IDENTITY: Final = "55000"
"""The SQLSTATE of a table without a replica identity, for which there is a finding already."""


@dataclass(frozen=True, slots=True)
class Migration:
    """What is to be replicated.

    Attributes:
        conninfo: the publisher, as a libpq connection string.
        publications: the publications.
        options: the options of the subscription.
        subscription: the subscription's name, if it exists already. Then its tables in the target
            may have rows.
    """

    conninfo: str = field(repr=False)  # may hold a password
    publications: tuple[str, ...]
    options: SubscriptionOptions
    subscription: str | None = None


def check_migration(
    target: Target, migration: Migration, settings: Settings, *, scan: bool = False
) -> Iterator[Finding]:
    """Check a migration; the findings come as they are found.

    Args:
        target: the target.
        migration: what is to be replicated.
        settings: the settings; they contain the place of the journals.
        scan: read the published tables, for values that the target cannot hold.

    Raises:
        UsageError: the connection string is no connection string.
    """
    with contextlib.ExitStack() as stack:
        try:
            publisher = Publisher(stack.enter_context(connect_publisher(migration.conninfo, _NAME)))
        except PublisherError as error:
            yield finding_of_error(error, "publisher", "CONNECTION")
            return
        facts = read_server_facts(publisher.connection)
        has_slot = migration.subscription is not None and migration.options.slot_name is not None
        yield from check_publisher.check_server(facts, has_slot=has_slot)
        if facts.version < OLDEST_VERSION:
            return
        yield from _connection(migration, facts)
        yield from check_failover(
            migration.conninfo,
            migration.options,
            facts,
            subscription=migration.subscription,
            application_name=_NAME,
            has_slot=has_slot,
        )
        yield from _tables(target, publisher, migration, facts, settings, scan=scan)


def _connection(migration: Migration, facts: ServerFacts) -> Iterator[Finding]:
    yield from check_publisher.check_role(facts)
    if names_any_server(migration.conninfo):
        yield Finding(
            severity="WARN", area="publisher", object="CONNECTION", message=ANY_SERVER, remedy=ANY_SERVER_HINT
        )
    if facts.may_replicate:
        try:
            with ReplicationConnection(migration.conninfo, _NAME):
                pass
        except PublisherError as error:
            # Most often pg_hba.conf has no entry for the replication connection.
            yield finding_of_error(error, "publisher", "replication connection")
    if migration.subscription is None:
        yield from check_publisher.check_open_transactions(transactions_in_progress(migration.conninfo, _NAME, 0))
    try:
        requirements.check_publisher(facts.version, asdict(migration.options))
    except SubscriberError as error:
        yield finding_of_error(error, "publisher", "options")


def _tables(
    target: Target, publisher: Publisher, migration: Migration, facts: ServerFacts, settings: Settings, *, scan: bool
) -> Iterator[Finding]:
    options = migration.options
    try:
        check_named_once(migration.publications)
    except SubscriberError as error:
        yield finding_of_error(error, "publisher", "publications")
    streamed = migration.publications if options.carrier is None else (options.carrier,)
    for name in publisher.missing_publications(streamed):
        yield Finding(
            severity="FAIL",
            area="publisher",
            object=f"publication {name}",
            message=f'publication "{name}" does not exist',
            reason=f"The publisher has: {', '.join(sorted(one.name for one in publisher.publications())) or 'none'}.",
            remedy=publisher.like_publication(name) or f"CREATE PUBLICATION {quote_identifier(name)} FOR ALL TABLES;",
        )
    notices: list[str] = []
    try:
        published = find_published_tables(target, publisher, migration.publications, options, notices.append)
    except SubscriberError as error:
        yield finding_of_error(error, "tables", ", ".join(migration.publications))
        return
    for text in notices:
        yield finding_of_notice(text, "tables", ", ".join(migration.publications))
    tables = published.tables
    if not tables:
        yield check_tables.no_table(
            migration.publications, publisher.publications(streamed), publisher.publications_of_sequences(streamed)
        )
    yield from check_tables.check_identities(tables_without_identity(publisher.connection, streamed))
    if options.carrier is None:  # else find_published_tables has checked it
        yield from _coverage(publisher, streamed)
    sizes = read_table_facts(publisher.connection, tables)
    if options.copy_data:
        yield from _readable(publisher, tables)
        yield from check_tables.check_row_security(sizes, facts.role)
    yield from _target(target, publisher, published, migration, sizes, scan=scan)
    yield from check_target.check_journal(settings.journal, settings.journal_keep_size)
    yield from check_tables.list_unreplicated(unreplicated_objects(publisher.connection))
    yield from estimate_copy(sizes, _sample(publisher, sizes) if options.copy_data else None)


def _coverage(publisher: Publisher, names: Sequence[str]) -> Iterator[Finding]:
    """Filters and column lists that need more than the replica identity (rules B35, B36): the
    publisher refuses UPDATE or DELETE then.
    """
    tables = read_publisher_tables(publisher.connection)
    keys = {".".join(table.key): table.key for table in tables.tables.values()}

    def filter_columns(where: str, table: PublisherTable) -> frozenset[str]:
        return frozenset(columns_of(check_filter(where, table, tables)))

    try:
        for error in uncovered(publisher.publications(names), tables, filter_columns):
            if error.sqlstate != _NO_IDENTITY:
                yield check_tables.uncovered_identity(error, keys[str(error.relation)])
    except SubscriberError as error:
        # The server evaluates its filters itself. This one only cannot be examined here.
        yield replace(finding_of_error(error, "tables", "row filter"), severity="INFO")


def _readable(publisher: Publisher, tables: Sequence[PublishedTable]) -> Iterator[Finding]:
    for table in unreadable_tables(publisher.connection, tables):
        yield Finding(
            severity="FAIL",
            area="tables",
            object=table.qualified_name,
            message=f'role "{table.role}" does not have the privilege to read the table',
            reason="The initial copy of the table would fail.",
            remedy=" ".join(f"{grant};" for grant in table.grants),
        )


def _sample(publisher: Publisher, tables: Sequence[TableFacts]) -> ReadingSpeed | None:
    """How fast the largest table is read, for a second; None if it cannot be read."""
    largest = max(tables, key=lambda table: table.heap_bytes, default=None)
    if largest is None or not largest.heap_bytes or largest.is_hidden:
        return None
    if unreadable_tables(publisher.connection, [PublishedTable(largest.schema, largest.name)]):
        return None
    return sample_reading(publisher.connection, largest.schema, largest.name)


# The target --------------------------------------------------------------------------------------


def _target(
    target: Target,
    publisher: Publisher,
    published: SubscribedTables,
    migration: Migration,
    sizes: Sequence[TableFacts],
    *,
    scan: bool,
) -> Iterator[Finding]:
    options = migration.options
    in_the_way = None if target.file is None else obstacle(str(target.file))
    if in_the_way is not None:
        yield check_target.unusable_file(in_the_way)
        return
    try:
        requirements.check_target(target, asdict(options))
        with _looked_at(target) as database:
            with database.reporting(), database.engine.connect() as connection:
                facts = database.read_facts(connection)
                requirements.check_other_database(
                    database, connection, publisher.system_identifier(), publisher.database
                )
            yield from check_target.check_server(
                facts, target.capabilities.database, sizes, two_phase=options.two_phase
            )
            yield from check_target.check_disk(target.file, sizes)
            yield from check_target_tables(database, publisher, published, options, migration.subscription)
            if scan:
                yield from scan_values(database, publisher, published, options)
    except SubscriberError as error:
        yield finding_of_error(error, "target", target.url.render_as_string())


@contextlib.contextmanager
def _looked_at(target: Target) -> Iterator[Target]:
    """The target; an empty database of its kind if its file does not exist, which is not created
    here.
    """
    if target.file is None or target.file.exists():
        yield target
        return
    with tempfile.TemporaryDirectory(prefix="subscriber-check-") as folder:
        url = target.url.set(database=str(Path(folder) / target.file.name))
        with open_target(url) as empty:
            yield empty
