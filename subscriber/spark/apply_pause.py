"""May this batch of a subscription be written now? Everything that may forbid it is in one place.

::

    entries      ──┬── 0/200 ──┬── 0/300 ──┬── 0/400 ──┬── 0/500 ──▶
    no limit       │           │           │           │  ▲ the next batch ends where the journal ends
    limit 0/350    │           │  ▲ here: the last entry that ends at or before the limit; then it waits
    limit 0/0      ▲ here: nothing is applied

    a batch:  with pause ──▶ nobody has closed it, no other batch is inside ──▶ the writer lock ──▶ allows(end)? ──▶ write

- A command sets the *limit* (:mod:`subscriber.worker.pausing`). The apply loop asks for it when it
  chooses the end of a batch. A batch never ends inside a transaction.
- Another thread of the worker *closes* the pause for a moment, when it needs the position of the
  loop to stay as it is. A lock would be enough if locks were fair. But under load the next batch
  would take the lock again before a waiting thread wakes up.
- A loop that has nothing to apply waits until it is *woken*: by another limit, by a receiver that
  has added an entry to the journal, by its end.
- The *writer lock* is shared by all subscriptions of a target that has one writer.

*Invariant.* The setter writes the limit, then checks for a running batch. A batch marks itself
running, then reads the limit. So one of them always sees the other, and nobody waits for a lock
while a batch runs.

*Rejected:* a limit that each batch reads in its transaction, one more query for each small one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from subscriber.base.lsn import LSN

WriterLock = contextlib.AbstractContextManager[object]
"""The right to write to the target. Only one thread holds it if the target has one writer."""


@dataclass(slots=True)
class TimedPause:
    """A pause that somebody has closed until ``until`` (monotonic seconds)."""

    until: float
    open: Callable[[], None]
    ended: bool = False

    def is_over(self) -> bool:
        """Whether it is still closed, and is to be opened now."""
        return not self.ended and time.monotonic() > self.until

    def end(self) -> None:
        self.ended = True
        self.open()


NO_PAUSE: Final = TimedPause(0.0, lambda: None, ended=True)


class ApplyPause:
    """The pause of one subscription's apply, which any thread may use."""

    def __init__(self, writer_lock: WriterLock | None = None) -> None:
        self._limit: LSN | None = None
        self._woken = threading.Event()
        self._writer_lock: WriterLock = writer_lock or contextlib.nullcontext()
        self._condition = threading.Condition()
        self._closings = 0
        self._busy = False
        self._busy_since = 0.0

    @property
    def limit(self) -> LSN | None:
        """The LSN up to which batches may go; None if there is no limit."""
        return self._limit

    @limit.setter
    def limit(self, limit: LSN | None) -> None:
        self._limit = limit
        self.wake()

    def wake(self) -> None:
        """Let the loop look again whether there is a batch that it may apply."""
        self._woken.set()

    def look(self) -> None:
        """Begin to look: a :meth:`wake` from now on ends the next :meth:`wait`."""
        self._woken.clear()

    def wait(self, seconds: float) -> None:
        """Wait until the loop is woken, for at most so many seconds."""
        self._woken.wait(seconds)

    def allows(self, end: LSN) -> bool:
        limit = self.limit
        return limit is None or end <= limit

    def __enter__(self) -> None:
        with self._condition:
            self._condition.wait_for(lambda: not self._closings and not self._busy)
            self._busy, self._busy_since = True, time.monotonic()
        try:
            self._writer_lock.__enter__()
        except BaseException:
            self._leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._writer_lock.__exit__(kind, error, traceback)
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._condition:
            self._busy = False
            self._condition.notify_all()

    @property
    def busy(self) -> bool:
        """Whether a batch is being applied, or waits for the writer lock."""
        return self._busy

    @property
    def busy_since(self) -> float | None:
        """Since when it is busy (monotonic seconds); None if it is not."""
        since = self._busy_since
        return since if self._busy else None

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Have no batch in progress during the block. Several threads may do so at a time."""
        with self._condition:
            self._closings += 1
        try:
            with self._condition:
                self._condition.wait_for(lambda: not self._busy)
            yield
        finally:
            with self._condition:
                self._closings -= 1
                self._condition.notify_all()

    @contextlib.contextmanager
    def closed_at_first(self, seconds: float) -> Iterator[TimedPause]:
        """Do as :meth:`closed` for about ``seconds``. The caller looks whether it is over."""
        with contextlib.ExitStack() as closed:
            closed.enter_context(self.closed())
            yield TimedPause(time.monotonic() + seconds, closed.close)
