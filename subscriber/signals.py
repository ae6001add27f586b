"""Setting an event by a signal, whatever the main thread is doing.

Python runs the handler of a signal in the main thread, between any two of its instructions. A
handler that sets an event has two faults:

- It comes late, or never: while the main thread is in the code of a library, for instance a
  database driver that waits for its server, no handler runs.
- It may wait forever. An event has a lock, and the lock is not reentrant. The main thread may hold
  it, inside ``event.wait`` or ``event.set``, and so may every other thread that uses the event.

Therefore the event is set by a separate thread. Python writes the number of each signal to a pipe
as soon as the signal arrives (``signal.set_wakeup_fd``), and the thread reads the pipe.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType


def set_by_signals(
    event: threading.Event, numbers: Sequence[signal.Signals], again: Callable[[int], None] = lambda _: None
) -> None:
    """Set an event when one of the signals arrives. Only the main thread may call this, and once.

    Args:
        event: is set soon after the first of the signals.
        numbers: the signals.
        again: called in the handler for each signal that arrives after the first one or after the
            event was set; it may raise, and must not take a lock.
    """
    arrived, arrives = os.pipe()
    handled: list[int] = []
    has_set: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if handled or (event.is_set() and not has_set):
            again(number)
        handled.append(number)

    def set_event() -> None:
        while (number := os.read(arrived, 1)[0]) not in numbers:
            pass  # another signal that Python handles
        if not event.is_set():
            has_set.append(number)
            event.set()

    threading.Thread(target=set_event, name="signals", daemon=True).start()
    for number in numbers:
        signal.signal(number, on_signal)
    os.set_blocking(arrives, False)
    signal.set_wakeup_fd(arrives, warn_on_full_buffer=False)
