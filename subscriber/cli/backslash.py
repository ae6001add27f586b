r"""The backslash commands of ``subscriber sql``: those of psql's that are useful for a target."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from subscriber.base.errors import UsageError
from subscriber.base.lsn import format_lsn
from subscriber.base.settings import redact_conninfo
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.subscription_options import OPTIONS, option_values
from subscriber.catalog.subscriptions import Subscription, list_subscriptions
from subscriber.targets import Target
from subscriber.testing.session.describe_publications import describe_publications, list_publications
from subscriber.testing.session.psql_table import format_rows

COMMANDS_HELP: Final = r"""\dRp[+] [PATTERN]   list the emulated publications
\dRs[+]             list the subscriptions
\h                  help with the SQL commands
\?                  help with the backslash commands
\q                  quit (Control-D quits, too)

A statement ends with a semicolon. Control-C clears the input, or cancels a running statement."""

SQL_HELP: Final = """CREATE SUBSCRIPTION name CONNECTION 'conninfo' PUBLICATION name [, ...] [ CONFLICT RESOLVER ( conflict_type = resolver [, ...] ) ] [ WITH ( option [= value] [, ...] ) ]
CREATE SUBSCRIPTION name SERVER server PUBLICATION name [, ...] [ CONFLICT RESOLVER ( conflict_type = resolver [, ...] ) ] [ WITH ( option [= value] [, ...] ) ]
ALTER SUBSCRIPTION name CONNECTION 'conninfo'
ALTER SUBSCRIPTION name SERVER server
ALTER SUBSCRIPTION name { SET | ADD | DROP } PUBLICATION name [, ...] [ WITH ( refresh, copy_data ) ]
ALTER SUBSCRIPTION name REFRESH PUBLICATION [ WITH ( copy_data ) ]
ALTER SUBSCRIPTION name REFRESH SEQUENCES
ALTER SUBSCRIPTION name REFRESH TABLE table_name [, ...]
ALTER SUBSCRIPTION name RECREATE SLOT [ WITH ( copy_data ) ]
ALTER SUBSCRIPTION name { ENABLE | DISABLE }
ALTER SUBSCRIPTION name SET ( option [= value] [, ...] )
ALTER SUBSCRIPTION name [ SET ] CONFLICT RESOLVER ( conflict_type = resolver [, ...] )
ALTER SUBSCRIPTION name RESET CONFLICT RESOLVER { ALL | FOR 'conflict_type' }
ALTER SUBSCRIPTION name SKIP ( lsn = value )
ALTER SUBSCRIPTION name RENAME TO new_name
DROP SUBSCRIPTION [ IF EXISTS ] name [ CASCADE | RESTRICT ]
TRUNCATE [ TABLE ] table_name [, ...] [ { RESTART | CONTINUE } IDENTITY ] [ RESTRICT ]
CREATE EXTENSION [ IF NOT EXISTS ] postgres_fdw
{ CREATE | ALTER | DROP } SERVER server ...
{ CREATE | ALTER | DROP } USER MAPPING FOR { CURRENT_USER | PUBLIC } SERVER server ...
CREATE PUBLICATION name [ FOR all_objects [, ...] ] [ WITH ( option [= value] [, ...] ) ]
CREATE PUBLICATION name FOR publication_object [, ...] [ WITH ( option [= value] [, ...] ) ]
ALTER PUBLICATION name SET all_objects [, ...]
ALTER PUBLICATION name { ADD | SET | DROP } publication_object [, ...]
ALTER PUBLICATION name SET ( option [= value] [, ...] )
ALTER PUBLICATION name RENAME TO new_name
DROP PUBLICATION [ IF EXISTS ] name [, ...] [ CASCADE | RESTRICT ]
where all_objects is one of:
    ALL TABLES [ EXCEPT ( TABLE [ ONLY ] table [ * ] [, ...] ) ]
    ALL SEQUENCES
and publication_object is one of:
    TABLE [ ONLY ] table [ * ] [ ( column [, ...] ) ] [ WHERE ( expression ) ]
    TABLES IN SCHEMA { schema | CURRENT_SCHEMA }
