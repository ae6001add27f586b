"""The interface of an output plugin: the 21 callbacks of ``output_plugin.h``.

A plugin is a class with methods of these names. A method that it does not have is a callback that
it has not registered. Names and arguments are PostgreSQL's, but the number of relations of a
TRUNCATE and the size of a message are not passed separately. The host calls in this order (rules
E12-E15), and asks ``filter_by_origin`` and ``filter_prepare`` when it reads records::

    startup
      begin (change | truncate | message)* commit                                      a transaction
      begin_prepare (change | truncate | message)* prepare                             PREPARE TRANSACTION
      commit_prepared | rollback_prepared                                              its end
      stream_start (stream_change | stream_truncate | stream_message)* stream_stop     a block, one or more
      stream_abort                                                                     ROLLBACK TO, ROLLBACK
      stream_commit | stream_prepare                                                   the end of all blocks
      message                                                                          not transactional: anywhere
    shutdown

*Rejected: a base class whose methods do nothing.* PostgreSQL decides by the presence of a callback
what a plugin can do, and its errors name the callback that is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from subscriber.base import errors
from subscriber.base.lsn import format_lsn
from subscriber.postgres.logical_decoding.context import (
    CALLBACKS,
    REQUIRED,
    Callback,
    LogicalDecodingContext,
    OutputPluginCallbacks,
    OutputPluginOptions,
)
from subscriber.postgres.logical_decoding.historic_catalog import RelationData
from subscriber.postgres.logical_decoding.reorder_txn import ReorderBufferChange, ReorderBufferTXN


class OutputPlugin:
    """The base class of plugins, whose inherited methods are not registered (rule E1)."""

    def startup(self, ctx: LogicalDecodingContext, options: OutputPluginOptions, is_init: bool) -> None:
        """Check ``ctx.output_plugin_options`` and set ``options`` (rule E6). ``is_init``: a slot is
        being created, and there are no options (rule E18).
        """

    def shutdown(self, ctx: LogicalDecodingContext) -> None:
        """The stream ends: free what was allocated."""

    def begin(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        """A committed transaction begins."""

    def change(
        self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, relation: RelationData, change: ReorderBufferChange
    ) -> None:
        """A row was inserted, updated or deleted."""

    def truncate(
        self,
        ctx: LogicalDecodingContext,
        txn: ReorderBufferTXN,
        relations: Sequence[RelationData],
        change: ReorderBufferChange,
    ) -> None:
        """Tables were truncated. Without this callback TRUNCATE is ignored (rule E2)."""

    def commit(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        """The transaction ends; ``commit_lsn`` is the start of the commit record."""

    def message(
        self,
        ctx: LogicalDecodingContext,
        txn: ReorderBufferTXN | None,
        message_lsn: int,
        transactional: bool,
        prefix: str,
        message: bytes,
    ) -> None:
        """``pg_logical_emit_message`` was called. ``txn`` is None if the session had no transaction
        number. Without this callback messages are ignored (rule E2).
        """

    def filter_by_origin(self, ctx: LogicalDecodingContext, origin_id: int) -> bool:  # type: ignore[empty-body]  # never called
        """Whether changes of this origin, 0 for the server itself, are dropped (rule E16)."""

    def filter_prepare(self, ctx: LogicalDecodingContext, xid: int, gid: str) -> bool:  # type: ignore[empty-body]  # never called
        """Whether a prepared transaction is decoded only at COMMIT PREPARED. It is asked several
        times for a transaction and must give the same answer (rule E15).
        """

    def begin_prepare(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        """A prepared transaction begins; its name is ``txn.gid``."""

    def prepare(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, prepare_lsn: int) -> None:
        """The prepared transaction ends; ``prepare_lsn`` is the start of the record."""

    def commit_prepared(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        """COMMIT PREPARED; ``commit_lsn`` is the start of the record."""

    def rollback_prepared(
        self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, prepare_end_lsn: int, prepare_time: int
    ) -> None:
        """ROLLBACK PREPARED. The arguments are the end and the time of PREPARE TRANSACTION."""

    def stream_start(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        """A block of a transaction begins; ``txn.is_streamed`` is False for the first block."""

    def stream_stop(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        """The block ends."""

    def stream_abort(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, abort_lsn: int) -> None:
        """A streamed transaction, or a subtransaction with streamed changes, was rolled back."""

    def stream_prepare(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, prepare_lsn: int) -> None:
        """A streamed transaction was prepared."""

    def stream_commit(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        """A streamed transaction committed."""

    def stream_change(
        self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, relation: RelationData, change: ReorderBufferChange
    ) -> None:
        """As :meth:`change`, in a block. ``change.txn`` is the subtransaction."""

    def stream_message(
        self,
        ctx: LogicalDecodingContext,
        txn: ReorderBufferTXN | None,
        message_lsn: int,
        transactional: bool,
        prefix: str,
        message: bytes,
    ) -> None:
        """As :meth:`message`, in a block; optional even if the plugin streams (rule E3)."""

    def stream_truncate(
        self,
        ctx: LogicalDecodingContext,
        txn: ReorderBufferTXN,
        relations: Sequence[RelationData],
        change: ReorderBufferChange,
    ) -> None:
        """As :meth:`truncate`, in a block; optional even if the plugin streams (rule E3)."""


def callbacks_of(plugin: object) -> OutputPluginCallbacks:
    """The registered callbacks of an object; OutputPluginError without a required one (rule E1)."""
    registered: dict[str, Callback] = {}
    for name in CALLBACKS:
        callback = getattr(plugin, name, None)
        if callback is not None and getattr(callback, "__func__", None) is not getattr(OutputPlugin, name):
            registered[name] = callback
    for name in REQUIRED:
        if name not in registered:
            raise errors.OutputPluginError(
                f"output plugins have to register a {name} callback",
                hint=f'Give class "{type(plugin).__name__}" a method "{name}".',
            )
    return OutputPluginCallbacks(registered)


_MISSING: Final = {
    **dict.fromkeys(
        ("begin_prepare", "prepare", "commit_prepared", "rollback_prepared"),
        "logical replication at prepare time requires a {}_cb callback",
    ),
    **dict.fromkeys(
        ("stream_start", "stream_stop", "stream_abort", "stream_commit", "stream_change"),
        "logical streaming requires a {}_cb callback",
    ),
    "stream_prepare": "logical streaming at prepare time requires a {}_cb callback",
}
"""The callbacks that must be there when they are called, and the error (rules E3, E4)."""


class CallbackWrappers:
    """The calls of the callbacks of one context (``*_cb_wrapper`` of ``logical.c``).

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

    Every method raises, with PostgreSQL's error context (rule E9), the plugin's own
    SubscriberError; OutputPluginFailed (38000) for any other exception, its cause; and
    OutputCallbackMissing (55000) if the callback is needed and missing (rules E3, E4).
    """

    def __init__(self, ctx: LogicalDecodingContext) -> None:
        self._ctx = ctx

    # Without output -------------------------------------------------------------------------------

    def startup(self, is_init: bool) -> None:
        self._without_output("startup", None, self._ctx.options, is_init)

    def shutdown(self) -> None:
        self._without_output("shutdown", None)

    def filter_prepare(self, xid: int, gid: str) -> bool:
        return not self._ctx.twophase or bool(self._without_output("filter_prepare", False, xid, gid))

    def filter_by_origin(self, origin_id: int) -> bool:
        return bool(self._without_output("filter_by_origin", False, origin_id))

    # With output ----------------------------------------------------------------------------------

    def begin(self, txn: ReorderBufferTXN) -> None:
        self._with_output("begin_prepare" if txn.is_prepared else "begin", txn.first_lsn, txn.xid, txn)

    def change(
        self, txn: ReorderBufferTXN, relation: RelationData, change: ReorderBufferChange, *, streaming: bool
    ) -> None:
        self._with_output("stream_change" if streaming else "change", change.lsn, txn.xid, txn, relation, change)

    def truncate(
        self, txn: ReorderBufferTXN, relations: Sequence[RelationData], change: ReorderBufferChange, *, streaming: bool
    ) -> None:
        self._with_output("stream_truncate" if streaming else "truncate", change.lsn, txn.xid, txn, relations, change)

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
        name, xid = "stream_message" if streaming else "message", 0 if txn is None else txn.xid
        self._with_output(name, message_lsn, xid, txn, message_lsn, transactional, prefix, message)

    def stream_start(self, txn: ReorderBufferTXN, first_lsn: int) -> None:
        self._with_output("stream_start", first_lsn, txn.xid, txn)

    def stream_stop(self, txn: ReorderBufferTXN, last_lsn: int) -> None:
        self._with_output("stream_stop", last_lsn, txn.xid, txn)

    def stream_abort(self, txn: ReorderBufferTXN, abort_lsn: int) -> None:
        self._with_output("stream_abort", abort_lsn, txn.xid, txn, abort_lsn, end_xact=True)

    def at_end(self, name: str, txn: ReorderBufferTXN, *arguments: int) -> None:
        """The plugin's error context has the start of the record, its output the end."""
        self._with_output(name, txn.final_lsn, txn.xid, txn, *arguments, write_location=txn.end_lsn, end_xact=True)

    # The calls ------------------------------------------------------------------------------------

    def _without_output(self, name: str, default: Any, *arguments: Any) -> Any:
        if self._ctx.callbacks.get(name) is None:
            return default
        self._ctx.accept_writes = self._ctx.end_xact = False
        return self._call(name, 0, arguments)

    def _with_output(
        self,
        name: str,
        location: int,
        xid: int,
        *arguments: Any,
        write_location: int | None = None,
        end_xact: bool = False,
    ) -> None:
        ctx = self._ctx
        if name not in _MISSING and ctx.callbacks.get(name) is None:
            return
        ctx.accept_writes = True
        ctx.write_xid = xid
        ctx.write_location = location if write_location is None else write_location
        ctx.end_xact = end_xact
        try:
            self._call(name, location, arguments)
        finally:
            ctx.accept_writes = False

    def _call(self, name: str, report_location: int, arguments: tuple[Any, ...]) -> Any:
        try:
            callback = self._ctx.callbacks.get(name)
            if callback is None:
                raise errors.OutputCallbackMissing(
                    _MISSING[name].format(name),
                    hint=f'Give the plugin a method "{name}", or have its startup callback switch the feature off.',
                )
            return callback(self._ctx, *arguments)
        except errors.SubscriberError as error:
            context = "\n".join(filter(None, (error.context, self._error_context(name, report_location))))
            raise error.replace(context=context) from error.__cause__
        except Exception as error:
            raise errors.OutputPluginFailed(
                f'callback "{name}" of output plugin "{self._ctx.slot.plugin}" failed: {type(error).__name__}',
                hint="The exception is in the traceback. Fix the plugin and decode again from the confirmed position.",
                context=self._error_context(name, report_location),
            ) from error

    def _error_context(self, name: str, report_location: int) -> str:
        slot = self._ctx.slot
        context = f'slot "{slot.name}", output plugin "{slot.plugin}", in the {name} callback'
        return context + (f", associated LSN {format_lsn(report_location)}" if report_location else "")


