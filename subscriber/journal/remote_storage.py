"""The files of a journal at any URL of ``pyarrow.fs``.

*Durable* means that the store has acknowledged the object. An object appears as a whole or not at
all. There is no lock: a replication slot has at most one receiver at a time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from subscriber import failpoints
from subscriber.errors import UsageError
from subscriber.journal.storage_files import reading, unavailable, write_arrow, writing

if TYPE_CHECKING:
    import pyarrow as pa  # imported where it is used: `subscriber status` does not read segments

_NOTHING: Final[Mapping[str, int]] = {}


class RemoteStorage:
    """The files below a prefix of any ``pyarrow.fs`` file system."""

    remote = True

    def __init__(self, url: str, filesystem: Any, path: str) -> None:
        self.url = url
        self._fs = filesystem
        self._path = path.rstrip("/")

    def names(self, known: Mapping[str, int] = _NOTHING) -> list[tuple[str, int]]:  # noqa: ARG002 - an interface's arguments
        """See :class:`Storage`. A listing has all sizes."""
        from pyarrow import fs as arrow_fs

        selector = arrow_fs.FileSelector(self._path, allow_not_found=True)
        with reading(self.url):
            found = self._fs.get_file_info(selector)
        return [(info.base_name, info.size or 0) for info in found if info.type == arrow_fs.FileType.File]

    def change_token(self) -> int | None:
        """See :class:`Storage`."""
        return None

    def read(self, name: str) -> bytes | None:
        """See :class:`Storage`."""
        with (
            reading(self.url),
            contextlib.suppress(FileNotFoundError),
            self._fs.open_input_file(self._at(name)) as file,
        ):
            return bytes(file.read())
        return None

    def open(self, name: str) -> pa.NativeFile:
        """See :class:`Storage`. The file is read with one request, so that there is no I/O error
        while it is parsed.
        """
        import pyarrow as pa

        with self._fs.open_input_file(self._at(name)) as file:
            return pa.BufferReader(file.read_buffer())

    def create(self, name: str, table: pa.Table) -> int:
        """See :class:`Storage`."""
        try:
            self._fs.create_dir(self._path, recursive=True)
            failpoints.hit("journal.sync.before")
            with self._fs.open_output_stream(self._at(name)) as file:
                write_arrow(file, table)
                size = int(file.tell())
            failpoints.hit("journal.sync.after")
        except OSError as error:
            raise unavailable(self.url, error) from error
        return size

    def publish(self, renames: list[tuple[str, str]]) -> None:
        """See :class:`Storage`."""
        try:
            failpoints.hit("journal.rename.before")
            for temporary, final in renames:
                self._fs.move(self._at(temporary), self._at(final))
            failpoints.hit("journal.rename.after")
        except OSError as error:
            raise unavailable(self.url, error) from error

    def replace(self, name: str, content: bytes, *, durable: bool, from_reserve: bool = True) -> None:  # noqa: ARG002 - an interface's arguments
        """See :class:`Storage`. Objects are always durable, and an object store is never full."""
        try:
            self._fs.create_dir(os.path.dirname(self._at(name)), recursive=True)
            with self._fs.open_output_stream(self._at(name)) as file:
                file.write(content)
        except OSError as error:
            raise unavailable(self.url, error) from error

    def make_reserve(self) -> None:
        """See :class:`Storage`."""

    def delete(self, names: list[str]) -> None:
        """See :class:`Storage`."""
        for name in names:
            with writing(self.url), contextlib.suppress(FileNotFoundError):
                self._fs.delete_file(self._at(name))

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """See :class:`Storage`."""
        yield True

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"


def filesystem(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it.

    Raises:
        UsageError: no file system handles the URL.
    """
    import pyarrow as pa
    from pyarrow import fs as arrow_fs

    try:
        files, path = arrow_fs.FileSystem.from_uri(url)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise UsageError(
            f'no file system for the journal URL "{url}"',
            hint="Use a local path, or a URL of pyarrow.fs such as s3://bucket/prefix or gs://bucket/prefix.",
        ) from error
    return files, path
