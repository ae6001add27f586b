"""What a walreceiver's process is told, for tests of the process."""

from __future__ import annotations

from pathlib import Path

from subscriber.worker.receiver_process import Assignment
from tests.subscriptions import NOWHERE


def assignment_to_nowhere(folder: Path) -> Assignment:
    """To receive from a publisher that is not there, into a journal in ``folder``."""
    return Assignment(
        subscription="s",
        conninfo=NOWHERE,
        slot="s",
        publications=("p",),
        streaming="off",
        two_phase=False,
        binary=False,
        origin="any",
        system_identifier="1",
        journal=str(folder / "journal"),
        applied_lsn=1,
        messages=False,
    )
