"""The texts of many statements. tests/targets/test_bulk.py executes them on a real server."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.targets.loader import RowStatement
from subscriber.targets.mariadb.statement_texts import literals, packets, pieces


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([1, None, -(2**63)]), ["1", "NULL", "-9223372036854775808"]),
        (pa.array([True, False]).cast(pa.int8()), ["1", "0"]),
        (pa.array([b"", b"\x00'\\", None]), ["X''", "X'00275c'", "NULL"]),
        (pa.array(["", "NULL", None, "%s", "é\n"]), ["''", "'NULL'", "NULL", "'%s'", "'é\n'"]),
        (pa.array(["'", "\\", "\\'", "''"]), [r"'\''", r"'\\'", r"'\\\''", r"'\'\''"]),
        (pa.array([], pa.string()), []),
    ],
)
def test_values_become_sql(values, texts):
    assert literals(values).to_pylist() == texts


def test_numbers_are_double_precision_numbers_and_keep_every_digit():
    """Without an exponent the server would read a decimal number."""
    numbers = [0.1, 1.0, 1e22, 1e-7, -2.5, 5e-324, 1.7976931348623157e308, 123456789012345680.0]
    texts = literals(pa.array(numbers)).to_pylist()
    assert [float(text) for text in texts] == numbers
    assert all("e" in text for text in texts)


def test_a_statement_is_cut_at_its_values():
    by_name = RowStatement("UPDATE `%%s` SET b = %(p1)s WHERE a = %(p0)s AND c = %(p0)s", (0, 1), ("p0", "p1"))
    assert pieces(by_name) == (["UPDATE `%s` SET b = ", " WHERE a = ", " AND c = ", ""], [1, 0, 0])
    by_place = RowStatement("INSERT INTO t (a, b) VALUES (%s, %s)", (1, 0), None)
    assert pieces(by_place) == (["INSERT INTO t (a, b) VALUES (", ", ", ")"], [1, 0])


ROWS = [pa.array(["1", "22", "3"]), pa.array(["'a'", "'b'", "NULL"])]


def test_rows_are_joined_into_one_text():
    assert list(packets("I ", ["(", ",", ")"], ROWS, ",", tail=";", most=100)) == [b"I (1,'a'),(22,'b'),(3,NULL);"]
    assert list(packets("", ["U ", " W ", ""], ROWS, ";", most=100)) == [b"U 1 W 'a';U 22 W 'b';U 3 W NULL"]


@pytest.mark.parametrize(
    ("most", "texts"),
    [
        (1, [b"x1|", b"x22|", b"x3|"]),
        (5, [b"x1|", b"x22|", b"x3|"]),
        (6, [b"x1,22|", b"x3|"]),
        (7, [b"x1,22|", b"x3|"]),
        (8, [b"x1,22,3|"]),
    ],
)
def test_a_text_has_as_many_rows_as_fit(most, texts):
    """A row that is too large has a text of its own: the server refuses it, or not."""
    assert list(packets("x", ["", ""], ROWS[:1], ",", tail="|", most=most)) == texts


def test_a_slice_of_rows_has_only_its_own_rows():
    assert list(packets("", ["", ""], [ROWS[0].slice(1, 1)], ",", most=100)) == [b"22"]
    assert list(packets("", ["", ""], [ROWS[0].slice(0, 0)], ",", most=100)) == []
