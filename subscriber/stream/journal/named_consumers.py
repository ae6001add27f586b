"""Consumers of a journal that have a name and no target, such as a query of Spark.

::

    register ─▶ named-6f7264657273.lsn       {"lsn": "0/1A2B3C4", "moved": …}     what comes after it is kept
                      └ "orders", UTF-8 in hexadecimal digits
    drop ─────▶ named-6f7264657273.dropped   {"lsn": "0/1A2B3C4", "dropped": …}   nothing is kept any more
    forget ───▶ neither file

A consumer that was dropped cannot come back: the record of the drop refuses it. A consumer whose
next changes were removed cannot continue either. So nobody reads past a gap without being told.

The record is a file of its own, because a consumer may write its position at any time. A position
beside a record does not count.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from subscriber.base.clock import now
from subscriber.base.errors import JournalGap, UsageError
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.storage import Storage

_PREFIX: Final = "named-"
_POSITION: Final = ".lsn"
_RECORD: Final = ".dropped"
_LONGEST_NAME: Final = 63
"""In bytes, as in PostgreSQL; the encoded name is part of a file's name."""


@dataclass(frozen=True, slots=True)
class NamedConsumer:
    """A consumer as its file describes it.

    Attributes:
        lsn: it has passed everything up to here. 0/0 when the file cannot be read, and then nothing
            may be removed.
        moved: when it was registered or has last moved; None if that is not known.
        dropped: when it was dropped; None for a consumer for which entries are kept.
    """

    name: str
    lsn: LSN
    moved: str | None = None
    dropped: str | None = None


def register(storage: Storage, name: str, lsn: LSN = INVALID_LSN) -> LSN:
    """From now on, keep everything after the returned position for the consumer ``name``.

    A new consumer begins at ``lsn``, or without it at the beginning of the journal. A known
    consumer continues at its position, or at ``lsn`` if that is before its position.

    Raises:
        UsageError: the name is not valid.
        JournalGap: there is no journal, or changes after the position were removed from it, or the
            consumer was dropped. Then nothing has changed.
    """
    file = _file(name)
    _refuse_dropped(storage, name)
    known = read_named(storage, file)
    positions = [one for one in (lsn, INVALID_LSN if known is None else known.lsn) if one != INVALID_LSN]
    while True:
        begin = _beginning(storage)
        start = LSN(min(positions, default=begin))
        if start < begin:
            raise _trimmed(storage, name, start, begin, is_known=known is not None)
        _write(storage, file, start, durable=True)
        if _beginning(storage) <= start:
            return start
        # The journal was trimmed in the meantime, without the file that was just written.
        if known is None:
            storage.delete([file])
        else:
            _write(storage, file, known.lsn, durable=True)


def advance(storage: Storage, name: str, lsn: LSN, *, durable: bool = False) -> None:
    """Record that the consumer needs nothing up to ``lsn`` any more. A position never moves back.
    It need not be ``durable``: an older one only keeps more.

    Raises:
        JournalGap: the consumer was dropped.
        UsageError: it was never registered, or was forgotten.
    """
    file = _file(name)
    _refuse_dropped(storage, name)
    known = read_named(storage, file)
    if known is None:
        raise UsageError(
            f'the journal at "{storage.url}" has no consumer {quoted(name)}',
            sqlstate="42704",
            detail="`subscriber journal forget` has removed it.",
            hint="Start the query again: it registers the consumer where its checkpoint is, if the journal still has what comes next.",
        )
    if lsn > known.lsn:
        _write(storage, file, lsn, durable=durable)
        try:
            _refuse_dropped(storage, name)
        except JournalGap:
            storage.delete([file])  # it was dropped meanwhile, and this has written its position again
            raise


def drop(storage: Storage, consumer: NamedConsumer) -> None:
    """Keep nothing for a consumer any more, and refuse it when it comes back."""
    file = _file(consumer.name)
    record = {"lsn": format_lsn(consumer.lsn), "moved": consumer.moved, "dropped": now()}
    storage.replace(_record(file), json.dumps(record).encode(), durable=True)
    storage.delete([file])


def forget(storage: Storage, name: str) -> bool:
    """Remove a consumer and the record that it was dropped; returns whether there was either."""
    file = _file(name)
    known = [one for one in (file, _record(file)) if storage.read(one) is not None]
    storage.delete(known)
    return bool(known)


