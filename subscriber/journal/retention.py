"""What may be removed: the entries that every consumer has passed.

A consumer leaves its position in a small file of its own beside the segments, after its target has
committed. The writer alone removes, so the control file has one writer. A prepared transaction
stays until the verdict on it (COMMIT PREPARED or ROLLBACK PREPARED) may go too: its changes are
applied at that place, which may be much later in the stream.

::

    consumer-8c1f…d2-1.lsn         {"lsn": "0/1A2B3C4", "subscription": "s", "place": "sqlite:////srv/app.db"}
             │       └ subscription's number
             └ target's identifier

A file is named by what never changes: a subscription may be renamed, a target may be moved. Who is
meant is told by what it says. Earlier versions named it by the subscription, and it held the
position alone; such a file counts like any other until its subscription's worker has replaced it.
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
    """Who keeps entries from being trimmed.

    Attributes:
        target: the target's identifier, 32 hexadecimal digits.
        subid: the subscription's number there.
        purpose: ``"apply"``; ``"sync"`` for what its tables still have to catch up; ``"released"``
            when it was taken off the slot, for the subscription that goes on with it.
    """

    target: str
    subid: int
    purpose: Purpose = "apply"

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{_PREFIX}{self.target}-{self.subid}{'' if self.purpose == 'apply' else f'-{self.purpose}'}{_SUFFIX}"


@dataclass(frozen=True, slots=True)
class ConsumerPosition:
    """What a consumer's file says.

    Attributes:
        file: its name.
        consumer: whose it is; None in a file of an earlier version.
        lsn: everything up to here has been applied; 0/0 when the file cannot be read, and then
            nothing may go.
        subscription: the subscription's name when it was written; None when the file cannot be
            read.
        place: where the target was then, without its password.
    """

    file: str
    consumer: Consumer | None
    lsn: LSN
    subscription: str | None
    place: str | None

    @property
    def purpose(self) -> Purpose:
        """What it is for."""
        if self.consumer is not None:
            return self.consumer.purpose
        return "sync" if self.file.endswith(f"{_EARLIER_SYNC}{_SUFFIX}") else "apply"


def write_consumer(
    storage: Storage, consumer: Consumer, lsn: LSN, *, subscription: str, place: str, durable: bool = False
) -> None:
    """Record that a consumer has applied everything up to ``lsn``.

    Args:
        storage: where the journal is.
        consumer: who.
        lsn: its position.
        subscription: the subscription's name, for people.
        place: where the target is, without its password, for people.
        durable: whether the position outlives a power failure. One that only moves forward need
            not: an older one that comes back holds trimming back for a moment.

    Raises:
        JournalUnavailable: it could not be written.
    """
    content = {"lsn": format_lsn(lsn), "subscription": subscription, "place": place}
    storage.replace(consumer.file, json.dumps(content).encode(), durable=durable)


def remove_consumer(storage: Storage, consumer: Consumer) -> None:
    """Forget a consumer; forgetting an unknown one is no error."""
    storage.delete([consumer.file])


def read_consumer(storage: Storage, consumer: Consumer) -> LSN:
    """How far a consumer has come; 0/0 when it never said."""
    return _position(storage, consumer.file)


def list_consumers(storage: Storage) -> list[ConsumerPosition]:
    """All consumers of a journal, by the names of their files."""
    found = (read_consumer_file(storage, file) for file in sorted(consumer_files(storage, storage.names())))
    return [position for position in found if position is not None]


def read_consumer_file(storage: Storage, file: str) -> ConsumerPosition | None:
    """What a consumer's file says; None when it is not there."""
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
    """The subscription of a file of an earlier version."""
    return file.removeprefix(_PREFIX).removesuffix(_SUFFIX).removesuffix(_EARLIER_SYNC)


def earlier_files(subscription: str) -> tuple[str, str]:
    """The files that an earlier version kept for a subscription: apply's, and that of its tables'
    synchronization.
    """
    return f"{_PREFIX}{subscription}{_SUFFIX}", f"{_PREFIX}{subscription}{_EARLIER_SYNC}{_SUFFIX}"


def consumer_files(storage: Storage, names: Iterable[tuple[str, int]], known: Iterable[str] = ()) -> frozenset[str]:
    """The files of the journal's consumers.

    Args:
        storage: where the journal is.
        names: its files, as :meth:`Storage.names` lists them.
        known: the consumers' files of a listing before. A file that is replaced while its folder is
            listed may be missing from the list, so these are gone only if they cannot be read
            either.
    """
    listed = frozenset(name for name, _ in names if name.startswith(_PREFIX) and name.endswith(_SUFFIX))
    return listed | {file for file in known if file not in listed and storage.read(file) is not None}


def slowest_consumer(storage: Storage, files: Iterable[str]) -> LSN:
    """The position that every consumer of ``files`` has passed; 0/0 when there is none, or when a
    file is gone.
    """
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
    found = read_consumer_file(storage, file)
    return INVALID_LSN if found is None else found.lsn
