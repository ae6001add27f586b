"""The run lock: one process runs all subscriptions of a target (an optional role)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa


class RunLock(Protocol):
    """The lock that only one ``subscriber run`` holds on a target. It is released when the process
    ends.
    """

    def hold(self) -> AbstractContextManager[None]:
        """Hold the run lock while the block runs.

        Raises:
            AlreadyRunning: another run holds the run lock.
        """
        ...

    def is_held(self, connection: sa.Connection) -> bool | None:
        """Whether a run holds the run lock now; None if this cannot be determined."""
        ...
