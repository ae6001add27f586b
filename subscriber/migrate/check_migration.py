"""The check of a migration: it reports what would go wrong, and changes nothing.

::

    CONNECTION, PUBLICATION …, WITH (…)  ─┐
    or a subscription of the target ──────┴─▶ publisher: server, role, transactions, a replication connection
                                              tables: identity, privileges, row security
                                              target: version, limits, disk, tables
                                              what is not replicated
                                              an estimate
"""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rich.filesize import decimal

from subscriber.base.errors import PublisherError, SubscriberError
from subscriber.base.settings import Settings
from subscriber.catalog.subscription_options import SubscriptionOptions, option_values
from subscriber.catalog.subscriptions import get_subscription
from subscriber.catalog.table_states import relations_of, sequences_of
from subscriber.commands import requirements
from subscriber.commands.check_publications import SubscribedTables, find_published_tables
from subscriber.commands.create_subscription import check_named_once
from subscriber.commands.notices import Notify, notice, warning
from subscriber.commands.refresh_sequences import behind_in_words, sequences_behind
from subscriber.commands.subscription_grammar import CreateSubscription
from subscriber.migrate import check_publisher, check_target
from subscriber.migrate.check_target import check_target_tables
from subscriber.migrate.findings import Finding, finding_of_error, finding_of_notice
from subscriber.migrate.scan_values import scan_values
from subscriber.postgres.expressions.check_filter import check_filter, columns_of
from subscriber.postgres.publication.coverage import uncovered
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.server_features import OLDEST_VERSION
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.publisher import table_checks
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import ReplicationConnection, connect_publisher
from subscriber.publisher.conninfo import ANY_SERVER, ANY_SERVER_HINT, names_any_server
from subscriber.publisher.copy_out import ReadingSpeed, sample_reading
from subscriber.publisher.fence.open_transactions import transactions_in_progress
from subscriber.publisher.omitted_objects import unreplicated_objects
from subscriber.publisher.server_facts import ServerFacts, read_server_facts
from subscriber.publisher.server_publications import read_publications
from subscriber.targets import Target, open_target
from subscriber.targets.database_files import obstacle

_NAME: Final = "subscriber check"
"""The application name of the connections to the publisher."""
_NO_IDENTITY: Final = "55000"
"""The SQLSTATE of a table without a replica identity, for which there is a finding already."""


@dataclass(frozen=True, slots=True)
class Migration:
    """What is to be replicated; ``subscription`` is the name of one that exists already."""

    conninfo: str = field(repr=False)  # may hold a password
    publications: tuple[str, ...]
    options: SubscriptionOptions
    subscription: str | None = None


