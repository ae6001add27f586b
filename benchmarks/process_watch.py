"""What the processes of a measurement use: processor time by part, and peak memory (Linux only).

::

    this process ─┬─ publisher ── walsender                            walsender, publisher
                  ├─ subscriber ─┬─ JVM                                driver, jvm
                  │  (driver)    └─ fork server ─┬─ daemons ─ workers  workers
                  │                              └─ walreceivers       receiver
                  └─ the target's server                               target

The parts are told apart by their command lines and names. Memory of Python is the proportional set
size: what forked processes share counts once. It is added up over all Python processes at the same
moment; the peak is the greatest sum. The time of a process that ends between two looks is lost
after the last look.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from subscriber.worker import RECEIVER_NAME

_INTERVAL: Final = 0.25
_MEMORY_INTERVAL: Final = 1.0
"""Memory is looked at less often: to add up what a process shares takes the kernel milliseconds, in
which the process cannot map memory.
"""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
PYTHON_PARTS: Final = frozenset({"driver", "receiver", "workers"})


@dataclass(slots=True)
class Usage:
    """What the processes have used between two moments.

    Attributes:
        seconds: the elapsed time.
        cpu_seconds: processor time by part.
        python_mib: the greatest sum of the memory of Python processes.
        jvm_mib: the greatest resident size of the JVM.
    """

    seconds: float = 0.0
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    python_mib: float = 0.0
    jvm_mib: float = 0.0


class ProcessWatch:
    """Watches processes and their descendants while the ``with`` block runs.

    Args:
        roots: the part of each root process, by process ID. ``driver`` and ``publisher`` are split
            further.

    Attributes:
        usage: what was used; complete after the block.
    """

    def __init__(self, roots: Mapping[int, str]) -> None:
        self.usage = Usage()
        self._roots = roots
        self._first: dict[int, float] = {}
        self._last: dict[int, tuple[str, float]] = {}
        self._next_memory = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._first = {pid: used for pid, (_, used) in self._last.items()}
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()
        self.usage.seconds = time.monotonic() - self._began
        for pid, (part, used) in self._last.items():
            spent = used - self._first.get(pid, 0.0)
            self.usage.cpu_seconds[part] = self.usage.cpu_seconds.get(part, 0.0) + spent

    def _watch(self) -> None:
        while not self._stop.wait(_INTERVAL):
            self._look()

    def _look(self) -> None:
        python = jvm = 0.0
        now = time.monotonic()
        looks_at_memory = now >= self._next_memory
        if looks_at_memory:
            self._next_memory = now + _MEMORY_INTERVAL
        for pid, root in descendants(self._roots).items():
            # A process may end at any moment.
            with contextlib.suppress(OSError, ValueError, IndexError):
                part = part_of(root, *command_of(pid))
                self._last[pid] = part, processor_seconds(Path(f"/proc/{pid}/stat").read_text())
                if not looks_at_memory:
                    continue
                if part in PYTHON_PARTS:
                    python += mebibytes(Path(f"/proc/{pid}/smaps_rollup").read_text(), "Pss")
                elif part == "jvm":
                    jvm += mebibytes(Path(f"/proc/{pid}/status").read_text(), "VmRSS")
        self.usage.python_mib = max(self.usage.python_mib, python)
        self.usage.jvm_mib = max(self.usage.jvm_mib, jvm)


def command_of(pid: int) -> tuple[list[str], str]:
    """The words of a process's command line, and the name of the process."""
    place = Path(f"/proc/{pid}")
    words = (place / "cmdline").read_text(errors="replace").split("\0")
    return words, (place / "comm").read_text(errors="replace").strip()


def part_of(root: str, command: Sequence[str], name: str = "") -> str:
    """The part that a process belongs to.

    Args:
        root: the part of the process that it descends from.
        command: the words of its command line. PostgreSQL's processes have one word that says what
            they do.
        name: the name of the process; that of a walreceiver is not in its command line.
    """
    words = " ".join(command)
    if root == "publisher":
        return "walsender" if "walsender" in words else "publisher"
    if root == "driver":
        if Path(command[0]).name == "java":
            return "jvm"
        if name == RECEIVER_NAME:
            return "receiver"
        return "workers" if "pyspark" in words or "fork_server" in words else "driver"
    return root


def descendants(roots: Mapping[int, str]) -> dict[int, str]:
    """The processes ``roots`` and all their descendants, with the part of their root."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: dict[int, str] = {}
    queue = list(roots.items())
    while queue:
        pid, part = queue.pop()
        found[pid] = part
        queue += [(child, part) for child in children.get(pid, ())]
    return found


def process_with(words: str) -> int | None:
    """The first descendant of this process whose command line contains ``words``.

    A server's guard has the server's command line in its own, and is its parent.
    """
    for pid in sorted(descendants({os.getpid(): ""})):
        with contextlib.suppress(OSError):
            if pid != os.getpid() and words in Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace(
                "\0", " "
            ):
                return pid
    return None


def processor_seconds(stat: str) -> float:
    """The processor time of a process, from the text of its ``/proc/PID/stat``."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def tree_seconds(root: int) -> float:
    """The processor time of a process and its descendants, also of those that have ended: the
    process that has waited for one has its time.
    """
    seconds = 0.0
    for pid in descendants({root: ""}):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            seconds += sum(map(int, fields[11:15])) / _TICKS
    return seconds


def mebibytes(text: str, name: str) -> float:
    """The value of a line ``Name:  123 kB``, in MiB; 0 without such a line."""
    return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith(f"{name}:")), 0.0)
