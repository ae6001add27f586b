"""Setting an event by a signal, without a deadlock.

Python runs a signal's handler in the main thread, between any two of its instructions. An event has
a lock, which is not reentrant. A handler that sets the event while the main thread is inside
``event.wait`` or ``event.set`` waits for a lock that its own thread holds: for ever, and so does
every thread that looks at the event. So the handler only puts a number into a queue, which Python
documents as reentrant, and a thread of its own sets the event.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from types import FrameType


def set_by_signals(
    event: threading.Event, numbers: Sequence[signal.Signals], again: Callable[[int], None] = lambda _: None
) -> None:
    """Have signals set an event. Only the main thread may ask for that.

    Args:
        event: is set soon after the first of the signals.
        numbers: the signals.
        again: called in the handler with each signal that comes when there was one, or the event is
            set; it may raise, and must take no lock.
    """
    received: SimpleQueue[int] = SimpleQueue()
    has_received: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if has_received or event.is_set():
            again(number)
        has_received.append(number)
        received.put(number)

    def set_event() -> None:
        received.get()
        event.set()

    threading.Thread(target=set_event, name="signals", daemon=True).start()
    for number in numbers:
        signal.signal(number, on_signal)
