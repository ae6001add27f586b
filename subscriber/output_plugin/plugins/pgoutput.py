"""pgoutput: the protocol of logical replication (``pgoutput.c``).

::

    change ──▶ published? ──▶ row filter ──▶ B, once ──▶ Y and R, if the client does not have them ──▶ I, U or D
               RelationSyncCache  row_change   lazily        RelationSyncEntry.describe                 row_message

The messages are made by :mod:`subscriber.protocol.encode`, the publications are evaluated by
:mod:`subscriber.publication`. What is sent when is in section A.3 of the rules, how publications
are combined in section B.

pgoutput has 20 of the 21 callbacks: without ``filter_prepare`` every transaction is decoded at
PREPARE once two-phase decoding is on.

The state of a session is in ``ctx.output_plugin_private``, so that one object of the plugin can
serve several contexts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from subscriber.output_plugin.callback_registry import OutputPluginOptions
from subscriber.output_plugin.callbacks import OutputPlugin
from subscriber.output_plugin.context import LogicalDecodingContext
from subscriber.output_plugin.historic_catalog import Relation
from subscriber.output_plugin.plugins.pgoutput_options import PgOutputOptions, parse_output_parameters, start
from subscriber.output_plugin.plugins.pgoutput_relations import RelationSyncCache, RelationSyncEntry
from subscriber.output_plugin.plugins.pgoutput_rows import OPERATION_OF, row_change, row_message
from subscriber.output_plugin.reorder_txn import Action, ReorderBufferChange, ReorderBufferTXN
from subscriber.protocol import messages
from subscriber.protocol.encode import encode
from subscriber.publication.listed_tables import is_publishable

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class PgOutputData:
    """The state of a session.

    Attributes:
        options: the client's options.
        cache: how relations are published.
        in_streaming: whether a block is being streamed.
    """

    options: PgOutputOptions
    cache: RelationSyncCache
    in_streaming: bool = False

    def xid(self, txn: ReorderBufferTXN) -> int | None:
        """The number of a transaction or subtransaction inside of a stream; else None (rule A3)."""
        return txn.xid if self.in_streaming else None


@dataclass(slots=True, eq=False)
class PgOutputTxnData:
    """The state of a transaction that is sent whole.

    Attributes:
        sent_begin_txn: whether B was sent.
    """

    sent_begin_txn: bool = False


class PgOutput(OutputPlugin):
    """The output plugin pgoutput, of protocol versions 1 to 4."""

    # The session ----------------------------------------------------------------------------------

    def startup(self, ctx: LogicalDecodingContext, options: OutputPluginOptions, is_init: bool) -> None:
        """Read the options (rules A27-A31).

        Raises:
            UsageError: 22023 and others, as
                :func:`~subscriber.output_plugin.plugins.pgoutput_options.parse_output_parameters`
                and :func:`~subscriber.output_plugin.plugins.pgoutput_options.start`.
        """
        options.output_type = "binary"
        if is_init:
            ctx.output_plugin_private = PgOutputData(PgOutputOptions(), RelationSyncCache(()))
            ctx.streaming = ctx.twophase = False
            return
        server_version = ctx.catalog.tables.server_version
        given = parse_output_parameters(ctx.output_plugin_options, server_version)
        start(ctx, given, server_version)
        data = PgOutputData(given, RelationSyncCache(given.publication_names or ()))
        ctx.output_plugin_private = data
        ctx.register_invalidation_callback(data.cache.invalidate)

    def shutdown(self, ctx: LogicalDecodingContext) -> None:
        """Forget how relations are published."""
        ctx.output_plugin_private = None

    def filter_by_origin(self, ctx: LogicalDecodingContext, origin_id: int) -> bool:
        """Whether changes are left out: those with an origin, if the client asked for ``none``."""
        return _data(ctx).options.publish_no_origin and origin_id != 0

    # Transactions ---------------------------------------------------------------------------------

    def begin(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        """Remember that B was not sent: that waits for the first change (rule A21)."""
        txn.output_plugin_private = PgOutputTxnData()

    def commit(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        """Send C, if B was sent."""
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
        """Send P."""
        ctx.update_progress(skipped_xact=False)
        _send(ctx, messages.Prepare(prepare_lsn, txn.end_lsn, txn.xact_time, txn.xid, txn.gid or ""))

    def commit_prepared(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        """Send K."""
        ctx.update_progress(skipped_xact=False)
        _send(ctx, messages.CommitPrepared(commit_lsn, txn.end_lsn, txn.xact_time, txn.xid, txn.gid or ""))

    def rollback_prepared(
        self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, prepare_end_lsn: int, prepare_time: int
    ) -> None:
        """Send r."""
        ctx.update_progress(skipped_xact=False)
        _send(
            ctx,
            messages.RollbackPrepared(
                prepare_end_lsn, txn.end_lsn, prepare_time, txn.xact_time, txn.xid, txn.gid or ""
            ),
        )

    # Changes --------------------------------------------------------------------------------------

    def change(
        self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, relation: Relation, change: ReorderBufferChange
    ) -> None:
        """Send I, U or D, if publications and filters let the change pass.

        Raises:
            NotSupportedError: 0A000, the publications differ in the columns (rules B39, B41).
            RowFilterError: a filter cannot be evaluated for the row.
        """
        if not is_publishable(relation.table):
            return
        data = _data(ctx)
        entry = data.cache.entry(relation, ctx.catalog)
        if OPERATION_OF[change.action] not in entry.operations:
            return
        if change.action is Action.DELETE and change.old_tuple is None:
            logger.debug("didn't send DELETE change because of missing oldtuple")
            return
        sent = row_change(change.action, change.old_tuple, change.new_tuple, entry)
        if sent is None:
            return
        _send_begin(ctx, txn)
        _send_schema(ctx, data, change.txn, entry)
        _send(ctx, row_message(sent, entry, data.xid(change.txn), binary=data.options.binary))

    def truncate(
        self,
        ctx: LogicalDecodingContext,
        txn: ReorderBufferTXN,
        relations: Sequence[Relation],
        change: ReorderBufferChange,
    ) -> None:
        """Send T with the relations that publish it, if there are any (rules A26, B4, B21, B22).

        Raises:
            NotSupportedError: 0A000, the publications differ in the columns (rules B39, B41).
        """
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
        """Send E."""
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
        """Send c."""
        ctx.update_progress(skipped_xact=False)
        _send(ctx, messages.StreamCommit(txn.xid, commit_lsn, txn.end_lsn, txn.xact_time))
        _data(ctx).cache.stream_ended(txn.xid, committed=True)

    def stream_prepare(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, prepare_lsn: int) -> None:
        """Send p."""
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
    """Send a message, and O after it; not if the origin has no name any more (rule A15;
    ``send_repl_origin``).

    Without its name, too, the message is sent as if O followed it.
    """
    _send(ctx, message, last_write=not origin_id)
    name = ctx.origin_name(origin_id) if origin_id else None
    if name is not None:
        _send(ctx, messages.Origin(origin_lsn, name))


def _send_begin(ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
    """Send B, if the transaction is sent whole and it was not sent (rules A21, A22)."""
    state = txn.output_plugin_private
    if state is None or state.sent_begin_txn:
        return
    state.sent_begin_txn = True
    _send_with_origin(ctx, messages.Begin(txn.final_lsn, txn.xact_time, txn.xid), txn.origin_id, txn.origin_lsn)


def _send_schema(
    ctx: LogicalDecodingContext, data: PgOutputData, txn: ReorderBufferTXN, entry: RelationSyncEntry
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
