"""Passes the error of a query's planner to the driver without losing its type.

::

    Spark's JVM ──asks──▶ planner (a Python process on the driver's machine) ──raises──▶ Spark's text
                                └─ SubscriberError, pickled ──▶ a file of the query ──▶ driver

The error of a task is sent as a row (:mod:`subscriber.pipeline.frame_source`). A planner returns
offsets and partitions, so it has no row to send, and Spark converts its exceptions into text.
Therefore the planner writes the error into a file, whose path is an option of the source. The file
is in a separate folder for each query, which only this user may read, and which is removed with the
query.

*Rejected:* extracting the name of the class and the message from Spark's text. It does not contain
SQLSTATE, detail and hint.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

from subscriber.errors import SubscriberError


@contextlib.contextmanager
def leaving_error(file: str | None) -> Iterator[None]:
    """Write an error of the block into ``file`` and raise it again; with None it is only raised.

    Raises:
        SubscriberError: the error of the block.
    """
    try:
        yield
    except SubscriberError as error:
        if file is not None:
            with contextlib.suppress(
                OSError
            ):  # without it the query fails for a reason that is not known, and starts again
                _write(Path(file), pickle.dumps(error))
        raise


def left_error(file: Path) -> SubscriberError | None:
    """Return the error that a planner has written; None if there is none."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    error: SubscriberError = pickle.loads(content)  # noqa: S301 - written by our own planner
    return error


def _write(file: Path, content: bytes) -> None:
    """Write the file atomically."""
    new = file.with_name(f"{file.name}.new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(content)
    new.replace(file)
