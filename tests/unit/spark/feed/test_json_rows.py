"""The feed of several tables, whose rows are JSON."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.types.oids import ELEMENT_TYPES
from subscriber.spark.feed.json_rows import json_texts
from subscriber.spark.source import PgoutputSource
from tests.change_feeds import Row, batches_of, feed_reader
from tests.frames import relation, transaction, values
from tests.journals import publish, writing

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])
WIDER = relation("public.t", {"a": "int4", "b": "text", "c": "bool"}, key=["a"])
S = relation("sales.Orders", {"z": "numeric"}, key=["z"], oid=99)
ARRAYS = {element: array for array, element in ELEMENT_TYPES.items()}


@pytest.fixture
def journal(tmp_path):
    changes: list[m.Message] = [
        T, m.Insert(T.relation_id, values("1", 'say "hi"\n')), S, m.Insert(99, values("1.50")),
        m.Update(T.relation_id, None, None, values("1", m.UNCHANGED)), WIDER,
        m.Insert(T.relation_id, values("2", None, "t")), m.Delete(99, "K", values("1.50")),
        m.Truncate((T.relation_id, 99), False, False),
    ]  # fmt: skip
    with writing(tmp_path) as opened:
        publish(opened, 0x200, transaction(0x200, *changes))
    return tmp_path


def rows(folder, tables: str, **options: str) -> list[Row]:
    source = PgoutputSource({"journal": str(folder), "tables": tables, **options})
    reader = source.streamReader(source.schema())  # type: ignore[arg-type]
    return [row for batch in batches_of(reader) for row in batch]  # type: ignore[arg-type]


def shown(found: list[Row]) -> list[tuple[object, ...]]:
    return [(one["_table"], one["_change_type"], one["row"], one["_unchanged"]) for one in found]


def test_rows_of_all_tables_come_in_order_with_their_table_and_whatever_its_shape_is(journal):
    found = rows(journal, "*", truncate="event")
    assert shown(found) == [
        ("public.t", "insert", '{"a": 1, "b": "say \\"hi\\"\\n"}', []),
        ("sales.Orders", "insert", '{"z": 1.50}', []),
        ("public.t", "update_preimage", '{"a": 1}', ["b"]),
        ("public.t", "update_postimage", '{"a": 1}', ["b"]),
        ("public.t", "insert", '{"a": 2, "b": null, "c": true}', []),
        ("sales.Orders", "delete", '{"z": 1.50}', []),
        ("public.t", "truncate", None, []),
        ("sales.Orders", "truncate", None, []),
    ]
    assert all(row["_commit_version"] == 0x200 for row in found)


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ("t", {"public.t"}),
        ('sales."Orders"', {"sales.Orders"}),
        ('public.t, sales."Orders"', {"public.t", "sales.Orders"}),
        ("sales.orders", set()),
    ],
)
def test_only_the_tables_that_are_named_come(journal, tables, expected):
    assert {row["_table"] for row in rows(journal, tables, truncate="ignore")} == expected


def test_limits_hold_for_several_tables(tmp_path):
    with writing(tmp_path) as opened:
        for number in (2, 3, 4):
            publish(opened, number * 0x100, transaction(number * 0x100, T, m.Insert(T.relation_id, values("1", "x"))))
    source = PgoutputSource({"journal": str(tmp_path), "tables": "*", "maxRowsPerTrigger": "2"})
    reader = source.streamReader(source.schema())  # type: ignore[arg-type]
    assert [len(batch) for batch in batches_of(reader)] == [2, 1]  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["table", "keyColumns", "deduplicationMode", "startingSnapshot", "schemaEvolution"])
def test_options_of_one_table_are_refused(journal, option):
    with pytest.raises(UsageError, match="exclude each other"):
        rows(journal, "*", **{option: "x"})


@pytest.mark.parametrize("tables", ["", "a.b.c", "a,,b", "a."])
def test_a_list_of_tables_that_cannot_be_read_is_refused(journal, tables):
    with pytest.raises(UsageError, match='invalid value for option "tables"'):
        rows(journal, tables)


@pytest.mark.parametrize(
    ("oid", "text", "expected"),
    [
        (16, "t", True), (16, "f", False), (23, "-5", -5), (1700, "NaN", "NaN"), (1700, "1e400", 1e400), (701, "-Infinity", "-Infinity"),
        (701, "1e+20", 1e20), (25, 'a\\b"c', 'a\\b"c'), (25, "\x01\n", "\x01\n"), (25, "ü", "ü"), (3802, '{"a": [1]}', {"a": [1]}),
        (1082, "infinity", "infinity"), (17, "\\x00ff", "\\x00ff"), (16400, "happy", "happy"),
        (ARRAYS[23], "{1,NULL,3}", [1, None, 3]), (ARRAYS[25], '{"a,b","NULL",NULL}', ["a,b", "NULL", None]),
        (ARRAYS[23], "{{1,2},{3,4}}", [[1, 2], [3, 4]]), (ARRAYS[23], "{}", []), (ARRAYS[16], "{t,f}", [True, False]),
        (ARRAYS[3802], '{"{\\"a\\": 1}"}', [{"a": 1}]),
    ],
)  # fmt: skip
def test_values_are_json_as_row_to_json_writes_them(oid, text, expected):
    (made, null) = json_texts(oid, pa.array([text, None], pa.string())).to_pylist()
    assert json.loads(made) == expected
    assert null == "null"


@pytest.mark.parametrize(
    ("oid", "value", "expected"), [(16, True, "true"), (20, 7, "7"), (17, b"\x00\xff", '"\\\\x00ff"')]
)
def test_values_that_came_in_binary_format_are_written_as_those_of_text(oid, value, expected):
    assert json_texts(oid, pa.array([value])).to_pylist() == [expected]


def test_a_typed_feed_and_one_of_several_tables_have_the_same_order(journal):
    typed = [
        row["_sequence"]
        for batch in batches_of(feed_reader(journal, truncate="ignore", schemaEvolution="addColumns"))
        for row in batch
    ]
    several = [row["_sequence"] for row in rows(journal, "t", truncate="ignore")]
    assert typed == several
