"""``subscriber run``: it ends in time, whatever hangs, and Spark may end before it when both are
told to.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from subscriber.base.errors import PipelineError, UsageError
from subscriber.base.settings import Settings
from subscriber.cli import run
from subscriber.cli.run import ending_in_time, message_listener, stop_on_signals, warn_of_open_journals
from tests.journals import writing

HANGS = """
import threading
from subscriber.cli import run
from subscriber.cli.options import log_to_stderr

log_to_stderr(verbose=False)
run.END_SECONDS = 0.1
stop, working = threading.Event(), threading.Event()
{before}
with run.ending_in_time(stop, working{options}):
    {block}
"""


def ended(block: str, before: str = "", options: str = "") -> subprocess.CompletedProcess[str]:
    code = HANGS.format(block=block, before=before, options=options)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)


def test_a_run_that_hangs_after_a_stop_is_ended_with_a_message():
    answer = ended("working.set(); stop.set(); threading.Event().wait()")
    assert answer.returncode == 1
    assert "the process ends now, and the target rolls back its open transactions" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_run_whose_spark_takes_long_to_start_ends_in_order():
    """The chaos test found it: on a busy machine Spark started slowly, and the run that was stopped
    reported a failure.
    """
    answer = ended("stop.set(); threading.Event().wait()")
    assert (answer.returncode, answer.stderr) == (0, "")


def test_a_run_whose_standard_error_nobody_reads_ends_all_the_same():
    full = """
import os
os.set_blocking(2, False)
try:
    while True:
        os.write(2, b"x" * 4096)
except BlockingIOError:
    os.set_blocking(2, True)
"""
    code = HANGS.format(block="working.set(); stop.set(); threading.Event().wait()", before=full, options="")
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as process:
        try:
            assert process.wait(30) == 1
        finally:
            process.kill()


def test_a_second_interrupt_ends_the_process_without_pythons_finalization():
    """Python's finalization aborts the process while threads are in a driver's code."""
    answer = ended("raise KeyboardInterrupt", before="import atexit; atexit.register(print, 'end of Python')")
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "")


def test_a_run_that_ends_in_time_keeps_its_exit_code():
    stop = threading.Event()
    with ending_in_time(stop, threading.Event()):
        stop.set()
    with pytest.raises(SystemExit), ending_in_time(threading.Event(), threading.Event()):
        sys.exit(1)


@pytest.mark.parametrize("option", [("--http-token-file", "f"), ("--http-show-values",), ("--http-admin",)])
def test_an_option_of_the_server_is_refused_without_the_server(run, target, option):
    code, _, err = run("run", "--target", target, *option)
    assert (code, f"{option[0]} is for --http" in err) == (1, True)


def test_commands_on_pages_need_a_token(run, target):
    code, _, err = run("run", "--target", target, "--http", "127.0.0.1:0", "--http-admin")
    assert (code, "--http-admin needs a token" in err, "--http-token-file FILE" in err) == (1, True, True)


@pytest.fixture
def spark_that_ends(monkeypatch, tmp_path):
    """Runs with a Spark whose Java process has ended. Returns whether the run has succeeded."""

    def session(*_: Any) -> Any:
        raise PipelineError("Spark's Java process has ended")

    monkeypatch.setattr("subscriber.spark.session.starting_spark", session)

    def go(stop: threading.Event, *, once: bool = False) -> bool:
        settings = Settings(str(tmp_path / "journal"))
        target = f"sqlite:///{tmp_path / 'target.db'}"
        return run._run(target, "local[1]", settings, run.Extras(), stop, threading.Event(), once=once)

    return go


def test_a_run_fails_if_spark_ends_without_a_stop(spark_that_ends):
    with pytest.raises(PipelineError):
        spark_that_ends(threading.Event())


def test_a_run_succeeds_if_spark_ends_during_a_stop(spark_that_ends, monkeypatch):
    """systemd sends SIGTERM to every process of the unit at once."""
    stop = threading.Event()
    real = run.spark_log

    def told_meanwhile(settings: Settings) -> Any:
        stop.set()
        return real(settings)

    monkeypatch.setattr(run, "spark_log", told_meanwhile)
    assert spark_that_ends(stop)
    stop.clear()
    assert not spark_that_ends(stop, once=True)


def test_a_run_that_is_stopped_before_spark_starts_does_not_start_it(spark_that_ends):
    stop = threading.Event()
    stop.set()
    assert spark_that_ends(stop)


def test_an_interrupted_run_with_once_fails(spark_that_ends, caplog):
    """`run --once && switch-over`"""
    stop = threading.Event()
    stop.set()
    assert not spark_that_ends(stop, once=True)
    assert "the run was stopped before every subscription had caught up" in caplog.text
    answer = ended("stop.set(); threading.Event().wait()", options=", once=True")
    assert answer.returncode == 1


# Signals and journals -----------------------------------------------------------------------------


def test_run_warns_of_journals_that_others_may_read_and_says_how_to_close_them(tmp_path, caplog):
    settings = Settings(str(tmp_path))
    journal = tmp_path / "1_s"
    with writing(journal):
        pass
    journal.chmod(0o700)
    with caplog.at_level("WARNING"):
        warn_of_open_journals(settings)
        assert caplog.messages == []
        journal.chmod(0o750)
        warn_of_open_journals(settings)
    assert len(caplog.messages) == 1
    assert f"chmod -R go= {journal}" in caplog.messages[0]


@pytest.mark.parametrize("ignored", [False, True])
def test_closing_the_terminal_stops_the_run_in_order(ignored, signals_before):
    """Both the terminal and its shell send SIGHUP, and neither is a second Ctrl-C; what nohup
    ignores stays ignored.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    stop = stop_on_signals()
    if not ignored:
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)
    assert stop.wait(0.2 if ignored else 30) is not ignored
    stop.set()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


# Message listeners --------------------------------------------------------------------------------


def test_a_listener_is_found_by_its_module_and_name(tmp_path, monkeypatch):
    (tmp_path / "somebodys.py").write_text("class Here:\n    @staticmethod\n    def hear(message): return message\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert message_listener("json:dumps") is json.dumps
    assert message_listener("somebodys:Here.hear")("x") == "x"  # type: ignore[arg-type]  # any message will do


@pytest.mark.parametrize("place", ["nowhere.to.be.found:f", "json:absent", "json", "json:", ":dumps", "json:__name__"])
def test_a_listener_that_cannot_be_called_is_refused(place):
    with pytest.raises(UsageError) as raised:
        message_listener(place)
    assert f'message listener "{place}"' in raised.value.message
