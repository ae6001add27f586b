"""A guardian: runs one command and ends it when the process that asked for it is gone.

::

    test or demo ──stdin pipe──▶ guard ──▶ postgres, initdb, mariadbd
                                   │ a line "SIGINT" on stdin: send that signal to the command
                                   │ end of file, or another parent: the asker has died
                                   ▼
                     stop signal, ten seconds of patience, SIGKILL, remove the directory

A server that a test started must not outlive the test, even when the test's process is killed with
SIGKILL and can run nothing any more. Rejected: ``PR_SET_PDEATHSIG``, which only Linux has, which is
cleared when the server changes its user, and which fires when the *thread* ends that started it;
and ``atexit``, which no signal runs. A pipe alone is not enough either: a process that the asker
forked keeps its other end open, so the guard also looks whether its parent has changed.

The guard runs in a session of its own (Ctrl-C in a terminal is for the asker, who then stops the
server in order), with the asker's user, since the unprivileged user that a server needs may not be
able to read Python. It is run by path and isolated (``python -I``), and so imports nothing but the
standard library.
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
    """Run the command to its end; its exit code (negative signals as 128 + n) is the guard's."""
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
    time.sleep(PATIENCE_SECONDS)  # main returns as soon as the command has ended, and takes this thread along
    child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
