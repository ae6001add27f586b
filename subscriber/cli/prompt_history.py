"""The prompt's history: a file that only its owner can read, and that never gets a password."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from subscriber.cli.secrets import without_secrets


def history_file(environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Where the history is kept: among the user's state, on macOS with the application's data."""
    home = Path(environment.get("HOME") or Path.home())
    if platform == "darwin":
        state = home / "Library" / "Application Support"
    else:
        xdg = Path(environment.get("XDG_STATE_HOME") or "")
        state = xdg if xdg.is_absolute() else home / ".local" / "state"
    return state / "subscriber" / "sql_history"


def open_history(file: Path) -> History:
    """The history in ``file``, which is made if need be.

    Where it cannot be made or written, the history lasts as long as the prompt.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError:
        return InMemoryHistory()
    return _PrivateHistory(str(file))


class _PrivateHistory(FileHistory):
    """Recalls what was typed as it was typed, until the prompt ends; the file gets it without
    secrets.
    """

    def store_string(self, string: str) -> None:
        kept = without_secrets(string)
        if kept is not None:
            try:
                super().store_string(kept)
            except OSError:
                pass  # a full disk is no reason to refuse the command
