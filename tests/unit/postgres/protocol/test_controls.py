"""Controls as columns behave like the list of the same controls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.lsn import LSN
from subscriber.postgres.protocol.changes import Control, Controls
from tests.frames import relation

T, U = relation("public.t", {"a": "int4"}, oid=1), relation("public.u", {"a": "int4"}, oid=2)

controls = st.builds(
    Control,
    position=st.integers(0, 2**31 - 1),
    message=st.binary(min_size=1, max_size=30),
    relations=st.sampled_from([(), (), (T,), (U, T)]),
    finish_lsn=st.sampled_from([LSN(0), LSN(0), LSN(0x100)]),
)
lists = st.lists(controls, max_size=12)


@given(lists)
def test_they_are_the_controls_that_they_were_made_of(listed):
    columns = Controls.of(listed)
    assert list(columns) == listed
    assert [columns[number] for number in range(len(columns))] == listed
    assert columns == Controls.of(listed)
    assert columns.types().tolist() == [one.message[0] for one in listed]


@given(lists, st.integers(0, 12), st.integers(0, 12))
def test_a_slice_has_the_controls_of_the_lists_slice(listed, start, stop):
    assert list(Controls.of(listed)[start:stop]) == listed[start:stop]


@given(lists, st.randoms(use_true_random=False))
def test_some_of_them_can_be_taken_in_any_order(listed, random):
    numbers = random.sample(range(len(listed)), random.randint(0, len(listed)))
    taken = Controls.of(listed).take(np.array(numbers, np.int64))
    assert list(taken) == [listed[number] for number in numbers]
    assert taken.types().tolist() == [listed[number].message[0] for number in numbers]


@given(lists, st.integers(0, 12), st.integers(0, 12))
def test_the_bytes_of_a_part_are_those_of_its_messages(listed, start, stop):
    data, offsets = Controls.of(listed)[start:stop].buffers()
    assert bytes(data[offsets[0] : offsets[-1]]) == b"".join(one.message for one in listed[start:stop])


def test_other_controls_are_not_equal():
    assert Controls.of([Control(0, b"B")]) != Controls.of([Control(1, b"B")])
    assert Controls.of([Control(0, b"B")]) != [Control(0, b"B")]


def test_there_may_be_none():
    none = Controls.of(())
    assert list(none) == []
    assert none.types().tolist() == []
    with pytest.raises(IndexError):
        none[0]
