"""Reads subscriptions and table states from the catalog for the supervisor, some times a second."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from subscriber.base.errors import SubscriberError, TargetUnavailable
from subscriber.catalog.leases import Lease, LeaseKind, read_leases
from subscriber.catalog.subscriptions import Subscription, list_subscriptions
from subscriber.catalog.table_states import CachedStates, TableStates
from subscriber.targets import Target

logger = logging.getLogger(__name__)

EnabledSubscriptions = Mapping[int, tuple[Subscription, TableStates]]
"""The enabled subscriptions with the states of their tables, by the number of the subscription."""


_LEAST_SECONDS: Final = 0.2
_READS_IN_PAUSE: Final = 200.0
"""A command should take effect soon, but reads should take only half a percent of the time. In
SQLite a read takes a third of a millisecond, in DuckDB, which opens its file for it, 20.
"""
_SETTLED_SECONDS: Final = 2.0
"""From this age on, the time of a file's last change is not that of a later change, too."""

FileState = tuple[tuple[int, int] | None, ...]
"""Size and time of the last change of each file; None for a file that does not exist."""


class CatalogWatch:
    """Reads the catalog again and again. The pause depends on how long a read takes, up to
    ``seconds``. If the target has files that show a commit, the catalog is read only after one. A
    change of ``wake_folder`` (:mod:`subscriber.commands.wake`) makes the next read due at once.

    ``subscriptions`` includes disabled ones. ``polls`` counts the successful reads,
    ``failed_polls`` those that failed since.
    """

    def __init__(self, target: Target, seconds: float, wake_folder: Path | None = None) -> None:
        self.subscriptions: Sequence[Subscription] = ()
        self.pauses: Mapping[int, Lease] = {}
        self.polls = 0
        self.failed_polls = 0
        self._target = target
        self._seconds = seconds
        self._woken_by = () if wake_folder is None else (wake_folder,)
        self._woken = _file_state(self._woken_by)
        self._next_poll = 0.0
        self._unchanged: FileState = ()
        self._states = CachedStates()
        self._has_said_why_not = False

    def poll(self) -> EnabledSubscriptions | None:
        """The enabled subscriptions; None if the next read is not due, nothing has changed, or the
        catalog cannot be read now. Only the error of the very first read is raised.
        """
        if not self.is_due():
            return None
        began = time.monotonic()
        self._woken = _file_state(self._woken_by)
        state = _file_state(self._target.files)
        self._unchanged = ()
        try:
            wanted = self._read()
        except SubscriberError as error:
            if not self.polls:
                raise
            self.failed_polls += 1
            self._say_once(error)
            return None
        else:
            self.polls += 1
            self.failed_polls = 0
            self._has_said_why_not = False
            self._unchanged = state if _is_settled(state) else ()
            return wanted
        finally:
            now = time.monotonic()
            self._next_poll = now + min(self._seconds, max(_LEAST_SECONDS, (now - began) * _READS_IN_PAUSE))

    def is_due(self) -> bool:
        """Whether :meth:`poll` would read the catalog now. For files this takes 10 µs."""
        if _file_state(self._woken_by) != self._woken:
            return True
        if time.monotonic() < self._next_poll:
            return False
        return not self._unchanged or _file_state(self._target.files) != self._unchanged

    def poll_soon(self) -> None:
        self._next_poll = 0.0
        self._unchanged = ()

    def _read(self) -> EnabledSubscriptions:
        with self._target.reporting(), self._target.engine.connect() as connection:
            self.subscriptions = list_subscriptions(connection)
            self.pauses = read_leases(connection, LeaseKind.PAUSE)
            return {
                subscription.subid: (subscription, self._states.read(connection, subscription))
                for subscription in self.subscriptions
                if subscription.enabled
            }

    def _say_once(self, error: SubscriberError) -> None:
        quiet = self._has_said_why_not or isinstance(error, TargetUnavailable)
        logger.log(logging.DEBUG if quiet else logging.WARNING, "the catalog cannot be read now: %s", error.message)
        self._has_said_why_not = True


def _file_state(files: Sequence[Path]) -> FileState:
    """The state of files before a read: a change during the read gives another state."""
    return tuple(map(_state_of, files))


def _state_of(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _is_settled(state: FileState) -> bool:
    """Whether a change after this moment gives another state: file systems' clocks are coarse."""
    newest = max((changed for _, changed in filter(None, state)), default=0)
    return newest < (time.time() - _SETTLED_SECONDS) * 1e9
