"""What may be removed: the entries that every consumer has passed.

A consumer (a subscription's apply) leaves its position in a small file of its own beside the segments, after
its target has committed. The writer alone removes, so the control file has one writer. A prepared
transaction stays until the verdict on it (COMMIT PREPARED or ROLLBACK PREPARED) may go too: its changes are
applied at that place, which may be much later in the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from subscriber.journal.segment import Entry, Kind
from subscriber.journal.storage import Storage
from subscriber.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn

_PREFIX: Final = "consumer-"
_SUFFIX: Final = ".lsn"


def write_consumer(storage: Storage, name: str, applied: LSN) -> None:
    """Record that consumer ``name`` has applied everything up to ``applied``.

    The file only allows removal, so losing it to a crash costs nothing and it is not synced.
    """
    storage.replace(f"{_PREFIX}{name}{_SUFFIX}", format_lsn(applied).encode(), durable=False)


def remove_consumer(storage: Storage, name: str) -> None:
    """Forget consumer ``name``; forgetting an unknown one is no error."""
    storage.delete([f"{_PREFIX}{name}{_SUFFIX}"])


def read_consumer(storage: Storage, name: str) -> LSN:
    """How far consumer ``name`` has come; 0/0 when it never said."""
    return _position(storage, f"{_PREFIX}{name}{_SUFFIX}")


def consumer_files(storage: Storage, names: Iterable[tuple[str, int]], known: Iterable[str] = ()) -> frozenset[str]:
    """The files of the journal's consumers.

    Args:
        storage: where the journal is.
        names: its files, as :meth:`Storage.names` lists them.
        known: the consumers' files of a listing before. A file that is replaced while its folder is listed may be
            missing from the list, so these are gone only if they cannot be read either.
    """
    listed = frozenset(name for name, _ in names if name.startswith(_PREFIX) and name.endswith(_SUFFIX))
    return listed | {file for file in known if file not in listed and storage.read(file) is not None}


def slowest_consumer(storage: Storage, files: Iterable[str]) -> LSN:
    """The position that every consumer of ``files`` has passed; 0/0 when there is none, or when a file is gone."""
    return LSN(min((_position(storage, file) for file in files), default=INVALID_LSN))


def trimmable(entries: Sequence[Entry], passed: LSN) -> list[Entry]:
    """The entries that may go when every consumer has passed ``passed``."""
    behind = [entry for entry in entries if entry.end <= passed]
    judged = {entry.xid for entry in behind if entry.kind in (Kind.COMMIT_PREPARED, Kind.ROLLBACK_PREPARED)}
    return [entry for entry in behind if entry.kind is not Kind.PREPARED or entry.xid in judged]


def without_kept(entries: Sequence[Entry], keep_size: int) -> list[Entry]:
    """The entries but for the newest ones, of which together ``keep_size`` bytes are kept."""
    newest_first = sorted(entries, key=lambda entry: entry.end, reverse=True)
    sizes = accumulate(entry.size for entry in newest_first)
    return [entry for entry, size in zip(newest_first, sizes, strict=True) if size > keep_size][::-1]


def undecided(entries: Iterable[Entry]) -> list[Entry]:
    """The prepared transactions of ``entries`` (in their order) whose verdict is not among them."""
    prepared: dict[int, Entry] = {}
    for entry in entries:
        if entry.kind is Kind.PREPARED:
            prepared[entry.xid] = entry
        elif entry.kind in (Kind.COMMIT_PREPARED, Kind.ROLLBACK_PREPARED):
            prepared.pop(entry.xid, None)
    return list(prepared.values())


def _position(storage: Storage, file: str) -> LSN:
    content = storage.read(file)
    return parse_lsn(content.decode()) if content else INVALID_LSN
