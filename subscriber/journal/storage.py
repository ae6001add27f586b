"""Where a journal's files are: a local folder, or any ``pyarrow.fs`` URL.

Everything above asks for six things only: list, read, create a temporary file, publish it under its
name, replace a small file, delete. *Durable* means: on a local disk, ``fsync`` of the file before the
rename and of the folder after it; on an object store, that the store has acknowledged the object.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import fs as arrow_fs

from subscriber import failpoints
from subscriber.errors import JournalUnavailable, UsageError


class Storage(Protocol):
    """The files of one journal."""

    url: str

    def names(self) -> list[tuple[str, int]]:
        """Every file's name and size in bytes, in no order."""

    def change_token(self) -> int | None:
        """Differs when files came or went since it was last asked; None when only listing can tell."""

    def read(self, name: str) -> bytes | None:
        """A small file's content, or None when there is none of that name."""

    def open(self, name: str) -> pa.NativeFile:
        """A segment, for reading at random."""

    def create(self, name: str, table: pa.Table) -> int:
        """Write a temporary Arrow file, durable when this returns; gives its size in bytes."""

    def publish(self, renames: list[tuple[str, str]]) -> None:
        """Give durable temporary files their names, in order; durable when this returns."""

    def replace(self, name: str, content: bytes, *, durable: bool) -> None:
        """Write a small file whole, so that a reader sees the old or the new content."""

    def delete(self, names: list[str]) -> None:
        """Remove files, in order; one that is not there is no error."""

    def lock(self) -> contextlib.AbstractContextManager[bool]:
        """Be the only writer; gives False when somebody else is."""


def journal_url(base: str, system_identifier: str, slot: str) -> str:
    """Where one slot's journal is, below the configured folder or URL.

    >>> journal_url("/var/lib/subscriber", "7301", "s1")
    '/var/lib/subscriber/7301_s1'
    """
    return f"{base.rstrip('/')}/{system_identifier}_{slot}"


def open_storage(url: str) -> Storage:
    """The storage at a local path or a URL that ``pyarrow.fs`` understands.

    Raises:
        UsageError: no file system handles the URL.
    """
    if "://" not in url:
        return LocalStorage(Path(url))
    if url.startswith("file://"):
        return LocalStorage(Path(url.removeprefix("file://")))
    return RemoteStorage(url, *_filesystem(url))


