"""Wakes a ``subscriber run`` of the same machine after a command.

::

    command ──commit──▶ target     command ──touch──▶ folder of journals ◀──a look every 20 ms── subscriber run
                          └──────────────────── read at once ◀───────────────────────────────────┘

As PostgreSQL wakes its launcher at the commit of CREATE and ALTER SUBSCRIPTION. A run that is not
woken, on another machine or with another folder of journals, reads the catalog within a second
anyway. A journal that is created or removed changes the folder, too, and costs one more read.
*Rejected:* NOTIFY, which only PostgreSQL targets have, and which needs a connection that is always
open; and a file of its own, which would stay when the last subscription has been dropped.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from subscriber.settings import Settings


def watched_folder(settings: Settings) -> Path | None:
    """The folder whose time wakes a run; None if the journals are not in a local folder."""
    base = settings.journal.removeprefix("file://")
    return None if not base or "://" in base else Path(base)


def wake_run(settings: Settings) -> None:
    """Wake a run that keeps its journals in the same folder. If the folder does not exist, nobody
    is to be woken.
    """
    folder = watched_folder(settings)
    if folder is not None:
        with contextlib.suppress(OSError):
            os.utime(folder)
