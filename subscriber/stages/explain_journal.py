"""Reports why emulated publications have sent, rewritten or left out each change of a journal.

The journal contains everything that the carrier has sent, so the question can be answered later, as
long as the changes are kept. The answer uses the current definitions: the journal does not record
what ALTER PUBLICATION has changed since then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from subscriber.errors import SubscriberError
from subscriber.journal.message_rows import read_finish, read_rows
from subscriber.journal.reader import JournalReader
from subscriber.lsn import LSN
from subscriber.protocol.changes import ChangeGroup, Frame
from subscriber.protocol.controls import Control
from subscriber.publication.explanation import Explanation, explain
from subscriber.publication.publishing import Compiled, Publishing, compiled
from subscriber.stages.decode_frames import FrameDecoder
from subscriber.types.output import output_text

_TRUNCATE: Final = ord("T")

Values = Mapping[str, str | None]
"""The columns with their values as text. NULL is None, and columns that were not sent are missing.
"""


@dataclass(frozen=True, slots=True)
class Change:
    """A change, and its result.

    Attributes:
        finish_lsn: the end LSN of its transaction.
        lsn: the LSN of the change.
        xid: the ID of its transaction.
        relations: the relation of the change, or the relations that a TRUNCATE named.
        explanation: the explanation of a row's change; None for a TRUNCATE.
        truncated: the relations for which a TRUNCATE was sent.
        old: the sent columns of the old row.
        new: the sent columns of the new row.
    """

    finish_lsn: LSN
    lsn: LSN
    xid: int
    relations: tuple[str, ...]
    explanation: Explanation | None
    truncated: tuple[str, ...]
    old: Values
    new: Values


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selects changes: those that fulfil all conditions that are not None.

    Attributes:
        lsn: the LSN of the change, or the end LSN of its transaction.
        xid: the ID of the transaction.
        relation: ``schema.table`` as the carrier names it.
        key: columns with the values, as text, that they have in the old or in the new row.
    """

    lsn: LSN | None = None
    xid: int | None = None
    relation: str | None = None
    key: Mapping[str, str] | None = None


def explain_journal(journal: JournalReader, publishing: Publishing, wanted: Wanted) -> Iterator[Change]:
    """Return the selected changes of a journal in commit order.

    Raises:
        JournalGap: there is no journal, or a part of it is missing.
        SubscriberError: a change cannot be published exactly (relation, LSN).
    """
    programs = compiled(publishing)
    begin = journal.control().begin
    for reading in journal.plan(begin, journal.latest(begin)):
        decoder = FrameDecoder(as_text=False)
        for batch in read_rows(journal.storage, reading, read_finish(journal.storage, reading)):
            frame = decoder.decode(batch.column("message"), batch.column("lsn"))
            yield from _changes(frame, _Rows(batch), programs, wanted)


class _Rows:
    """The journal's columns of a batch, by the position of the row."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._finish, self._lsn, self._xid = (batch.column(name).to_pylist() for name in ("finish_lsn", "lsn", "xid"))

    def place(self, position: int) -> tuple[LSN, LSN, int]:
        return LSN(self._finish[position]), LSN(self._lsn[position]), int(self._xid[position])

    def is_wanted(self, position: int, wanted: Wanted) -> bool:
        finish, lsn, xid = self.place(position)
        return wanted.lsn in (None, finish, lsn) and wanted.xid in (None, xid)


def _changes(frame: Frame, rows: _Rows, programs: Compiled, wanted: Wanted) -> Iterator[Change]:
    found: list[tuple[int, Callable[[], Change]]] = []
    for group in frame.groups:
        if wanted.relation in (None, group.relation.qualified_name):
            found += _of_group(group, rows, programs, wanted)
    for control in frame.controls:
        names = tuple(relation.qualified_name for relation in control.relations)
        asked = wanted.key is None and (wanted.relation is None or wanted.relation in names)
        if control.message[0] == _TRUNCATE and asked and rows.is_wanted(control.position, wanted):
            found.append((control.position, partial(_truncate, control, names, rows, programs)))
    for _, change in sorted(found, key=lambda one: one[0]):
        yield change()


def _of_group(
    group: ChangeGroup, rows: _Rows, programs: Compiled, wanted: Wanted
) -> Iterator[tuple[int, Callable[[], Change]]]:
    for row, position in enumerate(group.positions.tolist()):
        if not rows.is_wanted(position, wanted):
            continue
        one = group.slice(row, row + 1)
        old, new = _values(one.old), _values(one.new)
        if wanted.key is None or any(wanted.key.items() <= values.items() for values in (dict(old), dict(new))):
            yield position, _Explained(one, position, old, new, rows, programs)


@dataclass(frozen=True, slots=True)
class _Explained:
    """A row's change, which is explained when the changes before it have been returned."""

    change: ChangeGroup
    position: int
    old: Values
    new: Values
    rows: _Rows
    programs: Compiled

    def __call__(self) -> Change:
        finish, lsn, xid = self.rows.place(self.position)
        try:
            (explanation,) = explain(self.change, self.programs)
        except SubscriberError as error:
            raise error.replace(relation=error.relation or self.change.relation.qualified_name, lsn=lsn) from None
        return Change(finish, lsn, xid, (self.change.relation.qualified_name,), explanation, (), self.old, self.new)


def _truncate(control: Control, names: tuple[str, ...], rows: _Rows, programs: Compiled) -> Change:
    sent = tuple(relation.qualified_name for relation in programs.truncated(control.relations))
    return Change(*rows.place(control.position), names, None, sent, {}, {})


def _values(batch: pa.RecordBatch | None) -> Values:
    if batch is None:
        return {}
    return {name: output_text(column[0]) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
