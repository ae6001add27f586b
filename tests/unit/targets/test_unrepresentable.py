"""Values that are bound one by one to find those that are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.base.errors import UnsupportedValue
from subscriber.targets import TargetColumn, open_target
from subscriber.targets.base.values import refused_one_by_one
from subscriber.targets.declared_columns import may_refuse, refuses_texts


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


# Whether a column can hold every value of a type.


@pytest.mark.parametrize(
    ("kind", "type_oid", "declared", "expected"),
    [
        ("sqlite", 20, "INTEGER", False),
        ("sqlite", 25, "TEXT", False),
        ("duckdb", 20, "BIGINT", False),
        ("duckdb", 20, "INTEGER", True),
        ("duckdb", 1700, "DECIMAL(5,2)", True),
        ("duckdb", 16400, "VARCHAR", False),
        ("mariadb", 20, "bigint(20)", False),
        ("mariadb", 701, "double", True),
        ("mariadb", 25, "varchar(255)", True),
        ("mariadb", 25, "longtext", False),
        ("mariadb", 17, "varbinary(255)", True),
        ("mariadb", 1082, "date", True),
    ],
)
def test_a_column_that_holds_the_extreme_values_of_a_type_holds_all(tmp_path, kind, type_oid, declared, expected):
    url = "mariadb://me@127.0.0.1:1/d" if kind == "mariadb" else f"{kind}:///{tmp_path / 't'}"
    with open_target(url) as target:
        column = TargetColumn("c", declared, target.ddl.storage(declared))
        assert may_refuse(target, type_oid, column) is expected


def test_values_that_are_named_are_judged_alone(tmp_path):
    with open_target("mariadb://me@127.0.0.1:1/d") as target:
        column = TargetColumn("c", "date", "date")
        assert not refuses_texts(target, 1082, column, ["2000-02-29"])
        assert refuses_texts(target, 1082, column, ["2000-02-29", "infinity"])
