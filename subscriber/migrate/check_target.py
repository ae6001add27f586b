"""Judges the target, its disk, and the disk of the journals."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from rich.filesize import decimal

from subscriber.apply.writing.unrepresentable import refusal, refused_column
from subscriber.base.errors import NotSupportedError, SubscriberError, TargetRelationError
from subscriber.base.transform_secret import transform_secret
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.check_publications import SubscribedTables, refresh_command
from subscriber.commands.check_target_tables import check_relation, misfits
from subscriber.commands.check_transforms import lost_meanings, refuse_transforms
from subscriber.commands.create_tables import count_differences, find_differences, try_design
from subscriber.commands.notices import warn_unused_names, warning
from subscriber.commands.requirements import check_value_rules, warn_unused_tables
from subscriber.migrate.findings import Finding, Severity, finding_of_error, finding_of_notice
from subscriber.migrate.schema.compare_constraints import surplus_constraints
from subscriber.migrate.schema.schema_object import TablePair
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.relation_names import TableName
from subscriber.postgres.schema.transform_values import with_fingerprint
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.shapes import read_published_shapes
from subscriber.publisher.table_checks import TableFacts
from subscriber.publisher.table_objects import read_table_objects
from subscriber.targets import Connection, Target, TargetTable
from subscriber.targets.capabilities import TargetFacts
from subscriber.targets.ddl import check_columns, new_columns, table_identity

_LARGEST_VALUE: Final = 1024**3
"""The largest value of a column in PostgreSQL."""
_LITTLE_JOURNAL: Final = 1024**3
"""The journal takes the WAL that is written while the target is away. This is soon full."""


def check_server(
    facts: TargetFacts, database: str, tables: Sequence[TableFacts], *, two_phase: bool
) -> Iterator[Finding]:
    if facts.version is not None:
        yield _target("INFO", "version", f"the target is {database} {facts.version}")
    for fact in facts.facts:
        yield _target("INFO", f"fact {fact.name}", fact.shown, reason=f"Found by: {fact.found}.")
    largest, prepared = facts.largest_value, facts.prepared_transactions
    long = [table.qualified_name for table in tables if table.out_of_line_bytes]
    if largest is not None and largest.value < _LARGEST_VALUE and long:
        yield _target(
            "WARN",
            largest.setting,
            f"the target accepts values of up to {decimal(largest.value)}, the publisher of up to {decimal(_LARGEST_VALUE)}",
            reason=f"Tables with long values: {', '.join(long[:5])}{f' and {len(long) - 5} more' if len(long) > 5 else ''}.",
            remedy=largest.remedy,
        )
    if prepared is not None and prepared.value == 0:
        yield _target(
            "FAIL" if two_phase else "INFO",
            prepared.setting,
            "the target cannot have prepared transactions, so two_phase = true stops at the first one",
            remedy=prepared.remedy,
        )


def missing_table(subscription: str, schema: str, name: str) -> Finding:
    """A table that an existing subscription lacks: REFRESH PUBLICATION creates it."""
    table = f"{quote_identifier(schema)}.{quote_identifier(name)}"
    return Finding(
        severity="FAIL",
        area="target",
        object=f"{schema}.{name}",
        message="the target has no such table",
        reason="The next change of the table stops the subscription.",
        remedy=f"{refresh_command(subscription)} ALTER SUBSCRIPTION {quote_identifier(subscription)} REFRESH TABLE {table};",
    )


def unusable_file(obstacle: str) -> Finding:
    return _target("FAIL", "file", obstacle, remedy="Correct that, or the target URL.")


def check_disk(file: Path | None, tables: Sequence[TableFacts]) -> Iterator[Finding]:
    needed = sum(table.total_bytes for table in tables)
    if file is None:
        yield _target(
            "INFO",
            "disk space",
            f"the tables have {decimal(needed)} at the publisher, with indexes; the disk of the target's server is not visible from here",
        )
        return
    free = _free_bytes(file.absolute().parent)
    if free is None:
        return
    severity: Severity = "FAIL" if free < needed else "WARN" if free < 2 * needed else "INFO"
    yield _target(
        severity,
        "disk space",
        f"{decimal(free)} are free in {file.absolute().parent}; the tables have {decimal(needed)} at the publisher, with indexes",
        remedy=None if severity == "INFO" else "Free space, or name a file on another disk in --target.",
    )


def check_journal(place: str, keep_size: int) -> Iterator[Finding]:
    local = place.removeprefix("file://")
    free = None if "://" in local else _free_bytes(Path(local).absolute())
    if free is not None:
        little = free < _LITTLE_JOURNAL
        yield _target(
            "WARN" if little else "INFO",
            "journal",
            f"{decimal(free)} are free for the journals in {local}",
            reason="The journal holds the changes that the publisher has sent and the target has not applied.",
            remedy="Set SUBSCRIBER_JOURNAL to a folder on a larger disk." if little else None,
        )
    if not keep_size:
        yield _target(
            "INFO",
            "backup",
            "the journals keep nothing for a target that is restored from a backup",
            reason="After a restore, all tables must be copied again (ALTER SUBSCRIPTION ... RECREATE SLOT).",
            remedy="Set SUBSCRIBER_JOURNAL_KEEP_SIZE to more than what is received between two backups.",
        )


def _free_bytes(folder: Path) -> int | None:
    """The free space of the disk of a folder, or of the nearest folder above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _target(
    severity: Severity, name: str, message: str, *, reason: str | None = None, remedy: str | None = None
) -> Finding:
    return Finding(severity=severity, area="target", object=name, message=message, reason=reason, remedy=remedy)


