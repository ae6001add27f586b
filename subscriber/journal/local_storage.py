"""The files of a journal in a folder on a local disk.

*Durable* means ``fsync`` of the file before the rename, and of the folder after it.

A journal contains the publisher's rows. Only its user has access to the folder (mode 0700, files
0600), as with PostgreSQL's data directory.

On a full disk, the target's progress could not be recorded. Then nothing could be trimmed, and no
space would ever become free. A local journal therefore has a *reserve*, a file that is never read.
It is deleted when a small file cannot be written, and recreated when there is space again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from subscriber import failpoints
from subscriber.journal.storage_files import NO_SPACE, reading, unavailable, write_arrow, writing

if TYPE_CHECKING:
    import pyarrow as pa  # imported where it is used: `subscriber status` does not read segments

RESERVE_FILE: Final = "journal.reserve"
RESERVE_BYTES: Final = 256 * 1024
"""Space for many small files: each needs one or two blocks while it is replaced."""

_NOTHING: Final[Mapping[str, int]] = {}
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600


class LocalStorage:
    """A folder on a local disk."""

    remote = False

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self.folder = folder

    def names(self, known: Mapping[str, int] = _NOTHING) -> list[tuple[str, int]]:
        """See :class:`Storage`."""
        found = []
        with reading(self.url), contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
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
        with reading(self.url), contextlib.suppress(FileNotFoundError):
            return self.folder.stat().st_mtime_ns
        return 0

    def read(self, name: str) -> bytes | None:
        """See :class:`Storage`."""
        with reading(self.url), contextlib.suppress(FileNotFoundError):
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
        """See :class:`Storage`."""
        try:
            failpoints.hit("journal.rename.before")
            for temporary, final in renames:
                (self.folder / temporary).rename(self.folder / final)
            self._sync_folder()
            failpoints.hit("journal.rename.after")
        except OSError as error:
            raise unavailable(self.url, error) from error

    def replace(self, name: str, content: bytes, *, durable: bool, from_reserve: bool = True) -> None:
        """See :class:`Storage`."""
        try:
            try:
                self._replace(name, content, durable=durable)
            except OSError as error:
                if not (from_reserve and error.errno in NO_SPACE and self._give_up_reserve()):
                    raise
                self._replace(name, content, durable=durable)
        except OSError as error:
            raise unavailable(self.url, error) from error

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
            with writing(self.url), contextlib.suppress(FileNotFoundError):
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
            raise unavailable(self.url, error) from error
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


def _make_private(folder: Path) -> None:
    """Create a folder and its missing parents, with access for this user only."""
    if not folder.exists():
        _make_private(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(_PRIVATE_FOLDER)


def _private(path: Path) -> BinaryIO:
    """Open an empty file for writing; if it is new, only this user has access."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, _PRIVATE_FILE))
