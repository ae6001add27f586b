"""The supervisor's handle of a walreceiver process: starts it, reads its events, ends it."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import pickle
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Final

from subscriber.errors import PublisherUnavailable, SubscriberError
from subscriber.lsn import parse_lsn
from subscriber.runtime.publisher_notices import SkippedPublications
from subscriber.runtime.receiver_process import GO, Assignment

logger = logging.getLogger(__name__)

_END_SECONDS: Final = 5.0
"""How long a receiver may take to finish its current write before it is killed. If it is killed,
the slot sends the same data again.
"""


class ReceiverProcess:
    """A walreceiver process that runs or has ended.

    Args:
        assignment: what the walreceiver is to do.
        process: a process that waits for an assignment, see
            :class:`~subscriber.runtime.spare_receiver.SpareReceiver`.
        on_event: called in another thread after each event of the process, and after its end.
        hear: called in that thread with severity and text of each notice of the publisher.

    Attributes:
        ready: whether it holds the slot, and waits for :meth:`go`.
        streaming: whether it receives and confirms.
        server: host, port and version of the server that it streams from; None before it streams.
        skipped: publications that the publisher skips; it waits for :meth:`go` until that is
            recorded. None while it does not wait for that.
        heard_at: when the process gave the last sign of life (monotonic seconds).
    """

    def __init__(
        self,
        assignment: Assignment,
        process: subprocess.Popen[str],
        on_event: Callable[[], None] = lambda: None,
        hear: Callable[[str, str], None] = lambda _severity, _report: None,
    ) -> None:
        self._name = assignment.subscription
        self._error: SubscriberError | None = None
        self.ready = False
        self.streaming = False
        self.server: str | None = None
        self.skipped: SkippedPublications | None = None
        self.heard_at = time.monotonic()
        self._silence = 0.0
        self._hear = hear
        self._process = process
        self._on_event = on_event
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(assignment.to_json() + "\n")
            self._process.stdin.flush()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def running(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    @property
    def killed(self) -> bool:
        """Whether the process was killed because it gave no sign of life."""
        return self._silence > 0

    def go(self) -> None:
        """Let the process receive and confirm. The caller has checked that the subscription is
        unchanged, or has recorded that a publication is skipped.
        """
        self.ready, self.skipped = False, None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # the process has ended; the next look finds that
            self._process.stdin.write(GO)
            self._process.stdin.flush()

    def failure(self) -> SubscriberError:
        """Return why the process has ended; if it was killed, the error is transient."""
        self._listener.join(_END_SECONDS)
        if self._silence:
            return PublisherUnavailable(
                f'the walreceiver of subscription "{self._name}" gave no sign of life for {self._silence:.0f} s, and was killed',
                detail="It was stopped (SIGSTOP), or got no processor time.",
                hint="Another one is started. The limit is SUBSCRIBER_WAL_RECEIVER_TIMEOUT.",
            )
        return self._error or PublisherUnavailable(
            f'the walreceiver of subscription "{self._name}" ended with exit code {self._process.returncode}',
            hint="It is started again.",
        )

    def kill_silent(self, silence: float) -> None:
        """Kill the process, which has given no sign of life for so many seconds. This does not wait
        for its end.
        """
        logger.warning('the walreceiver of subscription "%s" gives no sign of life: it is killed', self._name)
        self._silence = silence
        self._process.kill()

    def stop(self) -> None:
        """Close the process's stdin and wait for its end; kill it if that takes too long."""
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
            self.heard_at = time.monotonic()
            match event["event"]:
                case "beat":
                    continue  # the supervisor is not woken
                case "ready":
                    self.ready = True
                case "streaming":
                    self.server = event["server"]
                    self.streaming = True
                    logger.info(
                        'walreceiver of subscription "%s" streams from %s of %s',
                        self._name,
                        event["start"],
                        self.server,
                    )
                case "warning":
                    logger.warning('subscription "%s": %s', self._name, event["message"])
                case "notice":
                    self._hear(event["severity"], event["report"])
                    if event["skipped"]:
                        self.skipped = SkippedPublications(tuple(event["skipped"]), parse_lsn(event["lsn"]))
                case "error":
                    self._error = pickle.loads(base64.b64decode(event["error"]))  # noqa: S301 - from our own child
            self._on_event()
        self._process.stdout.close()
        self._on_event()
