"""Which entries may be removed: those that every consumer has passed.

A consumer writes its position to a small separate file, after its target has committed. A prepared
transaction is kept until its COMMIT PREPARED or ROLLBACK PREPARED may be removed, too.

::

    consumer-8c1f…d2-1.lsn         {"lsn": "0/1A2B3C4", "subscription": "s", "place": "sqlite:////srv/app.db", "carrier": null}
             │       └ subscription's number
             └ target's identifier

The name is made of identifiers that never change, because a subscription may be renamed and a
target may be moved. A file of an earlier version, which has only the position, counts like any
other until the worker of its subscription has replaced it.

Consumers without a target have names (:mod:`subscriber.stream.journal.named_consumers`). What they
have not passed is kept, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Literal

from subscriber.base.errors import UsageError
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn
from subscriber.stream.journal.named_consumers import NamedConsumer, is_named, named_files, read_named
from subscriber.stream.journal.segment import Entry, EntryKind
from subscriber.stream.journal.storage import Storage

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
        return f"{_PREFIX}{self.target}-{self.subid}{'' if self.purpose == 'apply' else f'-{self.purpose}'}{_SUFFIX}"


@dataclass(frozen=True, slots=True)
class ConsumerPosition:
    """The content of a consumer's file. ``consumer`` is None in a file of an earlier version.
    ``place`` is the target's URL without its password. ``carrier`` is the publication that the
    server sends where the subscription's own publications are emulated.

    ``lsn`` is 0/0 when the file cannot be read, and then nothing may be removed.
    """

    file: str
    consumer: Consumer | None
    lsn: LSN
    subscription: str | None
    place: str | None
    carrier: str | None = None

    @property
    def purpose(self) -> Purpose:
        """The purpose of the consumer, also for a file of an earlier version."""
        if self.consumer is not None:
            return self.consumer.purpose
        return "sync" if self.file.endswith(f"{_EARLIER_SYNC}{_SUFFIX}") else "apply"


def write_consumer(
    storage: Storage,
    consumer: Consumer,
    lsn: LSN,
    *,
    subscription: str,
    place: str,
    carrier: str | None = None,
    durable: bool = False,
) -> None:
    """Record that a consumer has applied everything up to ``lsn``; name and ``place`` are for
    display, ``carrier`` is for readers that do not know the subscription. A position that only
    moves forward need not be ``durable``: an older one only delays trimming.
    """
    content = {"lsn": format_lsn(lsn), "subscription": subscription, "place": place, "carrier": carrier}
    storage.replace(consumer.file, json.dumps(content).encode(), durable=durable)


def remove_consumer(storage: Storage, consumer: Consumer) -> None:
    """Remove a consumer's file; an unknown consumer is no error."""
    storage.delete([consumer.file])


def read_consumer(storage: Storage, consumer: Consumer) -> LSN:
    """The position of a consumer; 0/0 when it has not recorded any."""
    return _position(storage, consumer.file)


def list_consumers(storage: Storage) -> list[ConsumerPosition]:
    """All consumers of a journal that have a target, in the order of their files' names."""
    files = sorted(file for file in consumer_files(storage, storage.names()) if not is_named(file))
    found = (read_consumer_file(storage, file) for file in files)
    return [position for position in found if position is not None]


def read_consumer_file(storage: Storage, file: str) -> ConsumerPosition | None:
    content = storage.read(file)
    if content is None:
        return None
    named = _FILE.fullmatch(file)
    consumer = named and Consumer(named[1], int(named[2]), _PURPOSES[named[3]])
    try:
        text = content.decode()
        fields: dict[str, Any] = json.loads(text) if text.startswith("{") else {"lsn": text}
        if "place" in fields:
            lsn, carrier = parse_lsn(fields["lsn"]), fields.get("carrier")
            return ConsumerPosition(file, consumer, lsn, fields["subscription"], fields["place"], carrier)
        return ConsumerPosition(file, None, parse_lsn(fields["lsn"]), _earlier_name(file), None)
    except (ValueError, KeyError, TypeError, AttributeError, UsageError):
        return ConsumerPosition(file, consumer, INVALID_LSN, None, None)


