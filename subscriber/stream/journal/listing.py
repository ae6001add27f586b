"""The entries of a journal, kept in memory between listings of its folder.

A folder may have hundreds of thousands of files. To ask for their sizes, to parse their names and
to group them into entries takes seconds, so it is done once for each file.

A listing is not atomic: a file that gets its name, or is merged and deleted, meanwhile may be
missing. Whoever needs a complete chain checks it and lists again
(:mod:`subscriber.stream.journal.reader`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from subscriber.stream.journal.segment import Entry, Segment, group_entries, parse_segment_name, without_covered
from subscriber.stream.journal.storage import Storage

_SETTLED_NS: Final = 100_000_000
"""A change token is a time stamp, whose clock may tick only every 10 ms. A listing that was made
within this time after the token may therefore lack a later file with the same token.
"""
_TRUSTED_NS: Final = 1_000_000_000
"""How long an unchanged token is trusted: the clock of a file server may be wrong."""


class Listing:
    """What the last listing of a journal has shown: entries in stream order, stray segments
    (:func:`~subscriber.stream.journal.segment.group_entries`), and other files. It is empty at
    first.
    """

    def __init__(self, storage: Storage, clock: Callable[[], int] = time.time_ns) -> None:
        self.entries: list[Entry] = []
        self.stray: list[Segment] = []
        self.others: list[tuple[str, int]] = []
        self._storage = storage
        self._clock = clock
        self._segments: dict[str, Segment] = {}
        self._token: int | None = None
        self._listed_at = 0

    def sizes(self) -> dict[str, int]:
        return {name: segment.size for name, segment in self._segments.items()}

    def update(self) -> None:
        """List the folder, if it may have changed since the last listing."""
        now, token = self._clock(), self._storage.change_token()
        if token is None or token != self._token or now - self._listed_at > _TRUSTED_NS:
            self.refresh()
            self._listed_at = now
            self._token = token if token is not None and now - token > _SETTLED_NS else None

    def refresh(self) -> None:
        known = self._segments
        listed: dict[str, Segment] = {}
        self.others = []
        new = []
        for name, size in self._storage.names(self.sizes()):
            segment = known.get(name)
            if segment is None:
                segment = parse_segment_name(name, size)
                if segment is None:
                    self.others.append((name, size))
                    continue
                new.append(segment)
            listed[name] = segment
        gone = {known[name] for name in known.keys() - listed.keys()}
        self._segments = listed
        self._change(new, gone)

    def add(self, segments: Iterable[Segment]) -> None:
        new = list(segments)
        self._segments |= {segment.name: segment for segment in new}
        self._change(new, set())

    def remove(self, segments: Iterable[Segment]) -> None:
        gone = set(segments)
        for segment in gone:
            self._segments.pop(segment.name, None)
        self._change([], gone)

    def _change(self, new: list[Segment], gone: set[Segment]) -> None:
        loose = [*self.stray, *new]
        if gone:
            begins = {segment.begin for segment in gone}  # to compare numbers is faster than segments
            hit = [entry for entry in self.entries if entry.segments[0].begin in begins]
            broken = {id(entry) for entry in hit if not gone.isdisjoint(entry.segments)}
            loose += [segment for entry in hit if id(entry) in broken for segment in entry.segments]
            loose = [segment for segment in loose if segment not in gone]
            self.entries = [entry for entry in self.entries if id(entry) not in broken]
        grouped, self.stray = group_entries(loose)
        if self.entries and any(entry.begin < self.entries[-1].end for entry in grouped):
            self.entries, covered = without_covered([*self.entries, *grouped])
            self.stray += [entry.segments[0] for entry in covered]
        else:
            self.entries += grouped  # the usual case costs nothing for the entries before
