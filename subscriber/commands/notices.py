"""The notices and warnings of commands, with PostgreSQL's texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from subscriber.postgres.schema.relation_names import RelationNames, TableName
from subscriber.publisher.conninfo import ANY_SERVER, ANY_SERVER_HINT, names_any_server
from subscriber.publisher.table_checks import TableWithoutIdentity, UnreadableTable

Notify = Callable[[str], None]
"""A function that is called with each notice and warning. The text begins with the severity, as
psql prints it; DETAIL and HINT are lines of the same text.
"""


class RetentionOptions(NamedTuple):
    """``retain_dead_tuples``, and whether the retention is active."""

    retain: bool
    active: bool


FIRST_NAMES: Final = 5
"""The largest number of names in a message; for further names it has only their number."""


def tell_of_retention(
    notify: Notify, subscription: RetentionOptions, *, enabled: bool, warns: bool, limited: bool = False
) -> None:
    """What 19 says of ``retain_dead_tuples``: that of a disabled subscription, deleted rows stay;
    and that ``max_retention_duration`` (``limited``) has no effect without it.
    """
    if subscription.retain and subscription.active and not enabled:
        message = "deleted rows to detect conflicts would not be removed until the subscription is enabled"
        if warns:
            warning(notify, message, hint="Consider setting retain_dead_tuples to false.")
        else:
            notice(notify, message)
    elif limited and not subscription.retain:
        notice(notify, "max_retention_duration is ineffective when retain_dead_tuples is disabled")


def notice(notify: Notify, message: str, *, hint: str | None = None) -> None:
    notify(f"NOTICE:  {message}" + (f"\nHINT:  {hint}" if hint else ""))


def warning(notify: Notify, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
    lines = [f"WARNING:  {message}"]
    lines += [f"{label}:  {text}" for label, text in (("DETAIL", detail), ("HINT", hint)) if text]
    notify("\n".join(lines))


def warn_of_hosts(notify: Notify, conninfo: str) -> None:
    """Warn of a connection string that may lead to a standby."""
    if names_any_server(conninfo):
        warning(notify, ANY_SERVER, hint=ANY_SERVER_HINT)


def quoted(names: Sequence[str]) -> str:
    """``"a", "b"``."""
    return ", ".join(f'"{name}"' for name in names)


def first_names(names: Sequence[str]) -> str:
    """``"a", "b"``; of a long list the first names, and the number of the others."""
    left = len(names) - FIRST_NAMES
    return quoted(names) if left <= 0 else f"{quoted(names[:FIRST_NAMES])} and {left:,} more"


def warn_without_identity(notify: Notify, tables: Sequence[TableWithoutIdentity]) -> None:
    """Rules B32, B33: the application's UPDATE or DELETE at the publisher fails."""
    if not tables:
        return
    names = [table.qualified_name for table in tables]
    if len(tables) == 1:
        message = f'published table "{names[0]}" has no replica identity'
    else:
        message = f"{len(tables):,} published tables have no replica identity: {first_names(names)}"
    fails = [
        (
            verb,
            f'cannot {words} table "{tables[0].name}" because it does not have a replica identity and publishes {kind}',
        )
        for verb, words, kind, published in (
            ("UPDATE", "update", "updates", any(table.updates for table in tables)),
            ("DELETE", "delete from", "deletes", any(table.deletes for table in tables)),
        )
        if published
    ]
    warning(
        notify,
        message,
        detail=f"At the publisher, {' and '.join(verb for verb, _ in fails)} on {'it' if len(tables) == 1 else 'each of them'}"
        f" {'fails' if len(fails) == 1 else 'fail'},"
        f" for every application: {'; '.join(text for _, text in fails)}.",
        hint=f"Run at the publisher: {_script(table.statement for table in tables)}",
    )


def warn_unreadable(notify: Notify, tables: Sequence[UnreadableTable]) -> None:
    if not tables:
        return
    names = [table.qualified_name for table in tables]
    what = (
        f'published table "{names[0]}"'
        if len(tables) == 1
        else f"{len(tables):,} published tables: {first_names(names)}"
    )
    warning(
        notify,
        f'role "{tables[0].role}" does not have the privilege to read {what}',
        detail=f"The initial copy fails for {'it' if len(tables) == 1 else 'each of them'} until the privilege is granted.",
        hint=f"Run at the publisher: {_script(grant for table in tables for grant in table.grants)}",
    )


def _script(statements: Iterable[str]) -> str:
    """SQL statements that a user can copy and run, each of them once."""
    return " ".join(f"{statement};" for statement in dict.fromkeys(statements))


def warn_missing_publications(notify: Notify, missing: Sequence[str], hint: str | None = None) -> None:
    """Warn of missing publications; they may be created later (rule C54)."""
    if len(missing) == 1:
        warning(notify, f"publication {quoted(missing)} does not exist on the publisher", hint=hint)
    elif missing:
        warning(notify, f"publications {quoted(missing)} do not exist on the publisher", hint=hint)


def warn_unused_names(notify: Notify, names: RelationNames, relations: Collection[TableName]) -> None:
    """Warn of names in ``map`` that are not published: the map may have an error."""
    schemas = {schema for schema, _ in relations}
    unused = [f'relation "{".".join(remote)}"' for remote, _ in names.tables if remote not in relations]
    unused += [f'schema "{remote}"' for remote, _ in names.schemas if remote not in schemas]
    for one in unused:
        warning(notify, f'{one} of option "map" matches no table of the subscription')


class OriginWarning(NamedTuple):
    """The words of a warning that the publisher has changes of other origins (rule C55)."""

    message: str
    publishes: str
    hint: str


COPIES: Final = OriginWarning(
    "requested copy_data with origin = NONE but might copy data that had a different origin",
    "tables that are written to by other subscriptions",
    "Verify that initial data copied from the publisher tables did not come from other origins.",
)
RETAINS: Final = OriginWarning(
    "enabled retain_dead_tuples but might not reliably detect conflicts for changes from different origins",
    "tables that are written to by other subscriptions",
    "Consider using origin = NONE or disabling retain_dead_tuples.",
)
SYNCHRONIZES: Final = OriginWarning(
    "requested origin = NONE but might synchronize sequence values that had a different origin",
    "sequences that are synchronized from other subscriptions",
    "Verify that the initial values copied from the publisher sequences did not come from other origins.",
)


def warn_other_origins(
    notify: Notify, what: OriginWarning, subscription: str, publications: Sequence[str], version: int = 18
) -> None:
    """Warn that these publications have changes of other origins, in the words of a major version
    of PostgreSQL.
    """
    if not publications:
        return
    names = quoted(publications)
    subscribes = (
        f"a publication ({names}) that contains" if len(publications) == 1 else f"publications ({names}) that contain"
    )
    which = "The subscription" if version >= 19 or what is not COPIES else "The subscription being created"
    warning(
        notify,
        f'subscription "{subscription}" {what.message}',
        detail=f"{which} subscribes to {subscribes} {what.publishes}.",
        hint=what.hint,
    )
