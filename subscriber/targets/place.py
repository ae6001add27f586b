"""File system obstacles that prevent a target's file from being opened."""

from __future__ import annotations

import os
from pathlib import Path


def obstacle(database: str) -> str | None:
    """The reason why the file system prevents opening a database file, as a sentence.

    None if no reason is found.

    Args:
        database: the file's path, as in the target's URL.
    """
    path = Path(database)
    folder = path.parent
    if not folder.exists():
        return f"There is no folder {folder}."
    if not folder.is_dir():
        return f"{folder} is not a folder."
    if path.is_dir():
        return f"{path} is a folder; a file is needed."
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        return f"{path} may not be read and written by this user."
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"This user may not create files in folder {folder}, and the database must."
    return None


def hint_at(obstacle: str, scheme: str) -> str:
    """A hint on how to remove the obstacle."""
    return f"{obstacle} Correct that, or the target URL: {scheme}:////absolute/path or {scheme}:///relative/path."
