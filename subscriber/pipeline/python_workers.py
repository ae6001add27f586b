"""Configures Spark's Python processes: which Python they use, and how they get this package."""

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
case "$1 $2" in "-m pyspark.daemon") shift 2; set -- -m subscriber.pipeline.worker_daemon "$@" ;; esac
exec PYTHON "$@"
"""


@contextlib.contextmanager
def worker_python(scratch: Path, *, local: bool) -> Iterator[None]:
    """Make Spark's Python processes use this Python, unless the user has set PYSPARK_PYTHON.

    By default Spark uses the first python3 on PATH, which may not have the dependencies. It also
    puts a zip of its Python library at the front of their path, and every new process compiles the
    library from this zip again. That takes half a second whenever a query starts, and about five
    processes are needed for the first query. The installed library is the same, and already
    compiled. Therefore, if the processes run on this machine, they are started by a script that
    removes the zip from the path. The script also starts
    :mod:`subscriber.pipeline.worker_daemon` instead of pyspark's daemon.
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
    """Create a zip of this package, for executors that have only Python and the dependencies.

    The zip also contains the package's data files (``*.tsv``). One of them lists PostgreSQL's
    built-in objects, which are needed to evaluate row filters.
    """
    archive = folder / "subscriber.zip"
    root = Path(str(resources.files("subscriber")))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in sorted([*root.rglob("*.py"), *root.rglob("*.tsv")]):
            zipped.write(path, Path("subscriber") / path.relative_to(root))
    return archive
