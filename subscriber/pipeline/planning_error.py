"""What a query's planner raised, handed to the driver with its type.

::

    Spark's JVM ──asks──▶ planner (a Python process on the driver's machine) ──raises──▶ Spark's text
                                └─ SubscriberError, pickled ──▶ a file of the query ──▶ driver

A task's error travels as a row (:mod:`subscriber.pipeline.frame_source`). A planner answers with
offsets and partitions and has no row to give, and Spark makes text of what it raises. So it leaves
the error in a file whose path is an option of the source. The file lies in a folder of the query's
own, which only this user may read, and goes with it.

Rejected: finding the class's name and the message in Spark's text. SQLSTATE, detail and hint are
not in it.
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
    """Leave an error of the block in ``file``, too; None leaves it nowhere.

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
    """The error that a planner has left; None where it has left none."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    error: SubscriberError = pickle.loads(content)  # noqa: S301 - written by our own planner
    return error


def _write(file: Path, content: bytes) -> None:
    """Write it whole or not at all."""
    new = file.with_name(f"{file.name}.new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(content)
    new.replace(file)