BUILT_IN: Final = {
    "pgoutput": "subscriber.postgres.logical_decoding.plugins.pgoutput:PgOutput",
    "test_decoding": "subscriber.postgres.logical_decoding.plugins.test_decoding:TestDecoding",
}
"""The plugins that PostgreSQL ships, by the name that they have there."""


def load_output_plugin(name: str) -> object:
    """Import a plugin, a name of :data:`BUILT_IN` or ``module:Class``, and call it without
    arguments. UsageError for another form (22023) or no such module (58P01); OutputPluginError if
    the class is missing, cannot be called, or lacks a required callback (rule E1).
    """
    module_name, colon, class_name = BUILT_IN.get(name, name).partition(":")
    if not (colon and module_name and class_name):
        raise errors.UsageError(
            f'invalid output plugin name "{name}"',
            hint=f"Write {' or '.join(BUILT_IN)}, or module:Class such as my_module:MyPlugin.",
        )
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise errors.UsageError(
            f'could not access file "{module_name}": No such file or directory',
            sqlstate="58P01",
            hint=f'Module "{error.name}" was not found. Run in the folder of the module, or set PYTHONPATH.',
        ) from error
    plugin_class = getattr(module, class_name, None)
    if not callable(plugin_class):
        raise errors.OutputPluginError(
            "output plugins have to declare the _PG_output_plugin_init symbol",
            hint=f'Here the symbol is the class: module "{module_name}" has no class "{class_name}".',
        )
    plugin: object = plugin_class()
    callbacks_of(plugin)
    return plugin
