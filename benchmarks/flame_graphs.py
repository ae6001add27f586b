"""Flame graphs of the Python processes of a measurement, one for each part, by py-spy.

A part of several processes, such as Spark's workers, has a graph for each of them. py-spy stops a
process for each sample, so the times of a profiled measurement are not compared with others.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmarks.process_watch import PYTHON_PARTS, descendants, part_of

_INTERVAL: Final = 0.1
_WRITE_SECONDS: Final = 60.0
_SAMPLES_A_SECOND: Final = 100


def find_py_spy() -> str:
    """The program py-spy.

    Raises:
        FileNotFoundError: it is not installed.
    """
    beside = str(Path(sys.executable).parent)
    program = shutil.which("py-spy", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if program is None:
        raise FileNotFoundError("py-spy is not installed: python -m pip install '.[dev]'")
    return program


@contextlib.contextmanager
def flame_graphs(folder: Path | None, name: str, roots: Mapping[int, str]) -> Iterator[None]:
    """Write ``folder/name-part.svg`` for each part in the block; nothing if ``folder`` is None.

    Args:
        folder: is created if it does not exist.
        name: of the measurement; the second process of a part adds ``-2``.
        roots: the part of each root process, by process ID, as for a
            :class:`~benchmarks.process_watch.ProcessWatch`.
    """
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    recorders = _Recorders(find_py_spy(), folder, name, roots)
    thread = threading.Thread(target=recorders.watch, daemon=True)
    recorders.look()
    thread.start()
    try:
        yield
    finally:
        recorders.stop.set()
        thread.join()
        recorders.finish()


class _Recorders:
    """A py-spy for each Python process, also for those that start later."""

    def __init__(self, py_spy: str, folder: Path, name: str, roots: Mapping[int, str]) -> None:
        self.stop = threading.Event()
        self._command = [py_spy, "record", "--rate", str(_SAMPLES_A_SECOND)]
        self._folder = folder
        self._name = name
        self._roots = roots
        self._recorded: dict[int, str] = {}
        self._processes: list[subprocess.Popen[bytes]] = []

    def watch(self) -> None:
        while not self.stop.wait(_INTERVAL):
            self.look()

    def look(self) -> None:
        for pid, root in descendants(self._roots).items():
            if pid in self._recorded:
                continue
            with contextlib.suppress(OSError):  # a process may end at any moment
                part = part_of(root, Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0"))
                if part in PYTHON_PARTS:
                    self._record(pid, part)

    def _record(self, pid: int, part: str) -> None:
        number = 1 + sum(known == part for known in self._recorded.values())
        self._recorded[pid] = part
        ending = "" if number == 1 else f"-{number}"
        output = self._folder / f"{self._name}-{part}{ending}.svg"
        command = [*self._command, "--pid", str(pid), "--output", str(output)]
        self._processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def finish(self) -> None:
        """Have the graphs written. Without a sample, such as of a process that slept, there is
        none.
        """
        for process in self._processes:
            process.send_signal(signal.SIGINT)
        for process in self._processes:
            try:
                process.wait(_WRITE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
