"""The files of a journal: in a local folder, or at any ``pyarrow.fs`` URL.

The rest of the package needs six operations only: list, read, create a temporary file, publish it
under its final name, replace a small file, and delete. *Durable* means on a local disk: ``fsync``
of the file before the rename, and of the folder after it. On an object store it means that the
store has acknowledged the object.

A local journal contains the publisher's rows. Only its user has access to the folder (mode 0700,
files 0600), as with PostgreSQL's data directory.

On a full disk, the target's progress could not be recorded. Then nothing could be trimmed, and no
space would ever become free. A local journal therefore has a *reserve*, a file that is never read.
It is deleted when a small file cannot be written, and recreated when there is space again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

from subscriber import failpoints
from subscriber.errors import JournalUnavailable, UsageError

if TYPE_CHECKING:
    import pyarrow as pa  # imported where it is used: `subscriber status` does not read segments

RESERVE_FILE: Final = "journal.reserve"
RESERVE_BYTES: Final = 256 * 1024
"""Space for many small files: each needs one or two blocks while it is replaced."""

_NOTHING: Final[Mapping[str, int]] = {}
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600
_OTHERS: Final = 0o077


class Storage(Protocol):
    """The files of one journal.

    Attributes:
        url: the folder or URL of the files.
        remote: whether each read and each listing is a request to a server.
    """

    url: str
    remote: bool

    def names(self, known: Mapping[str, int] = _NOTHING) -> list[tuple[str, int]]:
        """The name and the size in bytes of every file, in no particular order.

        Args:
            known: sizes of files that are not asked for again. To ask for a size takes several
                times as long as to list a name.

        Raises:
            JournalUnavailable: the folder cannot be listed now.
        """

    def change_token(self) -> int | None:
        """A number that changes when files are added or removed; None where only a listing shows
        that.
        """

    def read(self, name: str) -> bytes | None:
        """A small file's content, or None when there is no file of that name.

        Raises:
            JournalUnavailable: the file cannot be read now.
        """

    def open(self, name: str) -> pa.NativeFile:
        """Open a segment for random access."""

    def create(self, name: str, table: pa.Table) -> int:
        """Write a temporary Arrow file. It is durable when this returns. Returns its size in bytes.

        Raises:
            JournalUnavailable: the file could not be written.
        """

    def publish(self, renames: list[tuple[str, str]]) -> None:
        """Rename durable temporary files to their final names, in order. The names are durable when
        this returns.

        Raises:
            JournalUnavailable: a file could not be renamed.
        """

    def replace(self, name: str, content: bytes, *, durable: bool, from_reserve: bool = True) -> None:
        """Write a small file as a whole, so that a reader sees either the old or the new content.

        Args:
            name: the file's name.
            content: the complete new content.
            durable: whether the content must survive a power failure.
            from_reserve: whether the reserve may be deleted to make space for the file.

        Raises:
            JournalUnavailable: the file could not be written.
        """

    def make_reserve(self) -> None:
        """Recreate the reserve if it is missing and there is space."""

    def delete(self, names: list[str]) -> None:
        """Remove files, in order; a missing file is no error.

        Raises:
            JournalUnavailable: a file could not be removed.
        """

    def lock(self) -> contextlib.AbstractContextManager[bool]:
        """Lock the journal against other writers; yields False when another writer has the lock."""


def journal_url(base: str, system_identifier: str, slot: str) -> str:
    """The URL of one slot's journal, below the configured folder or URL.

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


def move_journal(old: str, new: str) -> None:
    """Rename the folder of a journal within the same file system.

    Raises:
        JournalUnavailable: the folder could not be moved.
        UsageError: no file system handles the URL.
    """
    if "://" not in old or old.startswith("file://"):
        with _writing(old):
            Path(old.removeprefix("file://")).rename(new.removeprefix("file://"))
        return
    from pyarrow import fs as arrow_fs

    filesystem, source = _filesystem(old)
    _, destination = _filesystem(new)
    with _writing(old):
        arrow_fs.copy_files(source, destination, source_filesystem=filesystem, destination_filesystem=filesystem)
        filesystem.delete_dir(source)