SELECT ... (in the target's own SQL)"""

WELCOME_HELP: Final = r"""Type:  \h for help with SQL commands
       \? for help with the backslash commands
       \q to quit"""


def run_backslash(text: str, target: Target, version: int = 18) -> str:
    r"""What a backslash command of the psql of a major version prints, without the last newline."""
    name, *arguments = re.findall(r'(?:"[^"]*"?|\S)+', text)
    if (of_publications := _OF_PUBLICATIONS.get(name)) and len(arguments) < 2:
        return of_publications(target, version, *(pattern for one in arguments if (pattern := one.rstrip(";"))))
    command = _COMMANDS.get(name)
    if command is None and of_publications is None:
        raise UsageError(f"invalid command {name}", hint=r"Try \? for help.")
    if command is None:
        raise UsageError(f"{name} takes one argument", hint="It is a pattern, such as p*.")
    if arguments:
        raise UsageError(f"{name} takes no argument", hint="Write a backslash command on a separate line.")
    return command(target, version)


@dataclass(frozen=True, slots=True)
class _Column:
    r"""A column of ``\dRs+``, which psql shows since a version."""

    heading: str
    shown: Callable[[Subscription, int], str]
    since: int = 0


def _list_subscriptions(target: Target, version: int) -> str:
    return _subscriptions(target, version, _BRIEF)


def _list_subscriptions_in_full(target: Target, version: int) -> str:
    return _subscriptions(target, version, (*_BRIEF, *_DETAILS))


def _subscriptions(target: Target, version: int, columns: Sequence[_Column]) -> str:
    with target.reporting():
        ensure_catalog(target.engine)
    with target.reporting(), target.engine.connect() as connection:
        subscriptions = list_subscriptions(connection)
    shown = [one for one in columns if version >= one.since]
    if len(columns) > len(_BRIEF) and any(one.options.conflict_resolvers.chosen for one in subscriptions):
        shown.append(_RESOLVERS)
    rows = [[column.shown(one, version) for column in shown] for one in subscriptions]
    return format_rows([one.heading for one in shown], rows, "List of subscriptions") + "\n"


def _details() -> Iterator[_Column]:
    for name, option in OPTIONS.items():
        if option.heading is not None:
            yield _Column(option.heading, partial(_option, name), option.shown_since)
        if name == "failover":
            yield _Column("Server", lambda one, _: one.server or "", since=19)
        if name == "max_retention_duration":
            yield _Column("Retention active", lambda one, _: _boolean(one.retention_active), since=19)
        if name == "synchronous_commit":
            yield _Column("Conninfo", lambda one, _: "" if one.server else redact_conninfo(one.conninfo))
    yield _Column("Skip LSN", lambda one, version: format_lsn(one.skip_lsn, version))
    yield _Column("Description", lambda *_: "", since=19)


def _option(name: str, subscription: Subscription, _version: int) -> str:
    values = option_values(subscription.options) | {"two_phase": subscription.two_phase_state}
    return _boolean(value) if isinstance(value := values[name], bool) else str(value)


def _boolean(value: bool) -> str:
    return "t" if value else "f"


def _array(names: tuple[str, ...]) -> str:
    return "{" + ",".join(map(_element, names)) + "}"


def _element(name: str) -> str:
    if re.search(r'[\s{},"\\]', name) or name.lower() in ("", "null"):
        return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    return name


_BRIEF: Final = (
    _Column("Name", lambda one, _: one.name),
    _Column("Enabled", lambda one, _: _boolean(one.enabled)),
    _Column("Publication", lambda one, _: _array(one.publications)),
)
"""psql's columns without Owner: whoever may write the catalog may change everything."""
_DETAILS: Final = tuple(_details())
_RESOLVERS: Final = _Column("Conflict Resolvers", lambda one, _: str(one.options.conflict_resolvers))
"""The proposed patch's column, which is shown only where a subscription has resolvers."""

_COMMANDS: Final[dict[str, Callable[[Target, int], str]]] = {
    r"\dRs": _list_subscriptions,
    r"\dRs+": _list_subscriptions_in_full,
    r"\h": lambda *_: SQL_HELP,
    r"\help": lambda *_: SQL_HELP,
    r"\?": lambda *_: COMMANDS_HELP,
}

_OF_PUBLICATIONS: Final[dict[str, Callable[..., str]]] = {
    r"\dRp": list_publications,
    r"\dRp+": describe_publications,
}
"""The commands that take a pattern."""
