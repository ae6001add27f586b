"""Replacing a file as a whole: a reader sees the old content or the new one, also after a crash."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path


def replace_file(path: Path, content: bytes, *, durable: bool = False, mode: int = 0o600) -> None:
    """Replace the content of a file, or create it; after an OSError it has its old content.

    The new file is written beside the old one, under a name that ends in ``.tmp``, and renamed. It
    is never written through a file or a link that somebody else has put there. ``durable``: content
    and name are on the disk when this returns. ``mode`` is less the umask.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with open(_create(temporary, mode), "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
        if durable:
            sync_folder(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _create(path: Path, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(path, flags, mode)
    except FileExistsError:
        path.unlink()  # of a process with the same number that was killed
        return os.open(path, flags, mode)


def sync_folder(folder: Path) -> None:
    """Make the names of a folder's files durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
