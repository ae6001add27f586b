"""subscriber.failpoints: armed by a closed list of names, and nothing at all otherwise."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from subscriber import failpoints
from subscriber.errors import UsageError


@pytest.fixture
def armed():
    def arm(text):
        failpoints.arm({failpoints.ENVIRONMENT: text})

    yield arm
    failpoints.arm(os.environ)


def test_a_failpoint_that_is_not_armed_does_nothing(armed):
    armed("")
    for name in failpoints.FAILPOINTS:
        failpoints.hit(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("journal.rnename.before=kill", 'unknown failpoint "journal.rnename.before"'),
        ("feedback.before=explode", 'unknown failpoint action "explode"'),
        ("feedback.before", 'unknown failpoint action ""'),
        ("feedback.after=kill,nope=kill", 'unknown failpoint "nope"'),
    ],
)
def test_a_typo_is_an_error_and_not_a_test_that_cannot_fail(text, message):
    with pytest.raises(UsageError) as caught:
        failpoints.parse(text)
    assert caught.value.message == message


def test_enospc_is_a_full_disk(armed):
    armed("journal.sync.before=enospc")
    with pytest.raises(OSError, match="No space left") as caught:
        failpoints.hit("journal.sync.before")
    assert caught.value.errno == errno.ENOSPC


def test_a_failpoint_can_wait_for_its_nth_pass(armed):
    armed("journal.sync.before=enospc@3, feedback.before=enospc")
    failpoints.hit("journal.sync.before")
    failpoints.hit("journal.sync.before")
    with pytest.raises(OSError, match="failpoint"):
        failpoints.hit("journal.sync.before")


def test_a_failpoint_with_a_file_fires_once(armed, tmp_path):
    once = tmp_path / "once"
    armed(f"feedback.after=enospc:{once}")
    with pytest.raises(OSError, match="failpoint"):
        failpoints.hit("feedback.after")
    assert once.exists()
    failpoints.hit("feedback.after")


def test_kill_is_sigkill_in_a_process_armed_by_its_environment():
    """Invariant any_crash: nothing runs after a kill, no handler and no finally."""
    code = (
        "from subscriber import failpoints\n"
        "try:\n    failpoints.hit('target.commit.before')\n"
        "finally:\n    print('survived')"
    )
    environment = os.environ | {failpoints.ENVIRONMENT: "target.commit.before=kill"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == ""
