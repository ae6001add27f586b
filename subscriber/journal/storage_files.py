"""What local and remote storages share: Arrow files, and the errors of files."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from subscriber.errors import JournalUnavailable

if TYPE_CHECKING:
    import pyarrow as pa  # imported where it is used: `subscriber status` does not read segments

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The disk is full, or the user's quota is exhausted."""


def write_arrow(file: Any, table: pa.Table) -> None:
    """Write a table into an open file, as an Arrow file."""
    import pyarrow as pa

    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def as_file(table: pa.Table) -> pa.NativeFile:
    """A table as an open Arrow file in memory."""
    import pyarrow as pa

    file = pa.BufferOutputStream()
    write_arrow(file, table)
    return pa.BufferReader(file.getvalue())


@contextlib.contextmanager
def reading(url: str) -> Iterator[None]:
    """Turn I/O errors into JournalUnavailable, except a missing file, which the caller handles."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise JournalUnavailable(
            f'could not read the journal at "{url}": {error.strerror or error}',
            sqlstate="58030",
            hint="SUBSCRIBER_JOURNAL must name a folder (or a URL) that this user may read and write.",
        ) from error


@contextlib.contextmanager
def writing(url: str) -> Iterator[None]:
    """Turn I/O errors into JournalUnavailable."""
    try:
        yield
    except OSError as error:
        raise unavailable(url, error) from error


def is_out_of_space(error: JournalUnavailable) -> bool:
    """Whether a file could not be written because the disk is full or the user's quota is
    exhausted.
    """
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in NO_SPACE


def unavailable(url: str, error: OSError) -> JournalUnavailable:
    """The error for a file that could not be written."""
    return JournalUnavailable(
        f'could not write the journal at "{url}": {error.strerror or error}',
        hint="Free space or fix the folder's permissions; the receiver tries again, and the slot keeps the changes until then.",
    )
