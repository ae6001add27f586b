r"""The backslash commands of ``subscriber sql``: those of psql's commands that are useful for a
target.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.cli.describe_publications import describe_publications, list_publications
from subscriber.cli.psql_table import format_rows
from subscriber.errors import UsageError
from subscriber.lsn import format_lsn
from subscriber.settings import redact_conninfo
from subscriber.targets import Target

COMMANDS_HELP: Final = r"""\dRp[+] [PATTERN]   list the emulated publications
\dRs[+]             list the subscriptions
\h                  help with the SQL commands
\?                  help with the backslash commands
\q                  quit (Control-D quits, too)

A statement ends with a semicolon. Control-C clears the input, or cancels a running statement."""

SQL_HELP: Final = """CREATE SUBSCRIPTION name CONNECTION 'conninfo' PUBLICATION name [, ...] [ WITH ( option [= value] [, ...] ) ]
ALTER SUBSCRIPTION name CONNECTION 'conninfo'
ALTER SUBSCRIPTION name { SET | ADD | DROP } PUBLICATION name [, ...] [ WITH ( refresh, copy_data ) ]
ALTER SUBSCRIPTION name REFRESH PUBLICATION [ WITH ( copy_data ) ]
ALTER SUBSCRIPTION name REFRESH SEQUENCES
ALTER SUBSCRIPTION name REFRESH TABLE table_name [, ...]
ALTER SUBSCRIPTION name RECREATE SLOT [ WITH ( copy_data ) ]
ALTER SUBSCRIPTION name { ENABLE | DISABLE }
ALTER SUBSCRIPTION name SET ( option [= value] [, ...] )
ALTER SUBSCRIPTION name SKIP ( lsn = value )
ALTER SUBSCRIPTION name RENAME TO new_name
DROP SUBSCRIPTION [ IF EXISTS ] name [ CASCADE | RESTRICT ]
TRUNCATE [ TABLE ] table_name [, ...] [ { RESTART | CONTINUE } IDENTITY ] [ RESTRICT ]
CREATE PUBLICATION name [ FOR ALL TABLES [ EXCEPT ( TABLE table [, ...] ) ] ] [ WITH ( option [= value] [, ...] ) ]
CREATE PUBLICATION name FOR publication_object [, ...] [ WITH ( option [= value] [, ...] ) ]
ALTER PUBLICATION name { ADD | SET | DROP } publication_object [, ...]
ALTER PUBLICATION name SET ( option [= value] [, ...] )
ALTER PUBLICATION name RENAME TO new_name
DROP PUBLICATION [ IF EXISTS ] name [, ...] [ CASCADE | RESTRICT ]
where publication_object is one of:
    TABLE [ ONLY ] table [ * ] [ ( column [, ...] ) ] [ WHERE ( expression ) ]
    TABLES IN SCHEMA { schema | CURRENT_SCHEMA }
SELECT ... (in the target's own SQL)"""

WELCOME_HELP: Final = r"""Type:  \h for help with SQL commands
       \? for help with the backslash commands
       \q to quit"""


def run_backslash(text: str, target: Target) -> str:
    r"""What a backslash command prints, without the last newline.

    Raises:
        UsageError: there is no such command, or it has too many arguments.
    """
    name, *arguments = re.findall(r'(?:"[^"]*"?|\S)+', text)
    if (of_publications := _OF_PUBLICATIONS.get(name)) and len(arguments) < 2:
        return of_publications(target, *(pattern for one in arguments if (pattern := one.rstrip(";"))))
    command = _COMMANDS.get(name)
    if command is None and of_publications is None:
        raise UsageError(f"invalid command {name}", hint=r"Try \? for help.")
    if command is None:
        raise UsageError(f"{name} takes one argument", hint="It is a pattern, such as p*.")
    if arguments:
        raise UsageError(f"{name} takes no argument", hint="Write a backslash command on a separate line.")
    return command(target)


def _list_subscriptions(target: Target) -> str:
    rows = [_row(subscription) for subscription in _subscriptions(target)]
    return format_rows(_HEADINGS, rows, "List of subscriptions") + "\n"


def _list_subscriptions_in_full(target: Target) -> str:
    rows = [(*_row(subscription), *_details(subscription)) for subscription in _subscriptions(target)]
    return format_rows((*_HEADINGS, *_DETAILS), rows, "List of subscriptions") + "\n"


_HEADINGS: Final = ("Name", "Enabled", "Publication")
_DETAILS: Final = (
    "Binary", "Streaming", "Two-phase commit", "Disable on error", "Origin", "Password required", "Run as owner?",
    "Failover", "Synchronous commit", "Conninfo", "Skip LSN",
)  # fmt: skip
"""psql's column headings, without Owner.

Subscriptions of a target have no owner: every user that may write the catalog's tables may change
all of them.
"""


def _subscriptions(target: Target) -> list[Subscription]:
    with target.reporting():
        catalog.ensure_catalog(target.engine)
    with target.reporting(), target.engine.connect() as connection:
        return catalog.list_subscriptions(connection)


def _row(subscription: Subscription) -> tuple[str, str, str]:
    return subscription.name, _boolean(subscription.enabled), _array(subscription.publications)


def _details(subscription: Subscription) -> tuple[str, ...]:
    options = subscription.options
    return (
        _boolean(options.binary),
        options.streaming,
        subscription.two_phase_state,
        _boolean(options.disable_on_error),
        options.origin,
        _boolean(options.password_required),
        _boolean(options.run_as_owner),
        _boolean(options.failover),
        options.synchronous_commit,
        redact_conninfo(subscription.conninfo),
        format_lsn(subscription.skip_lsn),
    )


def _boolean(value: bool) -> str:
    return "t" if value else "f"


def _array(names: tuple[str, ...]) -> str:
    """An array of texts, as PostgreSQL writes it."""
    return "{" + ",".join(map(_element, names)) + "}"


def _element(name: str) -> str:
    if re.search(r'[\s{},"\\]', name) or name.lower() in ("", "null"):
        return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    return name


_COMMANDS: Final[dict[str, Callable[[Target], str]]] = {
    r"\dRs": _list_subscriptions,
    r"\dRs+": _list_subscriptions_in_full,
    r"\h": lambda _: SQL_HELP,
    r"\help": lambda _: SQL_HELP,
    r"\?": lambda _: COMMANDS_HELP,
}

_OF_PUBLICATIONS: Final[dict[str, Callable[..., str]]] = {
    r"\dRp": list_publications,
    r"\dRp+": describe_publications,
}
"""The commands that take a pattern."""
