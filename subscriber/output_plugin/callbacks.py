"""The interface of an output plugin: the 21 callbacks of ``output_plugin.h``.

A plugin is a class with methods of these names. A method that it does not have is a callback that
it has not registered::

    class Names(OutputPlugin):
        def begin(self, ctx, txn): ...
        def commit(self, ctx, txn, commit_lsn): ...
        def change(self, ctx, txn, relation, change):
            ctx.prepare_write(last_write=True)
            ctx.out += relation.qualified_name.encode()
            ctx.write(last_write=True)

Names and arguments are PostgreSQL's, with two exceptions: the number of relations of a TRUNCATE and
the size of a message are lengths in Python, and are not passed separately.

The host calls the callbacks in this order (rules E12-E15)::

    startup
      begin (change | truncate | message)* commit                                      a transaction
      begin_prepare (change | truncate | message)* prepare                             PREPARE TRANSACTION
      commit_prepared | rollback_prepared                                              its end
      stream_start (stream_change | stream_truncate | stream_message)* stream_stop     a block, one or more
      stream_abort                                                                     ROLLBACK TO, ROLLBACK
      stream_commit | stream_prepare                                                   the end of all blocks
      message                                                                          not transactional: anywhere
    shutdown

and asks ``filter_by_origin`` and ``filter_prepare`` when it reads records.

*Rejected: a base class whose methods do nothing.* PostgreSQL decides by the presence of a callback
what a plugin can do, and its errors name the callback that is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from subscriber.errors import OutputPluginError
from subscriber.output_plugin.callback_registry import (
    CALLBACKS,
    REQUIRED,
    Callback,
    OutputPluginCallbacks,
    OutputPluginOptions,
)
from subscriber.output_plugin.context import LogicalDecodingContext
from subscriber.output_plugin.historic_catalog import Relation
from subscriber.output_plugin.reorder_txn import ReorderBufferChange, ReorderBufferTXN


class OutputPlugin:
    """The base class of plugins, for documentation and for type checkers.

    A method that a plugin inherits from this class is not registered. ``begin``, ``change`` and
    ``commit`` are required (rule E1).
    """

    def startup(self, ctx: LogicalDecodingContext, options: OutputPluginOptions, is_init: bool) -> None:
        """Check ``ctx.output_plugin_options`` and set ``options``.

        Args:
            ctx: the context. The plugin may keep its state in ``output_plugin_private``, and may
                switch ``streaming`` and ``twophase`` off (rule E6).
            options: to be set by the plugin.
            is_init: whether a slot is being created. Then there are no options (rule E18).
        """

    def shutdown(self, ctx: LogicalDecodingContext) -> None:
        """The stream ends: free what was allocated."""

    def begin(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        """A committed transaction begins."""

    def change(
        self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, relation: Relation, change: ReorderBufferChange
    ) -> None:
        """A row was inserted, updated or deleted."""

    def truncate(
        self,
        ctx: LogicalDecodingContext,
        txn: ReorderBufferTXN,
        relations: Sequence[Relation],
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
        """Whether changes of this replication origin, 0 for the server itself, are dropped (rule
        E16).
        """

    def filter_prepare(self, ctx: LogicalDecodingContext, xid: int, gid: str) -> bool:  # type: ignore[empty-body]  # never called
        """Whether a prepared transaction is decoded only at COMMIT PREPARED.

        It is asked several times for a transaction and must give the same answer (rule E15).
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
        """A block of a transaction in progress begins; ``txn.is_streamed`` is False for the first
        block.
        """

    def stream_stop(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN) -> None:
        """The block ends."""

    def stream_abort(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, abort_lsn: int) -> None:
        """A streamed transaction, or a subtransaction with streamed changes, was rolled back;
        ``abort_lsn`` is the end of the record.
        """

    def stream_prepare(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, prepare_lsn: int) -> None:
        """A streamed transaction was prepared."""

    def stream_commit(self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, commit_lsn: int) -> None:
        """A streamed transaction committed."""

    def stream_change(
        self, ctx: LogicalDecodingContext, txn: ReorderBufferTXN, relation: Relation, change: ReorderBufferChange
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
        relations: Sequence[Relation],
        change: ReorderBufferChange,
    ) -> None:
        """As :meth:`truncate`, in a block; optional even if the plugin streams (rule E3)."""


def callbacks_of(plugin: object) -> OutputPluginCallbacks:
    """The callbacks that a plugin has registered.

    Args:
        plugin: an :class:`OutputPlugin`, or any object with methods of these names. A class may set
            the name of a callback that it inherits to None, and has not registered it then.

    Raises:
        OutputPluginError: a required callback is missing (rule E1).
    """
    registered: dict[str, Callback] = {}
    for name in CALLBACKS:
        callback = getattr(plugin, name, None)
        if callback is not None and getattr(callback, "__func__", None) is not getattr(OutputPlugin, name):
            registered[name] = callback
    for name in REQUIRED:
        if name not in registered:
            raise OutputPluginError(
                f"output plugins have to register a {name} callback",
                hint=f'Give class "{type(plugin).__name__}" a method "{name}".',
            )
    return OutputPluginCallbacks(registered)
