"""Failpoints do nothing unless they are armed, and only known names can be armed."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from subscriber.base import failpoints
from subscriber.base.errors import UsageError


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
def test_an_unknown_failpoint_or_action_is_an_error(text, message):
    with pytest.raises(UsageError) as caught:
        failpoints.parse(text)
    assert caught.value.message == message


def test_the_action_enospc_raises_the_error_of_a_full_disk(armed):
    armed("journal.sync.before=enospc")
    with pytest.raises(OSError, match="No space left") as caught:
        failpoints.hit("journal.sync.before")
    assert caught.value.errno == errno.ENOSPC


def test_the_action_interrupt_is_what_control_c_does(armed):
    armed("journal.sync.before=interrupt")
    with pytest.raises(KeyboardInterrupt):
        failpoints.hit("journal.sync.before")


def test_a_failpoint_can_fire_when_it_is_passed_for_the_nth_time(armed):
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


def test_the_action_kill_sends_sigkill_to_a_process_armed_by_its_environment():
    """Invariant any_crash: nothing runs after a kill, no handler and no finally."""
    code = (
        "from subscriber.base import failpoints\n"
        "try:\n    failpoints.hit('target.commit.before')\n"
        "finally:\n    print('survived')"
    )
    environment = os.environ | {failpoints.ENVIRONMENT: "target.commit.before=kill"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == ""
