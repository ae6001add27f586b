r"""The catalogs of subscriptions, as a session on a target can query them.

The mirror in which a session's statements run has no subscriptions. If a statement names a catalog
of theirs, a temporary view with the same name and the columns of this PostgreSQL version is created
for the duration of the statement::

    SELECT subname, subenabled FROM pg_subscription;
                                     │
    target's subscriber_* ──▶ rows ──▶ CREATE TEMPORARY VIEW pg_subscription … ──▶ the statement ──▶ DROP VIEW

PostgreSQL searches the temporary relations first, also in a DO block. A qualifying ``pg_catalog.``
is replaced. Only statements that read or write rows can use these views: an object that a statement
creates (a view, a prepared statement) would exist longer than the view's rows. One function writes:
the replacement of ``pg_stat_reset_subscription_stats`` records its arguments, and the statistics
are reset afterwards.

Statements whose result would describe the session's database and not the subscriber are refused:
those that use other catalogs and functions of replication. With a mirror, these are refused too:
statistics and WAL functions, triggers that fire for replicated rows, prepared transactions, and two
transactions at the same time.

*Rejected:* a schema of tables in front of ``pg_catalog`` in the search path. It would be visible in
``\dn`` and ``\dt``, and new objects would be created in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from psycopg import sql

from subscriber.base import clock
from subscriber.base.errors import NotSupportedError
from subscriber.base.lsn import LSN, format_lsn, parse_lsn
from subscriber.catalog.deleted_rows import is_retained
from subscriber.catalog.foreign_servers import SERVERS
from subscriber.catalog.option_readers import CONFLICT_SLOT
from subscriber.catalog.own_tables import SUBSCRIPTION, SUBSCRIPTION_REL, SUBSCRIPTION_STATS, ConflictKind
from subscriber.catalog.subscriptions import list_subscriptions
from subscriber.commands.server_grammar import is_server_command
from subscriber.postgres.sql.lexer import Kind, Lexeme, lex
from subscriber.stream.journal.retention import undecided
from subscriber.stream.journal.segment import journal_entries
from subscriber.stream.journal.storage import journal_url, open_storage
from subscriber.testing.session.psql import PsqlSession

RESET: Final = "pg_stat_reset_subscription_stats"
PREPARED: Final = "pg_prepared_xacts"
_SLOTS: Final = "pg_replication_slots"
_SINCE_CONFLICT_SLOT: Final = 19
ANSWERED: Final = frozenset(
    {
        "pg_subscription",
        "pg_subscription_rel",
        "pg_stat_subscription",
        "pg_stat_subscription_stats",
        "pg_replication_origin",
        "pg_replication_origin_status",
        "pg_foreign_server",
        _SLOTS,
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

    ``database`` is the oid of the mirror, ``major`` its version; ``version`` is the one whose
    catalogs are shown. ``shown_conninfo`` maps real
    connection strings to those of the session. ``received`` has the LSNs of subscriptions whose
    worker runs, and ``process`` is the workers' process ID.
    """

    database: int
    owner: int
    major: int
    version: int
    shown_conninfo: Callable[[str], str]
    received: Mapping[int, LSN]
    process: int
    journals: str


def can_ask(first_word: str, text: str) -> bool:
    """Whether the views can replace the catalogs that a statement names (see the module)."""
    strings = [lexeme.value for lexeme in lex(text) if lexeme.kind is Kind.STRING]
    hidden = any(_QUALIFIED.search(string) or RESET in string.lower() for string in strings)
    return first_word in _WITH_ROWS and not hidden


def with_temporary_names(text: str) -> str:
    """``text`` with the temporary schema in place of ``pg_catalog`` and before the function."""
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
    """Create the temporary views and function; UsageError if the session is READ ONLY."""
    for name in sorted(names):
        for statement in _FUNCTION if name == RESET else [_VIEWS[name](connection, facts)]:
            psql.ask(statement)


def drop_views(psql: PsqlSession, names: Iterable[str]) -> None:
    """Drop the views and the function, unless a failed transaction or connection removes them."""
    if not psql.transaction_failed:
        for name in names:
            psql.ask(f"DROP {'FUNCTION' if name == RESET else 'VIEW'} IF EXISTS pg_temp.{name}")


def reset_statistics(psql: PsqlSession, connection: sa.Connection) -> None:
    """Reset the statistics that calls of ``pg_stat_reset_subscription_stats`` named; NULL: all."""
    (noted,) = psql.ask(f"SELECT current_setting('{_NOTED}', true)") or [""]
    now = clock.now()
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


def _view(name: str, rows: list[Row], facts: Facts) -> str:
    """A view with the columns of the catalog ``name``; what a row lacks is NULL."""
    given, view = sql.Literal(json.dumps(rows)), sql.Identifier(name)
    columns = _COLUMNS_OF_19.get(name)
    if columns is not None and facts.version > facts.major:
        records = sql.SQL("json_to_recordset({}) AS r ({})").format(given, sql.SQL(columns))
    else:
        records = sql.SQL("json_populate_recordset(NULL::pg_catalog.{}, {})").format(view, given)
    return sql.SQL("CREATE TEMPORARY VIEW {} AS SELECT * FROM {}").format(view, records).as_string(None)


