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

from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN, MAX_LSN
from subscriber.postgres.protocol.changes import ChangeGroup, Control, Frame
from subscriber.postgres.publication.explanation import Explanation, explain
from subscriber.postgres.publication.publishing import Compiled, Publishing, compiled
from subscriber.postgres.types.arrays import output_text
from subscriber.stream.decode.decode_frames import FrameDecoder
from subscriber.stream.journal.message_rows import read_finish, read_rows
from subscriber.stream.journal.reader import JournalReader

_TRUNCATE: Final = ord("T")

Values = Mapping[str, str | None]
"""The columns with their values as text. NULL is None, and columns that were not sent are missing.
"""


@dataclass(frozen=True, slots=True)
class ExplainedChange:
    """A change, and its result. ``explanation`` is None for a TRUNCATE: its ``relations`` are those
    that it named, its ``truncated`` those for which it was sent. ``old`` and ``new`` have the sent
    columns.
    """

    finish_lsn: LSN
    lsn: LSN
    xid: int
    relations: tuple[str, ...]
    explanation: Explanation | None
    truncated: tuple[str, ...]
    old: Values
    new: Values

    @property
    def operation(self) -> str:
        return "TRUNCATE" if self.explanation is None else self.explanation.operation.upper()

    def outcome(self) -> str:
        """What was sent, in words."""
        if self.explanation is not None:
            return self.explanation.outcome()
        return f"sent for {', '.join(self.truncated)}" if self.truncated else "left out"


@dataclass(frozen=True, slots=True)
class ChangeSelection:
    """Selects changes: those that fulfil all conditions that are not None.

    Attributes:
        lsn: the LSN of the change, or the end LSN of its transaction.
        relation: ``schema.table`` as the carrier names it.
        key: columns with the values, as text, that they have in the old or in the new row.
    """

    lsn: LSN | None = None
    xid: int | None = None
    relation: str | None = None
    key: Mapping[str, str] | None = None


def explain_journal(
    journal: JournalReader,
    publishing: Publishing,
    wanted: ChangeSelection,
    within: tuple[LSN, LSN] | None = None,
) -> Iterator[ExplainedChange]:
    """The selected changes in commit order, of the journal or of what finished ``within`` (start,
    end]. A SubscriberError has the relation and the LSN of a change that cannot be published
    exactly; a UsageError says that the journal was trimmed meanwhile.
    """
    programs = compiled(publishing)
    start, end = within or (journal.control().begin, MAX_LSN)
    with journal.unless_trimmed():
        for reading in journal.plan(start, end):
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

    def is_wanted(self, position: int, wanted: ChangeSelection) -> bool:
        finish, lsn, xid = self.place(position)
        return wanted.lsn in (None, finish, lsn) and wanted.xid in (None, xid)


def _changes(frame: Frame, rows: _Rows, programs: Compiled, wanted: ChangeSelection) -> Iterator[ExplainedChange]:
    found: list[tuple[int, Callable[[], ExplainedChange]]] = []
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
    group: ChangeGroup, rows: _Rows, programs: Compiled, wanted: ChangeSelection
) -> Iterator[tuple[int, Callable[[], ExplainedChange]]]:
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

    def __call__(self) -> ExplainedChange:
        finish, lsn, xid = self.rows.place(self.position)
        try:
            (explanation,) = explain(self.change, self.programs.at(self.change.relation, lsn))
        except SubscriberError as error:
            raise error.replace(relation=error.relation or self.change.relation.qualified_name, lsn=lsn) from None
        return ExplainedChange(
            finish, lsn, xid, (self.change.relation.qualified_name,), explanation, (), self.old, self.new
        )


def _truncate(control: Control, names: tuple[str, ...], rows: _Rows, programs: Compiled) -> ExplainedChange:
    place = rows.place(control.position)
    sent = tuple(relation.qualified_name for relation in programs.truncated(control.relations, place[1]))
    return ExplainedChange(*place, names, None, sent, {}, {})


def _values(batch: pa.RecordBatch | None) -> Values:
    if batch is None:
        return {}
    return {name: output_text(column[0]) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
