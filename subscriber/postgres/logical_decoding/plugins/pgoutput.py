"""pgoutput: the protocol of logical replication (``pgoutput.c``; sections A.3 and B of the rules).

::

    change ──▶ published? ──▶ row filter ──▶ B, once ──▶ Y and R, if the client does not have them ──▶ I, U or D
               RelationSyncCache  row_change   lazily        RelationSyncEntry.describe                 row_message

pgoutput has 20 of the 21 callbacks: without ``filter_prepare`` every transaction is decoded at
PREPARE once two-phase decoding is on. The state of a session is in ``ctx.output_plugin_private``,
so that one object of the plugin can serve several contexts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from subscriber.base.errors import NotSupportedError, SQLSyntaxError, UsageError
from subscriber.postgres.logical_decoding.callbacks import OutputPlugin
from subscriber.postgres.logical_decoding.context import LogicalDecodingContext, OutputPluginOptions, PluginOption
from subscriber.postgres.logical_decoding.historic_catalog import RelationData
from subscriber.postgres.logical_decoding.plugins import pgoutput_relations
from subscriber.postgres.logical_decoding.reorder_txn import Action, ReorderBufferChange, ReorderBufferTXN
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.publication.listed_tables import is_publishable
from subscriber.postgres.publication.publication_statements import split_identifiers
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.postgres.sql.option_list import as_boolean, read_boolean, read_text

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class PgOutputData:
    options: PgOutputOptions
    cache: pgoutput_relations.RelationSyncCache
    in_streaming: bool = False

    def xid(self, txn: ReorderBufferTXN) -> int | None:
        """The number of a transaction or subtransaction inside of a stream; else None (rule A3)."""
        return txn.xid if self.in_streaming else None


@dataclass(slots=True, eq=False)
class PgOutputTxnData:
    sent_begin_txn: bool = False


class PgOutput(OutputPlugin):
    # The session ----------------------------------------------------------------------------------

    def startup(self, ctx: LogicalDecodingContext, options: OutputPluginOptions, is_init: bool) -> None:
        """Read the options (rules A27-A31)."""
        options.output_type = "binary"
        if is_init:
            ctx.output_plugin_private = PgOutputData(PgOutputOptions(), pgoutput_relations.RelationSyncCache(()))
            ctx.streaming = ctx.twophase = False
            return
        server_version = ctx.catalog.tables.server_version
        given = parse_output_parameters(ctx.output_plugin_options, server_version)
        start(ctx, given, server_version)
        data = PgOutputData(given, pgoutput_relations.RelationSyncCache(given.publication_names or ()))
        ctx.output_plugin_private = data
        ctx.register_invalidation_callback(data.cache.invalidate)

    def shutdown(self, ctx: LogicalDecodingContext) -> None:
        ctx.output_plugin_private = None

    def filter_by_origin(self, ctx: LogicalDecodingContext, origin_id: int) -> bool:
        """Whether changes are left out: those with an origin, if the client asked for ``none``."""
        return _data(ctx).options.publish_no_origin and origin_id != 0

    # Transactions ---------------------------------------------------------------------------------

    def begin(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        """B waits for the first change (rule A21)."""
        txn.output_plugin_private = PgOutputTxnData()

    def commit(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        sent = txn.output_plugin_private.sent_begin_txn
        ctx.update_progress(skipped_xact=not sent)
        txn.output_plugin_private = None
        if not sent:
            logger.debug("skipped replication of an empty transaction with XID: %s", txn.xid)
            return
        _send(ctx, messages.Commit(commit_lsn, txn.end_lsn, txn.xact_time))

    def begin_prepare(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        """Send b, also for a transaction without a change (rule A22)."""
        begin = messages.BeginPrepare(txn.final_lsn, txn.end_lsn, txn.xact_time, txn.xid, txn.gid or "")
        _send_with_origin(ctx, begin, txn.origin_id, txn.origin_lsn)

    def prepare(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, prepare_lsn: int) -> None:
        ctx.update_progress(skipped_xact=False)
        _send(ctx, messages.Prepare(prepare_lsn, txn.end_lsn, txn.xact_time, txn.xid, txn.gid or ""))

    def commit_prepared(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        ctx.update_progress(skipped_xact=False)
        _send(ctx, messages.CommitPrepared(commit_lsn, txn.end_lsn, txn.xact_time, txn.xid, txn.gid or ""))

    def rollback_prepared(
        self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, prepare_end_lsn: int, prepare_time: int
    ) -> None:
        ctx.update_progress(skipped_xact=False)
        _send(
            ctx,
            messages.RollbackPrepared(
                prepare_end_lsn, txn.end_lsn, prepare_time, txn.xact_time, txn.xid, txn.gid or ""
            ),
        )

    # Changes --------------------------------------------------------------------------------------

    def change(
        self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, relation: RelationData, change: ReorderBufferChange
    ) -> None:
        if not is_publishable(relation.table):
            return
        data = _data(ctx)
        entry = data.cache.entry(relation, ctx.catalog)
        if pgoutput_relations.OPERATION_OF[change.action] not in entry.operations:
            return
        if change.action is Action.DELETE and change.old_tuple is None:
            logger.debug("didn't send DELETE change because of missing oldtuple")
            return
        sent = pgoutput_relations.row_change(change.action, change.old_tuple, change.new_tuple, entry)
        if sent is None:
            return
        _send_begin(ctx, txn)
        _send_schema(ctx, data, change.txn, entry)
        _send(
            ctx,
            pgoutput_relations.row_message(
                sent, entry, data.xid(change.txn), catalog=ctx.catalog if data.options.binary else None
            ),
        )

    def truncate(
        self,
        ctx: LogicalDecodingContext,
        txn: ReorderBufferTXN,
        relations: Sequence[RelationData],
        change: ReorderBufferChange,
    ) -> None:
        """Send T with the relations that publish it, if there are any (rules A26, B4, B21, B22)."""
        data = _data(ctx)
        sent = []
        for relation in relations:
            if not is_publishable(relation.table):
                continue
            entry = data.cache.entry(relation, ctx.catalog)
            if "truncate" not in entry.operations or entry.target.oid != relation.oid:
                continue
            sent.append(relation.oid)
            _send_begin(ctx, txn)
            _send_schema(ctx, data, change.txn, entry)
        if sent:
            _send(ctx, messages.Truncate(tuple(sent), change.cascade, change.restart_seqs, data.xid(change.txn)))

    def message(
        self,
        ctx: LogicalDecodingContext,
        txn: ReorderBufferTXN | None,
        message_lsn: int,
        transactional: bool,
        prefix: str,
        message: bytes,
    ) -> None:
        """Send M, if the client asked for messages (rule A25)."""
        data = _data(ctx)
        if not data.options.messages:
            return
        if transactional and txn is not None:
            _send_begin(ctx, txn)
        xid = None if txn is None else data.xid(txn)
        _send(ctx, messages.LogicalMessage(transactional, message_lsn, prefix, message, xid))

    # Streaming ------------------------------------------------------------------------------------

    def stream_start(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        """Send S; the origin follows in the first block only (rule A15)."""
        first = not txn.is_streamed
        _send_with_origin(ctx, messages.StreamStart(txn.xid, first), txn.origin_id if first else 0, 0)
        _data(ctx).in_streaming = True

    def stream_stop(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        _send(ctx, messages.StreamStop())
        _data(ctx).in_streaming = False

    def stream_abort(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, abort_lsn: int) -> None:
        """Send A, with position and time if the client applies streams in parallel (rule A5)."""
        data = _data(ctx)
        xid = txn.top.xid
        if data.options.streaming == "parallel":
            _send(ctx, messages.StreamAbort(xid, txn.xid, abort_lsn, txn.xact_time))
        else:
            _send(ctx, messages.StreamAbort(xid, txn.xid))
        data.cache.stream_ended(xid, committed=False)

    def stream_commit(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        ctx.update_progress(skipped_xact=False)
        _send(ctx, messages.StreamCommit(txn.xid, commit_lsn, txn.end_lsn, txn.xact_time))
        _data(ctx).cache.stream_ended(txn.xid, committed=True)

    def stream_prepare(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, prepare_lsn: int) -> None:
        ctx.update_progress(skipped_xact=False)
        _send(ctx, messages.StreamPrepare(prepare_lsn, txn.end_lsn, txn.xact_time, txn.xid, txn.gid or ""))

    stream_change = change
    stream_truncate = truncate
    stream_message = message


def _data(ctx: LogicalDecodingContext) -> PgOutputData:
    data = ctx.output_plugin_private
    assert isinstance(data, PgOutputData)
    return data


def _send(ctx: LogicalDecodingContext, message: messages.Message, *, last_write: bool = True) -> None:
    ctx.prepare_write(last_write)
    ctx.out += encode(message)
    ctx.write(last_write)


def _send_with_origin(ctx: LogicalDecodingContext, message: messages.Message, origin_id: int, origin_lsn: int) -> None:
    """Send a message, and O if the origin has a name (rule A15; ``send_repl_origin``)."""
    _send(ctx, message, last_write=not origin_id)
    name = ctx.origin_name(origin_id) if origin_id else None
    if name is not None:
        _send(ctx, messages.Origin(origin_lsn, name))


def _send_begin(ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
    state = txn.output_plugin_private
    if state is None or state.sent_begin_txn:
        return
    state.sent_begin_txn = True
    _send_with_origin(ctx, messages.Begin(txn.final_lsn, txn.xact_time, txn.xid), txn.origin_id, txn.origin_lsn)


def _send_schema(
    ctx: LogicalDecodingContext, data: PgOutputData, txn: ReorderBufferTXN, entry: pgoutput_relations.RelationSyncEntry
) -> None:
    """Send Y and R, if the client does not have them (rules A23, A24; ``maybe_send_schema``).

    A stream is applied when it ends, in an order that is not known now. So each streamed
    transaction has its own descriptions.
    """
    top = txn.top.xid
    if top in entry.streamed_txns if data.in_streaming else entry.schema_sent:
        return
    for description in entry.describe(ctx.catalog, data.xid(txn)):
        _send(ctx, description, last_write=False)
    if data.in_streaming:
        entry.streamed_txns.add(top)
    else:
        entry.schema_sent = True


Streaming = Literal["off", "on", "parallel"]

_LEAST_VERSION: Final = 1
_STREAMING_VERSION: Final = 2
_TWO_PHASE_VERSION: Final = 3
_PARALLEL_VERSION: Final = 4
"""The versions of ``logicalproto.h``."""

_UINT32: Final = 2**32
_ULONG: Final = 2**64
_NUMBER: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)", re.ASCII)
_HINT: Final = "The options are proto_version, publication_names, binary, messages, streaming, two_phase and origin."


@dataclass(frozen=True, slots=True)
class PgOutputOptions:
    """A client's options; ``publish_no_origin`` leaves out changes with a replication origin."""

    proto_version: int = 0
    publication_names: tuple[str, ...] | None = None
    binary: bool = False
    messages: bool = False
    streaming: Streaming = "off"
    two_phase: bool = False
    publish_no_origin: bool = False


