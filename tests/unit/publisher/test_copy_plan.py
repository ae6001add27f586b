"""What the publisher is asked for in a copy, and in which pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.publisher.copy_plan import CopyQuery, CopyRange, Piece, cut_ranges

SLOTS = 291
PIECE = Piece("public", "t", 16384, ((16384, 16384),), SLOTS, 8192.0)
WHOLE = CopyRange(Piece("public", "t", 16384, ((16384, 0),), 0, 8192.0), 0, 0)


def query(*filters: str, tid_ranges: bool = True) -> CopyQuery:
    return CopyQuery("public", "t", ("a", 'B"'), filters, tid_ranges=tid_ranges)


@given(st.integers(1, 10**6), st.floats(1, 1e9), st.integers(1024, 1 << 40))
def test_ranges_cover_every_position_once(pages, page_bytes, partition_bytes):
    """D6"""
    piece = Piece("public", "t", 1, ((1, 1),), SLOTS, page_bytes)
    if pages * page_bytes / partition_bytes > 5000:
        return
    ranges = list(cut_ranges(piece, pages, partition_bytes))
    assert ranges[0].first == 0
    assert ranges[-1].end == pages * SLOTS
    assert all(left.end == right.first for left, right in pairwise(ranges))
    assert all(part.first < part.end for part in ranges)


def test_ranges_have_about_the_size_that_is_asked_for():
    sizes = [part.estimated_bytes for part in cut_ranges(PIECE, 1000, 800_000)]
    assert len(sizes) == 10
    assert all(size == pytest.approx(819_200, rel=0.01) for size in sizes)


def test_a_range_can_be_a_part_of_a_page():
    """bounded_memory: two hundred rows with values out of line are two hundred megabytes of one
    page.
    """
    piece = Piece("public", "t", 1, ((1, 1),), SLOTS, 200e6)
    assert [(part.first, part.end) for part in cut_ranges(piece, 1, 64_000_000)] == [(0, 97), (97, 194), (194, 291)]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (query().command(WHOLE, "text"), 'COPY (SELECT "a", "B""" FROM ONLY "public"."t" AS "t") TO STDOUT'),
        (
            query("(a > 1)", "(a IS NULL)").command(WHOLE, "text"),
            'COPY (SELECT "a", "B""" FROM ONLY "public"."t" AS "t" WHERE ((a > 1) OR (a IS NULL))) TO STDOUT',
        ),
        (
            query("(a > 1)").command(CopyRange(PIECE, 0, SLOTS + 2), "csv"),
            (
                'COPY (SELECT "a", "B""" FROM ONLY "public"."t" AS "t" WHERE ((a > 1))'
                " AND ctid >= '(0,1)'::tid AND ctid < '(1,3)'::tid) TO STDOUT"
                " (FORMAT csv, DELIMITER E'\\x02', QUOTE E'\\x01')"
            ),
        ),
        (
            query().command(WHOLE, "binary"),
            'COPY (SELECT "a", "B""" FROM ONLY "public"."t" AS "t") TO STDOUT (FORMAT binary)',
        ),
        (
            query(tid_ranges=False).command(CopyRange(PIECE, 5, 9), "text"),
            (
                'COPY (SELECT "a", "B""" FROM ONLY "public"."t" AS "t" WHERE ctid = ANY (ARRAY(SELECT'
                " ('(' || at / 291 || ',' || at % 291 + 1 || ')')::tid FROM generate_series(5::int8, 8) at))) TO STDOUT"
            ),
        ),
        (
            CopyQuery("s", "root", (), (), tid_ranges=True).command(
                CopyRange(Piece("s", "root", 1, ((2, 2),), 0, 1.0, only=False), 0, 0), "text"
            ),
            'COPY (SELECT  FROM "s"."root" AS "root") TO STDOUT',
        ),
    ],
    ids=["whole", "filters", "range", "binary", "before 14", "partitioned, without columns"],
)
def test_a_range_is_asked_for_in_the_words_of_the_servers_version(command, expected):
    """D7, D8"""
    assert command == expected