def journal_folders(base: str) -> list[str]:
    """The folders directly below a folder or URL, by name; none where there is no such folder.

    Raises:
        UsageError: no file system handles the URL.
        JournalUnavailable: it cannot be listed now.
    """
    if "://" not in base or base.startswith("file://"):
        folder = Path(base.removeprefix("file://"))
        with _reading(base):
            return sorted(str(path) for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    filesystem, path = _filesystem(base)
    with _reading(base):
        found = filesystem.get_file_info(arrow_fs.FileSelector(path, allow_not_found=True))
    return sorted(f"{base.rstrip('/')}/{info.base_name}" for info in found if info.type == arrow_fs.FileType.Directory)


def _filesystem(url: str) -> tuple[Any, str]:
    try:
        filesystem, path = arrow_fs.FileSystem.from_uri(url)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise UsageError(
            f'no file system for the journal URL "{url}"',
            hint="Use a local path, or a URL of pyarrow.fs such as s3://bucket/prefix or gs://bucket/prefix.",
        ) from error
    return filesystem, path


class LocalStorage:
    """A folder on a local disk."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self.folder = folder

    def names(self) -> list[tuple[str, int]]:
        """See :class:`Storage`."""
        found = []
        with _reading(self.url), contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file():
                        found.append((entry.name, entry.stat().st_size))
        return found

    def change_token(self) -> int | None:
        """See :class:`Storage`; the folder's modification time, which a rename into it moves."""
        with _reading(self.url), contextlib.suppress(FileNotFoundError):
            return self.folder.stat().st_mtime_ns
        return 0

    def read(self, name: str) -> bytes | None:
        """See :class:`Storage`."""
        with _reading(self.url), contextlib.suppress(FileNotFoundError):
            return (self.folder / name).read_bytes()
        return None

    def open(self, name: str) -> pa.NativeFile:
        """See :class:`Storage`."""
        return pa.memory_map(str(self.folder / name))

    def create(self, name: str, table: pa.Table) -> int:
        """See :class:`Storage`."""
        path = self.folder / name
        try:
            with path.open("wb") as file:
                _write_arrow(file, table)
                file.flush()
                failpoints.hit("journal.sync.before")
                os.fsync(file.fileno())
                failpoints.hit("journal.sync.after")
                return file.tell()
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            raise _unavailable(self.url, error) from error

    def publish(self, renames: list[tuple[str, str]]) -> None:
        """See :class:`Storage`."""
        try:
            failpoints.hit("journal.rename.before")
            for temporary, final in renames:
                (self.folder / temporary).rename(self.folder / final)
            self._sync_folder()
            failpoints.hit("journal.rename.after")
        except OSError as error:
            raise _unavailable(self.url, error) from error

    def replace(self, name: str, content: bytes, *, durable: bool) -> None:
        """See :class:`Storage`."""
        path = self.folder / name
        temporary = path.with_name(f"{name}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            temporary.rename(path)
            if durable:
                self._sync_folder()
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise _unavailable(self.url, error) from error

    def delete(self, names: list[str]) -> None:
        """See :class:`Storage`."""
        for name in names:
            with _writing(self.url), contextlib.suppress(FileNotFoundError):
                (self.folder / name).unlink()

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """See :class:`Storage`; an ``flock``, which the kernel releases with the process."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / "journal.lock").open("w")
        except OSError as error:
            raise _unavailable(self.url, error) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def _sync_folder(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class RemoteStorage:
    """A prefix of any ``pyarrow.fs`` file system.

    An object appears whole or not at all, and the store's acknowledgement is its durability. There
    is no lock: the replication slot itself admits one receiver only.
    """

    def __init__(self, url: str, filesystem: Any, path: str) -> None:
        self.url = url
        self._fs = filesystem
        self._path = path.rstrip("/")

    def names(self) -> list[tuple[str, int]]:
        """See :class:`Storage`."""
        selector = arrow_fs.FileSelector(self._path, allow_not_found=True)
        with _reading(self.url):
            found = self._fs.get_file_info(selector)
        return [(info.base_name, info.size or 0) for info in found if info.type == arrow_fs.FileType.File]

    def change_token(self) -> int | None:
        """See :class:`Storage`."""
        return None

    def read(self, name: str) -> bytes | None:
        """See :class:`Storage`."""
        with (
            _reading(self.url),
            contextlib.suppress(FileNotFoundError),
            self._fs.open_input_file(self._at(name)) as file,
        ):
            return bytes(file.read())
        return None

    def open(self, name: str) -> pa.NativeFile:
        """See :class:`Storage`; one request, and no I/O error while the file is being taken apart."""
        with self._fs.open_input_file(self._at(name)) as file:
            return pa.BufferReader(file.read_buffer())

    def create(self, name: str, table: pa.Table) -> int:
        """See :class:`Storage`."""
        try:
            self._fs.create_dir(self._path, recursive=True)
            failpoints.hit("journal.sync.before")
            with self._fs.open_output_stream(self._at(name)) as file:
                _write_arrow(file, table)
                size = int(file.tell())
            failpoints.hit("journal.sync.after")
        except OSError as error:
            raise _unavailable(self.url, error) from error
        return size

    def publish(self, renames: list[tuple[str, str]]) -> None:
        """See :class:`Storage`."""
        try:
            failpoints.hit("journal.rename.before")
            for temporary, final in renames:
                self._fs.move(self._at(temporary), self._at(final))
            failpoints.hit("journal.rename.after")
        except OSError as error:
            raise _unavailable(self.url, error) from error

    def replace(self, name: str, content: bytes, *, durable: bool) -> None:  # noqa: ARG002 - an object store is always durable
        """See :class:`Storage`."""
        try:
            self._fs.create_dir(os.path.dirname(self._at(name)), recursive=True)
            with self._fs.open_output_stream(self._at(name)) as file:
                file.write(content)
        except OSError as error:
            raise _unavailable(self.url, error) from error

    def delete(self, names: list[str]) -> None:
        """See :class:`Storage`."""
        for name in names:
            with _writing(self.url), contextlib.suppress(FileNotFoundError):
                self._fs.delete_file(self._at(name))

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """See :class:`Storage`."""
        yield True

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"


def _write_arrow(file: Any, table: pa.Table) -> None:
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


@contextlib.contextmanager
def _reading(url: str) -> Iterator[None]:
    """A file that is not there is for the caller to judge; whatever else keeps it from being read may pass."""
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
def _writing(url: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unavailable(url, error) from error


def _unavailable(url: str, error: OSError) -> JournalUnavailable:
    return JournalUnavailable(
        f'could not write the journal at "{url}": {error.strerror or error}',
        hint="Free space or fix the folder's permissions; the receiver tries again, and the slot keeps the changes until then.",
    )
