r"""The catalogs of subscriptions, as a session on a target can query them.

The mirror in which a session's statements run has no subscriptions, so its own catalogs are empty.
If a statement names such a catalog, a temporary view with the same name and with the columns of
this PostgreSQL version is created for the duration of the statement::

    SELECT subname, subenabled FROM pg_subscription;
                                     │
    target's subscriber_* ──▶ rows ──▶ CREATE TEMPORARY VIEW pg_subscription … ──▶ the statement ──▶ DROP VIEW

PostgreSQL searches the temporary relations first, also in a DO block. A qualifying ``pg_catalog.``
is replaced. Only statements that read or write rows can use these views: an object that a statement
creates (a view, a prepared statement) would exist longer than the view's rows. The rows of the
views cannot be changed. There is one function that writes, ``pg_stat_reset_subscription_stats``.
Its replacement records its arguments, and the statistics are reset afterwards.

*Rejected:* a schema of tables in front of ``pg_catalog`` in the search path. It would be visible in
``\dn`` and ``\dt``, and new objects would be created in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from psycopg import sql

from subscriber import catalog
from subscriber.catalog import SUBSCRIPTION_STATS
from subscriber.journal.retention import undecided
from subscriber.journal.segment import journal_entries
from subscriber.journal.storage import journal_url, open_storage
from subscriber.lsn import LSN, format_lsn, parse_lsn
from subscriber.scenario.session.psql import PsqlSession
from subscriber.sql.lexer import Kind, Lexeme, lex

RESET: Final = "pg_stat_reset_subscription_stats"
PREPARED: Final = "pg_prepared_xacts"
ANSWERED: Final = frozenset(
    {
        "pg_subscription",
        "pg_subscription_rel",
        "pg_stat_subscription",
        "pg_stat_subscription_stats",
        "pg_replication_origin",
        "pg_replication_origin_status",
        PREPARED,
        RESET,
    }
)
"""The catalogs and functions of PostgreSQL's replication that a session can query here."""

_WITH_ROWS: Final = frozenset(
    {"select", "values", "table", "with", "insert", "update", "delete", "merge", "copy", "do"}
)
_QUALIFIED: Final = re.compile(rf'pg_catalog"?\s*\.\s*"?(?:{"|".join(ANSWERED)})\b', re.IGNORECASE)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """Values for the views that are not in the target's catalog.

    Attributes:
        database: oid of the mirror.
        owner: oid of the role that owns the subscriptions.
        major: version of the mirror's server.
        shown_conninfo: real connection string → connection string as the session wrote it.
        received: the received LSN of each subscription whose worker is running.
        process: ID of the process that contains the workers.
        journals: location of the journals.
    """

    database: int
    owner: int
    major: int
    shown_conninfo: Callable[[str], str]
    received: Mapping[int, LSN]
    process: int
    journals: str


def can_ask(first_word: str, text: str) -> bool:
    """Whether the views can replace the catalogs that a statement names (see the module).

    Args:
        first_word: the first word of the statement, in lower case.
        text: the statement.
    """
    strings = [lexeme.value for lexeme in lex(text) if lexeme.kind is Kind.STRING]
    hidden = any(_QUALIFIED.search(string) or RESET in string.lower() for string in strings)
    return first_word in _WITH_ROWS and not hidden


def with_temporary_names(text: str) -> str:
    """Make a statement use the temporary views.

    In ``text``, the schema ``pg_catalog`` of the catalogs is replaced with the temporary schema.
    The temporary schema is also written before the name of the function.
    """
    lexemes = lex(text)
    pieces = []
    done = 0
    for number, lexeme in enumerate(lexemes):
        if not _is_name(lexeme) or lexeme.value not in ANSWERED:
            continue
        dot, schema = lexemes[max(0, number - 1)], lexemes[max(0, number - 2)]
        if number >= 2 and dot.value == "." and dot.kind is Kind.SYMBOL:
            if _is_name(schema) and schema.value == "pg_catalog":
                pieces += [text[done : schema.start], "pg_temp"]
                done = schema.end
        elif lexeme.value == RESET:
            pieces += [text[done : lexeme.start], "pg_temp."]
            done = lexeme.start
    return "".join([*pieces, text[done:]])


def _is_name(lexeme: Lexeme) -> bool:
    return lexeme.kind in (Kind.WORD, Kind.IDENTIFIER)


# The views ----------------------------------------------------------------------------------------


def make_views(psql: PsqlSession, connection: sa.Connection, names: Iterable[str], facts: Facts) -> None:
    """Create the temporary views, and the function, that a statement names.

    Args:
        psql: the session in which the statement will run.
        connection: a connection to the target's catalog.
        names: the names from :data:`ANSWERED` that the statement contains.
        facts: see :class:`Facts`.

    Raises:
        UsageError: the session cannot create them, for example because its transaction is READ
            ONLY.
    """
    for name in sorted(names):
        for statement in _FUNCTION if name == RESET else [_VIEWS[name](connection, facts)]:
            psql.ask(statement)