_COLUMNS_OF_19: Final = {
    "pg_subscription": """oid oid, subdbid oid, subskiplsn text, subname name, subowner oid, subenabled bool, subbinary bool,
        substream "char", subtwophasestate "char", subdisableonerr bool, subpasswordrequired bool, subrunasowner bool,
        subfailover bool, subretaindeadtuples bool, submaxretention int4, subretentionactive bool, subserver oid,
        subconninfo text, subslotname name, subsynccommit text, subwalrcvtimeout text, subpublications text[], suborigin text""",
    "pg_stat_subscription_stats": "subid oid, subname name, apply_error_count int8, sync_seq_error_count int8,"
    " sync_table_error_count int8, "
    + "".join(f"confl_{kind} int8, " for kind in ConflictKind)
    + "stats_reset timestamptz",
}
"""The columns of 19, for a server that lacks them. An LSN is a text there, because an older server
prints it in another form.
"""


def _subscriptions(connection: sa.Connection, facts: Facts) -> str:
    rows = []
    for found in connection.execute(sa.select(SUBSCRIPTION)).mappings():
        row = dict(found)
        row |= {
            "oid": row["subid"],
            "subdbid": facts.database,
            "subowner": facts.owner,
            "subconninfo": None if row["subserver"] else facts.shown_conninfo(row["subconninfo"]),
            "subskiplsn": format_lsn(row["subskiplsn"], facts.version),
            # This column is a boolean before PostgreSQL 16.
            "substream": row["substream"] if facts.major >= 16 else row["substream"] != "f",
        }
        rows.append(row)
    return _view("pg_subscription", rows, facts)


def _relations(connection: sa.Connection, facts: Facts) -> str:
    del facts
    rows = [
        {**row, "srsublsn": None if row["srsublsn"] is None else format_lsn(row["srsublsn"])}
        for row in connection.execute(sa.select(SUBSCRIPTION_REL)).mappings()
    ]
    query = sql.SQL(
        "CREATE TEMPORARY VIEW pg_subscription_rel AS SELECT srsubid, c.oid AS srrelid, srsubstate, srsublsn"
        ' FROM json_to_recordset({}) AS r (srsubid oid, srschema name, srrelname name, srsubstate "char", srsublsn pg_lsn)'
        " JOIN pg_catalog.pg_namespace n ON n.nspname = r.srschema"
        " JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = r.srrelname"
    )
    return query.format(sql.Literal(json.dumps(rows))).as_string(None)


def _statistics(connection: sa.Connection, facts: Facts) -> str:
    rows = [
        # From 19 on, sync_error_count has another name.
        {**row, "sync_table_error_count": row["sync_error_count"]}
        for row in connection.execute(sa.select(SUBSCRIPTION_STATS)).mappings()
    ]
    return _view("pg_stat_subscription_stats", rows, facts)


def _servers(connection: sa.Connection, facts: Facts) -> str:
    rows: list[Row] = [
        {
            "oid": one.oid,
            "srvname": one.name,
            "srvowner": facts.owner,
            "srvtype": one.type,
            "srvversion": one.version,
            "srvoptions": [f"{name}={value}" for name, value in one.options.items()],
        }
        for one in SERVERS.select(connection)
    ]
    return _view("pg_foreign_server", rows, facts)


def _slots(connection: sa.Connection, facts: Facts) -> str:
    """The slot by which PostgreSQL 19 retains dead rows; a subscriber here has no other."""
    slot: Row = {
        "slot_name": CONFLICT_SLOT,
        "slot_type": "physical",
        "temporary": False,
        "active": True,
        "xmin": "3",
        "two_phase": False,
        "failover": False,
    }
    return _view("pg_replication_slots", [slot] if is_retained(connection) else [], facts)


def _workers(connection: sa.Connection, facts: Facts) -> str:
    rows = []
    for subscription in list_subscriptions(connection):
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
    return _view("pg_stat_subscription", rows, facts)


def _origins(connection: sa.Connection, facts: Facts) -> str:
    rows = [{"roident": number, "roname": name} for number, name, _ in _progress(connection)]
    return _view("pg_replication_origin", rows, facts)


def _origin_status(connection: sa.Connection, facts: Facts) -> str:
    rows = [
        {"local_id": number, "external_id": name, "remote_lsn": remote}
        for number, name, remote in _progress(connection)
    ]
    return _view("pg_replication_origin_status", rows, facts)


