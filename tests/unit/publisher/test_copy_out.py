"""How much of a table is read at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from subscriber.publisher.copy_out import STEP_BYTES, CopyReader, next_step
from subscriber.publisher.copy_plan import CopyQuery


def query(*filters: str, tid_ranges: bool = True) -> CopyQuery:
    return CopyQuery("public", "t", ("a", 'B"'), filters, tid_ranges=tid_ranges)


@given(st.integers(1, 10**9), st.integers(0, 10**12))
def test_the_next_step_aims_at_its_size_and_grows_with_care(slots, size):
    step = next_step(slots, size)
    assert 1 <= step <= 4 * slots
    if size:
        assert step == 1 or step * size <= slots * STEP_BYTES


def test_a_reader_does_not_show_the_connection_string():
    """names_are_data"""
    assert repr(CopyReader("password=geheim", "sub", "0-1", query(), "csv")) == "CopyReader(public.t)"
