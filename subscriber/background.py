"""Work in a thread beside a block, until the block ends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def in_background(name: str, work: Callable[[threading.Event], object], patience: float) -> Iterator[None]:
    """Run ``work`` in a thread while the block runs.

    Args:
        name: the name of the thread.
        work: called with an event that is set when the block ends; then it must return soon.
        patience: how many seconds the end of the block waits for ``work`` to return. After that the
            thread is left to itself, and ends with the process at the latest.
    """
    end = threading.Event()
    thread = threading.Thread(target=work, args=(end,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(patience)
