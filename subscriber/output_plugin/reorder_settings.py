"""The settings of the server that the reorder buffer obeys, and what it counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from subscriber.errors import UsageError

_MEGABYTE: Final = 1 << 20

DidAbort = Callable[[int], bool]
"""Whether a transaction or subtransaction is known to have been rolled back (``pg_xact``)."""


def _nothing_aborted(_xid: int) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ReorderSettings:
    """The settings of the server.

    Attributes:
        logical_decoding_work_mem: the memory for changes, in bytes.
        debug_logical_replication_streaming: with ``immediate`` every change is streamed, or written
            to disk, at once (rule E6).
        did_abort: whether a transaction or subtransaction is known to be rolled back, although the
            record that says so was not read yet (rule E14).
    """

    logical_decoding_work_mem: int = 64 * _MEGABYTE
    debug_logical_replication_streaming: Literal["buffered", "immediate"] = "buffered"
    did_abort: DidAbort = field(default=_nothing_aborted, repr=False)

    def __post_init__(self) -> None:
        """Check the memory.

        Raises:
            UsageError: 22023, it is not positive.
        """
        if self.logical_decoding_work_mem <= 0:
            raise UsageError(
                f'invalid value for parameter "logical_decoding_work_mem": "{self.logical_decoding_work_mem}"',
                hint="It is a number of bytes, at least 1; a server takes 64kB or more.",
            )


@dataclass(slots=True)
class ReorderStatistics:
    """What became of large transactions (``pg_stat_replication_slots``)."""

    spill_txns: int = 0
    spill_count: int = 0
    spill_bytes: int = 0
    stream_txns: int = 0
    stream_count: int = 0
    stream_bytes: int = 0
