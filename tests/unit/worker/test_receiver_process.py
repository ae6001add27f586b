"""A walreceiver's process whose supervisor was killed ends, and prints nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest

from subscriber.stream.receive.walreceiver import ReceiverCounts
from subscriber.worker import receiver_process
from tests.assignments import assignment_to_nowhere


def process() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "subscriber.worker.receiver_process"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_receiver_ends_if_its_supervisor_was_killed_before_it_sent_the_assignment():
    answer = process().communicate(timeout=60)
    assert answer == ("", "")


def test_a_receiver_whose_supervisor_was_killed_ends_without_a_traceback(tmp_path):
    """The chaos test found it: a receiver that reported its state just then left a traceback in
    the log.
    """
    receiver = process()
    assert receiver.stdout is not None
    assert receiver.stdin is not None
    assert receiver.stderr is not None
    receiver.stdout.close()
    receiver.stdin.write(assignment_to_nowhere(tmp_path).to_json() + "\n")
    receiver.stdin.close()
    with receiver.stderr as said:
        assert said.read() == ""
    assert receiver.wait(60) == 1


def test_a_receiver_does_not_wait_for_a_supervisor_that_reads_no_entries(monkeypatch):
    """A supervisor that was stopped (SIGSTOP) must not stop the stream."""
    reads, writes = os.pipe()
    with open(reads, "rb"), open(writes, "w") as full:
        os.set_blocking(writes, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writes, b"\n" * 1024)
        os.set_blocking(writes, True)
        monkeypatch.setattr(sys, "stdout", full)
        receiver_process._emit("entry")
        os.read(reads, 1024 * 1024)
        receiver_process._emit("entry")
        assert os.read(reads, 64 * 1024) == b'{"event": "entry"}\n'


@pytest.mark.parametrize(("timeout", "quiet"), [(0.0, 5), (60.0, 5), (12.0, 3), (2.0, 1)])
def test_a_receiver_that_receives_nothing_gives_a_sign_of_life_less_often(timeout, quiet):
    """But often enough for its timeout."""
    counts, beats, waits = ReceiverCounts(), [], 0

    def wait(seconds: float) -> bool:
        nonlocal waits
        waits += 1
        counts.looped_at += seconds
        if waits == 12:
            counts.first_commit, counts.commit_lsn = 7, 0x100
        return waits == 14

    receiver_process.beat(
        wait, counts, lambda event, **fields: beats.append((waits, event, fields["first_commit"])), timeout
    )
    until = [1, *range(1 + quiet, 12, quiet), 12, *([13] if quiet == 1 else [])]
    assert beats == [(one, "beat", 7 if one == 12 else None) for one in until]
