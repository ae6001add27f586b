"""Which facts of a table hold where in the stream, if it was attached, detached or renamed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.earlier_tables import (
    EarlierTable,
    TableChange,
    earlier_tables,
    is_older,
    place_of,
    renamed,
    renamed_tables,
)
from subscriber.postgres.schema.publisher_tables import PublisherTable
from tests.publications import entry, table, tables

COLUMNS = {"id": "int4", "k": "int4"}
ROOT = replace(table("public.r", COLUMNS, key=["id"], partitioned=True, oid=1), placed_by=10, altered_by=10)
OTHER = replace(table("public.o", COLUMNS, key=["id"], partitioned=True, oid=2), placed_by=11, altered_by=11)
ALONE = replace(table("public.r1", COLUMNS, key=["id"], oid=3), created_by=12, placed_by=12)
INSIDE = replace(ALONE, parents=(ROOT.key,), is_partition=True, placed_by=50)
VIA_ROOT = Publication("p", all_tables=True, via_root=True)
LEAVES = Publication("p", all_tables=True)


def found(before: tuple[PublisherTable, ...], now: tuple[PublisherTable, ...], publication=VIA_ROOT):
    known = replace(tables(*before), known_until=0x100)
    return list(earlier_tables([publication], known, tables(*now)))


# Which tables -------------------------------------------------------------------------------------


def test_a_table_that_was_attached_has_earlier_facts():
    assert found((ROOT, ALONE), (ROOT, INSIDE)) == [EarlierTable((ALONE,), since=0x100, changed_by=50)]


def test_a_partition_that_was_detached_has_earlier_facts():
    gone = replace(ALONE, placed_by=60)
    assert found((ROOT, INSIDE), (ROOT, gone)) == [EarlierTable((INSIDE, ROOT), since=0x100, changed_by=60)]


def test_a_place_that_makes_no_difference_for_the_publications_is_not_kept():
    assert found((ROOT, ALONE), (ROOT, INSIDE), LEAVES) == []


def test_a_table_that_was_created_and_attached_later_was_alone_before():
    (one,) = found((ROOT,), (ROOT, INSIDE))
    assert (one.tables[0].is_partition, one.changed_by) == (False, 50)
    assert found((ROOT,), (ROOT, replace(INSIDE, created_by=50))) == []  # CREATE TABLE … PARTITION OF


def test_a_partition_of_another_root_may_have_been_alone_in_between():
    (one,) = found((ROOT, OTHER, INSIDE), (ROOT, OTHER, replace(INSIDE, parents=(OTHER.key,), placed_by=70)))
    assert (one.changed_by, one.was_elsewhere) == (70, True)


def test_a_table_that_was_attached_and_detached_again_is_noticed():
    (one,) = found((ROOT, ALONE), (ROOT, replace(ALONE, placed_by=80)))
    assert (one.tables, one.changed_by, one.was_elsewhere) == ((ALONE,), 80, True)


def test_a_table_that_no_root_could_have_is_not_taken_for_a_former_partition():
    single = replace(table("public.s", {"id": "int4"}, oid=9), placed_by=12)
    assert found((ROOT, single), (ROOT, replace(single, placed_by=80))) == []


def test_a_root_that_was_renamed_has_its_former_name_for_earlier_changes():
    new = replace(ROOT, name="root", altered_by=90)
    (one,) = found((ROOT, INSIDE), (new, replace(INSIDE, parents=(new.key,))))
    assert (one.tables[1].name, one.changed_by, one.was_elsewhere) == ("r", 90, True)


def test_a_publication_follows_a_member_that_was_renamed():
    new = replace(ALONE, schema="s2", name="u")
    names = renamed_tables(tables(ALONE), tables(new))
    publication = Publication("p", tables=(entry(ALONE, "a > 1"),))
    (one,) = renamed([publication], names)
    assert [member.key for member in one.tables] == [("s2", "u")]
    assert one.tables[0].where == "a > 1"
    assert renamed([one], names) == (one,)


# Where in the stream ------------------------------------------------------------------------------

D = 100
"""The transaction that has altered the table."""


def place(*changes: tuple[int, int, bool], begins=None, was_elsewhere=False, since=0x10):
    made = [TableChange(*change) for change in changes]
    starts = [(change.lsn, change.xid) for change in made] if begins is None else begins
    return place_of(EarlierTable((ALONE,), since, D, was_elsewhere), made, starts)


def test_the_relation_message_after_the_alteration_is_the_place():
    assert place((0x20, 98, True), (0x30, 99, False), (0x40, 101, True), (0x50, 102, False)) == (0x40, 0x40)


def test_without_a_relation_message_all_changes_came_before():
    assert place((0x20, 98, False), (0x30, 99, False)) == (0x31, 0x31)
    assert place() == (0x10, 0x10)


def test_what_was_sent_before_the_tables_were_read_is_certain():
    assert place((0x08, 120, True), (0x20, 101, True)) == (0x20, 0x20)


def test_changes_before_the_first_relation_message_came_before_whatever_their_ids_are():
    assert place((0x20, 105, False), (0x30, 101, True)) == (0x30, 0x30)


def test_a_relation_message_for_another_cause_is_told_apart_by_the_transaction_ids():
    assert place((0x20, 98, True), (0x30, 99, True)) == (0x31, 0x31)
    assert place((0x20, 101, True), (0x30, 102, True)) == (0x20, 0x20)


def test_a_transaction_that_began_before_the_alteration_may_have_written_after_it():
    """Its first change is of another table, at 0/18."""
    assert place((0x20, 98, True), begins=[(0x18, 98)]) == (0x20, 0x21)
    assert place((0x20, 98, True), begins=[(0x18, 98), (0x28, 99)]) == (0x21, 0x21)


def test_inside_the_transaction_that_alters_the_message_in_its_middle_is_the_place():
    assert place((0x20, D, False), (0x30, D, True), (0x40, 101, False)) == (0x30, 0x30)
    assert place((0x20, D, True), (0x30, D, True), (0x40, D, False)) == (0x30, 0x30)


def test_two_messages_in_its_middle_leave_the_place_open():
    assert place((0x20, D, False), (0x30, D, True), (0x40, D, True)) == (0x30, 0x41)


def test_between_two_alterations_the_place_of_a_table_is_open():
    changes = (0x20, 98, True), (0x30, 99, True), (0x40, 101, True)
    assert place(*changes, was_elsewhere=True) == (0x20, 0x40)
    assert place((0x40, 101, True), was_elsewhere=True) == (0x40, 0x40)


def test_messages_that_contradict_the_ids_leave_the_place_open():
    assert place((0x20, 101, True), (0x30, 99, True), begins=[(0x20, 101), (0x30, 99)]) == (0x20, 0x31)


@pytest.mark.parametrize(("one", "other", "older"), [(1, 2, True), (2, 1, False), (5, 5, False), (2**32 - 1, 3, True)])
def test_transaction_ids_wrap_around(one, other, older):
    assert is_older(one, other) is older
