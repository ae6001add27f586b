"""Configures Spark's Python processes: which Python they use, and how they get this package."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from subscriber.base.forked_process import fork_server

MODULES: Final = (
    "pyspark.worker",  # Spark starts it
    # the tasks of a stream:
    "subscriber.spark.journal_frames",
    "subscriber.stream.decode.decode_frames",
    # the tasks of a copy:
    "subscriber.spark.copy_part",
)
"""What Spark's Python processes import."""

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


@contextlib.contextmanager
def worker_python(scratch: Path, log_file: Path, *, local: bool, modules: Sequence[str] = ()) -> Iterator[Path | None]:
    """Make Spark's Python processes use this Python, unless the user has set PYSPARK_PYTHON. Gives
    the socket of the fork server, which has imported ``modules``, too; None if there is none.

    Spark would use the first python3 on PATH. It also puts a zip of its Python library at the front
    of their path, which every new process compiles for half a second. Where the processes run on
    this machine, a script removes the zip, and asks :mod:`subscriber.base.fork_server` for the
    process that imports most.
    """
    address, script, chosen = scratch / "fork-server", scratch / "python", sys.executable
    is_free = "PYSPARK_PYTHON" not in os.environ
    if local and is_free:
        script.write_text(_script(address))
        script.chmod(0o700)
        if os.access(script, os.X_OK):  # a temporary folder may be mounted noexec
            chosen, modules = str(script), (*modules, *MODULES)
    with contextlib.ExitStack() as end:
        served = end.enter_context(fork_server(address, log_file, modules))
        if is_free:
            os.environ["PYSPARK_PYTHON"] = chosen
            end.callback(os.environ.pop, "PYSPARK_PYTHON")
        yield served


def _script(address: Path) -> str:
    words = {
        "PYTHON": shlex.quote(sys.executable),
        "CLIENT": shlex.quote(str(resources.files("subscriber.base") / "fork_client.py")),
        "SOCKET": shlex.quote(str(address)),
    }
    return re.sub(r"\b(PYTHON|CLIENT|SOCKET)\b", lambda found: words[found[0]], _WORKER_PYTHON)


def package_archive(archive: Path) -> Path:
    """Write a zip of this package for executors, with the data files that row filters need."""
    root = Path(str(resources.files("subscriber")))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in sorted([*root.rglob("*.py"), *root.rglob("*.tsv")]):
            zipped.write(path, Path("subscriber") / path.relative_to(root))
    return archive
