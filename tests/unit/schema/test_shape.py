"""A publisher's table as plain data: the next value of its sequences, and what makes two tables
equal.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.schema.shape import ColumnShape, ForeignKey, SequencePosition, TableShape

T = TableShape("public", "t", (ColumnShape("a", 23, "integer"), ColumnShape("A", 25, "text")), key=("a",))


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
    assert (T.column("a").type_name, T.column("A").type_name) == ("integer", "text")
    with pytest.raises(KeyError, match="b"):
        T.column("b")


def test_names_and_ddl_for_messages_do_not_make_tables_different():
    key = ForeignKey(("a",), "public", "u", ("a",))
    assert replace(key, name="t_a_fkey", ddl="FOREIGN KEY (a) REFERENCES u(a)") == key
    assert replace(key, on_delete="CASCADE") != key
    named = replace(T, checks=("(a > 0)",), definitions={"(a > 0)": ("t_check", "CHECK ((a > 0))")})
    assert named == replace(T, checks=("(a > 0)",))
    assert hash(named) == hash(replace(T, checks=("(a > 0)",)))
