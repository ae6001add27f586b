"""Values for a column of another type: the types' own input functions, and what a target refuses
beyond them.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.errors import UnsupportedValue
from subscriber.targets import TargetColumn, conversion
from subscriber.targets.conversion import converted

COLUMN = TargetColumn("c", "declared", "storage")


@pytest.mark.parametrize(
    ("into", "text", "sqlstate", "message"),
    [
        (conversion.BOOLEAN, "o", "22P02", "invalid input syntax for type boolean"),
        (conversion.SMALLINT, "32768", "22003", "value is out of range for type smallint"),
        (conversion.INTEGER, "secret", "22P02", "invalid input syntax for type integer"),
        (conversion.BIGINT, "9" * 40 + "x", "22003", "value is out of range for type bigint"),
        (conversion.DOUBLE, "1e400x", "22003", "value is out of range for type double precision"),
        (conversion.DOUBLE, "0x1p-2", "22P02", "invalid input syntax for type double precision"),
        (conversion.DOUBLE, "0.10000000000000000001", "22003", "value would be rounded to type double precision"),
        (conversion.REAL, "16777217", "22003", "value would be rounded to type real"),
        (conversion.NUMERIC, "1e131072", "22003", "value overflows numeric format"),
    ],
)
def test_what_is_none_of_the_type_has_postgresqls_error_without_the_value(into, text, sqlstate, message):
    """C5, names_are_data: an error that stands behind digits too many is noticed after them."""
    with pytest.raises(UnsupportedValue) as caught:
        converted(into, COLUMN, pa.array(["1", text]))
    assert (caught.value.sqlstate, caught.value.message, caught.value.column) == (sqlstate, message, "c")


@pytest.mark.parametrize(
    ("into", "texts", "values"),
    [
        (conversion.BOOLEAN, [" YES", "of", None], [True, False, None]),
        (conversion.INTEGER, ["0x1F", "-1_000", None], [31, -1000, None]),
        (conversion.DOUBLE, ["1e23", " -inf", "0e309"], [1e23, float("-inf"), 0.0]),
        (conversion.REAL, ["0.1", "3.4028235e+38"], [pa.scalar(0.1, pa.float32()).as_py(), 3.4028234663852886e38]),
        (conversion.NUMERIC, ["1e3", "0e200000", "-0.00", "0b101", "nan"], ["1000", "0", "0.00", "5", "NaN"]),
        (conversion.TIMESTAMP, ["2024-02-29", "0044-03-15 BC", "infinity"], ["2024-02-29 00:00:00", "0044-03-15 00:00:00 BC", "infinity"]),
        (conversion.TIMESTAMP, ["2024-02-29 12:00:00+00", "0044-03-15 00:00:00+00 BC"], ["2024-02-29 12:00:00", "0044-03-15 00:00:00 BC"]),
    ],
)  # fmt: skip
def test_texts_are_read_as_the_types_input_function_reads_them(into, texts, values):
    """C5: in the Arrow type of the type that is read."""
    assert converted(into, COLUMN, pa.array(texts)).to_pylist() == values


def test_a_date_beyond_the_last_timestamp_is_out_of_range():
    with pytest.raises(UnsupportedValue, match="timestamp out of range") as caught:
        converted(conversion.TIMESTAMP, COLUMN, pa.array(["294277-01-01"]))
    assert caught.value.sqlstate == "22008"
