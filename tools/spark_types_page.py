"""The text of ``docs/spark-types.md``, from the code that makes Spark's values; ``make docs``
writes it. The notes list those of :data:`_SAMPLES` that Spark's type cannot hold.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from subscriber.postgres.types.oids import BUILT_IN_TYPES, ELEMENT_TYPES, type_name
from subscriber.postgres.types.registry import decode_column
from subscriber.spark.feed.spark_types import OnUnsupported, spark_type

_NUMERIC, _TEXT, _INTEGER, _DATE, _OF_A_USER = 1700, 25, 23, 1082, 16_384
_ARRAYS: Final = {element: array for array, element in ELEMENT_TYPES.items()}
_MOMENTS: Final = (
    ("the infinities", "infinity"),
    ("years before Christ", "0044-03-15{} BC"),
    ("years after 9999", "10000-01-01{}"),
)
_SAMPLES: Final = {
    _DATE: tuple((kind, text.format("")) for kind, text in _MOMENTS),
    1114: tuple((kind, text.format(" 00:00:00")) for kind, text in _MOMENTS),
    1184: tuple((kind, text.format(" 00:00:00+00")) for kind, text in _MOMENTS),
    700: (("NaN", "NaN"), ("the infinities", "-Infinity")),
    701: (("NaN", "NaN"), ("the infinities", "-Infinity")),
    _NUMERIC: (("NaN", "NaN"), ("the infinities", "-Infinity")),
    _ARRAYS[_TEXT]: (
        ("arrays of several dimensions", "{{a},{b}}"),
        ("arrays whose first subscript is not 1", "[0:0]={a}"),
    ),
    _ARRAYS[_DATE]: (("arrays with an element that cannot be held", "{infinity}"),),
}
_HEAD: Final = """\
# Types in Spark

`make docs` generates this page from the code that makes the rows of the [change feed](spark.md#the-change-feed-of-a-table).

A type that is *text* is a string with what PostgreSQL's output function writes (dates in ISO format, times in UTC). `parse_json` of Spark makes a
VARIANT of json and jsonb. The last column names values that Spark's type cannot hold. The option `unsupportedValues` says what is done with them;
with `string`, all columns of these types are text.

| PostgreSQL type | Spark type | Values that it cannot hold |
|---|---|---|"""


def spark_types_page() -> str:
    return "\n".join([_HEAD, *_rows()]) + "\n"


def _rows() -> Iterator[str]:
    for oid in sorted(BUILT_IN_TYPES - ELEMENT_TYPES.keys(), key=type_name):
        yield _row(f"`{type_name(oid)}`", oid, -1)
        if oid == _NUMERIC:
            for precision, scale in ((10, 2), (38, 10), (39, 10), (2, -3), (3, 5)):
                yield _row(f"`numeric({precision},{scale})`", oid, (precision << 16 | scale & 0x7FF) + 4)
    yield _row("`text[]`, and arrays of each of these", _ARRAYS[_TEXT], -1)
    yield _row("`date[]`", _ARRAYS[_DATE], -1)
    yield _row("`box[]`", _ARRAYS[603], -1)
    yield _row("an enum, a domain, a composite type, an extension's type, and arrays of these", _OF_A_USER, -1)


def _row(shown: str, oid: int, modifier: int) -> str:
    one = spark_type(oid, modifier)
    name = one.type.simpleString()
    is_text = name == "string" and oid not in (_TEXT, 1043, 1042, 19, 18)
    notes = [kind for kind, text in _SAMPLES.get(oid, ()) if _is_unsupported(oid, modifier, text)]
    if oid == _NUMERIC and modifier >= 0:
        notes = [kind for kind in notes if kind == "NaN"]  # a numeric with a precision has no infinities
    assert bool(notes) <= (spark_type(oid, modifier, OnUnsupported.STRING).type.simpleString() == "string")
    return f"| {shown} | `{name}`{' *text*' if is_text else ''} | {', '.join(notes)} |"


def _is_unsupported(oid: int, modifier: int, text: str) -> bool:
    values = decode_column(oid, pa.array([text.encode()], pa.binary()), binary=False, column=1)
    return spark_type(oid, modifier).convert(values)[1] is not None


if __name__ == "__main__":
    sys.stdout.write(spark_types_page())
