"""Replication commands: creating a slot, and starting to stream from it (rules A31, A33, A37)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, LiteralString

import psycopg

from subscriber.base.errors import SlotInUse
from subscriber.base.lsn import LSN, format_lsn, parse_lsn
from subscriber.base.waiting import watched
from subscriber.postgres.schema.server_features import ServerFeatures, check_option_versions
from subscriber.postgres.sql.quoting import delimited_identifier, quote_literal
from subscriber.publisher.connection import Connection, ReplicationConnection
from subscriber.publisher.fence.open_transactions import transactions_in_progress
from subscriber.publisher.server_errors import error_of

Snapshot = Literal["export", "use", "nothing"]


@dataclass(frozen=True, slots=True)
class CreatedSlot:
    """Transactions before ``consistent_point`` are in the snapshot, whose name is valid until the
    connection's next command; later ones are streamed.
    """

    consistent_point: LSN
    snapshot_name: str | None


@dataclass(frozen=True, slots=True)
class StreamOptions:
    publications: tuple[str, ...]
    streaming: Literal["off", "on", "parallel"] = "parallel"
    two_phase: bool = False
    binary: bool = False
    messages: bool = False
    origin: Literal["any", "none"] = "any"


def create_slot(
    connection: ReplicationConnection,
    name: str,
    *,
    snapshot: Snapshot,
    temporary: bool = False,
    two_phase: bool = False,
    failover: bool = False,
    stop: threading.Event | None = None,
) -> CreatedSlot:
    """CREATE_REPLICATION_SLOT … LOGICAL pgoutput (NotSupportedError: too old for an option). It
    waits for every transaction in progress there, also prepared ones, which are reported
    (:mod:`subscriber.base.waiting`).
    """
    command = _create_command(
        ServerFeatures(connection.server_version),
        name,
        snapshot,
        temporary=temporary,
        two_phase=two_phase,
        failover=failover,
    )
    waits_for = partial(
        transactions_in_progress, connection.conninfo, connection.application_name, connection.process_id
    )
    with watched(f'creating replication slot "{name}" at the publisher', waits_for):
        row = connection.execute(command, stop)[0]
    return CreatedSlot(parse_lsn(row["consistent_point"] or ""), row["snapshot_name"])


def alter_slot(
    connection: ReplicationConnection, name: str, *, failover: bool | None = None, two_phase: bool | None = None
) -> None:
    """ALTER_REPLICATION_SLOT for a slot that is not in use. None leaves an option unchanged."""
    given = (("FAILOVER", failover), ("TWO_PHASE", two_phase))
    options = ", ".join(f"{option} {str(value).lower()}" for option, value in given if value is not None)
    connection.execute(f"ALTER_REPLICATION_SLOT {delimited_identifier(name)} ({options})")


def start_command(server_version: int, slot: str, start: LSN, options: StreamOptions) -> str:
    """START_REPLICATION in the form of the server's version, in PostgreSQL's order (rule A33)."""
    features = ServerFeatures(server_version)
    version = features.protocol_version
    streaming = options.streaming
    if streaming == "parallel" and version < 4:
        streaming = "on"  # the same result: parallel only changes how PostgreSQL's subscriber applies
    if streaming == "on" and version < 2:
        streaming = "off"  # as PostgreSQL's subscriber does: the server then sends at commit
    default = StreamOptions(options.publications)
    given = {name: getattr(options, name) for name in ("two_phase", "origin", "binary", "messages")}
    check_option_versions(
        server_version, {name: value for name, value in given.items() if value != getattr(default, name)}
    )
    sent = plugin_options(replace(options, streaming=streaming), version, with_origin=features.origin_option)
    arguments = ", ".join(f"{name} {quote_literal(value)}" for name, value in sent.items())
    return f"START_REPLICATION SLOT {delimited_identifier(slot)} LOGICAL {format_lsn(start)} ({arguments})"


def plugin_options(options: StreamOptions, proto_version: int, *, with_origin: bool) -> dict[str, str]:
    """The options of pgoutput by name, in PostgreSQL's order (rule A33)."""
    given = {"proto_version": str(proto_version)}
    if options.streaming != "off":
        given["streaming"] = options.streaming
    if options.two_phase:
        given["two_phase"] = "on"
    if with_origin:
        given["origin"] = options.origin
    given["publication_names"] = ",".join(map(delimited_identifier, options.publications))
    if options.binary:
        given["binary"] = "true"
    if options.messages:
        given["messages"] = "true"
    return given


def _create_command(
    features: ServerFeatures, name: str, snapshot: Snapshot, *, temporary: bool, two_phase: bool, failover: bool
) -> str:
    wanted = {"two_phase": two_phase, "failover": failover}
    check_option_versions(features.version, {name: value for name, value in wanted.items() if value})
    head = f"CREATE_REPLICATION_SLOT {delimited_identifier(name)}{' TEMPORARY' if temporary else ''} LOGICAL pgoutput"
    if not features.replication_options_in_parentheses:
        keyword = {"export": "EXPORT_SNAPSHOT", "use": "USE_SNAPSHOT", "nothing": "NOEXPORT_SNAPSHOT"}[snapshot]
        return f"{head} {keyword}"
    options = [f"SNAPSHOT '{snapshot}'"]
    if failover:
        options.insert(0, "FAILOVER")
    if two_phase:
        options.insert(0, "TWO_PHASE")
    return f"{head} ({', '.join(options)})"


_FIRST_ROWS: Final = 100
_GROWTH: Final = 100

_PEEK: Final[LiteralString] = """
SELECT count(*)::int8, count(*) FILTER (WHERE lsn > %(after)s::pg_lsn AND get_byte(data, 0) IN (68, 73, 84, 85))::int8
FROM pg_logical_slot_peek_binary_changes(%(slot)s, NULL, %(rows)s, 'proto_version', '1', 'publication_names', %(names)s)
"""
"""A message of pgoutput begins with its kind: 68 is DELETE, 73 INSERT, 84 TRUNCATE, 85 UPDATE."""


def is_changed_after(connection: Connection, slot: str, publications: Sequence[str], after: LSN) -> bool:
    """Whether a published change begins after a position. SlotInUse: the slot has a receiver."""
    names = ",".join(map(delimited_identifier, publications))
    rows = _FIRST_ROWS
    while True:
        values = {"after": format_lsn(after), "slot": slot, "rows": rows, "names": names}
        try:
            found = connection.execute(_PEEK, values).fetchone()
        except psycopg.errors.ObjectInUse as error:
            raise SlotInUse(
                error_of(error).message,
                hint="Its receiver has not ended yet. Run the command again in a minute.",
            ) from error
        assert found is not None
        seen, changes = found
        if changes or seen < rows:
            return bool(changes)
        rows *= _GROWTH
