"""Spark's Python processes: which Python they are, and what they know of this package."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import zipfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Final

_WORKER_PYTHON: Final = """#!/bin/sh
set -f
IFS=:
path=
for place in $PYTHONPATH; do
    case $place in */pyspark.zip | */py4j-*.zip) ;; *) path=${path:+$path:}$place ;; esac
done
unset IFS
export PYTHONPATH="$path"
exec PYTHON "$@"
"""


@contextlib.contextmanager
def worker_python(scratch: Path, *, local: bool) -> Iterator[None]:
    """Let Spark's Python processes be this Python, unless the user has chosen one with
    PYSPARK_PYTHON.

    Spark's own default is the first python3 on PATH, which need not be the one that has the
    dependencies. And it puts a zip of its Python library in front of their path, from which every
    new process compiles it anew: half a second each time a query starts, and some five processes
    for the first one. The installed library is the same, and compiled; so where the processes are
    on this machine they are started by a script that takes the zip away.
    """
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    chosen = sys.executable
    if local:
        script = scratch / "python"
        script.write_text(_WORKER_PYTHON.replace('PYTHON "$@"', f'{shlex.quote(sys.executable)} "$@"'))
        script.chmod(0o700)
        if os.access(script, os.X_OK):  # a temporary folder may be mounted noexec
            chosen = str(script)
    os.environ["PYSPARK_PYTHON"] = chosen
    try:
        yield
    finally:
        del os.environ["PYSPARK_PYTHON"]


def package_archive(folder: Path) -> Path:
    """This package as a zip, for executors that have only Python and the dependencies.

    In it is also what is built into PostgreSQL, by which filters are understood.
    """
    archive = folder / "subscriber.zip"
    root = Path(str(resources.files("subscriber")))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in sorted([*root.rglob("*.py"), *root.rglob("*.tsv")]):
            zipped.write(path, Path("subscriber") / path.relative_to(root))
    return archive
