"""Large results of tasks in files, so that only their names pass the JVM.

This is possible where the executors are threads of this machine (``local[*]``, the default). Each
loop and each copy has a folder. *Rejected:* shared memory (``/dev/shm``): in a container it often
has 64 MB.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ResultFile:
    path: str


def write_result(folder: Path, content: bytes | pa.Buffer) -> ResultFile | None:
    """Write a result into a file; None if it cannot be written, for instance to a full disk."""
    path = folder / uuid.uuid4().hex
    try:
        path.write_bytes(content)
    except OSError:
        path.unlink(missing_ok=True)
        return None
    return ResultFile(str(path))


def read_result(file: ResultFile) -> memoryview:
    """Map the file of a result into memory, and remove it."""
    with pa.memory_map(file.path) as opened:
        content = memoryview(opened.read_buffer())
    os.unlink(file.path)
    return content


def remove_results(folder: Path) -> None:
    """Remove the files that nobody has read: of tasks that were cancelled or repeated."""
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
