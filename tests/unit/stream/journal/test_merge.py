"""Merged runs are read as they were before."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.encode_message import encode
from subscriber.stream.journal.builder import described, frames_table
from subscriber.stream.journal.compaction import described_before, extract, merge
from tests.frames import relation, transaction, values
from tests.journals import T, insert
from tests.streams import frame

OTHER = relation("public.other", {"a": "int4"}, key=["a"], oid=16390)
WIDER = relation("public.t", {"a": "int4", "b": "text", "c": "text"}, key=["a"])


def change(shape: m.Relation) -> m.Insert:
    return m.Insert(shape.relation_id, values(*["1"] * len(shape.columns)))


def run(begin: int, messages: list[m.Message], before: list[m.Relation]) -> pa.Table:
    """The segment of an entry as the receiver writes it."""
    rows = frames_table([frame(message, begin) for message in messages], in_stream=False)
    return described(rows, {one.relation_id: one for one in before}, encode(messages[-1]))[0]


@given(
    st.lists(st.lists(st.tuples(st.booleans(), st.sampled_from([T, OTHER, WIDER])), max_size=3), min_size=1, max_size=6)
)
def test_what_is_extracted_equals_what_was_merged(histories):
    """A history is a list of runs, each a list of changes, with or without a new description."""
    known: dict[int, m.Relation] = {one.relation_id: one for one in (T, OTHER)}
    runs, place = [], 0x100
    for changes in histories:
        before, messages, end = list(known.values()), [], place
        for describes, shape in changes or [(False, T)]:
            end += 0x100
            if describes:
                known[shape.relation_id] = shape
            described_now = [shape] if describes else []
            messages += transaction(end, *described_now, change(known[shape.relation_id]))
        runs.append((place, end, run(place, messages, before)))
        place = end
    merged, count = merge([table for _, _, table in runs])
    assert count == len(runs)
    for begin, end, table in runs:
        part = extract(merged, LSN(begin), LSN(end))
        assert part.equals(table)
        assert part.schema.metadata == table.schema.metadata
    assert extract(merged, LSN(0x100), LSN(place)).schema.metadata == merged.schema.metadata


def test_a_run_with_another_description_than_the_runs_before_is_not_merged():
    """A connection may bring a description with a transaction that is in the journal already."""
    runs = [
        run(0x100, transaction(0x200, change(T)), [T]),
        run(0x200, transaction(0x300, change(WIDER)), [WIDER]),
        run(0x300, transaction(0x400, change(WIDER)), [WIDER]),
    ]
    merged, count = merge(runs)
    assert count == 1
    assert merged.equals(runs[0])
    assert described_before(merged.schema.metadata) == [T]
    assert merge(runs[1:])[1] == 2


@pytest.mark.parametrize(("begin", "end", "expected"), [(0x250, 0x350, [2]), (0x200, 0x2F0, []), (0, 0x999, [1, 2, 3])])
def test_any_range_gives_the_transactions_that_finished_in_it(begin, end, expected):
    messages = [message for key in (1, 2, 3) for message in transaction(0x100 + 0x100 * key, insert(key))]
    part = extract(run(0x100, messages, [T]), LSN(begin), LSN(end))
    keys = [row.as_py() for row in part["message"] if row.as_py()[:1] == b"I"]
    assert keys == [encode(insert(key)) for key in expected]


def test_a_message_between_transactions_is_a_place_of_its_own():
    message = m.LogicalMessage(False, LSN(0x280), "p", b"x")
    messages = [*transaction(0x200, insert(1)), message, *transaction(0x300, insert(2))]
    table = run(0x100, messages, [T])
    assert extract(table, LSN(0x200), LSN(0x280))["message"].to_pylist() == [encode(message)]
