"""Compaction: many small entries become a few large ones.

A receiver whose target keeps up publishes each transaction at once, so a busy hour makes tens of
thousands of files. They stay where a consumer holds them back (a table that is copied for hours),
or where ``journal_keep_size`` keeps them.

::

    files     a  b  c  d │ p(7) │ e  f          only runs of transactions that follow each other are merged
    create    a  b  c  d   p(7)   e  f   + temporary file          synced
    publish   a  b  c  d   p(7)   e  f   + abcd                    renamed, folder synced
    delete                 p(7)   e  f     abcd

Killed at any of these steps, the journal has the same transactions: an entry that another one
covers does not count (:func:`~subscriber.stream.journal.segment.without_covered`), and the next
writer deletes it. A reader that has planned ``b`` takes ``b`` out of ``abcd`` (:func:`extract`): it
reads the same rows, in the same batches. That costs more than reading ``b``, so the entries that a
consumer is about to read are left alone.

The relation messages that the runs need from earlier segments become the metadata of the merged
segment, before all rows. So a run whose metadata contradicts the descriptions before it is not
merged: between the runs, a connection has brought a description that is in no segment.

*Rejected: keeping the merged files until every consumer has passed them.* A consumer that stands
still is the very reason for the many files.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from subscriber.base.lsn import LSN
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import Commit, LogicalMessage, Relation
from subscriber.stream.journal.builder import FINISH_KEY, RELATIONS_KEY, described, rows_of, sealed
from subscriber.stream.journal.segment import Entry

LEAST_RUN: Final = 64
"""Fewer small entries than this in a row are not worth a rewrite."""
LONGEST_RUN: Final = 256
"""The most entries that are merged at once: this takes about a tenth of a second, and meanwhile
nothing is received.
"""
_SMALL: Final = 4
"""An entry is small while it has less than a quarter of the bytes of a full segment."""


def entries_to_merge(
    entries: Sequence[Entry],
    *,
    segment_bytes: int,
    reading: Collection[LSN] = (),
    ahead: int = 0,
    fences: Collection[LSN] = (),
) -> tuple[int, int] | None:
    """The oldest run of small entries that is worth a merge: the index of its first entry, and the
    index after its last one; None if there is none.

    ``segment_bytes`` is the size of a full segment; 0 merges nothing. The ``ahead`` bytes after
    each position in ``reading`` are left alone. ``fences`` are positions across which nothing is
    merged.
    """
    left = dict.fromkeys(reading, ahead)
    first, size = 0, 0
    for index, entry in enumerate(entries):
        begin, end, segment = entry.begin, entry.end, entry.segments[0]
        is_read = False
        for position, budget in left.items():
            if position < end and budget > 0:
                left[position] = budget - entry.size
                is_read = True
        if is_read or not segment.is_run or segment.size >= segment_bytes // _SMALL:
            if index - first >= LEAST_RUN:
                return first, index
            first, size = index + 1, 0
            continue
        if index > first and (entries[index - 1].end != begin or begin in fences):
            if index - first >= LEAST_RUN:
                return first, index
            first, size = index, 0
        size += segment.size
        if index + 1 - first >= LEAST_RUN and (size >= segment_bytes or index + 1 - first >= LONGEST_RUN):
            return first, index + 1
    return (first, len(entries)) if len(entries) - first >= LEAST_RUN else None


def merge(runs: Sequence[pa.Table]) -> tuple[pa.Table, int]:
    """The first runs as one segment."""
    before: dict[int, Relation] = {}
    known: dict[int, Relation] = {}
    count = 0
    for run in runs:
        needed = _by_id(described_before(run.schema.metadata))
        if any(known.get(key, relation) != relation for key, relation in needed.items()):
            break
        before |= {key: relation for key, relation in needed.items() if key not in known}
        known |= needed
        known |= _by_id(_relations_in(run))
        count += 1
    table = pa.concat_tables([run.replace_schema_metadata() for run in runs[:count]]).combine_chunks()
    finish = base64.b64decode(runs[count - 1].schema.metadata[FINISH_KEY])
    return sealed(table, [before[key] for key in sorted(before)], finish), count


def extract(merged: pa.Table, begin: LSN, end: LSN) -> pa.Table:
    """The segment of the transactions that finished in (``begin``, ``end``]; it may be empty."""
    rows = merged.replace_schema_metadata()
    ends = list(_ends(rows))
    first = max((row + 1 for row, lsn in ends if lsn <= begin), default=0)
    last = max((row + 1 for row, lsn in ends if lsn <= end), default=0)
    if first >= last:
        return rows.slice(0, 0).replace_schema_metadata({RELATIONS_KEY: b"[]"})
    relations = _by_id([*described_before(merged.schema.metadata), *_relations_in(rows.slice(0, first))])
    inside = rows.slice(first, last - first)
    return described(inside, relations, inside["message"][-1].as_py())[0]


def described_before(metadata: Mapping[bytes, bytes]) -> list[Relation]:
    """The relation messages that a segment needs from earlier segments."""
    return list(_relations(base64.b64decode(text) for text in json.loads(metadata[RELATIONS_KEY])))


def _ends(rows: pa.Table) -> Iterator[tuple[int, LSN]]:
    """The last row of each transaction and of each message between them, with its finish LSN."""
    for row in _rows_of(rows, b"CM"):
        match decode(rows["message"][row].as_py()):
            case Commit(end_lsn=lsn) | LogicalMessage(transactional=False, lsn=lsn):
                yield row, LSN(lsn)


def _relations_in(rows: pa.Table) -> Iterator[Relation]:
    return _relations(rows["message"][row].as_py() for row in _rows_of(rows, b"R"))


def _rows_of(rows: pa.Table, types: bytes) -> list[int]:
    return rows_of(rows["message"].chunk(0), types) if rows.num_rows else []


def _relations(messages: Iterable[bytes]) -> Iterator[Relation]:
    for message in messages:
        relation = decode(message)
        assert isinstance(relation, Relation)
        yield relation


def _by_id(relations: Iterable[Relation]) -> dict[int, Relation]:
    return {relation.relation_id: relation for relation in relations}
