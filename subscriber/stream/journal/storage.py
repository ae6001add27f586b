"""Where the files of journals are: in local folders, or at URLs of ``pyarrow.fs``.

A journal contains the publisher's rows. Only its user has access to a local folder (mode 0700,
files 0600), as with PostgreSQL's data directory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, Protocol

from subscriber.base import failpoints
from subscriber.base.errors import JournalUnavailable, SlotInUse, UsageError
from subscriber.base.files import replace_file, sync_folder

if TYPE_CHECKING:
    import pyarrow as pa  # imported where it is used: `subscriber status` does not read segments

_NOTHING: Final[Mapping[str, int]] = {}
_OTHERS: Final = 0o077


class Storage(Protocol):
    """The files of one journal; if ``remote``, each read and listing is a request."""

    url: str
    remote: bool

    def names(self, known: Mapping[str, int] = _NOTHING) -> list[tuple[str, int]]:
        """The name and size of every file; sizes in ``known`` are not asked for again."""

    def change_token(self) -> int | None:
        """A number that changes with the list of files; None where only a listing shows that."""

    def read(self, name: str) -> bytes | None:
        """A small file's content, or None when there is no file of that name."""

    def open(self, name: str) -> pa.NativeFile:
        """Open a segment for random access."""

    def create(self, name: str, table: pa.Table) -> int:
        """Write a temporary Arrow file, durably; returns its size in bytes."""

    def publish(self, renames: list[tuple[str, str]]) -> None:
        """Rename durable temporary files to their final names, durably and in order."""

    def replace(self, name: str, content: bytes, *, durable: bool, from_reserve: bool = True) -> None:
        """Write a small file as a whole: a reader sees the old or the new content. ``durable``: it
        survives a power failure. ``from_reserve``: the reserve may be used where space is missing.
        """

    def make_reserve(self) -> None:
        """Fill the reserve up, as far as there is space."""

    def delete(self, names: list[str]) -> None:
        """Remove files, in order; a missing file is no error."""

    def lock(self) -> contextlib.AbstractContextManager[bool]:
        """Lock the journal against other writers; yields False when another writer has the lock."""


def journal_url(base: str, system_identifier: str, slot: str) -> str:
    """The URL of one slot's journal, below the configured folder or URL.

    >>> journal_url("/var/lib/subscriber", "7301", "s1")
    '/var/lib/subscriber/7301_s1'
    """
    return f"{base.rstrip('/')}/{system_identifier}_{slot}"


def open_storage(url: str) -> Storage:
    """The storage at a local path or a URL that ``pyarrow.fs`` understands."""
    if "://" not in url:
        return LocalStorage(Path(url))
    if url.startswith("file://"):
        return LocalStorage(Path(url.removeprefix("file://")))
    return RemoteStorage(url, *filesystem(url))


def move_journal(old: str, new: str) -> None:
    """Rename the folder of a journal within the same file system."""
    if "://" not in old or old.startswith("file://"):
        with translating_write_errors(old):
            Path(old.removeprefix("file://")).rename(new.removeprefix("file://"))
        return
    from pyarrow import fs as arrow_fs

    files, source = filesystem(old)
    _, destination = filesystem(new)
    with translating_write_errors(old):
        arrow_fs.copy_files(source, destination, source_filesystem=files, destination_filesystem=files)
        files.delete_dir(source)


