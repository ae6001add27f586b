"""Values that are bound one by one to find those that are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.errors import UnsupportedValue
from subscriber.targets.unrepresentable import refused_one_by_one


class Binding:
    """Refuses negative numbers; records how many values each call has."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, values: pa.Array) -> None:
        self.calls.append(len(values))
        if any(value is not None and value < 0 for value in values.to_pylist()):
            raise UnsupportedValue("negative")


def test_values_that_are_all_accepted_are_bound_once():
    bind = Binding()
    assert refused_one_by_one(bind, pa.array([1, None, 2])).to_pylist() == [False, False, False]
    assert bind.calls == [3]


def test_each_distinct_value_is_bound_alone_and_null_is_not_refused():
    bind = Binding()
    assert refused_one_by_one(bind, pa.array([-1, None, 2, -1, -2])).to_pylist() == [True, False, False, True, True]
    assert bind.calls == [5, 1, 1, 1]


def test_no_values_and_only_null_give_a_mask_without_nulls():
    for values in (pa.array([], pa.int64()), pa.array([None], pa.int64())):
        mask = refused_one_by_one(Binding(), values)
        assert mask.type == pa.bool_()
        assert not any(mask.to_pylist())


def test_other_errors_are_not_hidden():
    def broken(_: pa.Array) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        refused_one_by_one(broken, pa.array([1]))
