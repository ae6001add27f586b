"""The history of the prompt: a file that only its owner can read, without passwords."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from subscriber.cli.secrets import without_secrets


def history_file(environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The file of the history, in the user's state folder or, on macOS, application data folder."""
    home = Path(environment.get("HOME") or Path.home())
    if platform == "darwin":
        state = home / "Library" / "Application Support"
    else:
        xdg = Path(environment.get("XDG_STATE_HOME") or "")
        state = xdg if xdg.is_absolute() else home / ".local" / "state"
    return state / "subscriber" / "sql_history"


def open_history(file: Path) -> History:
    """The history in ``file``, which is created if it does not exist.

    If the file cannot be created or written, the history is kept only until the prompt ends.
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
    """A history that stores in its file what was typed without secrets.

    Until the prompt ends, the history recalls the text as it was typed.
    """

    def store_string(self, string: str) -> None:
        kept = without_secrets(string)
        if kept is not None:
            try:
                super().store_string(kept)
            except OSError:
                pass  # the command runs even if the disk is full
