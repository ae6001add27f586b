"""A walreceiver process that is started before it is needed.

A new receiver needs most of a second to import its modules, and a few milliseconds to connect. So
the supervisor keeps one process that has imported them and waits for an assignment. It becomes the
receiver of the next subscription that is enabled, or that has lost its receiver::

    start ──▶ wait for an assignment ──take──▶ receive          _PAUSE_SECONDS later another process is started

*Rejected:* to fork receivers from one process that has imported the modules. A process in which a
library has started threads cannot be forked safely.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import Final

from subscriber.interpreter import search_path

_PAUSE_SECONDS: Final = 10.0
"""How long the supervisor waits before it replaces a process that was taken. The import must not
delay a subscription that has just begun.
"""


class SpareReceiver:
    """At most one process that waits for an assignment. Only the supervisor's thread uses it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._taken_at = time.monotonic()

    def keep(self) -> None:
        """Start a process, if none waits and the last one was not taken just now."""
        if self._waiting() is None and time.monotonic() >= self._taken_at + _PAUSE_SECONDS:
            self._process = _start()

    def take(self) -> subprocess.Popen[str]:
        """The process that waits, or a new one; from now on it is the caller's."""
        process = self._waiting()
        self._process, self._taken_at = None, time.monotonic()
        return process or _start()

    def end(self) -> None:
        """End the process that waits."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)

    def _waiting(self) -> subprocess.Popen[str] | None:
        if self._process is not None and self._process.poll() is not None:
            _end(self._process)  # it was killed
            self._process = None
        return self._process


def _end(process: subprocess.Popen[str]) -> None:
    """Close the pipes, which tells the process to end, and wait for that."""
    with contextlib.suppress(OSError):
        process.communicate("")


def _start() -> subprocess.Popen[str]:
    # The process has a separate session, so that the terminal's Ctrl-C reaches only the supervisor,
    # which then ends the process in order.
    return subprocess.Popen(
        [sys.executable, "-m", "subscriber.runtime.receiver_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **search_path(os.environ)},
    )
