"""When the commits were made that were received and may not be applied yet.

::

    beat of the receiver, once a second ──▶ mark: end of the last commit, time of the first commit since the last beat
    marks    ├──── 0/5A0, 12:00:03 ────┼──── 0/6C8, 12:00:04 ────┤
    applied                 ▲ the oldest commit that is not applied was made at 12:00:03 or up to a second later

A lag is computed from the first mark after the applied position, so it grows while nothing is
applied, although nothing new is received. The number of marks is bounded: if there are many, each
two become one.
"""

from __future__ import annotations

from typing import Final

_POSTGRESQL_EPOCH: Final = 946_684_800
_MOST_MARKS: Final = 512

Mark = tuple[int, float]
"""The end of a commit, and the commit time (seconds since 1970, by the publisher's clock) of that
commit or of an earlier one that was received after the mark before.
"""


class CommitMarks:
    """The thread of one receiver writes marks; any thread may read them without a lock."""

    def __init__(self) -> None:
        self._begin: int | None = None
        self._marks: tuple[Mark, ...] = ()

    def begin(self, received: int) -> None:
        """Say how much was received before the first mark, once."""
        if self._begin is None:
            self._begin = received

    def covers(self, applied: int) -> bool:
        """Whether the marks have all commits after ``applied``."""
        return self._begin is not None and applied >= self._begin

    def record(self, commit_lsn: int, first_commit: int | None, applied: int = 0) -> None:
        """Note the end of the last commit, and the time of the first one since the last call
        (microseconds since 2000-01-01 UTC; None if there was none). Marks up to the applied
        position are removed.
        """
        left = tuple(mark for mark in self._marks if mark[0] > applied)
        if first_commit is None:
            self._marks = left
            return
        marks = (*left, (commit_lsn, first_commit / 1e6 + _POSTGRESQL_EPOCH))
        if len(marks) > _MOST_MARKS:
            pairs = zip(marks[0::2], marks[1::2], strict=False)
            marks = (*((later[0], earlier[1]) for earlier, later in pairs), *marks[len(marks) // 2 * 2 :])
        self._marks = marks

    def oldest_after(self, applied: int) -> float | None:
        """When the oldest commit after ``applied`` was made, by the marks; None without one."""
        return next((moment for lsn, moment in self._marks if lsn > applied), None)