_LISTED_APART: Final = frozenset({"view", "materialized view", "trigger", "rule", "policy"})
"""Kinds that are listed for the whole database (:func:`check_tables.list_unreplicated`)."""
_NO_TABLE: Final = "42P01"
_SURPLUS: Final = {
    "surplus not null": "only the target's column is NOT NULL",
    "surplus unique key": "only the target has this unique key",
    "inexact unique key": "the target's unique key takes texts that differ at the publisher for equal ones",
    "surplus check": "only the target has this CHECK constraint",
}
"""The message for each kind of :func:`surplus_constraints`."""


def check_target_tables(
    target: Target,
    publisher: PublisherClient,
    published: SubscribedTables,
    options: SubscriptionOptions,
    subscription: str | None,
) -> Iterator[Finding]:
    yield from _value_rules(target, published, options)
    yield from _transforms(target, publisher, published, options, is_new=subscription is None)
    try:
        options.map.check_distinct([table.key for table in published.tables], partial(table_identity, target))
    except SubscriberError as error:
        yield finding_of_error(error, "target", "map")
        return
    objects = {(one.schema, one.name): one for one in read_table_objects(publisher.connection, published.tables)}
    there = _read_tables(target, [options.map.in_target(*table.key) for table in published.tables])
    missing: list[PublishedTable] = []
    existing: list[PublishedTable] = []
    for table in published.tables:
        try:
            local = there.get(options.map.in_target(*table.key))
            if isinstance(local, SubscriberError):
                raise local
            absent = check_relation(target, table.key, local, options.map, create_tables=options.create_tables)
        except SubscriberError as error:
            reason = error
            if error.sqlstate == _NO_TABLE and table.key in objects:
                reason = _without_columns(target, objects[table.key]) or error
            yield finding_of_error(reason, "target", table.qualified_name)
            continue
        if absent and subscription is not None:
            yield missing_table(subscription, *table.key)
        (missing if absent else existing).append(table)
    tables = {place: table for place, table in there.items() if isinstance(table, TargetTable)}
    if existing:
        known = [objects[table.key] for table in existing if table.key in objects]
        present = SubscribedTables(existing, published.changing)
        yield from _existing_tables(target, publisher, present, known, options, tables)
    if options.copy_data and subscription is None:
        yield from _rows(target, existing, options, tables)
    if subscription is None:
        yield from _new_tables(target, publisher, published.tables, missing, options)


def _without_columns(target: Target, objects: PublisherTable) -> SubscriberError | None:
    """Why a table that is missing cannot be created by the user either; None if it can."""
    try:
        check_columns(target, objects)
    except NotSupportedError as error:
        return error
    return None


def _read_tables(target: Target, places: Sequence[TableName]) -> Mapping[TableName, TargetTable | SubscriberError]:
    """The target's tables that exist, or the error for which nothing can be written to one."""
    with target.reporting(), target.engine.connect() as connection:
        try:
            return target.shapes.reflect_all(connection, places)
        except TargetRelationError:
            return {place: found for place in places if (found := _read_table(target, connection, place)) is not None}


def _read_table(target: Target, connection: Connection, place: TableName) -> TargetTable | SubscriberError | None:
    try:
        return target.shapes.reflect(connection, *place)
    except TargetRelationError as error:
        return error


def _existing_tables(
    target: Target,
    publisher: PublisherClient,
    published: SubscribedTables,
    known: Sequence[PublisherTable],
    options: SubscriptionOptions,
    there: Mapping[TableName, TargetTable],
) -> Iterator[Finding]:
    """What does not fit in tables that exist, and the constraints that only the target has."""
    tables = {one.key: options.map.in_target(*one.key) for one in published.tables}
    found: dict[TableName, list[Finding]] = defaultdict(list)
    with target.reporting(), target.engine.connect() as connection:
        for key, error in misfits(target, connection, publisher, published, options, there):
            warnings: list[str] = []
            warning(warnings.append, error.message, detail=error.detail, hint=error.hint)
            found[key] += [
                replace(finding_of_notice(text, "target", ".".join(key)), severity="FAIL") for text in warnings
            ]
        both = [(one, there.get(tables[one.schema, one.name])) for one in known]
        compared = [(one, local) for one, local in both if local is not None]
        all_found = target.objects.find(connection, [local for _, local in compared])
        for (objects, local), of_target in zip(compared, all_found, strict=True):
            pair = TablePair(
                target=target, connection=connection, objects=objects, table=local, found=of_target, names=options.map
            )
            found[objects.schema, objects.name] += _surplus(pair)
    for key in tables:
        yield from found[key]


