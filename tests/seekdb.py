"""A private server of OceanBase seekdb, which speaks MySQL's protocol: the program of the wheel
pylibseekdb.
"""

from __future__ import annotations

import importlib.util
import shutil
import time
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError
from typing_extensions import override

from subscriber.base.errors import TargetUnavailable, UsageError
from subscriber.testing.servers.mariadb_server import START_SECONDS, MariaDB
from subscriber.testing.servers.processes import GuardedProcesses, free_port

_SETTINGS = ("memory_limit=1G", "datafile_size=64M", "log_disk_size=2G", "cpu_count=2")
_STOP_SECONDS = 20.0


class SeekDB(MariaDB):
    """User ``root``, no password. The server has tables with names in lower case only."""

    def __init__(self) -> None:
        wheel = importlib.util.find_spec("pylibseekdb")
        if wheel is None or wheel.origin is None:
            raise UsageError("OceanBase seekdb is not installed", hint="Run: pip install pylibseekdb")
        self._installed = Path(wheel.origin).parent
        self._port = free_port()
        super().__init__(f"mysql+pymysql://root@127.0.0.1:{self._port}/?charset=utf8mb4")
        self._processes: GuardedProcesses | None = None

    @override
    def start(self) -> None:
        processes = self._prepared()
        if processes.is_running():
            return
        folder = processes.directory
        processes.spawn(
            [
                folder / "seekdb",
                "--nodaemon",
                f"--port={self._port}",
                f"--base-dir={folder / 'base'}",
                *(f"--parameter={setting}" for setting in _SETTINGS),
            ]
        )
        deadline = time.monotonic() + START_SECONDS
        while processes.is_running() and time.monotonic() < deadline:
            try:
                self.execute("SELECT 1")
            except SQLAlchemyError:
                time.sleep(0.1)
            else:
                return
        log = processes.last_lines()
        self.close()
        raise TargetUnavailable("OceanBase seekdb did not start", detail=f"The end of its log:\n{log}")

    @override
    def stop(self) -> None:
        if self._processes is not None:
            self._processes.end(["SIGTERM"], _STOP_SECONDS)

    def kill(self) -> None:
        """Kill the server. The next start recovers its data."""
        if self._processes is not None:
            self._processes.end(["SIGKILL"], _STOP_SECONDS)

    @override
    def close(self) -> None:
        self.stop()
        if self._processes is not None:
            self._processes.close()
            self._processes = None

    def _prepared(self) -> GuardedProcesses:
        if self._processes is None:
            self._processes = GuardedProcesses("seekdb")
            # Its own user may not read the folder of the wheel.
            for name in ("seekdb", "libaio.so.1"):
                shutil.copy(self._installed / name, self._processes.directory)
        return self._processes
