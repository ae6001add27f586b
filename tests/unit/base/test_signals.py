"""An event that signals set, whatever the main thread is doing when they arrive."""

from __future__ import annotations

import subprocess
import sys

import pytest

IN_THE_EVENTS_LOCK = """
import signal, threading
from subscriber.base.signals import set_by_signals

event = threading.Event()
{set_up}
with event._cond:  # as in the middle of event.wait, which Python may leave for a handler
    signal.raise_signal(signal.SIGTERM)
print(event.wait(30))
"""


def said(set_up: str, seconds: float = 60) -> str:
    code = IN_THE_EVENTS_LOCK.format(set_up=set_up)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=seconds
    ).stdout


def test_a_signal_sets_the_event_while_the_main_thread_holds_its_lock():
    """A run that was told to stop waited forever, once in about a hundred times on a busy
    machine.
    """
    assert said("set_by_signals(event, [signal.SIGTERM])") == "True\n"


def test_a_handler_that_sets_the_event_itself_waits_forever():
    """This is the reason for the module."""
    with pytest.raises(subprocess.TimeoutExpired):
        said("signal.signal(signal.SIGTERM, lambda *_: event.set())", 3)


def test_a_signal_sets_the_event_while_the_main_thread_is_in_the_code_of_a_library():
    """A handler runs only when the main thread runs Python's instructions again. A run that waited
    for a server inside a driver could not be stopped.
    """
    code = """
import os, signal, sqlite3, threading, time
from subscriber.base.signals import set_by_signals

event = threading.Event()
set_by_signals(event, [signal.SIGTERM])

def leave():
    time.sleep(1)  # the main thread is in SQLite's code by then
    os.kill(os.getpid(), signal.SIGTERM)
    os._exit(0 if event.wait(10) else 1)

connection = sqlite3.connect(":memory:")
threading.Thread(target=leave).start()
connection.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_every_signal_after_the_first_is_reported_at_once():
    code = """
import signal, threading
from subscriber.base.signals import set_by_signals

told = []
set_by_signals(threading.Event(), [signal.SIGTERM, signal.SIGINT], told.append)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
    signal.raise_signal(number)
print(told == [signal.SIGINT, signal.SIGTERM])
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout == "True\n"
