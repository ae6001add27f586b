"""Frames that executors leave in files, for a driver on the same machine.

::

    executor    decode ──▶ frame ──▶ file ─────────────────────────────▶ mapped into memory    driver
                                       └ its name ──▶ JVM ──▶ its name ─┘  and removed

The JVM copies what passes it several times, and takes as much processor time for a frame as the
executor that decodes it. So only names pass it where the executors are threads of this machine
(``local[*]``), which is the default. The files are in the folder of the query. They live for a
moment, so that they are rarely written to the disk.

*Rejected:* shared memory (``/dev/shm``): in a container it often has 64 MB.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

import pyarrow as pa


def leave_frame(folder: Path, frame: bytes) -> str | None:
    """Write a frame into a file.

    Returns:
        The path of the file; None if it cannot be written, for instance because the disk is full.
    """
    path = folder / uuid.uuid4().hex
    try:
        path.write_bytes(frame)
    except OSError:
        path.unlink(missing_ok=True)
        return None
    return str(path)


def take_frame(path: str) -> memoryview:
    """Return the content of a file that :func:`leave_frame` wrote, and remove the file.

    Raises:
        OSError: the file cannot be read.
    """
    with pa.memory_map(path) as file:
        frame = memoryview(file.read_buffer())
    os.unlink(path)
    return frame


def remove_frames(folder: Path) -> None:
    """Remove the files that nobody has taken: of tasks that were cancelled or repeated."""
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