def parse_output_parameters(given: Iterable[PluginOption], server_version: int) -> PgOutputOptions:
    """Read the options of a client.

    SQLSyntaxError (42601) for an option that is given twice and for a Boolean that is none;
    UsageError for a wrong value or a missing option (22023), an invalid list of publications
    (42602) and an unknown option (XX000).
    """
    features = ServerFeatures(server_version)
    readers = _readers(features)
    fields: dict[str, Any] = {}
    for name, value in given:
        if name not in readers:
            raise UsageError(f"unrecognized pgoutput option: {name}", sqlstate="XX000", hint=_HINT)
        field, read = readers[name]
        if field in fields:
            raise SQLSyntaxError(
                "conflicting or redundant options", hint=f"Give the option {name} once.", context=f"option {name}"
            )
        fields[field] = read(name, value)
    if features.major >= 17:
        for name in ("proto_version", "publication_names"):
            if name not in fields:
                raise UsageError(f'option "{name}" missing', sqlstate="22023", hint=f"Give the option {name}.")
    return replace(PgOutputOptions(), **fields)


def start(ctx: LogicalDecodingContext, options: PgOutputOptions, server_version: int) -> None:
    """Check the options against each other, and switch streaming and two-phase decoding off or on
    (rule A29). NotSupportedError (0A000) if the server does not have the version; UsageError
    (22023) if a feature needs a newer one, or a publication.
    """
    features = ServerFeatures(server_version)
    version = options.proto_version
    _check_version(version, features)
    if features.major < 17 and not options.publication_names:
        raise UsageError(
            "publication_names parameter missing", sqlstate="22023", hint="Give the option publication_names."
        )
    if options.streaming == "off":
        ctx.streaming = False
    elif options.streaming == "on" and version < _STREAMING_VERSION:
        raise _needs(version, "streaming", _STREAMING_VERSION)
    elif options.streaming == "parallel" and version < _PARALLEL_VERSION:
        raise _needs(version, "parallel streaming", _PARALLEL_VERSION)
    elif not ctx.streaming:
        raise _not_supported("streaming")
    if not options.two_phase:
        ctx.twophase_opt_given = False
    elif version < _TWO_PHASE_VERSION:
        raise _needs(version, "two-phase commit", _TWO_PHASE_VERSION)
    elif not ctx.twophase:
        raise _not_supported("two-phase commit")
    else:
        ctx.twophase_opt_given = True


