"""Setting an event by a signal, whatever the main thread is doing.

Python runs the handler of a signal in the main thread, between two instructions. A handler that
sets an event has two faults:

- It comes late, or never: no handler runs while the main thread is in the code of a library, such
  as a database driver that waits for its server.
- It may wait forever: the lock of an event is not reentrant, and the main thread may hold it,
  inside ``event.wait`` or ``event.set``.

Therefore a separate thread sets the event. Python writes the number of each signal to a pipe as
soon as the signal arrives (``signal.set_wakeup_fd``), and the thread reads the pipe.
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
    """Set an event soon after one of the signals arrives. The main thread calls this once.

    ``again`` is called in the handler for each signal that arrives after the first one or after the
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
