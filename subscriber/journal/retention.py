"""Which entries may be removed: those that every consumer has passed.

A consumer writes its position to a small separate file beside the segments, after its target has
committed. Only the writer removes entries, so that the control file has one writer. A prepared
transaction is kept until its COMMIT PREPARED or ROLLBACK PREPARED may be removed, too: its changes
are applied at that place, which may be much later in the stream.

::

    consumer-8c1f…d2-1.lsn         {"lsn": "0/1A2B3C4", "subscription": "s", "place": "sqlite:////srv/app.db"}
             │       └ subscription's number
             └ target's identifier

The file's name is made of identifiers that never change, because a subscription may be renamed and
a target may be moved. Their current names are in the file. Earlier versions named the file after
the subscription and wrote only the position into it. Such a file counts like any other until the
worker of its subscription has replaced it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Literal

from subscriber.errors import UsageError
from subscriber.journal.segment import Entry, Kind
from subscriber.journal.storage import Storage
from subscriber.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn

Purpose = Literal["apply", "sync", "released"]

_PURPOSES: Final[dict[str | None, Purpose]] = {None: "apply", "sync": "sync", "released": "released"}
_PREFIX: Final = "consumer-"
_SUFFIX: Final = ".lsn"
_EARLIER_SYNC: Final = " (table sync)"
_FILE: Final = re.compile(r"consumer-([0-9a-f]{32})-(\d+)(?:-(sync|released))?\.lsn", re.ASCII)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader of the journal for which entries are kept.

    Attributes:
        target: the target's identifier, 32 hexadecimal digits.
        subid: the subscription's number in the target's catalog.
        purpose: ``"apply"`` for the apply worker; ``"sync"`` for the changes that tables in
            synchronization still have to apply; ``"released"`` for a subscription that was detached
            from the slot, whose entries are kept for the subscription that takes over the slot.
    """

    target: str
    subid: int
    purpose: Purpose = "apply"

    @property
    def file(self) -> str:
        """The name of the consumer's file."""
        return f"{_PREFIX}{self.target}-{self.subid}{'' if self.purpose == 'apply' else f'-{self.purpose}'}{_SUFFIX}"


@dataclass(frozen=True, slots=True)
class ConsumerPosition:
    """The content of a consumer's file.

    Attributes:
        file: the file's name.
        consumer: the consumer; None in a file of an earlier version.
        lsn: the LSN up to which everything was applied; 0/0 when the file cannot be read, and then
            nothing may be removed.
        subscription: the subscription's name when the file was written; None when the file cannot
            be read.
        place: the target's URL at that time, without its password.
    """

    file: str
    consumer: Consumer | None
    lsn: LSN
    subscription: str | None
    place: str | None

    @property
    def purpose(self) -> Purpose:
        """The purpose of the consumer, also for a file of an earlier version."""
        if self.consumer is not None:
            return self.consumer.purpose
        return "sync" if self.file.endswith(f"{_EARLIER_SYNC}{_SUFFIX}") else "apply"


def write_consumer(
    storage: Storage, consumer: Consumer, lsn: LSN, *, subscription: str, place: str, durable: bool = False
) -> None:
    """Record that a consumer has applied everything up to ``lsn``.

    Args:
        storage: the files of the journal.
        consumer: the consumer.
        lsn: its position.
        subscription: the subscription's name, for display.
        place: the target's URL without its password, for display.
        durable: whether the position must survive a power failure. A position that only moves
            forward need not: an older position that comes back only delays trimming.

    Raises:
        JournalUnavailable: the file could not be written.
    """
    content = {"lsn": format_lsn(lsn), "subscription": subscription, "place": place}
    storage.replace(consumer.file, json.dumps(content).encode(), durable=durable)


def remove_consumer(storage: Storage, consumer: Consumer) -> None:
    """Remove a consumer's file; an unknown consumer is no error.

    Raises:
        JournalUnavailable: the file could not be removed.
    """
    storage.delete([consumer.file])


def read_consumer(storage: Storage, consumer: Consumer) -> LSN:
    """The position of a consumer; 0/0 when it has not recorded any."""
    return _position(storage, consumer.file)