def _check_version(version: int, features: ServerFeatures) -> None:
    shown = version - _UINT32 if version >= _UINT32 // 2 else version  # PostgreSQL prints it with %d
    who = "server only supports" if features.major >= 16 else "we only support"
    for wrong, limit, word in (
        (version > features.protocol_version, features.protocol_version, "lower"),
        (version < _LEAST_VERSION, _LEAST_VERSION, "higher"),
    ):
        if wrong:
            raise NotSupportedError(
                f"client sent proto_version={shown} but {who} protocol {limit} or {word}",
                hint=f"Give a proto_version from {_LEAST_VERSION} to {features.protocol_version}.",
            )


def _needs(version: int, what: str, least: int) -> UsageError:
    return UsageError(
        f"requested proto_version={version} does not support {what}, need {least} or higher",
        sqlstate="22023",
        hint=f"Give proto_version {least}, or leave the option out.",
    )


def _not_supported(what: str) -> UsageError:
    return UsageError(
        f"{what} requested, but not supported by output plugin",
        sqlstate="22023",
        hint="The plugin lacks the callbacks: do not remove them from it.",
    )


# Values -----------------------------------------------------------------------------------------


def _readers(features: ServerFeatures) -> dict[str, tuple[str, Callable[[str, str | None], object]]]:
    readers: dict[str, tuple[str, Callable[[str, str | None], object]]] = {
        "proto_version": ("proto_version", _version),
        "publication_names": ("publication_names", _names),
        "binary": ("binary", read_boolean),
        "messages": ("messages", read_boolean),
        "streaming": ("streaming", _streaming if features.protocol_version >= _PARALLEL_VERSION else _streaming_of_15),
    }
    if features.two_phase:
        readers["two_phase"] = ("two_phase", read_boolean)
    if features.origin_option:
        readers["origin"] = ("publish_no_origin", _origin)
    return readers


