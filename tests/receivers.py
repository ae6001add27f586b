"""``subscriber receive`` as a user starts it, in a process with a journal of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from subscriber.base.lsn import INVALID_LSN, MAX_LSN
from subscriber.stream.journal.browse import browse, list_journals
from tests.conftest import Database
from tests.crash.harness import COMMAND, PATIENCE, wait_until

TABLE = "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE PUBLICATION p FOR TABLE t"


@dataclass
class ReceiveCommand:
    """The command for slot ``<prefix>_<database>`` and publication ``p``; its journal is below
    ``folder``.
    """

    database: Database
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    prefix: str = "s"
    process: subprocess.Popen[bytes] | None = None

    @property
    def slot(self) -> str:
        return f"{self.prefix}_{self.database.name}"

    @property
    def journals(self) -> Path:
        return self.folder / "journals"

    @property
    def journal(self) -> str:
        (found,) = list_journals(str(self.journals))
        return found.url

    @property
    def log(self) -> Path:
        return self.folder / "receive.log"

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def arguments(self, *more: str, **options: str) -> list[str]:
        given = {"connection": self.database.conninfo, "slot": self.slot, "publication": "p", **options}
        return ["receive", *(word for name, value in given.items() for word in (f"--{name}", value)), *more]

    def environ(self) -> dict[str, str]:
        variables = {"SUBSCRIBER_JOURNAL": str(self.journals), "SUBSCRIBER_WAL_RETRIEVE_RETRY_INTERVAL": "100ms"}
        return {**os.environ, **variables, **self.environment}

    def call(self, *more: str, **options: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            [*COMMAND, *self.arguments(*more, **options)],
            env=self.environ(),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def start(self, *more: str, **options: str) -> None:
        """Start it in a process group of its own, as a terminal does."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, *self.arguments(*more, **options)],
                env=self.environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until it has logged ``text`` so often; fail if it ends before that."""
        process = self.process
        assert process is not None
        wait_until(lambda: process.poll() is not None or self.said().count(text) >= times, f"the log to say: {text}")
        assert self.said().count(text) >= times, self.said()[-3000:]

    def stop(self, number: signal.Signals) -> int:
        """Send a signal to the process group; returns the exit code."""
        assert self.process is not None
        os.killpg(self.process.pid, number)
        return self.process.wait(PATIENCE)

    def wait(self) -> int:
        """Wait until it has ended by itself; returns the exit code."""
        assert self.process is not None
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def changes(self) -> list[str]:
        """The changes that the journal has, in commit order."""
        lines = browse(self.journal, INVALID_LSN, MAX_LSN, show_values=True)
        return [line.description for line in lines if line.action in "IUDT"]
