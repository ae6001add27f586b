"""What a listing has shown stays in memory, and is the same as after listing again."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.lsn import LSN
from subscriber.stream.journal.listing import Listing
from subscriber.stream.journal.segment import EntryKind, Segment, group_entries
from subscriber.stream.journal.storage import LocalStorage

NS = 1_000_000_000


def segment(begin: int, end: int, part: int = 1, parts: int = 1, xid: int = 0) -> Segment:
    return Segment(LSN(begin), LSN(end), EntryKind.TRANSACTIONS, xid, part, parts)


POOL = [
    *(segment(place, place + 1) for place in range(8)),
    segment(0, 4),
    segment(2, 6),
    segment(8, 9, 1, 2, xid=7),
    segment(8, 9, 2, 2, xid=7),
    segment(9, 10),
]
"""Segments of runs, two that cover some of them, and an entry in two parts."""


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "list"]), st.sets(st.sampled_from(POOL)))))
def test_adding_and_removing_gives_what_a_listing_gives(steps):
    class Files(LocalStorage):
        def names(self, known=()):
            return [(one.name, one.size) for one in present]

    present: set[Segment] = set()
    listing = Listing(Files(Path()))
    for step, segments in steps:
        if step == "add":
            new = segments - present
            present |= new
            listing.add(new)
        elif step == "remove":
            present -= segments
            listing.remove(segments)
        else:
            listing.refresh()
        entries, stray = group_entries(present)
        assert listing.entries == entries
        assert sorted(listing.stray) == sorted(stray)


def test_an_unchanged_folder_is_listed_once_a_second(tmp_path, monkeypatch):
    """The clock of the folder's time stamp may tick rarely, and a file server's may be wrong."""
    storage, listings, token = LocalStorage(tmp_path), [], 5 * NS
    now = 10 * NS

    def listed(known):
        listings.append(now)
        return []

    monkeypatch.setattr(storage, "names", listed)
    monkeypatch.setattr(storage, "change_token", lambda: token)
    listing = Listing(storage, clock=lambda: now)
    for tenth in range(31):
        now = 10 * NS + tenth * NS // 10
        listing.update()
    assert len(listings) == 3
    token = now
    listing.update()
    listing.update()
    assert len(listings) == 5


def test_sizes_are_asked_for_once(tmp_path, monkeypatch):
    storage = LocalStorage(tmp_path)
    (tmp_path / segment(0, 1).name).write_bytes(b"x" * 7)
    listing = Listing(storage)
    listing.refresh()
    asked = []
    names = storage.names

    def listed(known):
        asked.append(dict(known))
        return names(known)

    monkeypatch.setattr(storage, "names", listed)
    listing.refresh()
    assert asked == [{segment(0, 1).name: 7}]
    assert [entry.size for entry in listing.entries] == [7]