def journal_folders(base: str) -> list[str]:
    """The folders directly below a folder or URL, sorted by name."""
    if "://" not in base or base.startswith("file://"):
        folder = Path(base.removeprefix("file://"))
        with translating_read_errors(base):
            return sorted(str(path) for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    from pyarrow import fs as arrow_fs

    files, path = filesystem(base)
    with translating_read_errors(base):
        found = files.get_file_info(arrow_fs.FileSelector(path, allow_not_found=True))
    return sorted(f"{base.rstrip('/')}/{info.base_name}" for info in found if info.type == arrow_fs.FileType.Directory)


def open_to_others(base: str) -> list[str]:
    """The journals at a local folder with files that group or others may read or write."""
    if "://" in base and not base.startswith("file://"):
        return []
    folders = [Path(folder) for folder in (base.removeprefix("file://"), *journal_folders(base))]
    return [str(folder) for folder in folders if _is_open(folder)]


def _is_open(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        (folder / "journal.json").stat()
        if folder.stat().st_mode & _OTHERS:
            return True
        with os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat().st_mode & _OTHERS:
                        return True
    return False


NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The disk is full, or the user's quota is exhausted."""


def write_arrow(file: Any, table: pa.Table) -> None:
    import pyarrow as pa

    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def as_file(table: pa.Table) -> pa.NativeFile:
    import pyarrow as pa

    file = pa.BufferOutputStream()
    write_arrow(file, table)
    return pa.BufferReader(file.getvalue())


@contextlib.contextmanager
def translating_read_errors(url: str) -> Iterator[None]:
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
def translating_write_errors(url: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unavailable(url, error) from error


def is_out_of_space(error: JournalUnavailable) -> bool:
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in NO_SPACE


def unavailable(url: str, error: OSError) -> JournalUnavailable:
    return JournalUnavailable(
        f'could not write the journal at "{url}": {error.strerror or error}',
        hint="Free space or fix the folder's permissions; the receiver tries again, and the slot keeps the changes until then.",
    )


WRITER_FILE: Final = "journal.writer"
RESERVE_FILE: Final = "journal.reserve"
RESERVE_BYTES: Final = 256 * 1024
_SMALL_FILE_BYTES: Final = 8 * 1024
"""A small file needs one or two blocks while it is replaced."""

_READ_AT_ONCE_BYTES: Final = 256 * 1024

_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600


class LocalStorage:
    """A folder on a local disk. *Durable* means ``fsync`` of the file before the rename, and of the
    folder after it.

    On a full disk, the target's progress could not be recorded, so nothing could be trimmed. A
    local journal therefore has a *reserve*, a file that is shortened by the space of a small file
    when that cannot be written, and filled up again when there is space.
    """

    remote = False

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self.folder = folder

    def names(self, known: Mapping[str, int] = _NOTHING) -> list[tuple[str, int]]:
        found = []
        with (
            translating_read_errors(self.url),
            contextlib.suppress(FileNotFoundError),
            os.scandir(self.folder) as entries,
        ):
            for entry in entries:
                size = known.get(entry.name)
                if size is not None:
                    found.append((entry.name, size))
                    continue
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file():
                        found.append((entry.name, entry.stat().st_size))
        return found

    def change_token(self) -> int | None:
        """The folder's modification time, which a rename into the folder changes."""
        with translating_read_errors(self.url), contextlib.suppress(FileNotFoundError):
            return self.folder.stat().st_mtime_ns
        return 0

    def read(self, name: str) -> bytes | None:
        with translating_read_errors(self.url), contextlib.suppress(FileNotFoundError):
            return (self.folder / name).read_bytes()
        return None

    def open(self, name: str) -> pa.NativeFile:
        """Small files are read at once, because Arrow reads a mapped one in another thread."""
        import pyarrow as pa

        path = self.folder / name
        with path.open("rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size <= _READ_AT_ONCE_BYTES:
                return pa.BufferReader(file.read())
        return pa.memory_map(str(path))

    def create(self, name: str, table: pa.Table) -> int:
        path = self.folder / name
        try:
            with _private(path) as file:
                write_arrow(file, table)
                file.flush()
                failpoints.hit("journal.sync.before")
                os.fsync(file.fileno())
                failpoints.hit("journal.sync.after")
                return file.tell()
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            raise unavailable(self.url, error) from error

    def publish(self, renames: list[tuple[str, str]]) -> None:
        try:
            failpoints.hit("journal.rename.before")
            for temporary, final in renames:
                (self.folder / temporary).rename(self.folder / final)
            sync_folder(self.folder)
            failpoints.hit("journal.rename.after")
        except OSError as error:
            raise unavailable(self.url, error) from error

    def replace(self, name: str, content: bytes, *, durable: bool, from_reserve: bool = True) -> None:
        try:
            _make_private(self.folder)
            while True:
                try:
                    return replace_file(self.folder / name, content, durable=durable)
                except OSError as error:
                    if not (from_reserve and error.errno in NO_SPACE and self._shorten_reserve()):
                        raise
        except OSError as error:
            raise unavailable(self.url, error) from error

    def make_reserve(self) -> None:
        """Random bytes, which no file system can compress, and synced: some allocate only then. As
        much as there is space for.
        """
        path = self.folder / RESERVE_FILE
        with contextlib.suppress(OSError):
            if path.exists() and path.stat().st_size >= RESERVE_BYTES:
                return
            with _private(path, "ab", buffering=0) as file:
                try:
                    while (missing := RESERVE_BYTES - file.tell()) > 0:
                        file.write(os.urandom(min(missing, _SMALL_FILE_BYTES)))
                finally:
                    os.fsync(file.fileno())

    def _shorten_reserve(self) -> bool:
        """Free the space of a small file; False if the reserve is used up."""
        path = self.folder / RESERVE_FILE
        try:
            size = path.stat().st_size
            os.truncate(path, max(0, size - _SMALL_FILE_BYTES))
        except OSError:
            return False
        return size > 0

    def delete(self, names: list[str]) -> None:
        for name in names:
            with translating_write_errors(self.url), contextlib.suppress(FileNotFoundError):
                (self.folder / name).unlink()

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """The lock is an ``flock``, which the kernel releases when the process ends."""
        try:
            _make_private(self.folder)
            file = _private(self.folder / "journal.lock")
        except OSError as error:
            raise unavailable(self.url, error) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True


def _make_private(folder: Path) -> None:
    """Create a folder and its missing parents, with access for this user only."""
    if not folder.exists():
        _make_private(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(_PRIVATE_FOLDER)


def _private(path: Path, mode: Literal["wb", "ab"] = "wb", buffering: int = -1) -> BinaryIO:
    """Open a file for writing; if it is new, only this user has access."""
    return open(path, mode, buffering, opener=lambda name, flags: os.open(name, flags, _PRIVATE_FILE))


class RemoteStorage:
    """Files of ``pyarrow.fs``. *Durable* means that the store has acknowledged the object, which
    appears as a whole or not at all.

    There is no lock, since a slot has at most one receiver at a time. But a receiver that was
    stopped for a while (SIGSTOP, a frozen machine) may wake up when another one has the slot. So
    :meth:`lock` writes who the writer is, and the writer looks there before it changes something:
    SlotInUse if it is no longer the writer. *Rejected:* a conditional write, which ``pyarrow.fs``
    does not have. Between look and write, a writer that is late can only write again what was
    received once, or set the control file back, and then the next receiver refuses.
    """

    remote = True

    def __init__(self, url: str, filesystem: Any, path: str) -> None:
        self.url = url
        self._fs = filesystem
        self._path = path.rstrip("/")
        self._writer: bytes | None = None

    def names(self, known: Mapping[str, int] = _NOTHING) -> list[tuple[str, int]]:  # noqa: ARG002 - an interface's arguments
        from pyarrow import fs as arrow_fs

        selector = arrow_fs.FileSelector(self._path, allow_not_found=True)
        with translating_read_errors(self.url):
            found = self._fs.get_file_info(selector)
        return [(info.base_name, info.size or 0) for info in found if info.type == arrow_fs.FileType.File]

    def change_token(self) -> int | None:
        return None

    def read(self, name: str) -> bytes | None:
        with (
            translating_read_errors(self.url),
            contextlib.suppress(FileNotFoundError),
            self._fs.open_input_file(self._at(name)) as file,
        ):
            return bytes(file.read())
        return None

    def open(self, name: str) -> pa.NativeFile:
        """The file is read with one request, so that there is no I/O error while it is parsed."""
        import pyarrow as pa

        with self._fs.open_input_file(self._at(name)) as file:
            return pa.BufferReader(file.read_buffer())

    def create(self, name: str, table: pa.Table) -> int:
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
        self._check_writer()
        try:
            failpoints.hit("journal.rename.before")
            for temporary, final in renames:
                self._fs.move(self._at(temporary), self._at(final))
            failpoints.hit("journal.rename.after")
        except OSError as error:
            raise unavailable(self.url, error) from error

    def replace(self, name: str, content: bytes, *, durable: bool, from_reserve: bool = True) -> None:  # noqa: ARG002 - an interface's arguments
        """Objects are always durable, and an object store is never full."""
        self._check_writer()
        self._put(name, content)

    def _put(self, name: str, content: bytes) -> None:
        try:
            self._fs.create_dir(os.path.dirname(self._at(name)), recursive=True)
            with self._fs.open_output_stream(self._at(name)) as file:
                file.write(content)
        except OSError as error:
            raise unavailable(self.url, error) from error

    def make_reserve(self) -> None:
        """An object store is never full."""

    def delete(self, names: list[str]) -> None:
        if names:
            self._check_writer()
        for name in names:
            with translating_write_errors(self.url), contextlib.suppress(FileNotFoundError):
                self._fs.delete_file(self._at(name))

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        writer = uuid.uuid4().hex.encode()
        self._put(WRITER_FILE, writer)
        self._writer = writer
        try:
            yield True
        finally:
            self._writer = None

    def _check_writer(self) -> None:
        if self._writer is not None and self.read(WRITER_FILE) != self._writer:
            raise SlotInUse(
                f'another receiver writes the journal at "{self.url}"',
                hint="It has taken the slot over. What this one had not yet written is sent to the other one.",
            )

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"


def filesystem(url: str) -> tuple[Any, str]:
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
