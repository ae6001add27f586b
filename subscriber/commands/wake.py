"""Wakes a ``subscriber run`` of the same machine after a command, by a change of the folder of
journals, which a run looks at every 20 ms. Then it reads the catalog at once, otherwise within a
second.

*Rejected:* NOTIFY, which only PostgreSQL targets have; and a file of its own, which would stay when
the last subscription has been dropped.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from subscriber.base.settings import Settings


def watched_folder(settings: Settings) -> Path | None:
    """The folder whose time wakes a run; None if the journals are not in a local folder."""
    base = settings.journal.removeprefix("file://")
    return None if not base or "://" in base else Path(base)


def wake_run(settings: Settings) -> None:
    """Wake a run that keeps its journals in the same folder; without the folder, nobody."""
    folder = watched_folder(settings)
    if folder is not None:
        with contextlib.suppress(OSError):
            os.utime(folder)
