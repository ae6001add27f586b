"""Forks Spark's Python processes from one that has imported their modules: ``python -m
subscriber.spark.fork_server SOCKET``.

::

    Spark ── starts "python -m pyspark.daemon …" ──▶ script ──▶ fork_client ══ SOCKET ══▶ this process
                                                                    │                          │ fork
      the pipes of standard input and output ◀──────────────────────┴── are passed on to ──▶ pyspark.daemon …

Spark's daemon would import pyspark, pyarrow and this package for most of a second. A fork takes
some milliseconds, and shares the memory of the modules.

This process ends when its standard input does, which is a pipe of the program that has started it.
The forked processes are Spark's, and end as Spark's own do.

pyspark imports nothing before it forks a worker, because a process that has several threads cannot
be forked safely. What is imported here starts one thread, that of Arrow's allocator. The allocator
prepares for a fork, and works without the thread in the new process. numpy's linear algebra is told
to start no threads.

*Rejected:* to import the modules in each daemon before it forks. That made the first worker of a
daemon later by what the next one saved.
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

from subscriber.base.without_pandas import use_arrow_without_pandas
from subscriber.spark.fork_client import NUMBER

MODULES: Final = (
    "pyspark.worker",  # Spark starts it
    # the tasks of a stream:
    "subscriber.spark.journal_frames",
    "subscriber.stream.decode.decode_frames",
    # the tasks of a copy:
    "subscriber.publisher.copy_out",
    "subscriber.stream.decode.blocks",
)
"""What Spark's Python processes import."""

_STANDARD: Final = 3
_MOST_REQUESTS: Final = 64


def main() -> None:
    """Import the modules, and fork a process for each request until standard input ends."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(sys.argv[1])
        listener.listen(_MOST_REQUESTS)
        use_arrow_without_pandas()
        for name in MODULES:
            importlib.import_module(name)
        # The collector would touch, and so copy, what all processes share.
        gc.collect()
        gc.freeze()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes
        serve(listener)


def serve(listener: socket.socket) -> None:
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(listener, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poller.poll()}
        if 0 in ready and not os.read(0, 1):
            return
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
