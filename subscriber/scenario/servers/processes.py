"""Commands that end with this process, run as a user that may run a database server."""

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
"""The users that a server is run as if this process is root: PostgreSQL's users on Debian and
macOS, then the user that :func:`server_user` creates.
"""


@dataclass(frozen=True, slots=True)
class SystemUser:
    """A user of this machine.

    Attributes:
        name: its name.
        uid: the user ID of its processes.
        gid: the group ID of its processes.
    """

    name: str
    uid: int
    gid: int


def server_user() -> SystemUser | None:
    """The user that servers are run as. None: the current user.

    PostgreSQL refuses to run as root. If this process is root, the result is the first user in
    `SERVER_USERS` that exists, else a new system user ``subscriber``, else ``nobody``.
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
    """A TCP port on the loopback address on which no process is listening now.

    Another process may take the port before it is used.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class GuardedProcesses:
    """Commands that run under a guard, and the private directory in which they work.

    The directory has a short path, because names of sockets are limited to about 100 bytes. It
    belongs to the server's user. It is removed by `close`, when the object is collected, or by the
    guard when this process ends. The commands write their output to the file ``log`` in it.
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
        """Whether the command of the last `spawn` is running."""
        return self._guard is not None and self._guard.poll() is None

    def hand_over(self, *paths: Path) -> None:
        """Make the server's user the owner of files or directories."""
        if self.user is not None:
            for path in paths:
                os.chown(path, self.user.uid, self.user.gid)

    def spawn(self, command: Sequence[str | Path], *, stop_signal: str = "SIGTERM") -> None:
        """Start a command under a guard. If this process ends, `stop_signal` ends the command."""
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
        """Send a signal to the running command, by its name (``SIGINT``).

        Nothing happens if the command has ended.
        """
        if self._guard is not None and self._guard.stdin is not None and self.is_running():
            try:
                self._guard.stdin.write(name.encode("ascii") + b"\n")
                self._guard.stdin.flush()
            except BrokenPipeError:
                pass  # the command has ended by itself, so it needs no signal

    def wait(self, timeout: float) -> int:
        """Wait for the end of the command.

        Returns:
            The exit code of the command. It is 128 + n if signal n has ended the command.

        Raises:
            subprocess.TimeoutExpired: the command has not ended within ``timeout`` seconds.
        """
        if self._guard is None:
            return 0
        code = self._guard.wait(timeout)
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            self._guard.stdin.close()
        return code

    def run(self, command: Sequence[str | Path], timeout: float) -> int:
        """Run a command to its end under a guard, and return its exit code.

        Raises:
            subprocess.TimeoutExpired: the command has not ended within ``timeout`` seconds.
        """
        self.spawn(command)
        return self.wait(timeout)

    def end(self, signals: Sequence[str], patience: float) -> None:
        """End the command: send each signal in turn and wait ``patience`` seconds after each.

        The last signal is SIGKILL.
        """
        for name in (*signals, "SIGKILL"):
            self.signal(name)
            try:
                self.wait(patience)
            except subprocess.TimeoutExpired:
                continue
            return

    def last_lines(self, count: int = 20) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def close(self) -> None:
        """Remove the directory. The command must have ended."""
        self._remove()


def _lookup(name: str) -> SystemUser | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return SystemUser(name, entry.pw_uid, entry.pw_gid)


def _short_temporary_directory() -> str | None:
    # The temporary folder of macOS (/var/folders/…) has a long path, and another user cannot use
    # it.
    return "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else None


def _server_environment() -> Mapping[str, str]:
    # Variables such as libpq's (PGDATA, PGPORT, PGOPTIONS …) are meant for other servers of the
    # user.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "MYSQL", "MARIADB"))}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}