def _surplus(both: TablePair) -> Iterator[Finding]:
    shape = both.objects
    for one in surplus_constraints(both):
        yield Finding(
            severity="WARN",
            area="target",
            object=f"{both.names.qualified(shape.schema, shape.name)}.{one.name}",
            message=_SURPLUS[one.kind],
            reason="A row of the publisher that violates it stops the copy or the apply.",
            remedy=" ".join(f"{statement};" for statement in one.by_hand) or None,
        )


def _value_rules(target: Target, published: SubscribedTables, options: SubscriptionOptions) -> Iterator[Finding]:
    """Names in the options that the command refuses, or that match no table."""
    try:
        check_value_rules(target, options.unrepresentable_values, options.map)
    except SubscriberError as error:
        yield finding_of_error(error, "target", "unrepresentable_values")
    keys = [table.key for table in published.tables]
    warnings: list[str] = []
    warn_unused_names(warnings.append, options.map, keys)
    warn_unused_tables(warnings.append, options, keys)
    for text in warnings:
        yield finding_of_notice(text, "target", "options")


def _transforms(
    target: Target,
    publisher: PublisherClient,
    published: SubscribedTables,
    options: SubscriptionOptions,
    *,
    is_new: bool,
) -> Iterator[Finding]:
    """What the commands refuse, and keys that do not mean the same in the target."""
    try:
        with_fingerprint(options.transform)  # functions and the secret are there
        for transform in {one.text: one for *_, one in options.transform.columns if one.kind == "sha256"}.values():
            transform_secret(transform.text)
        errors = [*refuse_transforms(target, publisher, published.tables, options, expected=None if is_new else ())]
        lost = [*lost_meanings(publisher, published.tables, options.transform)]
    except SubscriberError as error:
        yield finding_of_error(error, "target", "transform")
        return
    for refused in errors:
        yield finding_of_error(refused, "target", "transform")
    for one in lost:
        yield Finding(severity="WARN", area="target", object=one.relation, message=one.message, reason=one.detail)


def _new_value_rules(
    target: Target, publisher: PublisherClient, table: PublishedTable, options: SubscriptionOptions
) -> Iterator[Finding]:
    """Columns of a table to be created in which NULL cannot replace values: the copy would stop."""
    named = [column for place, column in options.unrepresentable_values.named() if place == table.key]
    shape = read_published_shapes(publisher.connection, [table]).get(table.key) if named else None
    if shape is None:
        return
    shape = options.shape(shape)
    columns = {column.name: column for column in new_columns(target, shape)}
    for name in named:
        reason = "the table has no such column"
        if name in columns:
            reason = refusal(shape.key_columns, columns[name]) or ""
        if reason:
            error = refused_column(options.map.qualified(*table.key), name, reason)
            yield finding_of_error(error, "target", "unrepresentable_values")


def _rows(
    target: Target,
    tables: Sequence[PublishedTable],
    options: SubscriptionOptions,
    there: Mapping[TableName, TargetTable],
) -> Iterator[Finding]:
    with target.reporting(), target.engine.connect() as connection:
        for table in tables:
            local = there.get(options.map.in_target(*table.key))
            if local is not None and local.has_rows(connection):
                name = options.map.qualified(*table.key)
                yield Finding(
                    severity="WARN",
                    area="target",
                    object=name,
                    message="the target's table has rows",
                    reason="They stay. A copied row with the key of one of them stops the copy.",
                    remedy="Delete them, or use WITH (copy_data = false).",
                )


def _new_tables(
    target: Target,
    publisher: PublisherClient,
    tables: Sequence[PublishedTable],
    missing: Sequence[PublishedTable],
    options: SubscriptionOptions,
) -> Iterator[Finding]:
    if not missing:
        return
    try:
        designed, refused = try_design(target, publisher, tables, missing, options.map, options.shape)
    except SubscriberError as error:
        yield finding_of_error(error, "target", "create_tables")
        return
    for impossible in refused:
        yield finding_of_error(impossible, "target", "create_tables")
    for one in designed:
        yield from _new_value_rules(target, publisher, one.published, options)
    yield Finding(
        severity="INFO",
        area="target",
        object="create_tables",
        message=f"{len(designed):,} {'table' if len(designed) == 1 else 'tables'} will be created",
    )
    left_out = [one for one in find_differences(publisher, designed) if one.difference.kind not in _LISTED_APART]
    for line in count_differences(left_out):
        yield Finding(severity="INFO", area="target", object="create_tables", message=line)
