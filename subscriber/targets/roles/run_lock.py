"""The run lock: one process runs all subscriptions of a target (an optional role)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa


class RunLock(Protocol):
    """A lock that ends with the process that holds it."""

    def hold(self) -> AbstractContextManager[None]:
        """Own the target as its only runner while the block runs.

        Raises:
            AlreadyRunning: another runner owns it.
        """
        ...

    def is_held(self, connection: sa.Connection) -> bool | None:
        """Whether a runner owns the target now; None where nobody can tell."""
        ...
