"""Reads the subscriptions and the states of their tables from the catalog, a few times a second,
for the supervisor.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from subscriber import catalog
from subscriber.catalog import ApplyHold, KeptStates, Subscription, TableStates
from subscriber.errors import SubscriberError, TargetUnavailable
from subscriber.targets import Target

logger = logging.getLogger(__name__)

Wanted = Mapping[int, tuple[Subscription, TableStates]]
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
    """Reads the catalog again and again, with a pause in between that depends on how long a read
    takes. If the target has files that show whether something was committed, the catalog is read
    only after that. A command on the same machine makes the next read due at once.

    Args:
        target: the target that contains the catalog.
        seconds: the longest pause between two reads.
        wake_folder: a folder whose change makes the next read due
            (:mod:`subscriber.commands.wake`); None if there is none.

    Attributes:
        subscriptions: all subscriptions, including disabled ones, as of the last successful read.
        holds: the holds of the apply by the number of the subscription, as of the same read.
        looks: the number of successful reads.
        failed_looks: the number of failed reads since the last successful one.
    """

    def __init__(self, target: Target, seconds: float, wake_folder: Path | None = None) -> None:
        self.subscriptions: Sequence[Subscription] = ()
        self.holds: Mapping[int, ApplyHold] = {}
        self.looks = 0
        self.failed_looks = 0
        self._target = target
        self._seconds = seconds
        self._woken_by = () if wake_folder is None else (wake_folder,)
        self._woken = _file_state(self._woken_by)
        self._next_look = 0.0
        self._unchanged: FileState = ()
        self._states = KeptStates()
        self._has_said_why_not = False

    def look(self) -> Wanted | None:
        """Return the enabled subscriptions; None if the next read is not due yet, if nothing has
        changed since the last one, or if the catalog cannot be read now.

        Raises:
            SubscriberError: the very first read has failed.
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
            if not self.looks:
                raise
            self.failed_looks += 1
            self._say_once(error)
            return None
        else:
            self.looks += 1
            self.failed_looks = 0
            self._has_said_why_not = False
            self._unchanged = state if _is_settled(state) else ()
            return wanted
        finally:
            now = time.monotonic()
            self._next_look = now + min(self._seconds, max(_LEAST_SECONDS, (now - began) * _READS_IN_PAUSE))

    def is_due(self) -> bool:
        """Return whether :meth:`look` would read the catalog now. For files this takes 10 µs."""
        if _file_state(self._woken_by) != self._woken:
            return True
        if time.monotonic() < self._next_look:
            return False
        return not self._unchanged or _file_state(self._target.files) != self._unchanged

    def look_soon(self) -> None:
        """Make the next call of :meth:`look` read the catalog."""
        self._next_look = 0.0
        self._unchanged = ()

    def _read(self) -> Wanted:
        with self._target.reporting(), self._target.engine.connect() as connection:
            self.subscriptions = catalog.list_subscriptions(connection)
            self.holds = catalog.read_holds(connection)
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
    """Whether a change after this moment gives another state. The clock of the file system may tick
    only every few milliseconds.
    """
    newest = max((changed for _, changed in filter(None, state)), default=0)
    return newest < (time.time() - _SETTLED_SECONDS) * 1e9
