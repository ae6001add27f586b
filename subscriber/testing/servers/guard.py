"""A guard: runs one command, and ends the command when the process that started the guard ends.

::

    test or demo ──stdin pipe──▶ guard ──▶ postgres, initdb, mariadbd
                                   │ a line "SIGINT" on stdin: send that signal to the command
                                   │ end of file, or another parent: the process that started the guard has ended
                                   ▼
                     stop signal, ten seconds of patience, SIGKILL, remove the directory

A server that a test starts must not outlive the test, even if the test is killed with SIGKILL. A
pipe alone is not enough: a process that the test has forked keeps its other end open. So the guard
also checks whether its parent process has changed.

*Rejected:* ``PR_SET_PDEATHSIG``. Only Linux has it, it is cleared when the server changes its user,
and it fires when the *thread* that started the command ends. *Rejected:* ``atexit``, which does not
run after a signal.

The guard runs in a separate session, so that Ctrl-C in a terminal only reaches the test, which then
stops the server in order. It is run by its path and isolated (``python -I``), so it imports only
the standard library.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time

PATIENCE_SECONDS = 10.0
PARENT_POLL_SECONDS = 0.5


def main(arguments: list[str]) -> int:
    """Run the command to its end, and return its exit code: 128 + n if signal n has ended it."""
    options = _parse(arguments)
    parent = os.getppid()
    as_user = {} if options.uid is None else {"user": options.uid, "group": options.gid, "extra_groups": []}
    with open(options.log, "ab") as log:
        child = subprocess.Popen(
            options.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **as_user
        )
    stop = signal.Signals[options.stop]
    for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ending, lambda *_: child.send_signal(stop))
    orphaned = threading.Event()
    threading.Thread(target=_watch, args=(child, parent, stop, orphaned), daemon=True).start()
    code = child.wait()
    if orphaned.is_set() and options.remove:
        shutil.rmtree(options.remove, ignore_errors=True)
    return code if code >= 0 else 128 - code


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="run a command that ends with its asker")
    parser.add_argument("--log", required=True)
    parser.add_argument("--stop", default="SIGTERM")
    parser.add_argument("--remove", help="directory to remove when the asker has died")
    parser.add_argument("--uid", type=int)
    parser.add_argument("--gid", type=int)
    parser.add_argument("command", nargs="+")
    return parser.parse_args(arguments)


def _watch(child: subprocess.Popen[bytes], parent: int, stop: signal.Signals, orphaned: threading.Event) -> None:
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], PARENT_POLL_SECONDS)
        if not readable:
            continue
        request = os.read(0, 64)
        if not request:
            break
        for name in request.decode("ascii").split():
            child.send_signal(signal.Signals[name])
    orphaned.set()
    child.send_signal(stop)
    time.sleep(PATIENCE_SECONDS)  # this thread ends with main, when the command has ended
    child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
