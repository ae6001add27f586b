"""Runs the short commands of ``subscriber``, each in a separate process. The process is forked from
one that has already imported their modules.

::

    test ──▶ fork server (imported everything once) ──fork──▶ main() with these arguments, this environment, and files for its output

Of the second that such a command takes, nine tenths are imports; the tests run some hundred of
them.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *(f"subscriber.cli.{verb}" for verb in ("explain", "journal", "publication", "sql", "status")),
        "pandas",  # pyarrow imports it when it gets its first list
        "tests.crash.test_two_phase",  # has many children of one fork server
    ]
)


def run_command(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end, as `subprocess.run` does; its output goes to files in ``folder``
    while it runs.

    Raises:
        subprocess.TimeoutExpired: it has not ended in ``timeout`` seconds; it is killed.
    """
    with tempfile.TemporaryDirectory(prefix="command-", dir=folder) as kept:
        out, err = Path(kept, "out"), Path(kept, "err")
        process = CONTEXT.Process(target=_main, args=(tuple(arguments), dict(environment), out, err))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["subscriber", *arguments], timeout, out.read_bytes(), err.read_bytes())
        return subprocess.CompletedProcess(
            ["subscriber", *arguments], process.exitcode, out.read_text(), err.read_text()
        )


def _main(arguments: tuple[str, ...], environment: dict[str, str], out: Path, err: Path) -> None:
    """The work of the console script, in a process that was forked from the fork server."""
    from subscriber.base import failpoints
    from subscriber.cli import main

    for path, standard in ((out, 1), (err, 2)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    failpoints.arm(os.environ)
    sys.argv = ["subscriber", *arguments]
    main()