def list_named(storage: Storage, names: Sequence[tuple[str, int]] | None = None) -> list[NamedConsumer]:
    """All named consumers of a journal, also those that were dropped, by name; ``names`` is a
    listing of the journal.
    """
    names = storage.names() if names is None else names
    listed = [*named_files(names), *(name for name, _ in names if name.startswith(_PREFIX) and name.endswith(_RECORD))]
    found = (read_named(storage, file) for file in listed)
    return sorted((one for one in found if one is not None), key=lambda one: one.name)


def named_files(names: Iterable[tuple[str, int]]) -> frozenset[str]:
    """The files in a listing of a journal of the consumers for which entries are kept."""
    listed = {name for name, _ in names if name.startswith(_PREFIX)}
    return frozenset(name for name in listed if name.endswith(_POSITION) and _record(name) not in listed)


def is_named(file: str) -> bool:
    return file.startswith(_PREFIX)


def read_named(storage: Storage, file: str) -> NamedConsumer | None:
    """The consumer of a position or of a record; None if there is no such file."""
    content = storage.read(file)
    if content is None:
        return None
    name = bytes.fromhex(file.removeprefix(_PREFIX).partition(".")[0]).decode()
    fields: dict[str, Any] = {}
    lsn = INVALID_LSN
    try:
        fields = dict(json.loads(content))
        lsn = parse_lsn(fields["lsn"])
    except (ValueError, KeyError, TypeError, AttributeError, UsageError):
        pass  # a power failure has damaged a position, which is not synced
    dropped = fields.get("dropped", "an unknown day") if file.endswith(_RECORD) else None
    return NamedConsumer(name, lsn, fields.get("moved"), dropped)


def quoted(name: str) -> str:
    """A name for messages. It may contain quotes and line breaks, because a user has chosen it."""
    return json.dumps(name, ensure_ascii=False)


def _file(name: str) -> str:
    """The position's file. The encoding has no capital letters: some file systems ignore case."""
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        encoded = b""
    if not 0 < len(encoded) <= _LONGEST_NAME or name.endswith(_POSITION):
        raise UsageError(
            f"invalid name of a consumer: {quoted(name)}",
            sqlstate="42602",
            hint=f'A name has 1 to {_LONGEST_NAME} bytes of UTF-8, and does not end in "{_POSITION}", as files do.',
        )
    return f"{_PREFIX}{encoded.hex()}{_POSITION}"


def _record(file: str) -> str:
    return file.removesuffix(_POSITION) + _RECORD


def _write(storage: Storage, file: str, lsn: LSN, *, durable: bool) -> None:
    storage.replace(file, json.dumps({"lsn": format_lsn(lsn), "moved": now()}).encode(), durable=durable)


def _beginning(storage: Storage) -> LSN:
    control = read_control(storage)
    if control is None:
        raise JournalGap(
            f'there is no journal at "{storage.url}"',
            hint="`subscriber run` or `subscriber receive` creates it; `subscriber journal ls` lists those that exist.",
        )
    return control.begin


def _refuse_dropped(storage: Storage, name: str) -> None:
    found = read_named(storage, _record(_file(name)))
    if found is not None:
        raise JournalGap(
            f"consumer {quoted(name)} was dropped on {found.dropped} at {format_lsn(found.lsn)}",
            detail="It was too far behind (SUBSCRIBER_JOURNAL_ABSENT_CONSUMERS), or the journal began again."
            " What it had not read is no longer kept for it.",
            hint=f"Start again with a new checkpoint and another consumer. Or {_forget(storage, name)}, and start the query"
            " again: it continues if the journal still has what comes after its checkpoint, and is refused otherwise.",
            lsn=found.lsn,
        )


def _trimmed(storage: Storage, name: str, start: LSN, begin: LSN, *, is_known: bool) -> JournalGap:
    first = f"{_forget(storage, name)}, and start again" if is_known else "Start again"
    return JournalGap(
        f"consumer {quoted(name)} needs the changes after {format_lsn(start)}, but the journal begins at {format_lsn(begin)}",
        detail="The changes in between were removed, because no consumer that was registered needed them.",
        hint=f"{first[0].upper()}{first[1:]} with a new checkpoint and new copies of the tables.",
        lsn=start,
    )


def _forget(storage: Storage, name: str) -> str:
    return f"run `subscriber journal forget --journal {shlex.quote(storage.url)} {shlex.quote(name)} --yes`"
