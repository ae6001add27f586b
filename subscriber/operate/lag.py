"""How far a subscription is behind its publisher, at this moment, by the publisher's clock.

::

    publisher   ── asked at most every 10 s ──▶ WalEnd: its clock, the end of its WAL
    journal     ── in memory ─────────────────▶ Reach: received, last entry, applied
    receiver    ── once a second ─────────────▶ Reach, and marks: when the commits were made that were received

    something is received and not applied  ──▶ the age of the oldest of these commits; it grows by itself
    everything received is applied         ──▶ 0, if that reaches the end of the WAL at a recent moment
    otherwise                              ──▶ None: the publisher may have commits of any age

A value is computed when it is asked for, so it never keeps an old value: if the publisher does not
answer, the last moment becomes too old to prove anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.base.reach import Reach
from subscriber.worker.commit_marks import CommitMarks

RECENT_SECONDS: Final = 25.0
"""How long an answer of the publisher says something about now: two samples and a half."""


@dataclass(frozen=True, slots=True)
class WalEnd:
    """An answer of the publisher: when (seconds since 1970, by its clock), and the end of its WAL.
    ``offset`` is by how much its clock is ahead of this machine's.
    """

    at: float
    offset: float
    lsn: LSN


@dataclass(frozen=True, slots=True)
class Backlog:
    """When the oldest commit was made that is not applied, as it was last read from the journal."""

    committed: float


def lag_seconds(
    now: float, reach: Reach, moments: Sequence[WalEnd], marks: CommitMarks, backlog: Backlog | None = None
) -> float | None:
    """The age of the oldest commit that is not applied; 0 if it is proven that there is none, None
    if it is not known. ``now`` is this machine's clock; ``moments`` are ordered by time.
    """
    if not moments:
        return None
    at_publisher = now + moments[-1].offset
    if reach.waits:
        oldest = _oldest(reach.applied, marks, backlog)
        return None if oldest is None else max(0.0, at_publisher - oldest)
    proven = next((one.at for one in reversed(moments) if reach.position >= one.lsn), None)
    return 0.0 if proven is not None and at_publisher - proven <= RECENT_SECONDS else None


def lag_bytes(now: float, reach: Reach, moments: Sequence[WalEnd]) -> int | None:
    """The bytes of WAL from the end of the publisher's WAL to what was received, plus what is
    received and not applied; None if the publisher has not answered recently.
    """
    if not moments or now + moments[-1].offset - moments[-1].at > RECENT_SECONDS:
        return None
    known = max(reach.received, reach.applied)
    return None if known == INVALID_LSN else max(0, moments[-1].lsn - known) + reach.lag_bytes


def _oldest(applied: LSN, marks: CommitMarks, backlog: Backlog | None) -> float | None:
    """The journal is asked about what was received before this process began. Its answer may be
    some seconds old, and the commit may be applied meanwhile; then the next one is not older.
    """
    if marks.covers(applied):
        return marks.oldest_after(applied)
    return None if backlog is None else backlog.committed
