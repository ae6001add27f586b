"""The plugin ``test_decoding``: every change as a line of text (``contrib/test_decoding``).

::

    BEGIN 731
    table public.t: INSERT: a[integer]:1 b[text]:'x'
    COMMIT 731

The lines are PostgreSQL's to the letter (rules E20-E28). The names of types and the times are those
of a session with ``search_path`` ``"$user", public``, ``TimeZone`` UTC and ``DateStyle`` ISO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding.callbacks import OutputPlugin
from subscriber.postgres.logical_decoding.context import LogicalDecodingContext, OutputPluginOptions
from subscriber.postgres.logical_decoding.heap_tuples import HeapTuple
from subscriber.postgres.logical_decoding.historic_catalog import RelationData
from subscriber.postgres.logical_decoding.reorder_txn import Action, ReorderBufferChange, ReorderBufferTXN
from subscriber.postgres.protocol.messages import NULL, UNCHANGED
from subscriber.postgres.sql.quoting import quote_identifier, quote_literal
from subscriber.postgres.types.datetimes.date_values import timestamptz_out
from subscriber.postgres.types.integers import parse_bool

_NUMBERS: Final = frozenset({20, 21, 23, 26, 700, 701, 1700})
_BITS: Final = frozenset({1560, 1562})
_BOOLEAN: Final = 16

_TRUE_WITHOUT_VALUE: Final = frozenset({"include-xids", "include-timestamp", "skip-empty-xacts", "only-local"})
_IGNORED_WITHOUT_VALUE: Final = frozenset({"force-binary", "include-rewrites", "stream-changes"})


@dataclass(slots=True)
class _Written:
    """What was written of a transaction, for ``skip-empty-xacts`` (``TestDecodingTxnData``)."""

    in_transaction: bool = False
    in_block: bool = False


class TestDecoding(OutputPlugin):
    """The output plugin. Its options (rule E20) are boolean: ``include-xids`` (on),
    ``include-timestamp``, ``force-binary``, ``skip-empty-xacts``, ``only-local``,
    ``include-rewrites`` and ``stream-changes`` (all off).
    """

    __test__ = False  # the class is no test, whatever pytest thinks of its name

    # Options --------------------------------------------------------------------------------------

    def startup(self, ctx: LogicalDecodingContext, options: OutputPluginOptions, is_init: bool) -> None:
        """UsageError (22023) for an option that is unknown or is not a boolean."""
        given = {"include-xids": True}
        for name, value in ctx.output_plugin_options:
            if name not in _TRUE_WITHOUT_VALUE | _IGNORED_WITHOUT_VALUE:
                raise UsageError(
                    f'option "{name}" = "{"(null)" if value is None else value}" is unknown',
                    hint=f"The options are {', '.join(sorted(_TRUE_WITHOUT_VALUE | _IGNORED_WITHOUT_VALUE))}.",
                )
            if value is not None:
                # Once on, force-binary stays on.
                given[name] = _boolean(name, value) or (name == "force-binary" and given.get(name, False))
            elif name in _TRUE_WITHOUT_VALUE:
                given[name] = True
        ctx.output_plugin_private = given
        options.output_type = "binary" if _is_on(ctx, "force-binary") else "textual"
        options.receive_rewrites = _is_on(ctx, "include-rewrites")
        ctx.streaming = ctx.streaming and _is_on(ctx, "stream-changes")

    def shutdown(self, ctx: LogicalDecodingContext) -> None: ...

    def filter_by_origin(self, ctx: LogicalDecodingContext, origin_id: int) -> bool:
        """``only-local`` (rule E21)."""
        return _is_on(ctx, "only-local") and origin_id != 0

    def filter_prepare(self, ctx: LogicalDecodingContext, xid: int, gid: str) -> bool:
        """Whether the name contains ``_nodecode`` (rule E21)."""
        return "_nodecode" in gid

    # Transactions ---------------------------------------------------------------------------------

    def begin(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        txn.output_plugin_private = _Written()
        if not _is_on(ctx, "skip-empty-xacts"):
            _begin(ctx, txn, last_write=True)

    def commit(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        if not _is_skipped(ctx, txn):
            _write(ctx, f"COMMIT{_xid(ctx, ' ', txn)}{_time(ctx, txn)}")

    def begin_prepare(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        self.begin(ctx, txn)

    def prepare(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, prepare_lsn: int) -> None:
        if not _is_skipped(ctx, txn):
            _two_phase(ctx, "PREPARE TRANSACTION", txn)

    def commit_prepared(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        _two_phase(ctx, "COMMIT PREPARED", txn)

    def rollback_prepared(
        self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, prepare_end_lsn: int, prepare_time: int
    ) -> None:
        _two_phase(ctx, "ROLLBACK PREPARED", txn)

    # Changes --------------------------------------------------------------------------------------

    def change(
        self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, relation: RelationData, change: ReorderBufferChange
    ) -> None:
        _first_change(ctx, txn)
        text = f"table {_table(ctx, relation)}: {change.action.name}:"
        old, new = change.old_tuple, change.new_tuple
        if change.action is Action.UPDATE and old is not None:
            text += " old-key:" + _row(ctx, relation, old, with_nulls=False) + " new-tuple:"
        row, with_nulls = (old, False) if change.action is Action.DELETE else (new, True)
        text += " (no-tuple-data)" if row is None else _row(ctx, relation, row, with_nulls=with_nulls)
        _write(ctx, text)

    def truncate(
        self,
        ctx: LogicalDecodingContext,
        txn: ReorderBufferTXN,
        relations: Sequence[RelationData],
        change: ReorderBufferChange,
    ) -> None:
        _first_change(ctx, txn)
        flags = " restart_seqs" * change.restart_seqs + " cascade" * change.cascade
        tables = ", ".join(_qualified(relation.schema, relation.name) for relation in relations)
        _write(ctx, f"table {tables}: TRUNCATE:{flags or ' (no-flags)'}")

    def message(
        self,
        ctx: LogicalDecodingContext,
        txn: ReorderBufferTXN | None,
        message_lsn: int,
        transactional: bool,
        prefix: str,
        message: bytes,
    ) -> None:
        if txn is not None and transactional and _messages_count(ctx):
            _first_change(ctx, txn)
        text = f"message: transactional: {transactional:d} prefix: {prefix}, sz: {len(message)} content:"
        _write(ctx, text, message)

    # Streaming ------------------------------------------------------------------------------------

    def stream_start(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        if txn.output_plugin_private is None:
            txn.output_plugin_private = _Written()
        txn.output_plugin_private.in_block = False
        if not _is_on(ctx, "skip-empty-xacts"):
            _stream_start(ctx, txn, last_write=True)

    def stream_stop(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        if txn.output_plugin_private.in_block or not _is_on(ctx, "skip-empty-xacts"):
            _write(ctx, f"closing a streamed block for transaction{_xid(ctx, ' TXN ', txn)}")

    def stream_abort(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, abort_lsn: int) -> None:
        if not _is_skipped(ctx, txn.top):
            _write(ctx, f"aborting streamed (sub)transaction{_xid(ctx, ' TXN ', txn)}")

    def stream_prepare(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, prepare_lsn: int) -> None:
        if _is_skipped(ctx, txn):
            return
        word = " TXN" if _is_on(ctx, "include-xids") else ""
        _two_phase(ctx, f"preparing streamed transaction{word}", txn)

    def stream_commit(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        if not _is_skipped(ctx, txn):
            _write(ctx, f"committing streamed transaction{_xid(ctx, ' TXN ', txn)}{_time(ctx, txn)}")

    def stream_change(
        self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, relation: RelationData, change: ReorderBufferChange
    ) -> None:
        """The transaction may be rolled back, so its rows are not shown."""
        _first_change_of_block(ctx, txn)
        _write(ctx, f"streaming change for {_txn(ctx, txn)}")

    def stream_message(
        self,
        ctx: LogicalDecodingContext,
        txn: ReorderBufferTXN | None,
        message_lsn: int,
        transactional: bool,
        prefix: str,
        message: bytes,
    ) -> None:
        if txn is not None and transactional and _messages_count(ctx):
            _first_change_of_block(ctx, txn)
        text = f"streaming message: transactional: {transactional:d} prefix: {prefix}, sz: {len(message)}"
        if transactional:
            _write(ctx, text)
        else:
            _write(ctx, text + " content:", message)

    def stream_truncate(
        self,
        ctx: LogicalDecodingContext,
        txn: ReorderBufferTXN,
        relations: Sequence[RelationData],
        change: ReorderBufferChange,
    ) -> None:
        _first_change_of_block(ctx, txn)
        _write(ctx, f"streaming truncate for {_txn(ctx, txn)}")


def _is_on(ctx: LogicalDecodingContext, option: str) -> bool:
    found: bool = ctx.output_plugin_private.get(option, False)
    return found


def _xid(ctx: LogicalDecodingContext, before: str, txn: ReorderBufferTXN) -> str:
    return f"{before}{txn.xid}" if _is_on(ctx, "include-xids") else ""


def _txn(ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> str:
    return _xid(ctx, "TXN ", txn) or "transaction"


def _time(ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> str:
    return f" (at {timestamptz_out(txn.xact_time)})" if _is_on(ctx, "include-timestamp") else ""


def _two_phase(ctx: LogicalDecodingContext, words: str, txn: ReorderBufferTXN) -> None:
    _write(ctx, f"{words} {_quote_literal(txn.gid or '')}{_xid(ctx, ', txid ', txn)}{_time(ctx, txn)}")


def _begin(ctx: LogicalDecodingContext, txn: ReorderBufferTXN, *, last_write: bool) -> None:
    _write(ctx, f"BEGIN{_xid(ctx, ' ', txn)}", last_write=last_write)


def _stream_start(ctx: LogicalDecodingContext, txn: ReorderBufferTXN, *, last_write: bool) -> None:
    _write(ctx, f"opening a streamed block for transaction{_xid(ctx, ' TXN ', txn)}", last_write=last_write)


def _is_skipped(ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> bool:
    """Whether nothing is written at the end of a transaction: it is empty (rule E28)."""
    written: _Written | None = txn.output_plugin_private  # None without begin_prepare: rule E14
    return _is_on(ctx, "skip-empty-xacts") and not (written and written.in_transaction)


def _first_change(ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
    written: _Written = txn.output_plugin_private
    if _is_on(ctx, "skip-empty-xacts") and not written.in_transaction:
        _begin(ctx, txn, last_write=False)
    written.in_transaction = True


def _first_change_of_block(ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
    written: _Written = txn.output_plugin_private
    if _is_on(ctx, "skip-empty-xacts") and not written.in_block:
        _stream_start(ctx, txn, last_write=False)
    written.in_transaction = written.in_block = True


def _write(ctx: LogicalDecodingContext, text: str, content: bytes = b"", *, last_write: bool = True) -> None:
    ctx.prepare_write(last_write)
    ctx.out += text.encode() + content
    ctx.write(last_write)


def _messages_count(ctx: LogicalDecodingContext) -> bool:
    """Whether a message counts as a change: since PostgreSQL 17 (rule E28)."""
    return ctx.catalog.tables.server_version >= 170000


def _boolean(name: str, value: str) -> bool:
    parsed = parse_bool(value)
    if parsed is None:
        raise UsageError(
            f'could not parse value "{value}" for parameter "{name}"',
            hint="Write true, yes, on, 1, or the opposite.",
        )
    return parsed


def _qualified(schema: str, name: str) -> str:
    return f"{quote_identifier(schema)}.{quote_identifier(name)}"


def _table(ctx: LogicalDecodingContext, relation: RelationData) -> str:
    """For the heap of a rewrite, the name of the table (rule E17)."""
    name = ctx.catalog.relation(relation.relrewrite).name if relation.relrewrite else relation.name
    return _qualified(relation.schema, name)


def _row(ctx: LogicalDecodingContext, relation: RelationData, row: HeapTuple, *, with_nulls: bool) -> str:
    """The columns of a row (``tuple_to_stringinfo``, rules E24, E25)."""
    text = ""
    for column, value in zip(relation.columns, row.values, strict=True):
        if value is NULL and not with_nulls:
            continue
        text += f" {quote_identifier(column.name)}[{ctx.catalog.type_description(column.type_oid).sql}]:"
        if value is NULL:
            text += "null"
        elif value is UNCHANGED:
            text += "unchanged-toast-datum"
        else:
            text += _literal(column.type_oid, value.text.decode())
    return text


def _literal(type_oid: int, text: str) -> str:
    """A value (``print_literal``, rule E25). A domain is not its base type here."""
    if type_oid in _NUMBERS:
        return text
    if type_oid in _BITS:
        return f"B'{text}'"
    if type_oid == _BOOLEAN:
        return "true" if text == "t" else "false"
    return quote_literal(text)


def _quote_literal(text: str) -> str:
    quoted = "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    return "E" + quoted if "\\" in text else quoted
