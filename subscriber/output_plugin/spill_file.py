"""The changes of one transaction on disk, until they are replayed.

The file is opened for each batch that is written or read, and closed after it. So the number of
open files does not depend on the number of transactions and subtransactions (invariant
bounded_memory).
"""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final

from subscriber.errors import OutputPluginError

_LENGTH: Final = Struct("<I")


class SpillFile:
    """A file of items, in the order in which they were appended.

    Args:
        path: the file; nobody else writes to it.
        xid: the transaction, for messages.
    """

    def __init__(self, path: str, xid: int) -> None:
        self._path = path
        self._xid = xid

    def append(self, items: Iterable[tuple[Any, ...]]) -> None:
        """Write items at the end of the file.

        Raises:
            OutputPluginError: 53100 if the disk is full, else 58030: ``could not write to data file
                for XID %u``.
        """
        try:
            with open(self._path, "ab") as file:
                for item in items:
                    data = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
                    file.write(_LENGTH.pack(len(data)))
                    file.write(data)
        except OSError as error:
            raise self._failed("could not write to data file", error) from error

    def read(self, chunk_bytes: int) -> Iterator[tuple[Any, ...]]:
        """The items, of which about ``chunk_bytes`` are in memory at a time.

        Raises:
            OutputPluginError: 58030, ``could not read from data file for XID %u``.
        """
        offset = 0
        while True:
            items, offset = self._chunk(offset, chunk_bytes)
            if not items:
                return
            yield from items

    def _chunk(self, offset: int, chunk_bytes: int) -> tuple[list[tuple[Any, ...]], int]:
        items: list[tuple[Any, ...]] = []
        end = offset + chunk_bytes
        try:
            with open(self._path, "rb") as file:
                file.seek(offset)
                while offset < end and (head := file.read(_LENGTH.size)):
                    data = file.read(*_LENGTH.unpack(head))
                    items.append(pickle.loads(data))  # noqa: S301 - this object has written the file, in a private folder
                    offset += len(head) + len(data)
        except OSError as error:
            raise self._failed("could not read from data file", error) from error
        return items, offset

    def delete(self) -> None:
        """Remove the file."""
        os.unlink(self._path)

    def _failed(self, action: str, error: OSError) -> OutputPluginError:
        return OutputPluginError(
            f"{action} for XID {self._xid}: {error.strerror}",
            sqlstate="53100" if error.errno == errno.ENOSPC else "58030",
            hint="Make room in the folder for temporary files, or allow more logical_decoding_work_mem.",
        )