def check_migration(
    target: Target, migration: Migration, settings: Settings, *, scan: bool = False
) -> Iterator[Finding]:
    """The findings as they are found; ``scan`` reads the tables. UsageError: a bad ``conninfo``."""
    with contextlib.ExitStack() as stack:
        try:
            publisher = PublisherClient(stack.enter_context(connect_publisher(migration.conninfo, _NAME)))
        except PublisherError as error:
            yield finding_of_error(error, "publisher", "CONNECTION")
            return
        facts = read_server_facts(publisher.connection)
        has_slot = migration.subscription is not None and migration.options.slot_name is not None
        yield from check_publisher.check_server(facts, has_slot=has_slot)
        if facts.version < OLDEST_VERSION:
            return
        yield from _connection(migration, facts)
        yield from check_publisher.check_failover(
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
        requirements.check_publisher(facts.version, option_values(migration.options))
    except SubscriberError as error:
        yield finding_of_error(error, "publisher", "options")


def _tables(
    target: Target,
    publisher: PublisherClient,
    migration: Migration,
    facts: ServerFacts,
    settings: Settings,
    *,
    scan: bool,
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
            reason=f"The publisher has: {', '.join(sorted(one.name for one in read_publications(publisher.connection))) or 'none'}.",
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
    if not tables and not published.sequences:
        yield check_publisher.no_table(migration.publications, read_publications(publisher.connection, streamed))
    yield from check_publisher.check_identities(table_checks.tables_without_identity(publisher.connection, streamed))
    if options.carrier is None:  # else find_published_tables has checked it
        yield from _coverage(publisher, streamed)
    yield from check_publisher.check_parents(
        table_checks.read_parents(publisher.connection, tables),
        migration.publications,
        target.capabilities.database,
        has_inheritance=target.capabilities.postgresql_types,
        command="at the publisher" if options.carrier is None else "in `subscriber sql`",
    )
    sizes = table_checks.read_table_facts(publisher.connection, tables)
    if options.copy_data:
        yield from _readable(publisher, tables)
        yield from check_publisher.check_row_security(sizes, facts.role)
    yield from _target(target, publisher, published, migration, sizes, scan=scan)
    yield from check_target.check_journal(settings.journal, settings.journal_keep_size)
    unreplicated = [
        one
        for one in unreplicated_objects(publisher.connection)
        if not (published.sequences and one.kind == "sequences")  # then all of them are published
    ]
    yield from check_publisher.list_unreplicated(unreplicated, migration.subscription)
    sample = None
    if options.copy_data:
        try:
            sample = _sample(publisher, sizes)
        except SubscriberError as error:
            if not scan:  # else the table is found already
                yield finding_of_error(error, "tables", "copy")
    yield from estimate_copy(sizes, sample)


def _coverage(publisher: PublisherClient, names: Sequence[str]) -> Iterator[Finding]:
    """Filters and column lists that need more than the replica identity (rules B35, B36)."""
    tables = read_publisher_tables(publisher.connection)
    keys = {".".join(table.key): table.key for table in tables.tables.values()}

    def filter_columns(where: str, table: PublisherTable) -> frozenset[str]:
        return frozenset(columns_of(check_filter(where, table, tables)))

    try:
        for error in uncovered(read_publications(publisher.connection, names), tables, filter_columns):
            if error.sqlstate != _NO_IDENTITY:
                yield check_publisher.uncovered_identity(error, keys[str(error.relation)])
    except SubscriberError as error:
        # The server evaluates its filters itself. This one only cannot be examined here.
        yield replace(finding_of_error(error, "tables", "row filter"), severity="INFO")


def _readable(publisher: PublisherClient, tables: Sequence[PublishedTable]) -> Iterator[Finding]:
    for table in table_checks.unreadable_tables(publisher.connection, tables):
        yield Finding(
            severity="FAIL",
            area="tables",
            object=table.qualified_name,
            message=f'role "{table.role}" does not have the privilege to read the table',
            reason="The initial copy of the table would fail.",
            remedy=" ".join(f"{grant};" for grant in table.grants),
        )


def _sample(publisher: PublisherClient, tables: Sequence[table_checks.TableFacts]) -> ReadingSpeed | None:
    """How fast the largest table is read, for a second; None if the role may not read it."""
    largest = max(tables, key=lambda table: table.heap_bytes, default=None)
    if largest is None or not largest.heap_bytes or largest.is_hidden:
        return None
    if table_checks.unreadable_tables(publisher.connection, [PublishedTable(largest.schema, largest.name)]):
        return None
    return sample_reading(publisher.connection, largest.schema, largest.name)


# The target --------------------------------------------------------------------------------------


def _target(
    target: Target,
    publisher: PublisherClient,
    published: SubscribedTables,
    migration: Migration,
    sizes: Sequence[table_checks.TableFacts],
    *,
    scan: bool,
) -> Iterator[Finding]:
    options = migration.options
    in_the_way = None if target.file is None else obstacle(str(target.file))
    if in_the_way is not None:
        yield check_target.unusable_file(in_the_way)
        return
    try:
        requirements.check_target(target, option_values(options))
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
    """The target; in place of a file that does not exist, an empty database of its kind."""
    if target.file is None or target.file.exists():
        yield target
        return
    with tempfile.TemporaryDirectory(prefix="subscriber-check-") as folder:
        url = target.url.set(database=str(Path(folder) / target.file.name))
        with open_target(url) as empty:
            yield empty


_HOUR = 3600.0
_MINUTE = 60.0


def estimate_copy(tables: Sequence[table_checks.TableFacts], sample: ReadingSpeed | None) -> Iterator[Finding]:
    """The size of the published tables, and how long one connection reads them."""
    rows, size = sum(table.rows for table in tables), sum(table.heap_bytes for table in tables)
    yield _estimate(
        "size",
        f"{len(tables):,} {'table' if len(tables) == 1 else 'tables'} with about {rows:,} rows, {decimal(size)} on disk without indexes",
    )
    if sample is None or not sample.rows or not size:
        return
    largest = max(tables, key=lambda table: table.heap_bytes)
    if sample.is_whole:
        read: float = largest.heap_bytes  # a page of 8 kB may have one short row
    elif largest.rows:
        read = largest.heap_bytes * sample.rows / largest.rows
    else:  # never analyzed: its text is about as large as its rows on disk
        read = sample.text_bytes
    seconds = size * sample.seconds / read
    yield _estimate(
        "duration of the copy",
        f"about {_duration(seconds)} for one connection",
        reason=f"In {sample.seconds:.1f} s the publisher sent {sample.rows:,} {'row' if sample.rows == 1 else 'rows'} ({decimal(sample.text_bytes)}) of table"
        f' "{largest.qualified_name}". The target\'s speed is not part of it.',
    )


def _duration(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{max(1, round(seconds))} s"
    if seconds < _HOUR:
        return f"{round(seconds / _MINUTE)} min"
    return f"{seconds / _HOUR:.1f} h"


def _estimate(name: str, message: str, *, reason: str | None = None) -> Finding:
    return Finding(severity="INFO", area="estimate", object=name, message=message, reason=reason)


def warn_at_creation(target: Target, command: CreateSubscription, settings: Settings, notify: Notify) -> None:
    """Warn of what may go wrong with a new subscription; a NOTICE says if the check fails."""
    if not command.options.connect:
        return
    try:
        found = [one for one in _findings(target, command, settings) if one.severity != "INFO"]
        with target.reporting(), target.engine.connect() as connection:
            subscription = get_subscription(connection, command.name)
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
        subscription = get_subscription(connection, command.name)
        relations = relations_of(connection, subscription.subid)
        has_sequences = bool(sequences_of(connection, subscription.subid))
        here = target.read_facts(connection)
    with connect_publisher(command.conninfo, _NAME) as publisher:
        facts = read_server_facts(publisher)
        sizes = table_checks.read_table_facts(publisher, [PublishedTable(one.schema, one.name) for one in relations])
        unreplicated = [
            one for one in unreplicated_objects(publisher) if not (has_sequences and one.kind == "sequences")
        ]
    yield from check_publisher.check_server(facts, has_slot=command.options.create_slot)
    # A new slot needs some seconds to be at the standbys.
    yield from check_publisher.check_failover(
        command.conninfo,
        command.options,
        facts,
        subscription=command.name,
        application_name=_NAME,
        has_slot=False,
    )
    if command.options.copy_data:
        yield from check_publisher.check_row_security(sizes, facts.role)
    yield from check_publisher.list_unreplicated(unreplicated, command.name)
    yield from check_target.check_server(here, target.capabilities.database, sizes, two_phase=command.options.two_phase)
    yield from check_target.check_disk(target.file, sizes)
    yield from check_target.check_journal(settings.journal, settings.journal_keep_size)
