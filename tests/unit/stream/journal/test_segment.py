"""Names of segments, entries and their chain, without opening a file."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import JournalCorrupt, JournalGap
from subscriber.base.lsn import LSN, MAX_LSN
from subscriber.stream.journal.segment import (
    Entry,
    EntryKind,
    Segment,
    check_chain,
    ends_within,
    group_entries,
    parse_segment_name,
)

lsns = st.integers(0, MAX_LSN).map(LSN)
segments = st.builds(
    Segment, lsns, lsns, st.sampled_from(EntryKind), st.integers(0, 0xFFFF_FFFF), st.integers(1, 999_999),
    st.integers(1, 999_999),
)  # fmt: skip


def entry(begin: int, end: int, kind: EntryKind = EntryKind.TRANSACTIONS, xid: int = 0) -> Entry:
    return Entry((Segment(LSN(begin), LSN(end), kind, xid),))


def parts(begin: int, end: int, count: int) -> list[Segment]:
    return [Segment(LSN(begin), LSN(end), EntryKind.TRANSACTIONS, 7, number, count) for number in range(1, count + 1)]


def test_a_name_has_range_kind_transaction_and_part():
    segment = Segment(LSN(0x1A2B3C4), LSN(0x1A2C000), EntryKind.PREPARED, 731, 2, 3)
    assert segment.name == "0000000001A2B3C4-0000000001A2C000-p-000002DB-000002-of-000003.arrow"


@given(segments)
def test_a_segment_is_read_back_from_its_name(segment):
    assert parse_segment_name(segment.name) == segment


@given(lsns, lsns)
def test_names_sort_as_lsns_do(first, second):
    names = [replace(SOME, begin=lsn).name for lsn in (first, second)]
    assert (names[0] < names[1]) == (first < second)


SOME = Segment(LSN(1), LSN(2), EntryKind.TRANSACTIONS, 0)


@pytest.mark.parametrize(
    "name",
    [
        "journal.json",
        "journal.lock",
        "spool-1-1.tmp",
        SOME.name + ".tmp",
        SOME.name.removesuffix(".arrow"),
        SOME.name.replace("-t-", "-x-"),
        SOME.name.replace("-of-", "-in-"),
        SOME.name.replace("0000000000000001", "not a number"),
        "a-" + SOME.name,
        ".arrow",
    ],
)
def test_other_files_are_no_segments(name):
    assert parse_segment_name(name) is None


def test_segments_of_different_sizes_are_equal():
    parsed = parse_segment_name(SOME.name, 17)
    assert parsed is not None
    assert parsed == SOME
    assert parsed.size == 17


def test_parts_are_ordered_whatever_the_order_of_the_listing():
    whole = parts(0x100, 0x200, 3)
    entries, stray = group_entries(reversed([*whole, SOME]))
    assert entries == [Entry((SOME,)), Entry(tuple(whole))]
    assert stray == []


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_an_entry_without_all_of_its_parts_does_not_exist(missing):
    left = [part for part in parts(0x100, 0x200, 3) if part.part != missing]
    assert group_entries(left) == ([], left)


@pytest.mark.parametrize("other", [{"kind": EntryKind.PREPARED}, {"xid": 8}, {"parts": 3}], ids=str)
@pytest.mark.parametrize("number", [0, 1])
def test_parts_of_different_entries_are_never_mixed(other, number):
    """Without a lock (an object store) two writers may have left them."""
    mixed = parts(0x100, 0x200, 2)
    mixed[number] = replace(mixed[number], **other)
    assert group_entries(mixed) == ([], sorted(mixed))


def test_the_same_range_twice_is_an_overlap():
    entries, _ = group_entries([*parts(0x100, 0x200, 2), Segment(LSN(0x100), LSN(0x200), EntryKind.PREPARED, 7)])
    assert len(entries) == 2
    with pytest.raises(JournalCorrupt, match="overlap"):
        check_chain(LSN(0x100), entries)


def test_a_whole_chain_is_accepted():
    check_chain(LSN(0x100), [entry(0x100, 0x200), entry(0x200, 0x280), entry(0x280, 0x300)])


def test_a_missing_entry_in_the_middle_is_refused_with_both_lsns():
    """Invariant slot_after_disk: a gap is never skipped."""
    with pytest.raises(JournalGap) as caught:
        check_chain(LSN(0x100), [entry(0x100, 0x200), entry(0x300, 0x400)])
    assert caught.value.message == "the journal has no changes between 0/200 and 0/300"
    assert (caught.value.lsn, caught.value.transient) == (0x200, False)
    assert caught.value.hint


def test_a_missing_first_entry_is_refused_with_both_lsns():
    with pytest.raises(JournalGap, match="between 0/100 and 0/200"):
        check_chain(LSN(0x100), [entry(0x200, 0x300)])


def test_entries_that_overlap_are_corrupt():
    with pytest.raises(JournalCorrupt, match="one ends at 0/200, the next begins at 0/180"):
        check_chain(LSN(0x100), [entry(0x100, 0x200), entry(0x180, 0x300)])


def test_entries_before_the_beginning_do_not_belong_to_the_chain():
    """Such as a prepared transaction, or a file that was not deleted because of a crash."""
    waiting = entry(0x40, 0x50, EntryKind.PREPARED, 7)
    check_chain(LSN(0x100), [waiting, entry(0x100, 0x200)])


def test_an_empty_journal_is_a_chain():
    check_chain(LSN(0x100), [])


def test_a_batch_may_end_at_each_entry_up_to_a_bound():
    entries = [entry(1, 2), entry(2, 4, EntryKind.PREPARED, 7), entry(4, 6, xid=8), entry(6, 9)]
    assert [end for end, _ in ends_within(entries, None)] == [2, 4, 6, 9]
    assert [end for end, _ in ends_within(entries, LSN(4))] == [2, 4]
    assert [end for end, _ in ends_within(entries, LSN(5))] == [2, 4], "a transaction is not divided"
    assert [end for end, _ in ends_within(entries, LSN(7))] == [2, 4, 6, 7], "a run of transactions is divided"
    assert [end for end, _ in ends_within(entries, LSN(1))] == []


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["run", "one", "prepared"])), max_size=8), st.integers(0, 80)
)
def test_a_batch_never_ends_beyond_the_bound_nor_inside_a_transaction(sizes, bound):
    entries, begin = [], 0
    for size, kind in sizes:
        xid = 0 if kind == "run" else 7
        entries.append(
            entry(begin, begin + size, EntryKind.PREPARED if kind == "prepared" else EntryKind.TRANSACTIONS, xid)
        )
        begin += size
    ends = [end for end, _ in ends_within(entries, LSN(bound))]
    assert ends == sorted(set(ends))
    for end in ends:
        assert end <= bound
        assert all(one.segments[0].is_run for one in entries if one.begin < end < one.end)
    left = [one for one in entries if one.end > max(ends, default=0)]
    assert all(one.end > bound for one in left), "nothing that may be applied is left out"