def _version(name: str, value: str | None) -> int:
    """A number as ``strtoul`` reads it, which takes space before it and a sign."""
    text = read_text(name, value)
    match = _NUMBER.fullmatch(text)
    if match is None and text:
        raise UsageError("invalid proto_version", sqlstate="22023", hint="Give a number from 1 to 4.")
    magnitude = 0 if match is None else int(match[2])
    if magnitude >= _ULONG:
        raise UsageError("invalid proto_version", sqlstate="22023", hint="Give a number from 1 to 4.")
    number = -magnitude % _ULONG if match is not None and match[1] == "-" else magnitude
    if number >= _UINT32:
        raise UsageError(f'proto_version "{text}" out of range', sqlstate="22023", hint="Give a number from 1 to 4.")
    return number


def _names(name: str, value: str | None) -> tuple[str, ...]:
    found = split_identifiers(read_text(name, value))
    if found is None:
        raise UsageError(
            "invalid publication_names syntax",
            sqlstate="42602",
            hint="Separate the names by commas, and write a name with special characters in double quotes.",
        )
    return tuple(found)


def _streaming(name: str, value: str | None) -> Streaming:
    found = as_boolean(value)
    if found is not None:
        return "on" if found else "off"
    if value is not None and value.lower() == "parallel":
        return "parallel"
    raise SQLSyntaxError(f'{name} requires a Boolean value or "parallel"')


def _streaming_of_15(name: str, value: str | None) -> Streaming:
    return "on" if read_boolean(name, value) else "off"


def _origin(name: str, value: str | None) -> bool:
    text = read_text(name, value)
    known = {"none": True, "any": False}
    if text.lower() not in known:
        raise UsageError(f'unrecognized origin value: "{text}"', sqlstate="22023", hint="The values are none and any.")
    return known[text.lower()]
