"""The names of the callbacks, which of them a plugin has registered, and what it has declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

OutputType = Literal["binary", "textual"]
"""``OutputPluginOutputType``"""


@dataclass(slots=True)
class OutputPluginOptions:
    """What a plugin declares in ``startup``.

    Attributes:
        output_type: whether its output is text in the database's encoding (rule E10).
        receive_rewrites: whether it wants the rows that ALTER TABLE writes when it rewrites a
            table (rule E17).
    """

    output_type: OutputType = "binary"
    receive_rewrites: bool = False


CALLBACKS: Final = (
    "startup",
    "begin",
    "change",
    "truncate",
    "commit",
    "message",
    "filter_by_origin",
    "shutdown",
    "filter_prepare",
    "begin_prepare",
    "prepare",
    "commit_prepared",
    "rollback_prepared",
    "stream_start",
    "stream_stop",
    "stream_abort",
    "stream_prepare",
    "stream_commit",
    "stream_change",
    "stream_message",
    "stream_truncate",
)
"""The names of all callbacks, in the order of ``OutputPluginCallbacks``."""

REQUIRED: Final = ("begin", "change", "commit")
_STREAMING: Final = (
    "stream_start",
    "stream_stop",
    "stream_abort",
    "stream_commit",
    "stream_change",
    "stream_message",
    "stream_truncate",
)
_TWO_PHASE: Final = (
    "begin_prepare",
    "prepare",
    "commit_prepared",
    "rollback_prepared",
    "stream_prepare",
    "filter_prepare",
)

Callback = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class OutputPluginCallbacks:
    """The callbacks that a plugin has registered.

    Attributes:
        registered: the callbacks, by name.
    """

    registered: dict[str, Callback] = field(default_factory=dict)

    def get(self, name: str) -> Callback | None:
        """The callback of that name; None if the plugin does not have it."""
        return self.registered.get(name)

    @property
    def streaming(self) -> bool:
        """Whether the plugin can stream: it has one of seven callbacks, without stream_prepare
        (rule E3).
        """
        return any(name in self.registered for name in _STREAMING)

    @property
    def twophase(self) -> bool:
        """Whether the plugin can decode at PREPARE: it has one of six callbacks (rule E4)."""
        return any(name in self.registered for name in _TWO_PHASE)
