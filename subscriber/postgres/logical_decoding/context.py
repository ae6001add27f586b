"""What a plugin and its host share (``logical.h``), and what a plugin declares
(``output_plugin.h``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from subscriber.base.errors import OutputPluginError
from subscriber.postgres.logical_decoding.historic_catalog import HistoricCatalog, Invalidation

OutputType = Literal["binary", "textual"]


@dataclass(slots=True)
class OutputPluginOptions:
    """What ``startup`` declares: whether the output is text in the database's encoding (rule E10),
    and whether the rows that a rewriting ALTER TABLE writes are wanted (rule E17).
    """

    output_type: OutputType = "binary"
    receive_rewrites: bool = False


CALLBACKS: Final = (
    "startup", "begin", "change", "truncate", "commit", "message", "filter_by_origin", "shutdown", "filter_prepare",
    "begin_prepare", "prepare", "commit_prepared", "rollback_prepared", "stream_start", "stream_stop", "stream_abort",
    "stream_prepare", "stream_commit", "stream_change", "stream_message", "stream_truncate",
)  # fmt: skip
"""The names of all callbacks, in the order of ``OutputPluginCallbacks``."""

REQUIRED: Final = ("begin", "change", "commit")
_STREAMING: Final = (
    "stream_start", "stream_stop", "stream_abort", "stream_commit", "stream_change", "stream_message",
    "stream_truncate",
)  # fmt: skip
_TWO_PHASE: Final = (
    "begin_prepare", "prepare", "commit_prepared", "rollback_prepared", "stream_prepare", "filter_prepare",
)  # fmt: skip

Callback = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class OutputPluginCallbacks:
    registered: dict[str, Callback] = field(default_factory=dict)

    def get(self, name: str) -> Callback | None:
        return self.registered.get(name)

    @property
    def streaming(self) -> bool:
        """Whether it has one of seven callbacks, without stream_prepare (rule E3)."""
        return any(name in self.registered for name in _STREAMING)

    @property
    def twophase(self) -> bool:
        """Whether it has one of six callbacks (rule E4)."""
        return any(name in self.registered for name in _TWO_PHASE)


PluginOption: TypeAlias = tuple[str, str | None]
"""An option's name and value; None if it was given without a value. A name may occur twice: plugins
refuse that with their own error.
"""


@dataclass(slots=True)
class ReplicationSlot:
    """The properties of the replication slot that decoding needs: with ``two_phase`` transactions
    are decoded at PREPARE from ``two_phase_at`` on (rule E5).
    """

    name: str
    plugin: str
    two_phase: bool = False
    two_phase_at: int = 0
    confirmed_flush: int = 0


class OutputWriter(Protocol):
    """The consumer of a plugin's output."""

    def write(self, lsn: int, xid: int, data: bytes, last_write: bool) -> None:
        """Take a piece of output, at its position (rule E8). ``xid`` is 0 outside of a transaction.
        A walsender sends the position with the last piece of a callback only (rule A34).
        """

    def update_progress(self, lsn: int, xid: int, skipped_xact: bool) -> None:
        """The plugin has come to a position without writing anything."""


@dataclass(slots=True, eq=False)
class LogicalDecodingContext:
    """The context that every callback receives.

    ``streaming`` and ``twophase`` are True at ``startup`` if the plugin can; it may set them to
    False (rule E6). For ``twophase``, the slot or ``twophase_opt_given``, which the plugin sets if
    the client has asked, must ask for it as well (rule E5). ``catalog`` has the catalogs at the
    position of the change, ``origins`` the names of replication origins, by number. The plugin
    fills ``out`` between :meth:`prepare_write` and :meth:`write`. The last attributes are the state
    of the callback that runs; ``end_xact``: it ends a transaction.
    """

    slot: ReplicationSlot
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
        """Empty ``out`` for a new piece of output (``OutputPluginPrepareWrite``); a piece that was
        not written is lost. OutputPluginError if the callback that runs may not write (rule E7).
        """
        if not self.accept_writes:
            raise OutputPluginError(
                "writes are only accepted in commit, begin and change callbacks",
                hint="Write in another callback: startup, shutdown and the filter callbacks have no place in the stream.",
            )
        self.out = bytearray()
        self.prepared_write = True

    def write(self, last_write: bool) -> None:
        """Give the content of ``out`` to the consumer (``OutputPluginWrite``). OutputPluginError,
        and nothing is written, without :meth:`prepare_write` (rule E7), or if declared text is none
        (rule E10).
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
        self.writer.update_progress(self.write_location, self.write_xid, skipped_xact)

    def origin_name(self, origin_id: int) -> str | None:
        return self.origins.get(origin_id)

    def register_invalidation_callback(self, callback: Callable[[Invalidation], None]) -> None:
        """Have a function called when a change of catalogs is replayed, and again when its
        transaction ends (``CacheRegisterRelcacheCallback``, ``CacheRegisterSyscacheCallback``,
        rules A24, B7).
        """
        self._invalidation_callbacks.append(callback)

    def invalidate(self, invalidation: Invalidation) -> None:
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
