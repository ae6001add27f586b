"""Judges the target, its disk, and the disk of the journals."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.filesize import decimal

from subscriber.commands.unknown_tables import refresh_command
from subscriber.migration.findings import Finding, Severity
from subscriber.publisher.table_facts import TableFacts
from subscriber.sql.keywords import quote_identifier
from subscriber.targets.server_facts import TargetFacts

_LARGEST_VALUE: Final = 1024**3
"""The largest value of a column in PostgreSQL."""
_LITTLE_JOURNAL: Final = 1024**3
"""The journal needs about as much space as WAL is written while the target does not answer. Below
this much it is soon full.
"""


def check_server(
    facts: TargetFacts, database: str, tables: Sequence[TableFacts], *, two_phase: bool
) -> Iterator[Finding]:
    """The findings about the target's version and limits.

    Args:
        facts: the target's properties.
        database: the database's name (:attr:`Capabilities.database`).
        tables: the published tables.
        two_phase: whether prepared transactions are to be replicated as such.
    """
    if facts.version is not None:
        yield _target("INFO", "version", f"the target is {database} {facts.version}")
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
    """The finding about a table that the target of an existing subscription with ``create_tables``
    lacks: only REFRESH PUBLICATION creates it.
    """
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
    """The finding about a file that cannot be opened or created.

    Args:
        obstacle: the reason (:func:`subscriber.targets.place.obstacle`).
    """
    return _target("FAIL", "file", obstacle, remedy="Correct that, or the target URL.")


def check_disk(file: Path | None, tables: Sequence[TableFacts]) -> Iterator[Finding]:
    """The findings about the disk of the target's file.

    Args:
        file: the database's file; None for a server, whose disk cannot be seen from here.
        tables: the published tables.
    """
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
    """The findings about the disk of the journals, and about what they keep.

    Args:
        place: the setting ``SUBSCRIBER_JOURNAL``.
        keep_size: the setting ``SUBSCRIBER_JOURNAL_KEEP_SIZE``, in bytes.
    """
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
