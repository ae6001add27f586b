"""Commands that end with us, as a user that may run a database server."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GUARD: Final = Path(__file__).with_name("guard.py")

SERVER_USERS: Final = ("postgres", "_postgres", "subscriber")
"""Users to run a server as when we are root: PostgreSQL's own on Debian and macOS, then the one
that we create.
"""


@dataclass(frozen=True, slots=True)
class SystemUser:
    """A user of this machine: its name, and the ids that a process started for it gets."""

    name: str
    uid: int
    gid: int


def server_user() -> SystemUser | None:
    """The user to start servers as: None (ourselves) unless we are root, whom PostgreSQL refuses.

    As root, the first of `SERVER_USERS` that exists; else a new system user ``subscriber``; else
    ``nobody``.
    """
    if os.geteuid() != 0:
        return None
    for name in SERVER_USERS:
        if user := _lookup(name):
            return user
    if useradd := shutil.which("useradd", path="/usr/sbin:/sbin:" + os.defpath):
        subprocess.run([useradd, "--system", "--no-create-home", "subscriber"], check=False, capture_output=True)
    return _lookup("subscriber") or _lookup("nobody")


def free_port() -> int:
    """A TCP port on loopback that nobody listens on now (somebody may take it before it is
    used).
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class GuardedProcesses:
    """Commands that run under a guard, and the private directory they work in.

    The directory has a short path (socket names are limited to about 100 bytes), belongs to the
    server's user, and is removed by `close`, when the object is collected, or by the guard when
    this process dies. Output of the commands goes to ``log`` in it.
    """

    def __init__(self, name: str) -> None:
        self.user = server_user()
        self.directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_short_temporary_directory()))
        self.log = self.directory / "log"
        self.log.touch()
        self.hand_over(self.directory, self.log)
        self._remove = weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)
        self._guard: subprocess.Popen[bytes] | None = None

    def is_running(self) -> bool:
        """Whether the command of the last `spawn` is still there."""
        return self._guard is not None and self._guard.poll() is None

    def hand_over(self, *paths: Path) -> None:
        """Give files or directories of ours to the server's user."""
        if self.user is not None:
            for path in paths:
                os.chown(path, self.user.uid, self.user.gid)

    def spawn(self, command: Sequence[str | Path], *, stop_signal: str = "SIGTERM") -> None:
        """Start a command under a guard; `stop_signal` is what ends it when this process dies."""
        identity = () if self.user is None else (f"--uid={self.user.uid}", f"--gid={self.user.gid}")
        guard = [sys.executable, "-I", str(GUARD), f"--log={self.log}", f"--stop={stop_signal}"]
        self._guard = subprocess.Popen(
            [*guard, f"--remove={self.directory}", *identity, "--", *map(str, command)],
            stdin=subprocess.PIPE,
            cwd=self.directory,
            env=_server_environment(),
            start_new_session=True,
        )

    def signal(self, name: str) -> None:
        """Send the running command a signal by its name (``SIGINT``); nothing happens when it has
        ended.
        """
        if self._guard is not None and self._guard.stdin is not None and self.is_running():
            try:
                self._guard.stdin.write(name.encode("ascii") + b"\n")
                self._guard.stdin.flush()
            except BrokenPipeError:
                pass  # it ended by itself in this moment, which is what signals are sent for

    def wait(self, timeout: float) -> int:
        """The exit code of the command, once it has ended (128 + n for signal n).

        Raises:
            subprocess.TimeoutExpired: it has not within ``timeout`` seconds.
        """
        if self._guard is None:
            return 0
        code = self._guard.wait(timeout)
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            self._guard.stdin.close()
        return code

    def run(self, command: Sequence[str | Path], timeout: float) -> int:
        """Run a command to its end under a guard and return its exit code; raises as `wait`
        does.
        """
        self.spawn(command)
        return self.wait(timeout)

    def end(self, signals: Sequence[str], patience: float) -> None:
        """End the command: each signal in turn, with ``patience`` seconds after each, and SIGKILL
        after the last.
        """
        for name in (*signals, "SIGKILL"):
            self.signal(name)
            try:
                self.wait(patience)
            except subprocess.TimeoutExpired:
                continue
            return

    def last_lines(self, count: int = 20) -> str:
        """The end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def close(self) -> None:
        """Remove the directory; the command must have ended."""
        self._remove()


def _lookup(name: str) -> SystemUser | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return SystemUser(name, entry.pw_uid, entry.pw_gid)


def _short_temporary_directory() -> str | None:
    # macOS's own (/var/folders/…) is private to the user, long, and of no use to another user.
    return "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else None


def _server_environment() -> Mapping[str, str]:
    # libpq's variables (PGDATA, PGPORT, PGOPTIONS …) are for the user's own servers.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "MYSQL", "MARIADB"))}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}