def drop_views(psql: PsqlSession, names: Iterable[str]) -> None:
    """Drop the temporary views and the function.

    Nothing is done in a failed transaction: its end removes them. They are also gone if the
    connection was lost.
    """
    if not psql.transaction_failed:
        for name in names:
            psql.ask(f"DROP {'FUNCTION' if name == RESET else 'VIEW'} IF EXISTS pg_temp.{name}")


def reset_statistics(psql: PsqlSession, connection: sa.Connection) -> None:
    """Reset the statistics that calls of ``pg_stat_reset_subscription_stats`` have named.

    A call with NULL resets the statistics of all subscriptions.
    """
    (noted,) = psql.ask(f"SELECT current_setting('{_NOTED}', true)") or [""]
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    stats = SUBSCRIPTION_STATS
    counters = {column.name: 0 for column in stats.columns if column.name.endswith("_count") or "confl_" in column.name}
    for subid in noted.split():
        reset = sa.update(stats).values(**counters, stats_reset=now)
        connection.execute(reset if subid == _ALL else reset.where(stats.c.subid == int(subid)))


_NOTED: Final = "subscriber.reset_statistics"
_ALL: Final = "all"
_FUNCTION: Final = (
    f"SELECT set_config('{_NOTED}', '', false)",
    f"""CREATE FUNCTION pg_temp.{RESET}(target_subid oid) RETURNS void LANGUAGE sql AS $$
    SELECT set_config('{_NOTED}', current_setting('{_NOTED}') || ' ' || coalesce(target_subid::text, '{_ALL}'), false) $$""",
)


def _view(name: str, rows: list[Row]) -> str:
    """The command that creates a view with the columns of the catalog ``name``.

    A column that is missing in a row is NULL.
    """
    query = sql.SQL("CREATE TEMPORARY VIEW {0} AS SELECT * FROM json_populate_recordset(NULL::pg_catalog.{0}, {1})")
    return query.format(sql.Identifier(name), sql.Literal(json.dumps(rows))).as_string(None)


_OPTIONS_OF_19: Final[Row] = {
    "subserver": 0,
    "subretaindeadtuples": False,
    "submaxretention": 0,
    "subretentionactive": False,
    "subwalrcvtimeout": "-1",
}
"""The columns of pg_subscription that a target's catalog does not have, with the defaults; older
versions do not have them either, and ignore them.
"""


def _subscriptions(connection: sa.Connection, facts: Facts) -> str:
    rows = []
    for found in connection.execute(sa.select(catalog.SUBSCRIPTION)).mappings():
        row = dict(found)
        row |= {
            "oid": row["subid"],
            "subdbid": facts.database,
            "subowner": facts.owner,
            "subconninfo": facts.shown_conninfo(row["subconninfo"]),
            "subpublications": json.loads(row["subpublications"]),
            # This column is a boolean before PostgreSQL 16.
            "substream": row["substream"] if facts.major >= 16 else row["substream"] != "f",
            **_OPTIONS_OF_19,
        }
        rows.append(row)
    return _view("pg_subscription", rows)


def _relations(connection: sa.Connection, facts: Facts) -> str:
    del facts
    rows = [dict(row) for row in connection.execute(sa.select(catalog.SUBSCRIPTION_REL)).mappings()]
    query = sql.SQL(
        "CREATE TEMPORARY VIEW pg_subscription_rel AS SELECT srsubid, c.oid AS srrelid, srsubstate, srsublsn"
        ' FROM json_to_recordset({}) AS r (srsubid oid, srschema name, srrelname name, srsubstate "char", srsublsn pg_lsn)'
        " JOIN pg_catalog.pg_namespace n ON n.nspname = r.srschema"
        " JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = r.srrelname"
    )
    return query.format(sql.Literal(json.dumps(rows))).as_string(None)


def _statistics(connection: sa.Connection, facts: Facts) -> str:
    del facts
    rows = [
        # From 19 on, sync_error_count has another name, and sequences have their own counter.
        {**row, "sync_table_error_count": row["sync_error_count"], "sync_seq_error_count": 0, "confl_update_deleted": 0}
        for row in connection.execute(sa.select(SUBSCRIPTION_STATS)).mappings()
    ]
    return _view("pg_stat_subscription_stats", rows)


def _workers(connection: sa.Connection, facts: Facts) -> str:
    rows = []
    for subscription in catalog.list_subscriptions(connection):
        row: Row = {"subid": subscription.subid, "subname": subscription.name}
        if subscription.subid in facts.received:
            received = format_lsn(facts.received[subscription.subid])
            row |= {
                "worker_type": "apply",
                "pid": facts.process,
                "received_lsn": received,
                "latest_end_lsn": received,
            }
        rows.append(row)
    return _view("pg_stat_subscription", rows)