def journal_folders(base: str) -> list[str]:
    """The folders directly below a folder or URL, sorted by name; empty where there is no such
    folder.

    Raises:
        UsageError: no file system handles the URL.
        JournalUnavailable: the folder cannot be listed now.
    """
    if "://" not in base or base.startswith("file://"):
        folder = Path(base.removeprefix("file://"))
        with _reading(base):
            return sorted(str(path) for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    from pyarrow import fs as arrow_fs

    filesystem, path = _filesystem(base)
    with _reading(base):
        found = filesystem.get_file_info(arrow_fs.FileSelector(path, allow_not_found=True))
    return sorted(f"{base.rstrip('/')}/{info.base_name}" for info in found if info.type == arrow_fs.FileType.Directory)


def open_to_others(base: str) -> list[str]:
    """The journals at or below a local folder that have files which group or others may read or
    write.

    Journals of other users that this user may not read are left out.

    Raises:
        JournalUnavailable: the folder cannot be listed now.
    """
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


def is_out_of_space(error: JournalUnavailable) -> bool:
    """Whether a file could not be written because the disk is full or the user's quota is
    exhausted.
    """
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in _NO_SPACE


def _filesystem(url: str) -> tuple[Any, str]:
    import pyarrow as pa
    from pyarrow import fs as arrow_fs

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

    remote = False

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self.folder = folder

    def names(self, known: Mapping[str, int] = _NOTHING) -> list[tuple[str, int]]:
        """See :class:`Storage`."""
        found = []
        with _reading(self.url), contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
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
        """See :class:`Storage`. The token is the folder's modification time, which a rename into
        the folder changes.
        """
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
        import pyarrow as pa

        return pa.memory_map(str(self.folder / name))

    def create(self, name: str, table: pa.Table) -> int:
        """See :class:`Storage`."""
        path = self.folder / name
        try:
            with _private(path) as file:
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

    def replace(self, name: str, content: bytes, *, durable: bool, from_reserve: bool = True) -> None:
        """See :class:`Storage`."""
        try:
            try:
                self._replace(name, content, durable=durable)
            except OSError as error:
                if not (from_reserve and error.errno in _NO_SPACE and self._give_up_reserve()):
                    raise
                self._replace(name, content, durable=durable)
        except OSError as error:
            raise _unavailable(self.url, error) from error

    def _replace(self, name: str, content: bytes, *, durable: bool) -> None:
        path = self.folder / name
        temporary = path.with_name(f"{name}.{os.getpid()}.tmp")
        try:
            _make_private(self.folder)
            with _private(temporary) as file:
                file.write(content)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            temporary.rename(path)
            if durable:
                self._sync_folder()
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise

    def make_reserve(self) -> None:
        """See :class:`Storage`. The bytes are random, so that no file system can compress them
        away, and are synced, because some file systems allocate blocks only then.
        """
        path = self.folder / RESERVE_FILE
        try:
            if path.exists() and path.stat().st_size == RESERVE_BYTES:
                return
            with _private(path) as file:
                file.write(os.urandom(RESERVE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            self._give_up_reserve()

    def _give_up_reserve(self) -> bool:
        """Delete the reserve; returns whether it existed."""
        try:
            (self.folder / RESERVE_FILE).unlink()
        except OSError:
            return False
        return True

    def delete(self, names: list[str]) -> None:
        """See :class:`Storage`."""
        for name in names:
            with _writing(self.url), contextlib.suppress(FileNotFoundError):
                (self.folder / name).unlink()

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """See :class:`Storage`. The lock is an ``flock``, which the kernel releases when the
        process ends.
        """
        try:
            _make_private(self.folder)
            file = _private(self.folder / "journal.lock")
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
    """The files below a prefix of any ``pyarrow.fs`` file system.

    An object appears as a whole or not at all, and is durable when the store has acknowledged it.
    There is no lock: a replication slot has at most one receiver at a time.
    """

    remote = True

    def __init__(self, url: str, filesystem: Any, path: str) -> None:
        self.url = url
        self._fs = filesystem
        self._path = path.rstrip("/")

    def names(self, known: Mapping[str, int] = _NOTHING) -> list[tuple[str, int]]:  # noqa: ARG002 - an interface's arguments
        """See :class:`Storage`. A listing has all sizes."""
        from pyarrow import fs as arrow_fs

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

    def replace(self, name: str, content: bytes, *, durable: bool, from_reserve: bool = True) -> None:  # noqa: ARG002 - an interface's arguments
        """See :class:`Storage`. Objects are always durable, and an object store is never full."""
        try:
            self._fs.create_dir(os.path.dirname(self._at(name)), recursive=True)
            with self._fs.open_output_stream(self._at(name)) as file:
                file.write(content)
        except OSError as error:
            raise _unavailable(self.url, error) from error

    def make_reserve(self) -> None:
        """See :class:`Storage`."""

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


def _make_private(folder: Path) -> None:
    """Create a folder and its missing parents, with access for this user only."""
    if not folder.exists():
        _make_private(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(_PRIVATE_FOLDER)


def _private(path: Path) -> BinaryIO:
    """Open an empty file for writing; if it is new, only this user has access."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, _PRIVATE_FILE))


def _write_arrow(file: Any, table: pa.Table) -> None:
    import pyarrow as pa

    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def as_file(table: pa.Table) -> pa.NativeFile:
    """A table as an open Arrow file in memory."""
    import pyarrow as pa

    file = pa.BufferOutputStream()
    _write_arrow(file, table)
    return pa.BufferReader(file.getvalue())


@contextlib.contextmanager
def _reading(url: str) -> Iterator[None]:
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