def list_consumers(storage: Storage) -> list[ConsumerPosition]:
    """All consumers of a journal, in the order of their files' names."""
    found = (read_consumer_file(storage, file) for file in sorted(consumer_files(storage, storage.names())))
    return [position for position in found if position is not None]


def read_consumer_file(storage: Storage, file: str) -> ConsumerPosition | None:
    """The content of a consumer's file; None when there is no such file."""
    content = storage.read(file)
    if content is None:
        return None
    named = _FILE.fullmatch(file)
    consumer = named and Consumer(named[1], int(named[2]), _PURPOSES[named[3]])
    try:
        text = content.decode()
        fields: dict[str, Any] = json.loads(text) if text.startswith("{") else {"lsn": text}
        if "place" in fields:
            return ConsumerPosition(file, consumer, parse_lsn(fields["lsn"]), fields["subscription"], fields["place"])
        return ConsumerPosition(file, None, parse_lsn(fields["lsn"]), _earlier_name(file), None)
    except (ValueError, KeyError, TypeError, AttributeError, UsageError):
        return ConsumerPosition(file, consumer, INVALID_LSN, None, None)


def _earlier_name(file: str) -> str:
    """The subscription's name from the name of an earlier version's file."""
    return file.removeprefix(_PREFIX).removesuffix(_SUFFIX).removesuffix(_EARLIER_SYNC)


def earlier_files(subscription: str) -> tuple[str, str]:
    """The names of a subscription's files in earlier versions: the file of apply, and the file of
    table synchronization.
    """
    return f"{_PREFIX}{subscription}{_SUFFIX}", f"{_PREFIX}{subscription}{_EARLIER_SYNC}{_SUFFIX}"


def consumer_files(storage: Storage, names: Iterable[tuple[str, int]], known: Iterable[str] = ()) -> frozenset[str]:
    """The names of the files of the journal's consumers.

    Args:
        storage: the files of the journal.
        names: the files, as :meth:`Storage.names` lists them.
        known: the consumers' files that a previous listing showed. A file that is replaced while
            its folder is listed may be missing from the list. A known file is therefore gone only
            if it cannot be read either.
    """
    listed = frozenset(name for name, _ in names if name.startswith(_PREFIX) and name.endswith(_SUFFIX))
    return listed | {file for file in known if file not in listed and storage.read(file) is not None}


def slowest_and_fastest(storage: Storage, files: Iterable[str]) -> tuple[LSN, LSN]:
    """The lowest and the highest position in ``files``; 0/0 for both when there are no files, and
    for the lowest when a file is gone.
    """
    positions = [_position(storage, file) for file in files]
    return LSN(min(positions, default=INVALID_LSN)), LSN(max(positions, default=INVALID_LSN))


def trimmable(entries: Sequence[Entry], passed: LSN) -> list[Entry]:
    """The entries that may be removed when every consumer has passed ``passed``."""
    behind = [entry for entry in entries if entry.end <= passed]
    judged = {entry.xid for entry in behind if entry.kind in (Kind.COMMIT_PREPARED, Kind.ROLLBACK_PREPARED)}
    return [entry for entry in behind if entry.kind is not Kind.PREPARED or entry.xid in judged]


def without_kept(entries: Sequence[Entry], keep_size: int) -> list[Entry]:
    """The entries without the newest ones, of which ``keep_size`` bytes are kept."""
    newest_first = sorted(entries, key=lambda entry: entry.end, reverse=True)
    sizes = accumulate(entry.size for entry in newest_first)
    return [entry for entry, size in zip(newest_first, sizes, strict=True) if size > keep_size][::-1]


def undecided(entries: Iterable[Entry]) -> list[Entry]:
    """The prepared transactions in ``entries`` (in their order) that have no COMMIT PREPARED or
    ROLLBACK PREPARED there.
    """
    prepared: dict[int, Entry] = {}
    for entry in entries:
        if entry.kind is Kind.PREPARED:
            prepared[entry.xid] = entry
        elif entry.kind in (Kind.COMMIT_PREPARED, Kind.ROLLBACK_PREPARED):
            prepared.pop(entry.xid, None)
    return list(prepared.values())


def _position(storage: Storage, file: str) -> LSN:
    found = read_consumer_file(storage, file)
    return INVALID_LSN if found is None else found.lsn