def _prepared(connection: sa.Connection, facts: Facts) -> str:
    """Prepared transactions (C49, C50) between PREPARE TRANSACTION and COMMIT or ROLLBACK PREPARED,
    also for targets where changes are held back until then.
    """
    rows = []
    applied = {subid: parse_lsn(remote) for subid, _, remote in _progress(connection)}
    for one in list_subscriptions(connection):
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
    origins = [one.progress for one in list_subscriptions(connection)]
    applied = [(one.subid, one.name, one.find(connection)) for one in origins]
    return [(number, name, format_lsn(lsn)) for number, name, lsn in applied if lsn is not None]


_VIEWS: Final[Mapping[str, Callable[[sa.Connection, Facts], str]]] = {
    "pg_subscription": _subscriptions,
    "pg_subscription_rel": _relations,
    "pg_stat_subscription": _workers,
    "pg_stat_subscription_stats": _statistics,
    "pg_foreign_server": _servers,
    _SLOTS: _slots,
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


_OURS: Final = frozenset({"subscription", "publication"})
_VERBS: Final = frozenset({"create", "alter", "drop"})
_ABOUT: Final = frozenset({"comment", "security"})

_ENGINES: Final = re.compile(
    r"\bpg_(?:foreign_server|subscription|publication|replication_|stat_|logical_|prepared_xact|current_wal|current_xact_id"
    r"|get_publication|show_replication_|xact_commit_timestamp|last_committed_xact)\w*",
    re.IGNORECASE,
)
"""The catalogs and functions that would describe the replication of the session's database."""
_OF_THE_TARGET: Final = frozenset({PREPARED, "pg_current_wal_lsn", "pg_current_xact_id"})
"""The catalogs and functions whose results are correct if the session runs in the target itself."""
_HARMLESS: Final = frozenset({"pg_stat_clear_snapshot"})
"""Functions without an effect here: every statement sees the current statistics."""
_PREPARE: Final = ("prepare", "transaction")
_PREPARED: Final = (_PREPARE, ("commit", "prepared"), ("rollback", "prepared"))
_ENDS: Final = frozenset({"commit", "end", "rollback", "abort"})


@dataclass(frozen=True)
class Situation:
    """Where a statement would run: in a mirror unless ``in_target``. ``is_stale`` says whether rows
    have been replicated that the open transaction does not see. ``version`` is that of the
    PostgreSQL whose subscriber the node is.
    """

    in_target: bool
    in_transaction: bool
    beside_another: bool
    after_subscription_command: bool
    is_stale: Callable[[], bool]
    version: int = 18


def is_subscription_command(words: Sequence[str]) -> bool:
    """Whether the node runs it itself: a command for subscriptions, publications or servers."""
    return (len(words) > 1 and words[0] in _VERBS and words[1] in _OURS) or is_server_command(words)


def check_statement(text: str, words: Sequence[str], situation: Situation) -> frozenset[str]:
    """The catalogs of :data:`ANSWERED` that it names; NotSupportedError if it would go wrong."""
    first = words[0] if words else ""
    named = {name.lower(): name for name in _ENGINES.findall(text)}
    true = _HARMLESS | _OF_THE_TARGET if situation.in_target else _HARMLESS
    answered = ANSWERED if situation.version >= _SINCE_CONFLICT_SLOT else ANSWERED - {_SLOTS}
    for name in sorted(named.keys() - true - answered):
        raise refusal(named[name])
    asked = (answered - true) & named.keys()
    if asked and not can_ask(first, text):
        raise refusal(named[min(asked)])
    if first in _ABOUT and _OURS & set(words):
        raise refusal(f"{first.upper()} ON a subscription or publication")
    if not situation.in_target:
        _check_mirrored(words, beside_another=situation.beside_another)
    if situation.in_transaction and first and first not in _ENDS and situation.is_stale():
        raise refusal("a statement in a transaction during which rows have been replicated")
    if situation.after_subscription_command:
        if first in _ENDS and {"to", "chain"} & set(words):
            raise refusal(f"{' '.join(words).upper()} after a subscription command")
        if tuple(words[:2]) == _PREPARE:
            raise refusal("PREPARE TRANSACTION after a subscription command")
    return asked


def _check_mirrored(words: Sequence[str], *, beside_another: bool) -> None:
    """Refuse statements whose effect the target could not have, or would see too late."""
    if tuple(words[:2]) in _PREPARED:
        raise refusal(" ".join(words[:2]).upper())
    if _enables_for_replica(words):
        raise refusal("a trigger or rule that fires for replicated rows")
    if beside_another:
        raise refusal("a statement beside another session's open transaction")


def _enables_for_replica(words: Sequence[str]) -> bool:
    """Whether the statement contains ENABLE REPLICA or ENABLE ALWAYS for a TRIGGER or RULE."""
    return any(
        first == "enable" and second in ("replica", "always") and third in ("trigger", "rule")
        for first, second, third in zip(words, words[1:], words[2:], strict=False)
    )


def refusal(what: str) -> NotSupportedError:
    return NotSupportedError(
        f"{what} is not supported on this subscriber",
        detail="The session's statements run in a PostgreSQL database that is not the subscriber here.",
    )
