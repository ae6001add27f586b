"""The supervisor's handle on a walreceiver process: start it, hear from it, end it."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import pickle
import subprocess
import sys
import threading
from typing import Final

from subscriber.errors import PublisherUnavailable, SubscriberError
from subscriber.interpreter import search_path
from subscriber.runtime.receiver_process import GO, Assignment

logger = logging.getLogger(__name__)

_END_SECONDS: Final = 5.0
"""How long a receiver has to finish what it writes before it is killed; the slot then sends it
again.
"""


class ReceiverProcess:
    """A running (or ended) walreceiver.

    Args:
        assignment: what it does.

    Attributes:
        ready: whether it holds the slot, and waits for :meth:`go`.
        streaming: whether it receives and confirms.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._name = assignment.subscription
        self._error: SubscriberError | None = None
        self.ready = False
        self.streaming = False
        # A session of its own: the terminal's Ctrl-C reaches the supervisor only, which ends it in
        # order.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "subscriber.runtime.receiver_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **search_path(os.environ)},
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(assignment.to_json() + "\n")
            self._process.stdin.flush()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def go(self) -> None:
        """Let it receive and confirm: the subscription is still the one that it was assigned."""
        self.ready = False
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended, which the next look finds
            self._process.stdin.write(GO)
            self._process.stdin.flush()

    def failure(self) -> SubscriberError:
        """Why it ended; a process that was killed is a transient failure."""
        self._listener.join(_END_SECONDS)
        return self._error or PublisherUnavailable(
            f'the walreceiver of subscription "{self._name}" ended with exit code {self._process.returncode}',
            hint="It is started again.",
        )

    def stop(self) -> None:
        """Close its stdin and wait; kill it when it does not end."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(_END_SECONDS)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            match event["event"]:
                case "ready":
                    self.ready = True
                case "streaming":
                    self.streaming = True
                    logger.info('walreceiver of subscription "%s" streams from %s', self._name, event["start"])
                case "warning":
                    logger.warning('subscription "%s": %s', self._name, event["message"])
                case "error":
                    self._error = pickle.loads(base64.b64decode(event["error"]))  # noqa: S301 - from our own child
        self._process.stdout.close()
