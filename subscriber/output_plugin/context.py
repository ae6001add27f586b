"""The context of logical decoding: what a plugin and its host share (``logical.h``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from subscriber.errors import OutputPluginError
from subscriber.output_plugin.callback_registry import OutputPluginCallbacks, OutputPluginOptions
from subscriber.output_plugin.historic_catalog import HistoricCatalog, Invalidation

PluginOption: TypeAlias = tuple[str, str | None]
"""An option's name and value; None if it was given without a value. A name may occur twice: plugins
refuse that with their own error.
"""


@dataclass(slots=True)
class Slot:
    """The properties of the replication slot that decoding needs.

    Attributes:
        name: the slot's name.
        plugin: the plugin's name.
        two_phase: whether transactions are decoded at PREPARE (rule E5).
        two_phase_at: the position from which that holds; 0 if it does not.
        confirmed_flush: the position up to which the client has confirmed everything.
    """

    name: str
    plugin: str
    two_phase: bool = False
    two_phase_at: int = 0
    confirmed_flush: int = 0


class OutputWriter(Protocol):
    """The consumer of a plugin's output."""

    def write(self, lsn: int, xid: int, data: bytes, last_write: bool) -> None:
        """Take one piece of output.

        Args:
            lsn: the position that it belongs to (rule E8).
            xid: the transaction; 0 for a message outside of a transaction.
            data: what the plugin wrote.
            last_write: whether the callback writes nothing after it. A walsender sends the position
                with the last piece only (rule A34).
        """

    def update_progress(self, lsn: int, xid: int, skipped_xact: bool) -> None:
        """The plugin has come to a position without writing anything.

        Args:
            lsn: the position.
            xid: the transaction.
            skipped_xact: whether the plugin has left out a whole transaction.
        """


@dataclass(slots=True, eq=False)
class LogicalDecodingContext:
    """The context that every callback receives.

    Attributes:
        slot: the slot.
        callbacks: the plugin's callbacks.
        writer: the consumer of the output.
        output_plugin_options: the options of the client, for ``startup``.
        options: what the plugin has declared.
        output_plugin_private: the plugin's own state.
        streaming: whether transactions in progress are streamed. It is True at ``startup`` if the
            plugin can stream; the plugin may set it to False (rule E6).
        twophase: the same for decoding at PREPARE; afterwards the slot or ``twophase_opt_given``
            must ask for it as well (rule E5).
        twophase_opt_given: to be set by the plugin if the client has asked for two-phase commit.
        catalog: the catalogs at the position of the change that a callback receives.
        origins: the names of replication origins, by number.
        out: the buffer that the plugin fills between :meth:`prepare_write` and :meth:`write`.
        accept_writes, prepared_write, write_location, write_xid, end_xact: the state of the
            callback that runs; ``end_xact`` is True if it ends a transaction.
    """

    slot: Slot
    callbacks: OutputPluginCallbacks
    writer: OutputWriter
    output_plugin_options: tuple[PluginOption, ...] = ()
    options: OutputPluginOptions = field(default_factory=OutputPluginOptions)
    output_plugin_private: Any = None
    streaming: bool = False
    twophase: bool = False
    twophase_opt_given: bool = False
    catalog: HistoricCatalog = field(default_factory=HistoricCatalog, repr=False)
    origins: dict[int, str] = field(default_factory=dict)
    out: bytearray = field(default_factory=bytearray, repr=False)
    accept_writes: bool = False
    prepared_write: bool = False
    write_location: int = 0
    write_xid: int = 0
    end_xact: bool = False
    _invalidation_callbacks: list[Callable[[Invalidation], None]] = field(default_factory=list, repr=False)

    def prepare_write(self, last_write: bool) -> None:  # noqa: ARG002 - PostgreSQL's signature; the writer gets it in write()
        """Empty the buffer ``out`` for a new piece of output (``OutputPluginPrepareWrite``).

        A piece that was prepared before and not written is lost.

        Raises:
            OutputPluginError: the callback that runs may not write (rule E7).
        """
        if not self.accept_writes:
            raise OutputPluginError(
                "writes are only accepted in commit, begin and change callbacks",
                hint="Write in another callback: startup, shutdown and the filter callbacks have no place in the stream.",
            )
        self.out = bytearray()
        self.prepared_write = True

    def write(self, last_write: bool) -> None:
        """Give the content of ``out`` to the consumer (``OutputPluginWrite``).

        Raises:
            OutputPluginError: :meth:`prepare_write` was not called (rule E7); or the output was
                declared to be text and is not (rule E10). Then nothing is written.
        """
        if not self.prepared_write:
            raise OutputPluginError(
                "OutputPluginPrepareWrite needs to be called before OutputPluginWrite",
                hint="Call ctx.prepare_write() before each ctx.write().",
            )
        data = bytes(self.out)
        if self.options.output_type == "textual":
            _check_text(data)
        self.writer.write(self.write_location, self.write_xid, data, last_write)
        self.prepared_write = False

    def update_progress(self, skipped_xact: bool) -> None:
        """Tell the consumer how far decoding has come (``OutputPluginUpdateProgress``).

        Args:
            skipped_xact: whether a whole transaction was left out.
        """
        self.writer.update_progress(self.write_location, self.write_xid, skipped_xact)

    def origin_name(self, origin_id: int) -> str | None:
        """The name of a replication origin; None if it was dropped (``replorigin_by_oid``)."""
        return self.origins.get(origin_id)

    def register_invalidation_callback(self, callback: Callable[[Invalidation], None]) -> None:
        """Have a function called when catalogs change (``CacheRegisterRelcacheCallback`` and
        ``CacheRegisterSyscacheCallback``, rules A24, B7).

        It is called when the change is replayed, and for safety again when the transaction that
        made it ends.
        """
        self._invalidation_callbacks.append(callback)

    def invalidate(self, invalidation: Invalidation) -> None:
        """Call the functions that were registered. The host calls this."""
        for callback in self._invalidation_callbacks:
            callback(invalidation)


def _check_text(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError:
        valid = False
    else:
        valid = b"\0" not in data
    if not valid:
        # Neither chained nor with the bytes, because the output has the values of rows.
        raise OutputPluginError(
            'invalid byte sequence for encoding "UTF8"',
            sqlstate="22021",
            hint="Declare output_type = 'binary' in the plugin's startup callback, or write valid text.",
        )