def _origins(connection: sa.Connection, facts: Facts) -> str:
    del facts
    rows = [{"roident": number, "roname": name} for number, name, _ in _progress(connection)]
    return _view("pg_replication_origin", rows)


def _origin_status(connection: sa.Connection, facts: Facts) -> str:
    del facts
    rows = [
        {"local_id": number, "external_id": name, "remote_lsn": remote}
        for number, name, remote in _progress(connection)
    ]
    return _view("pg_replication_origin_status", rows)


def _prepared(connection: sa.Connection, facts: Facts) -> str:
    """The view of prepared transactions (C49, C50).

    A transaction is listed if the publisher has prepared it, apply has passed its PREPARE
    TRANSACTION, and apply has not passed its COMMIT PREPARED or ROLLBACK PREPARED. This holds both
    for targets that prepare transactions and for targets where changes are held back until COMMIT
    PREPARED.
    """
    rows = []
    applied = {subid: parse_lsn(remote) for subid, _, remote in _progress(connection)}
    for one in catalog.list_subscriptions(connection):
        if one.system_identifier is None or one.slot_name is None or one.subid not in applied:
            continue
        storage = open_storage(journal_url(facts.journals, one.system_identifier, one.slot_name))
        passed = [entry for entry in journal_entries(storage) if entry.end <= applied[one.subid]]
        rows += [{"gid": f"pg_gid_{one.subid}_{entry.xid}"} for entry in undecided(passed)]
    query = sql.SQL(
        "CREATE TEMPORARY VIEW pg_prepared_xacts AS SELECT NULL::xid AS transaction, gid, NULL::timestamptz AS prepared,"
        " {}::pg_catalog.regrole::pg_catalog.name AS owner, current_database() AS database FROM json_to_recordset({}) AS r (gid text)"
    )
    return query.format(sql.Literal(facts.owner), sql.Literal(json.dumps(rows))).as_string(None)


def _progress(connection: sa.Connection) -> list[tuple[int, str, str]]:
    """The number, the name and the remote LSN of every origin."""
    origins = [one.progress for one in catalog.list_subscriptions(connection)]
    applied = [(one.subid, one.name, one.find(connection)) for one in origins]
    return [(number, name, format_lsn(lsn)) for number, name, lsn in applied if lsn is not None]


_VIEWS: Final[Mapping[str, Callable[[sa.Connection, Facts], str]]] = {
    "pg_subscription": _subscriptions,
    "pg_subscription_rel": _relations,
    "pg_stat_subscription": _workers,
    "pg_stat_subscription_stats": _statistics,
    "pg_replication_origin": _origins,
    "pg_replication_origin_status": _origin_status,
    PREPARED: _prepared,
}


# \dRs ---------------------------------------------------------------------------------------------


def describing_query(*, verbose: bool, major: int) -> str:
    r"""The query whose result psql shows for ``\dRs`` or ``\dRs+``."""
    columns = [
        'subname AS "Name"',
        'pg_catalog.pg_get_userbyid(subowner) AS "Owner"',
        'subenabled AS "Enabled"',
        'subpublications AS "Publication"',
    ]
    if verbose:
        columns += [column for since, column in _VERBOSE if major >= since]
    return f"SELECT {', '.join(columns)} FROM pg_subscription ORDER BY 1"


_VERBOSE: Final = (
    (0, 'subbinary AS "Binary"'),
    (
        0,
        """CASE substream::text WHEN 'f' THEN 'off' WHEN 'p' THEN 'parallel' WHEN 't' THEN 'on' ELSE left(substream::text, 1) END
        AS "Streaming\"""",
    ),
    (0, 'subtwophasestate AS "Two-phase commit"'),
    (0, 'subdisableonerr AS "Disable on error"'),
    (16, 'suborigin AS "Origin"'),
    (16, 'subpasswordrequired AS "Password required"'),
    (16, 'subrunasowner AS "Run as owner?"'),
    (17, 'subfailover AS "Failover"'),
    (19, '(SELECT srvname FROM pg_catalog.pg_foreign_server WHERE oid = subserver) AS "Server"'),
    (19, 'subretaindeadtuples AS "Retain dead tuples"'),
    (19, 'submaxretention AS "Max retention duration"'),
    (19, 'subretentionactive AS "Retention active"'),
    (0, 'subsynccommit AS "Synchronous commit"'),
    (0, 'subconninfo AS "Conninfo"'),
    (19, 'subwalrcvtimeout AS "Receiver timeout"'),
    (0, 'subskiplsn AS "Skip LSN"'),
    (19, "pg_catalog.obj_description(pg_subscription.oid, 'pg_subscription') AS \"Description\""),
)


def with_title(title: str, table: str) -> str:
    """A table as psql prints it, with its title centred above it."""
    separator = table.splitlines()[1]
    return f"{' ' * ((len(separator) - len(title)) // 2)}{title}\n{table}"
