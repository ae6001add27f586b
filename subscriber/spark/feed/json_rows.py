"""The feed of several tables: one row type for all, with the table's columns as a JSON object.

Spark fixes a query's columns when it starts, and tables have different ones. So ``row`` is JSON
text, which ``from_json`` reads with a schema, and ``parse_json`` as a VARIANT. A table may change its
shape, and tables may come. Values are what PostgreSQL's ``row_to_json`` writes: numbers, booleans,
json and arrays as such, everything else as a string with PostgreSQL's text. NaN and the infinities
are strings. A column that was not sent is missing in the object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from subscriber.base.errors import UsageError
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.types.arrays import Array, array_in
from subscriber.postgres.types.byte_strings import byteaout
from subscriber.postgres.types.oids import ELEMENT_TYPES
from subscriber.spark.feed.feed_schema import DESCRIBING, Converted

TABLE: Final = "_table"
ROW: Final = "row"

_BOOLEAN: Final = 16
_BOX: Final = 603
_NUMBERS: Final = frozenset({20, 21, 23, 26, 28, 29, 700, 701, 1700})
_JSON: Final = frozenset({114, 3802})
_NOT_JSON: Final = r"[^0-9.eE+-]"
_TO_ESCAPE: Final = r"[\x00-\x1f]"


@dataclass(frozen=True)
class JsonSchema:
    """The columns of the feed of several tables; without ``names`` of all tables in the journal."""

    names: tuple[str, ...]
    as_text: ClassVar[bool] = True
    row_columns: ClassVar[Sequence[str]] = (TABLE, ROW)

    @cached_property
    def spark(self) -> StructType:
        return StructType([*(StructField(name, StringType()) for name in self.row_columns), *DESCRIBING])

    @cached_property
    def arrow(self) -> pa.Schema:
        return to_arrow_schema(self.spark, timezone="UTC")

    def wants(self, relation: Relation) -> bool:
        return not self.names or relation.qualified_name in self.names

    def fits(self, relation: Relation) -> bool:
        """Every shape is a JSON object."""
        del relation
        return True

    def changed(self, relation: Relation, lsn: int) -> UsageError:
        raise AssertionError((relation.qualified_name, lsn))

    def absent(self, relation: Relation, columns: Mapping[str, pa.Array]) -> list[str]:
        return [column.name for column in relation.columns if column.name not in columns]

    def values(self, relation: Relation, columns: Mapping[str, pa.Array], count: int) -> Converted:
        pieces: list[Any] = []
        for column in relation.columns:
            if column.name in columns:
                comma = ", " if pieces else "{"
                pieces += [f"{comma}{json.dumps(column.name, ensure_ascii=False)}: "]
                pieces += [json_texts(column.type_oid, columns[column.name])]
        objects = pc.binary_join_element_wise(*pieces, "}", "") if pieces else _same("{}", count)
        return {TABLE: _same(relation.qualified_name, count), ROW: objects}, None

    def truncated(self, relation: Relation) -> dict[str, pa.Array]:
        return {TABLE: _same(relation.qualified_name, 1)}


def _same(text: str, count: int) -> pa.StringArray:
    return pa.array([text], pa.string()).take(pa.array(np.zeros(count, np.int64)))


def json_texts(type_oid: int, values: pa.Array) -> pa.StringArray:
    """Values of a column as JSON; NULL is ``null``."""
    texts = _texts(values)
    element = ELEMENT_TYPES.get(type_oid)
    if type_oid == _BOOLEAN:
        made = pc.if_else(pc.is_in(texts, pa.array(["t", "true"])), "true", "false")
    elif type_oid in _NUMBERS:
        made = pc.if_else(pc.match_substring_regex(texts, _NOT_JSON), _quoted(texts), texts)
    elif type_oid in _JSON:
        made = texts
    elif element is not None and element != _BOX:
        read = partial(_array, element)
        made = pa.array([None if text is None else read(text) for text in texts.to_pylist()], pa.string())
    else:
        made = _quoted(texts)
    return pc.if_else(pc.is_null(texts), "null", made)


def _texts(values: pa.Array) -> pa.StringArray:
    """Values that came in binary format are decoded, and become texts again."""
    if pa.types.is_binary(values.type):
        return pa.array([None if value is None else byteaout(value) for value in values.to_pylist()], pa.string())
    return values.cast(pa.string())


def _quoted(texts: pa.StringArray) -> pa.StringArray:
    if pc.any(pc.match_substring_regex(texts, _TO_ESCAPE)).as_py():
        read: Callable[[str], str] = partial(json.dumps, ensure_ascii=False)
        return pa.array([None if text is None else read(text) for text in texts.to_pylist()], pa.string())
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    return pc.binary_join_element_wise('"', escaped, '"', "")


def _array(element: int, text: str) -> str:
    array = array_in(str, text)
    found = json_texts(element, pa.array(array.elements, pa.string())).to_pylist()
    return _nested(array, found)


def _nested(array: Array, elements: list[str]) -> str:
    for size in reversed(array.dimensions):
        elements = [f"[{', '.join(elements[at : at + size])}]" for at in range(0, len(elements), size)]
    return elements[0] if array.dimensions else "[]"
