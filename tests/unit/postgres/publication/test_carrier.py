"""A carrier that leaves something out is refused, with what it leaves out."""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.publication.coverage import check_carrier
from subscriber.postgres.publication.definition import Operation, Publication
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables
from tests.publications import entry

A, B = PublisherColumn("a", 1, 23), PublisherColumn("b", 2, 25)
TWICE = PublisherColumn("twice", 3, 23, generated="stored")
T = PublisherTable(1, "public", "t", "table", (A, B, TWICE), identity_columns=("a",))
ROOT = PublisherTable(2, "public", "root", "partitioned table", (A, B), identity_columns=("a",))
LEAF = PublisherTable(3, "public", "leaf", "table", (B, A), parents=(ROOT.key,), is_partition=True)
ALL = Publication("all_rows", all_tables=True)


def check(carrier: Publication, *publications: Publication) -> None:
    tables = PublisherTables(180000, {one.key: one for one in (T, ROOT, LEAF)}, frozenset())
    # Every filter of these tests is about b.
    check_carrier(carrier, publications, tables, lambda where, table: frozenset("b"))


def refused(carrier: Publication, *publications: Publication) -> tuple[str | None, str | None]:
    with pytest.raises(NotSupportedError, match="does not carry all that is published of table") as caught:
        check(carrier, *publications)
    assert caught.value.hint
    return caught.value.relation, caught.value.detail


def test_a_publication_of_all_tables_carries_everything():
    check(ALL, Publication("p", tables=(entry(T, where="b = 'x'"), entry(ROOT, where="b = 'x'")), via_root=True))
    check(ALL, Publication("p", all_tables=True, via_root=True))


def test_what_is_not_published_need_not_be_carried():
    check(Publication("c", tables=(entry(T),)), Publication("p", tables=(entry(T),)))


@pytest.mark.parametrize(
    ("carrier", "published", "found"),
    [
        (
            Publication("c", tables=(entry(T),)),
            Publication("p", all_tables=True),
            ("public.leaf", "The table is not in it."),
        ),
        (
            Publication("c", all_tables=True, via_root=True),
            Publication("p", all_tables=True),
            ("public.leaf", 'It publishes the partition as "public.root".'),
        ),
        (
            Publication("c", all_tables=True, publish=frozenset({"insert", "truncate"})),
            Publication("p", tables=(entry(T),)),
            ("public.t", "It does not publish update."),
        ),
        (
            Publication("c", tables=(entry(T, where="a > 1"),)),
            Publication("p", tables=(entry(T),)),
            ("public.t", "The table has a row filter in it."),
        ),
        (
            Publication("c", tables=(entry(T, columns=("a",)),)),
            Publication("p", tables=(entry(T, columns=("a", "b")),)),
            ("public.t", 'It does not send column "b".'),
        ),
        (
            Publication("c", tables=(entry(T, columns=("a",)),)),
            Publication("p", tables=(entry(T, where="b = 'x'", columns=("a",)),)),
            ("public.t", 'It does not send column "b".'),
        ),
        (
            ALL,
            Publication("p", tables=(entry(T, columns=("a", "twice")),)),
            ("public.t", 'It does not send column "twice".'),
        ),
    ],
    ids=["table", "root", "operation", "filter", "column", "filter's column", "generated column"],
)
def test_a_carrier_that_leaves_something_out_is_refused(carrier, published, found):
    """refuse_not_guess"""
    assert refused(carrier, published) == found


def test_operations_that_nobody_publishes_need_not_be_carried():
    inserts = frozenset[Operation]({"insert"})
    check(
        Publication("c", all_tables=True, publish=inserts),
        Publication("p", tables=(entry(T),), publish=inserts),
    )


def test_a_list_that_is_sent_whole_is_enough():
    """B12a: what is neither sent nor filtered by may be missing."""
    check(
        Publication("c", tables=(entry(T, columns=("a", "b")),)),
        Publication("p", tables=(entry(T, where="b = 'x'", columns=("a",)),)),
    )


def test_a_generated_column_that_is_only_filtered_by_is_computed_of_what_is_sent():
    """Before PostgreSQL 18 no publication sends one."""
    tables = PublisherTables(160000, {T.key: T}, frozenset())
    publication = Publication("p", tables=(entry(T, where="twice > 5"),))

    def filter_columns(where: str, table: PublisherTable) -> frozenset[str]:
        column = table.column("twice")
        return frozenset({"a"} if column is not None and column.generated == "virtual" else {"twice"})

    check_carrier(ALL, [publication], tables, filter_columns)
    with pytest.raises(NotSupportedError, match="does not carry"):
        check_carrier(Publication("c", tables=(entry(T, columns=("b",)),)), [publication], tables, filter_columns)
