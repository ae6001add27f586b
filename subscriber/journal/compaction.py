"""Compaction: many small entries become a few large ones.

A receiver whose target keeps up publishes each transaction at once, so a busy hour makes tens of
thousands of files. Usually they are trimmed as soon as they are applied. They stay where a consumer
holds them back (a table that is copied for hours), or where ``journal_keep_size`` keeps them.

::

    files     a  b  c  d │ p(7) │ e  f          only runs of transactions that follow each other are merged
    create    a  b  c  d   p(7)   e  f   + temporary file          synced
    publish   a  b  c  d   p(7)   e  f   + abcd                    renamed, folder synced
    delete                 p(7)   e  f     abcd

Killed at any of these steps, the journal has the same transactions: an entry that another one
covers does not count (:func:`~subscriber.journal.segment.without_covered`), and the next writer
deletes it. A reader that has planned ``b`` takes ``b`` out of ``abcd``
(:func:`~subscriber.journal.merge.extract`). That costs more than reading ``b``, so the entries that
a consumer is about to read are left alone.

*Rejected: keeping the merged files until every consumer has passed them.* A consumer that stands
still is the very reason for the many files.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from subscriber.journal.segment import Entry
from subscriber.lsn import LSN

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

    Args:
        entries: the entries of the journal, in stream order.
        segment_bytes: the size of a full segment; 0 merges nothing.
        reading: the positions of consumers that read now.
        ahead: the bytes after each of these positions that are left alone.
        fences: positions between entries that are not to be merged.
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
