"""Forks Python processes from one that has imported their modules: ``python -m
subscriber.base.fork_server SOCKET MODULE…``.

::

    supervisor ── ForkedProcess ═══════════════════════════════════ SOCKET ══▶ this process
    Spark ── starts "python -m pyspark.daemon …" ──▶ script ──▶ fork_client ══ SOCKET ══▶ │ fork
                                                                    │                     ▼
      the pipes of standard input and output ◀──────────────────────┴── are passed on to ──▶ walreceiver, or pyspark.daemon

A Python process imports its modules for most of a second, and has them in memory for itself. A fork
takes some milliseconds, and shares the memory of the modules.

This process ends when its standard input does, which is a pipe of the program that has started it.
The forked processes belong to those who have asked for them, and end as other processes do.

A process that has several threads cannot be forked safely. So the modules must start no thread when
they are imported. They start one, that of Arrow's allocator. The allocator prepares for a fork, and
works without the thread in the new process. numpy's linear algebra is told to start no threads.

A request that comes while modules are being imported is served after the next one of them. The
process imports the rest itself, if it needs it.

*Rejected:* to import the modules in each daemon of Spark before it forks. That made the first
worker of a daemon later by what the next one saved.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
import warnings
from typing import Final

from subscriber.base import failpoints
from subscriber.base.fork_client import NUMBER
from subscriber.base.without_pandas import use_arrow_without_pandas

_STANDARD: Final = 3
_MOST_REQUESTS: Final = 64


def main() -> None:
    """Import the modules, and fork a process for each request until standard input ends."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        address, *modules = sys.argv[1:]
        listener.bind(f"{address}.new")
        listener.listen(_MOST_REQUESTS)
        os.rename(f"{address}.new", address)  # whoever finds it can connect
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes
        use_arrow_without_pandas()
        for name in modules:
            importlib.import_module(name)
            # The collector would touch, and so copy, what all processes share.
            gc.collect()
            gc.freeze()
            if not serve(listener, wait=False):
                return
        serve(listener)


def serve(listener: socket.socket, *, wait: bool = True) -> bool:
    """Serve requests until standard input ends; without ``wait``, until there is no request.
    Returns whether standard input is still open.
    """
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(listener, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poller.poll(None if wait else 0)}
        if not ready:
            return True
        if 0 in ready and not os.read(0, 1):
            return False
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _run(connection)


def _run(connection: socket.socket) -> None:
    """Be the process that a client asks for; never returns."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        arguments = _take_request(connection)
        connection.sendall(NUMBER.pack(os.getpid()))
        code = run_program(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            connection.sendall(NUMBER.pack(code))
        finally:
            os._exit(code)  # even if the client has ended: this process must not return to the server's loop


def _take_request(connection: socket.socket) -> list[str]:
    """Take over the client's standard streams, environment and folder; returns the arguments."""
    head, descriptors, _, _ = socket.recv_fds(connection, NUMBER.size, _STANDARD, socket.MSG_WAITALL)
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    (size,) = NUMBER.unpack(head)
    with connection.makefile("rb") as stream:
        request = json.loads(stream.read(size))
    os.environ.clear()
    os.environ.update(request["environment"])
    failpoints.arm(os.environ)
    os.chdir(request["folder"])
    arguments: list[str] = request["arguments"]
    return arguments


def run_program(arguments: list[str]) -> int:
    """Run ``python -m MODULE …`` in this process; returns the exit code."""
    _, module, *others = arguments
    sys.argv = [module, *others]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the module is imported already
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                return end.code or 0
            sys.stderr.write(f"{end.code}\n")
            return 1
    return 0


if __name__ == "__main__":
    main()
