"""Many small transactions, of which Begin and Commit are read as columns.

The changes between them are written in another order (:mod:`subscriber.apply.regrouping.regroup`).
So of each transaction only its bounds are left to read, and for thousands of transactions that
would take longer than to write their changes. The checks are those of
:mod:`subscriber.apply.transaction_bounds`. If one of them fails, nothing is read here, and the same
messages are then read one by one, with their errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from subscriber.lsn import LSN
from subscriber.protocol.controls import Controls

_BEGIN: Final = np.dtype([("type", "S1"), ("final_lsn", ">u8"), ("timestamp", ">i8"), ("xid", ">u4")])
_COMMIT: Final = np.dtype(
    [("type", "S1"), ("flags", "u1"), ("commit_lsn", ">u8"), ("end_lsn", ">u8"), ("timestamp", ">i8")]
)
_PAIR: Final = np.dtype([("begin", _BEGIN), ("commit", _COMMIT)])


@dataclass(frozen=True, slots=True)
class WholeTransactions:
    """Consecutive transactions that are to be applied.

    Attributes:
        size: how many there are.
        changes: how many changes they have.
        end_lsn: the end LSN of the last one.
        timestamp: the commit time of the last one (microseconds since 2000-01-01 UTC).
    """

    size: int
    changes: int
    end_lsn: LSN
    timestamp: int


def read_whole(controls: Controls, counts: NDArray[np.int64], applied: LSN, end: LSN) -> WholeTransactions | None:
    """The transactions of which these are the messages besides the changes.

    None if the messages are not Begin and Commit in turn, if one of the transactions is not to be
    applied, or if a message is wrong.

    Args:
        controls: the messages, after a Commit or at the beginning.
        counts: for each of them the number of changes between it and the control before it.
        applied: the applied LSN before the first transaction.
        end: no transaction may finish after this LSN.
    """
    pairs = _fields(controls)
    if pairs is None or np.any(counts[0::2]):
        return None
    begins, commits = pairs["begin"], pairs["commit"]
    final_lsns, end_lsns = begins["final_lsn"], commits["end_lsn"]
    before = np.concatenate((np.array([applied], np.uint64), end_lsns[:-1].astype(np.uint64)))
    fits = (
        (final_lsns != 0)
        & (commits["flags"] == 0)
        & (commits["commit_lsn"] == final_lsns)
        & (final_lsns >= before)
        & (end_lsns > before)
        & (end_lsns <= end)
    )
    if not np.all(fits):
        return None
    return WholeTransactions(len(begins), int(counts.sum()), LSN(int(end_lsns[-1])), int(commits["timestamp"][-1]))


def _fields(controls: Controls) -> NDArray[Any] | None:
    """The fields of Begin and Commit in turn; None if the messages are others, or if there are
    none.
    """
    if not len(controls) or len(controls) % 2:
        return None
    data, offsets = controls.buffers()
    sizes = np.diff(offsets)
    if np.any(sizes[0::2] != _BEGIN.itemsize) or np.any(sizes[1::2] != _COMMIT.itemsize):
        return None
    fields = data[offsets[0] : offsets[-1]].view(_PAIR)
    is_pair = (fields["begin"]["type"] == b"B") & (fields["commit"]["type"] == b"C")
    return fields if np.all(is_pair) else None
