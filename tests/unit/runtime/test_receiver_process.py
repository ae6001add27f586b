"""The walreceiver's process when its supervisor was killed: it ends, and says nothing to
anybody.
"""

from __future__ import annotations

import subprocess
import sys

from subscriber.runtime.receiver_process import Assignment


def process() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "subscriber.runtime.receiver_process"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_supervisor_that_was_killed_before_it_said_what_to_do_ends_the_receiver():
    answer = process().communicate(timeout=60)
    assert answer == ("", "")


def test_what_a_supervisor_that_was_killed_does_not_hear_is_no_error(tmp_path):
    """Found by a soak: a receiver that told of itself just then left a traceback in the log."""
    assignment = Assignment(
        subscription="s",
        conninfo="host=127.0.0.1 port=1 dbname=nowhere",
        slot="s",
        publications=("p",),
        streaming="off",
        two_phase=False,
        binary=False,
        origin="any",
        system_identifier="1",
        journal=str(tmp_path / "journal"),
        applied_lsn=1,
        messages=False,
    )
    receiver = process()
    assert receiver.stdout is not None
    assert receiver.stdin is not None
    assert receiver.stderr is not None
    receiver.stdout.close()
    receiver.stdin.write(assignment.to_json() + "\n")
    receiver.stdin.close()
    with receiver.stderr as said:
        assert said.read() == ""
    assert receiver.wait(60) == 1
