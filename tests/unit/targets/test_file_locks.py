"""The processes that hold a lock on a file, as the kernel lists them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import pytest

from subscriber.targets.file_locks import _writers, holders

LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, {kind})
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("1: POSIX  ADVISORY  WRITE 4711 08:01:1234 0 EOF", [(4711, (os.makedev(8, 1), 1234))]),
        ("2: OFDLCK ADVISORY  WRITE 12 fe:1f:7 100 200", [(12, (os.makedev(0xFE, 0x1F), 7))]),
        ("3: POSIX  ADVISORY  READ 4711 08:01:1234 0 EOF", []),
        ("1: -> POSIX  ADVISORY  WRITE 4711 08:01:1234 0 EOF", []),
        ("4: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF", []),
        ("", []),
    ],
    ids=["posix", "open file description", "read", "waits", "flock", "empty"],
)
def test_a_line_of_the_kernels_list_tells_who_writes_which_file(line, found):
    """https://man7.org/linux/man-pages/man5/proc_locks.5.html"""
    assert list(_writers(line)) == found


@pytest.mark.parametrize(("kind", "held"), [("fcntl.LOCK_EX", True), ("fcntl.LOCK_SH", False)])
@pytest.mark.parametrize("suffix", ["", "-shm"], ids=["database", "shared memory"])
def test_another_process_that_may_write_is_named(tmp_path, kind, held, suffix):
    for name in ("t.db", "t.db-shm"):
        (tmp_path / name).touch()
    command = [sys.executable, "-c", LOCK.format(kind=kind), str(tmp_path / f"t.db{suffix}")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        found = holders(str(tmp_path / "t.db"))
        other.communicate()
    assert [text.partition(" (")[0] for text in found] == ([f"process {other.pid}"] if held else [])


def test_the_own_process_and_a_missing_file_are_nobodys(tmp_path):
    assert holders(str(tmp_path / "missing.db")) == []
    with (tmp_path / "t.db").open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert holders(str(tmp_path / "t.db")) == []
