"""Arrow values as the text that PostgreSQL's output functions write."""

import pyarrow as pa
import pytest

from subscriber.postgres.types.arrays import output_text, output_texts
from subscriber.postgres.types.registry import FAMILIES
from tests.type_samples import SAMPLES, from_text

COLUMNS = [
    (pa.string(), ["a", ""], ["a", ""]),
    (pa.int16(), [-1, 32767], ["-1", "32767"]),
    (pa.int64(), [-(2**63), 2**63 - 1], ["-9223372036854775808", "9223372036854775807"]),
    (pa.bool_(), [True, False], ["t", "f"]),
    (pa.binary(), [b"\0\xff", b""], [r"\x00ff", r"\x"]),
    (pa.float32(), [0.1, 1e6, float("nan")], ["0.1", "1e+06", "NaN"]),
    (pa.float64(), [0.1, 1e6, 1e15, float("-inf"), -0.0], ["0.1", "1000000", "1e+15", "-Infinity", "-0"]),
]


@pytest.mark.parametrize(("kind", "values", "texts"), COLUMNS, ids=[str(kind) for kind, _, _ in COLUMNS])
def test_a_column_is_written_as_the_output_function_writes_it(kind, values, texts):
    assert output_texts(pa.array(values, kind)) == texts
    assert [output_text(value) for value in pa.array(values, kind)] == texts


@pytest.mark.parametrize("kind", [kind for kind, _, _ in COLUMNS], ids=str)
def test_null_has_no_text_and_an_empty_column_no_texts(kind):
    assert output_text(pa.scalar(None, kind)) is None
    assert output_texts(pa.array([], kind)) == []


@pytest.mark.parametrize("name", SAMPLES)
def test_what_a_publishers_text_was_read_as_is_written_as_that_text(name):
    text = SAMPLES[name][0]
    kind = next(family.arrow_type for family in FAMILIES if family.name == name)
    assert output_texts(pa.array(from_text(name, text), kind)) == [text.decode()]