def _earlier_name(file: str) -> str:
    return file.removeprefix(_PREFIX).removesuffix(_SUFFIX).removesuffix(_EARLIER_SYNC)


def earlier_files(subscription: str) -> tuple[str, str]:
    """A subscription's files in earlier versions: apply's, and table synchronization's."""
    return f"{_PREFIX}{subscription}{_SUFFIX}", f"{_PREFIX}{subscription}{_EARLIER_SYNC}{_SUFFIX}"


def consumer_files(storage: Storage, names: Sequence[tuple[str, int]], known: Iterable[str] = ()) -> frozenset[str]:
    """The files in a listing of all consumers for which entries are kept. A file that is replaced
    meanwhile may be missing there, so a ``known`` file is gone only if it cannot be read either.
    """
    listed = frozenset(name for name, _ in names if name.startswith(_PREFIX) and name.endswith(_SUFFIX))
    listed |= named_files(names)
    return listed | {file for file in known if file not in listed and storage.read(file) is not None}


@dataclass(frozen=True, slots=True)
class Passed:
    """What the consumers of a journal have passed; 0/0 without consumers.

    Attributes:
        slowest: the lowest position, up to which entries may be removed; 0/0 when a file is gone.
        fastest: the highest position.
        applied: the lowest position of those that have a target, or of all if none has. The
            publisher is told this, and commits may wait for it.
    """

    slowest: LSN
    fastest: LSN
    applied: LSN


def passed(storage: Storage, files: Iterable[str]) -> Passed:
    """What the consumers with these files have passed."""
    positions = {file: _position(storage, file) for file in files}
    targets = [lsn for file, lsn in positions.items() if not is_named(file)]
    return Passed(
        LSN(min(positions.values(), default=INVALID_LSN)),
        LSN(max(positions.values(), default=INVALID_LSN)),
        LSN(min(targets or positions.values(), default=INVALID_LSN)),
    )


def reading(storage: Storage, files: Iterable[str]) -> list[LSN]:
    """The positions of the consumers that read the journal now. The others wait for a table."""
    found = (_read(storage, file) for file in files)
    return [one.lsn for one in found if isinstance(one, NamedConsumer) or (one is not None and one.purpose == "apply")]


def trimmable(entries: Sequence[Entry], passed: LSN) -> list[Entry]:
    """The entries that may be removed when every consumer has passed ``passed``."""
    behind = [entry for entry in entries if entry.end <= passed]
    judged = {entry.xid for entry in behind if entry.kind in (EntryKind.COMMIT_PREPARED, EntryKind.ROLLBACK_PREPARED)}
    return [entry for entry in behind if entry.kind is not EntryKind.PREPARED or entry.xid in judged]


def without_kept(entries: Sequence[Entry], keep_size: int) -> list[Entry]:
    """The entries without the newest ones, of which ``keep_size`` bytes are kept."""
    newest_first = sorted(entries, key=lambda entry: entry.end, reverse=True)
    sizes = accumulate(entry.size for entry in newest_first)
    return [entry for entry, size in zip(newest_first, sizes, strict=True) if size > keep_size][::-1]


def undecided(entries: Iterable[Entry]) -> list[Entry]:
    """The prepared transactions without COMMIT PREPARED or ROLLBACK PREPARED in ``entries``."""
    prepared: dict[int, Entry] = {}
    for entry in entries:
        if entry.kind is EntryKind.PREPARED:
            prepared[entry.xid] = entry
        elif entry.kind in (EntryKind.COMMIT_PREPARED, EntryKind.ROLLBACK_PREPARED):
            prepared.pop(entry.xid, None)
    return list(prepared.values())


def _read(storage: Storage, file: str) -> ConsumerPosition | NamedConsumer | None:
    return read_named(storage, file) if is_named(file) else read_consumer_file(storage, file)


def _position(storage: Storage, file: str) -> LSN:
    found = _read(storage, file)
    return INVALID_LSN if found is None else found.lsn
