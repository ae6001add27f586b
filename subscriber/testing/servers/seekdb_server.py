"""A private server of OceanBase seekdb, which speaks MySQL's protocol: the program of the wheel
pylibseekdb.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Sequence
from pathlib import Path

from typing_extensions import override

from subscriber.base.errors import UsageError
from subscriber.testing.servers.mariadb_server import PrivateServer
from subscriber.testing.servers.processes import GuardedProcesses

_SETTINGS = ("memory_limit=1G", "datafile_size=64M", "log_disk_size=2G", "cpu_count=2")


class SeekDB(PrivateServer):
    """User ``root``, no password. The server has tables with names in lower case only."""

    name = "seekdb"

    def __init__(self) -> None:
        wheel = importlib.util.find_spec("pylibseekdb")
        if wheel is None or wheel.origin is None:
            raise UsageError("OceanBase seekdb is not installed", hint="Run: pip install pylibseekdb")
        self._installed = Path(wheel.origin).parent
        super().__init__("root")

    @override
    def _create(self, processes: GuardedProcesses) -> None:
        # Its own user may not read the folder of the wheel.
        for name in ("seekdb", "libaio.so.1"):
            shutil.copy(self._installed / name, processes.directory)

    @override
    def _command(self, folder: Path) -> Sequence[str | Path]:
        return [
            folder / "seekdb",
            "--nodaemon",
            f"--port={self._port}",
            f"--base-dir={folder / 'base'}",
            *(f"--parameter={setting}" for setting in _SETTINGS),
        ]
