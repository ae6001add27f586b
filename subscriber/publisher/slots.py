"""Replication commands: creating a slot, and starting to stream from it (rules A31, A33, A37)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from subscriber.errors import NotSupportedError
from subscriber.lsn import LSN, format_lsn, parse_lsn
from subscriber.publisher.blockers import transactions_in_progress
from subscriber.publisher.connection import ReplicationConnection
from subscriber.schema.server_features import ServerFeatures
from subscriber.waiting import watched

Snapshot = Literal["export", "use", "nothing"]


@dataclass(frozen=True, slots=True)
class CreatedSlot:
    """A new slot.

    Attributes:
        consistent_point: transactions that commit after it are streamed, and those before it are in
            the snapshot.
        snapshot_name: the name for SET TRANSACTION SNAPSHOT, valid until the connection's next
            command; None if the snapshot was not exported.
    """

    consistent_point: LSN
    snapshot_name: str | None


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options that START_REPLICATION passes to pgoutput."""

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
    """CREATE_REPLICATION_SLOT … LOGICAL pgoutput, in the syntax of the server's version.

    The command waits for every transaction in progress at the publisher, including prepared ones.
    If that takes long, these transactions are reported (:mod:`subscriber.waiting`).

    Args:
        connection: the replication connection.
        name: the slot's name.
        snapshot: what happens with the snapshot of the consistent point.
        temporary: whether the slot is dropped at the end of the connection.
        two_phase: whether prepared transactions are sent when they are prepared.
        failover: whether the slot is synchronized to standbys.
        stop: an event that ends the wait; the server then reports that the statement was cancelled.

    Raises:
        PublisherError: the server refused (the name is in use, no free slot, …).
        NotSupportedError: the server is too old for an option.
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
    """ALTER_REPLICATION_SLOT for a slot that is not in use. None leaves an option unchanged.

    Raises:
        PublisherError: the server refused (the slot is in use, or the server is too old for the
            command or an option).
    """
    given = (("FAILOVER", failover), ("TWO_PHASE", two_phase))
    options = ", ".join(f"{option} {str(value).lower()}" for option, value in given if value is not None)
    connection.execute(f"ALTER_REPLICATION_SLOT {_identifier(name)} ({options})")


def start_command(server_version: int, slot: str, start: LSN, options: StreamOptions) -> str:
    """START_REPLICATION with the options of the server's version, in PostgreSQL's order (rule A33).

    Raises:
        NotSupportedError: the server is too old for an option.
    """
    features = ServerFeatures(server_version)
    version = features.protocol_version
    streaming = options.streaming
    if streaming == "parallel" and version < 4:
        streaming = "on"  # the same result: parallel only changes how PostgreSQL's subscriber applies
    if streaming == "on" and version < 2:
        streaming = "off"  # as PostgreSQL's subscriber does: the server then sends at commit
    _require(features, ServerFeatures.two_phase, "two_phase", wanted=options.two_phase)
    _require(features, ServerFeatures.origin_option, "origin = none", wanted=options.origin == "none")
    _require(features, ServerFeatures.binary_transfer, "binary", wanted=options.binary)
    _require(features, ServerFeatures.logical_messages, "messages", wanted=options.messages)
    given = plugin_options(replace(options, streaming=streaming), version, with_origin=features.origin_option)
    arguments = ", ".join(f"{name} {_literal(value)}" for name, value in given.items())
    return f"START_REPLICATION SLOT {_identifier(slot)} LOGICAL {format_lsn(start)} ({arguments})"


def plugin_options(options: StreamOptions, proto_version: int, *, with_origin: bool) -> dict[str, str]:
    """The options of pgoutput by name, in PostgreSQL's order (rule A33).

    Args:
        options: the options of the stream.
        proto_version: the version of the protocol.
        with_origin: whether ``origin`` is given; servers before 16 do not know it.
    """
    given = {"proto_version": str(proto_version)}
    if options.streaming != "off":
        given["streaming"] = options.streaming
    if options.two_phase:
        given["two_phase"] = "on"
    if with_origin:
        given["origin"] = options.origin
    given["publication_names"] = ",".join(map(_identifier, options.publications))
    if options.binary:
        given["binary"] = "true"
    if options.messages:
        given["messages"] = "true"
    return given


def _create_command(
    features: ServerFeatures, name: str, snapshot: Snapshot, *, temporary: bool, two_phase: bool, failover: bool
) -> str:
    _require(features, ServerFeatures.two_phase, "two_phase", wanted=two_phase)
    _require(features, ServerFeatures.failover_slots, "failover", wanted=failover)
    head = f"CREATE_REPLICATION_SLOT {_identifier(name)}{' TEMPORARY' if temporary else ''} LOGICAL pgoutput"
    if not features.replication_options_in_parentheses:
        keyword = {"export": "EXPORT_SNAPSHOT", "use": "USE_SNAPSHOT", "nothing": "NOEXPORT_SNAPSHOT"}[snapshot]
        return f"{head} {keyword}"
    options = [f"SNAPSHOT '{snapshot}'"]
    if failover:
        options.insert(0, "FAILOVER")
    if two_phase:
        options.insert(0, "TWO_PHASE")
    return f"{head} ({', '.join(options)})"


def _require(features: ServerFeatures, since: int, option: str, *, wanted: bool) -> None:
    if wanted and features.version < since:
        raise NotSupportedError(
            f"{option} needs PostgreSQL {since // 10000} or newer at the publisher",
            detail=f"The publisher is PostgreSQL {features.major}.",
            hint=f"Create the subscription without {option}.",
        )


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
