"""A publisher's table as plain data: the next value of its sequences, and what makes two tables
equal.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.postgres.schema.shape import ForeignKey, SequencePosition
from tests.table_shapes import column_shape, table_shape

T = table_shape("public", "t", (column_shape("a", 23, "integer"), column_shape("A", 25, "text")), key=("a",))


@pytest.mark.parametrize(
    ("position", "following"),
    [
        (SequencePosition(last_value=1, is_called=False), 1),
        (SequencePosition(last_value=1, is_called=True), 2),
        (SequencePosition(last_value=10, is_called=True, increment=5), 15),
        (SequencePosition(last_value=-1, is_called=True, increment=-1), -2),
        (SequencePosition(last_value=2**63 - 1, is_called=True), 2**63),
    ],
    ids=["new", "called once", "in steps", "downwards", "beyond its limit"],
)
def test_a_sequence_continues_as_nextval_would(position, following):
    """setval(seq, 1, false) makes nextval return 1, setval(seq, 1, true) makes it return 2."""
    assert position.next_value == following


def test_a_column_is_found_by_exactly_its_name():
    assert (T.column("a"), T.column("A"), T.column("b")) == (*T.columns, None)


def test_names_and_ddl_for_messages_do_not_make_tables_different():
    key = ForeignKey(("a",), "public", "u", ("a",))
    assert replace(key, name="t_a_fkey", ddl="FOREIGN KEY (a) REFERENCES u(a)") == key
    assert replace(key, on_delete="CASCADE") != key
    named = replace(T, checks=("(a > 0)",), definitions={"(a > 0)": ("t_check", "CHECK ((a > 0))")})
    assert named == replace(T, checks=("(a > 0)",))
    assert hash(named) == hash(replace(T, checks=("(a > 0)",)))


@pytest.mark.parametrize(
    ("own", "other", "differs"),
    [
        ("integer", "bigint", False),
        ("integer", "numeric(5,0)", False),
        ("integer", "numeric(5,2)", True),
        ("numeric(9,2)", "numeric(12,2)", False),
        ("numeric", "numeric", True),
        ("numeric", "numeric(5,2)", True),
        ("numeric(5)", "integer", False),
        ("numeric", "integer", True),
        ("character(5)", "character(5)", False),
        ("character(5)", "character(6)", True),
        ("character(5)", "text", True),
        ("character varying(5)", "text", False),
        ("timestamp without time zone", "timestamp(3) without time zone", False),
        ("timestamp without time zone", "timestamp with time zone", True),
        ("date", "timestamp without time zone", True),
        ("uuid", "mood", False),
    ],
)
def test_types_that_write_equal_values_differently_are_found(own, other, differs):
    key = ForeignKey(("a",), "public", "u", ("a",), types=((own,), (other,)))
    assert key.written_differently == ((own, other) if differs else None)
