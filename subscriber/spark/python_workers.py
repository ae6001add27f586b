"""Configures Spark's Python processes: which Python they use, and how they get this package."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Final

_FORKED: Final = "pyspark.daemon"
"""The module that Spark runs as a program, and that the fork server runs instead."""

_WORKER_PYTHON: Final = f"""#!/bin/sh
set -f
IFS=:
path=
for place in $PYTHONPATH; do
    case $place in */pyspark.zip | */py4j-*.zip) ;; *) path=${{path:+$path:}}$place ;; esac
done
unset IFS
export PYTHONPATH="$path"
case "$1 $2" in "-m {_FORKED}") exec PYTHON -I -S CLIENT SOCKET "$@" ;; esac
exec PYTHON "$@"
"""
_LONGEST_SOCKET: Final = 100
"""The bytes of the path of a Unix socket. Systems allow 104 or 108."""
_END_SECONDS: Final = 5.0


@contextlib.contextmanager
def worker_python(scratch: Path, log_file: Path, *, local: bool) -> Iterator[None]:
    """Make Spark's Python processes use this Python, unless the user has set PYSPARK_PYTHON.

    Spark would use the first python3 on PATH. It also puts a zip of its Python library at the front
    of their path, which every new process compiles for half a second. Where the processes run on
    this machine, a script removes the zip, and asks :mod:`subscriber.spark.fork_server` for the
    process that imports most.
    """
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    with contextlib.ExitStack() as end:
        chosen = sys.executable
        if local:
            script, address = scratch / "python", scratch / "fork-server"
            script.write_text(_script(address))
            script.chmod(0o700)
            if os.access(script, os.X_OK):  # a temporary folder may be mounted noexec
                chosen = str(script)
                if len(os.fsencode(address)) <= _LONGEST_SOCKET:
                    end.enter_context(_fork_server(address, log_file))
        os.environ["PYSPARK_PYTHON"] = chosen
        end.callback(os.environ.pop, "PYSPARK_PYTHON")
        yield


def _script(address: Path) -> str:
    words = {
        "PYTHON": shlex.quote(sys.executable),
        "CLIENT": shlex.quote(str(resources.files("subscriber.spark") / "fork_client.py")),
        "SOCKET": shlex.quote(str(address)),
    }
    return re.sub(r"\b(PYTHON|CLIENT|SOCKET)\b", lambda found: words[found[0]], _WORKER_PYTHON)


@contextlib.contextmanager
def _fork_server(address: Path, log_file: Path) -> Iterator[None]:
    """Run the fork server, in a session of its own, so that Ctrl-C does not end it."""
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "subscriber.spark.fork_server", str(address)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # Spark's processes must agree about hashes of text.
            env={**os.environ, "PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
    finally:
        os.close(log)
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:  # it is still importing
            process.kill()
            process.wait()


def package_archive(archive: Path) -> Path:
    """Write a zip of this package for executors, with the data files that row filters need."""
    root = Path(str(resources.files("subscriber")))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in sorted([*root.rglob("*.py"), *root.rglob("*.tsv")]):
            zipped.write(path, Path("subscriber") / path.relative_to(root))
    return archive
