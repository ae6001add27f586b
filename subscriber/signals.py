"""Setting an event by a signal, without a deadlock.

Python runs the handler of a signal in the main thread, between any two of its instructions. An
event has a lock, and the lock is not reentrant. A handler that sets the event while the main thread
is inside ``event.wait`` or ``event.set`` waits for a lock that its own thread holds. It waits
forever, and so does every other thread that uses the event. Therefore the handler only puts a
number into a ``SimpleQueue``, which Python documents as reentrant, and a separate thread sets the
event.
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
    """Set an event when one of the signals arrives. Only the main thread may call this.

    Args:
        event: is set soon after the first of the signals.
        numbers: the signals.
        again: called in the handler for each signal that arrives after the first one or after the
            event was set; it may raise, and must not take a lock.
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
