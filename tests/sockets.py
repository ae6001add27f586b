"""Finds the TCP sockets on which a process and its descendants listen, from Linux's /proc."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
from collections.abc import Iterator
from pathlib import Path

_LISTENS = "0A"


def descendants(pid: int) -> set[int]:
    """The process and all its descendants."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            # The name is in parentheses and may contain any character.
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def listening(pids: set[int]) -> set[str]:
    """The addresses on which these processes listen."""
    inodes = set().union(*map(sockets, pids))
    return {str(address) for address, inode in _sockets() if inode in inodes}


def sockets(pid: int) -> set[str]:
    """The inodes of a process's sockets."""
    inodes: set[str] = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor))
                inodes.update([found[1]] if found else [])
    return inodes


def _sockets() -> Iterator[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, str]]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS:
                yield _address(fields[1].partition(":")[0]), fields[9]


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address from the words of 32 bits that the kernel prints in the machine's byte order.

    >>> _address("0100007F"), _address("0000000000000000FFFF00000100007F")
    (IPv4Address('127.0.0.1'), IPv4Address('127.0.0.1'))
    """
    words = [text[start : start + 8] for start in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(bytes.fromhex(word)[::-1] for word in words))
    return getattr(address, "ipv4_mapped", None) or address
