"""The calls of a plugin's callbacks: the state of the context before, the error context after
(``*_cb_wrapper`` of ``logical.c``).

::

    callback            writes  location (rule E8)     if it is missing (rules E1-E4)
    startup, shutdown     no    -                      nothing
    filter_*              no    -                      False
    begin, begin_prepare  yes   first change           required; two-phase
    change, truncate      yes   the record             required; ignored
    message               yes   the message            ignored
    commit, *prepare*     yes   end of the record      required; two-phase
    stream_start, _stop   yes   first, last change     streaming
    stream_abort          yes   the abort              streaming
    stream_commit, …      yes   end of the record      streaming; streaming at prepare time
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from subscriber.errors import OutputCallbackMissing, OutputPluginFailed, SubscriberError
from subscriber.lsn import format_lsn
from subscriber.output_plugin.context import LogicalDecodingContext
from subscriber.output_plugin.historic_catalog import Relation
from subscriber.output_plugin.reorder_txn import ReorderBufferChange, ReorderBufferTXN

_STREAMING: Final = "logical streaming requires a {}_cb callback"
_AT_PREPARE: Final = "logical replication at prepare time requires a {}_cb callback"
_STREAMING_AT_PREPARE: Final = "logical streaming at prepare time requires a {}_cb callback"


class CallbackWrappers:
    """The callbacks of one context.

    Every method may raise what a callback raises, with PostgreSQL's error context (rule E9):

    - SubscriberError: the plugin's own error.
    - OutputPluginFailed: 38000, any other exception; it is the cause.
    - OutputCallbackMissing: 55000, the callback is needed and missing (rules E3, E4).

    Args:
        ctx: the context.
    """

    def __init__(self, ctx: LogicalDecodingContext) -> None:
        self._ctx = ctx

    # Without output -------------------------------------------------------------------------------

    def startup(self, is_init: bool) -> None:
        """Call ``startup``, if there is one."""
        self._without_output("startup", None, self._ctx.options, is_init)

    def shutdown(self) -> None:
        """Call ``shutdown``, if there is one."""
        self._without_output("shutdown", None)

    def filter_prepare(self, xid: int, gid: str) -> bool:
        """Whether a transaction is not decoded at PREPARE (rule E15; ``FilterPrepare``)."""
        return not self._ctx.twophase or bool(self._without_output("filter_prepare", False, xid, gid))

    def filter_by_origin(self, origin_id: int) -> bool:
        """Whether changes of an origin are dropped (rule E16)."""
        return bool(self._without_output("filter_by_origin", False, origin_id))

    # Transactions ---------------------------------------------------------------------------------

    def begin(self, txn: ReorderBufferTXN) -> None:
        """Call ``begin``."""
        self._with_output("begin", txn.first_lsn, txn.first_lsn, txn.xid, (txn,))

    def commit(self, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        """Call ``commit``."""
        self._at_end("commit", txn, (commit_lsn,))

    def begin_prepare(self, txn: ReorderBufferTXN) -> None:
        """Call ``begin_prepare``."""
        self._with_output("begin_prepare", txn.first_lsn, txn.first_lsn, txn.xid, (txn,), missing=_AT_PREPARE)

    def prepare(self, txn: ReorderBufferTXN, prepare_lsn: int) -> None:
        """Call ``prepare``."""
        self._at_end("prepare", txn, (prepare_lsn,), missing=_AT_PREPARE)

    def commit_prepared(self, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        """Call ``commit_prepared``."""
        self._at_end("commit_prepared", txn, (commit_lsn,), missing=_AT_PREPARE)

    def rollback_prepared(self, txn: ReorderBufferTXN, prepare_end_lsn: int, prepare_time: int) -> None:
        """Call ``rollback_prepared``."""
        self._at_end("rollback_prepared", txn, (prepare_end_lsn, prepare_time), missing=_AT_PREPARE)

    # Changes --------------------------------------------------------------------------------------

    def change(
        self, txn: ReorderBufferTXN, relation: Relation, change: ReorderBufferChange, *, streaming: bool
    ) -> None:
        """Call ``change`` or ``stream_change``."""
        name = "stream_change" if streaming else "change"
        arguments = (txn, relation, change)
        self._with_output(name, change.lsn, change.lsn, txn.xid, arguments, missing=_STREAMING)

    def truncate(
        self, txn: ReorderBufferTXN, relations: Sequence[Relation], change: ReorderBufferChange, *, streaming: bool
    ) -> None:
        """Call ``truncate`` or ``stream_truncate``, if there is one (rules E2, E3)."""
        name = "stream_truncate" if streaming else "truncate"
        self._with_output(name, change.lsn, change.lsn, txn.xid, (txn, relations, change))

    def message(
        self,
        txn: ReorderBufferTXN | None,
        message_lsn: int,
        transactional: bool,
        prefix: str,
        message: bytes,
        *,
        streaming: bool,
    ) -> None:
        """Call ``message`` or ``stream_message``, if there is one (rules E2, E3)."""
        name = "stream_message" if streaming else "message"
        xid = 0 if txn is None else txn.xid
        self._with_output(name, message_lsn, message_lsn, xid, (txn, message_lsn, transactional, prefix, message))

    # Streaming ------------------------------------------------------------------------------------

    def stream_start(self, txn: ReorderBufferTXN, first_lsn: int) -> None:
        """Call ``stream_start``."""
        self._with_output("stream_start", first_lsn, first_lsn, txn.xid, (txn,), missing=_STREAMING)

    def stream_stop(self, txn: ReorderBufferTXN, last_lsn: int) -> None:
        """Call ``stream_stop``."""
        self._with_output("stream_stop", last_lsn, last_lsn, txn.xid, (txn,), missing=_STREAMING)

    def stream_abort(self, txn: ReorderBufferTXN, abort_lsn: int) -> None:
        """Call ``stream_abort``."""
        self._with_output(
            "stream_abort", abort_lsn, abort_lsn, txn.xid, (txn, abort_lsn), missing=_STREAMING, end_xact=True
        )

    def stream_prepare(self, txn: ReorderBufferTXN, prepare_lsn: int) -> None:
        """Call ``stream_prepare``."""
        self._at_end("stream_prepare", txn, (prepare_lsn,), missing=_STREAMING_AT_PREPARE)

    def stream_commit(self, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        """Call ``stream_commit``."""
        self._at_end("stream_commit", txn, (commit_lsn,), missing=_STREAMING)

    # The calls ------------------------------------------------------------------------------------

    def _without_output(self, name: str, default: Any, *arguments: Any) -> Any:
        if self._ctx.callbacks.get(name) is None:
            return default
        self._ctx.accept_writes = self._ctx.end_xact = False
        return self._call(name, 0, arguments, "")

    def _at_end(self, name: str, txn: ReorderBufferTXN, arguments: tuple[Any, ...], *, missing: str = "") -> None:
        """Call a callback at the end of a transaction: the error context has the start of the
        record, the output its end.
        """
        arguments = (txn, *arguments)
        self._with_output(name, txn.final_lsn, txn.end_lsn, txn.xid, arguments, missing=missing, end_xact=True)

    def _with_output(
        self,
        name: str,
        report_location: int,
        write_location: int,
        xid: int,
        arguments: tuple[Any, ...],
        *,
        missing: str = "",
        end_xact: bool = False,
    ) -> None:
        ctx = self._ctx
        if not missing and ctx.callbacks.get(name) is None:
            return
        ctx.accept_writes = True
        ctx.write_xid = xid
        ctx.write_location = write_location
        ctx.end_xact = end_xact
        try:
            self._call(name, report_location, arguments, missing)
        finally:
            ctx.accept_writes = False

    def _call(self, name: str, report_location: int, arguments: tuple[Any, ...], missing: str) -> Any:
        try:
            callback = self._ctx.callbacks.get(name)
            if callback is None:
                raise OutputCallbackMissing(
                    missing.format(name),
                    hint=f'Give the plugin a method "{name}", or have its startup callback switch the feature off.',
                )
            return callback(self._ctx, *arguments)
        except SubscriberError as error:
            context = "\n".join(filter(None, (error.context, self._error_context(name, report_location))))
            raise error.replace(context=context) from error.__cause__
        except Exception as error:
            raise OutputPluginFailed(
                f'callback "{name}" of output plugin "{self._ctx.slot.plugin}" failed: {type(error).__name__}',
                hint="The exception is in the traceback. Fix the plugin and decode again from the confirmed position.",
                context=self._error_context(name, report_location),
            ) from error

    def _error_context(self, name: str, report_location: int) -> str:
        slot = self._ctx.slot
        context = f'slot "{slot.name}", output plugin "{slot.plugin}", in the {name} callback'
        return context + (f", associated LSN {format_lsn(report_location)}" if report_location else "")
