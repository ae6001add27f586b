"""Where the files of journals are: in local folders, or at URLs of ``pyarrow.fs``.

The rest of the package needs six operations only: list, read, create a temporary file, publish it
under its final name, replace a small file, and delete (:class:`Storage`). What *durable* means is
said by :mod:`subscriber.journal.local_storage` and :mod:`subscriber.journal.remote_storage`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from subscriber.journal.local_storage import LocalStorage
from subscriber.journal.remote_storage import RemoteStorage, filesystem
from subscriber.journal.storage_files import reading, writing

if TYPE_CHECKING:
    import pyarrow as pa  # imported where it is used: `subscriber status` does not read segments

_NOTHING: Final[Mapping[str, int]] = {}
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
    return RemoteStorage(url, *filesystem(url))


def move_journal(old: str, new: str) -> None:
    """Rename the folder of a journal within the same file system.

    Raises:
        JournalUnavailable: the folder could not be moved.
        UsageError: no file system handles the URL.
    """
    if "://" not in old or old.startswith("file://"):
        with writing(old):
            Path(old.removeprefix("file://")).rename(new.removeprefix("file://"))
        return
    from pyarrow import fs as arrow_fs

    files, source = filesystem(old)
    _, destination = filesystem(new)
    with writing(old):
        arrow_fs.copy_files(source, destination, source_filesystem=files, destination_filesystem=files)
        files.delete_dir(source)


def journal_folders(base: str) -> list[str]:
    """The folders directly below a folder or URL, sorted by name; empty where there is no such
    folder.

    Raises:
        UsageError: no file system handles the URL.
        JournalUnavailable: the folder cannot be listed now.
    """
    if "://" not in base or base.startswith("file://"):
        folder = Path(base.removeprefix("file://"))
        with reading(base):
            return sorted(str(path) for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    from pyarrow import fs as arrow_fs

    files, path = filesystem(base)
    with reading(base):
        found = files.get_file_info(arrow_fs.FileSelector(path, allow_not_found=True))
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
