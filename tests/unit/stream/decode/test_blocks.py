"""The data of COPY as blocks of rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import ProtocolError, UnsupportedValue
from subscriber.postgres.protocol.messages import Relation, RelationColumn
from subscriber.postgres.schema.transform_rules import ColumnTransform
from subscriber.publisher.copy_out import CopyBlock
from subscriber.publisher.copy_plan import CSV_DELIMITER, CSV_QUOTE
from subscriber.stream.decode.blocks import LoadBlock, arrow_block, check_absent, decode_csv, load_block
from subscriber.targets.base.loading import read_block

INT, TEXT = 23, 25


def relation(*types: int) -> Relation:
    return Relation(1, "public", "t", "d", tuple(RelationColumn(0, f"c{n}", oid, -1) for n, oid in enumerate(types)))


def copy_csv(rows: list[list[str | None]]) -> CopyBlock:
    """As PostgreSQL's CopyAttributeOutCSV writes them."""
    special = (CSV_DELIMITER, CSV_QUOTE, "\n", "\r")

    def write(value: str | None, *, alone: bool) -> str:
        if value is None:
            return ""
        if value == "" or any(character in value for character in special) or (alone and value == "\\."):
            return CSV_QUOTE + value.replace(CSV_QUOTE, CSV_QUOTE * 2) + CSV_QUOTE
        return value

    lines = [CSV_DELIMITER.join(write(value, alone=len(row) == 1) for value in row) + "\n" for row in rows]
    return CopyBlock("".join(lines).encode(), len(rows))


VALUES = st.none() | st.text(
    st.sampled_from(["\n", "\r", "\\", ".", '"', ",", "\t", " ", CSV_QUOTE, CSV_DELIMITER, "\ufeff", "x", "ä", "😀"])
    | st.characters(min_codepoint=1, exclude_categories=["Cs"]),
    max_size=8,
)


@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=1, max_size=8)))
def test_every_text_and_every_null_is_read_back(rows):
    """absence_is_typed"""
    batch = decode_csv(relation(*[TEXT] * len(rows[0])), copy_csv(rows))
    assert [list(row) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)] == rows


def test_columns_have_the_types_of_the_relation():
    batch = decode_csv(relation(INT, TEXT), copy_csv([["1", "a"], [None, ""]]))
    assert batch.to_pylist() == [{"c0": 1, "c1": "a"}, {"c0": None, "c1": ""}]


def test_rows_without_columns_are_counted():
    block = arrow_block(relation(), CopyBlock(b"\n\n\n", 3))
    assert (block.rows, block.size, read_block(block.content()).num_rows) == (3, 3, 3)


def test_an_invalid_value_is_reported_with_its_column():
    """names_are_data: the value is not shown."""
    with pytest.raises(ProtocolError, match="invalid input syntax for type integer") as raised:
        decode_csv(relation(TEXT, INT), copy_csv([["a", "1"], ["b", "secret"]]))
    assert (raised.value.relation, raised.value.column) == ("public.t", "c1")
    assert "secret" not in raised.value.report()


@pytest.mark.parametrize("data", [b"secret\n", b"secret\x02secret\x02secret\n", b"\x01secret"])
def test_bytes_that_are_not_copys_format_are_refused_and_not_shown(data):
    with pytest.raises(ProtocolError, match="not in the form that was asked for") as raised:
        decode_csv(relation(TEXT, TEXT), CopyBlock(data, 1))
    assert "secret" not in raised.value.report()
    assert raised.value.__cause__ is None


def test_a_missing_row_is_noticed():
    with pytest.raises(ProtocolError):
        decode_csv(relation(TEXT), CopyBlock(b"a\n", 2))


def test_a_value_of_a_column_that_may_have_none_is_refused():
    r"""D7: \\N is NULL, but a text may look like it. Tabs and line feeds of a value are escaped."""
    refused = UnsupportedValue("no")
    check_absent(b"a\\tb\\n\t\\N\n\\N\t\\N\n", {1: refused})
    check_absent(b"1\n", {})
    for rows in (b"1\t\\N\n2\t5\n", b"1\t\\\\N\n", b"1\t\n"):
        with pytest.raises(UnsupportedValue) as raised:
            check_absent(rows, {1: refused})
        assert raised.value is refused


def test_text_is_passed_on_unchanged():
    copied = CopyBlock(b"1\ta\\nb\n" * 1000, 1000)
    block = LoadBlock(copied.data, 1000, len(copied.data))
    assert load_block(relation(INT, TEXT), "text", copied) == load_block(relation(INT), "binary", copied) == block


def test_a_block_is_the_same_after_its_way_through_the_jvm():
    copied = CopyBlock(b"1\ta\\nb\n" * 1000, 1000)
    block = load_block(relation(INT, TEXT), "text", copied)
    sent = block.compressed()
    assert (sent.content(), sent.rows, sent.size) == (copied.data, 1000, len(copied.data))
    assert len(sent.data) < len(copied.data)


def test_values_are_transformed_in_both_forms_and_only_in_columns_with_a_transform():
    transforms = {"c1": ColumnTransform("partial", first=1, last=0)}
    both = relation(INT, TEXT)
    text = load_block(both, "text", CopyBlock(b"1\ta\\nb\n2\t\\N\n", 2), transforms)
    assert (text.content(), text.rows) == (b"1\ta**\n2\t\\N\n", 2)
    columns = f"1{CSV_DELIMITER}abc\n2{CSV_DELIMITER}\n".encode()
    arrow = load_block(both, "csv", CopyBlock(columns, 2), transforms)
    assert read_block(arrow.content()).to_pydict() == {"c0": [1, 2], "c1": ["a**", None]}


def test_a_text_that_is_not_utf8_is_refused_with_its_column():
    transforms = {"c1": ColumnTransform("null")}
    with pytest.raises(ProtocolError, match="invalid byte sequence") as raised:
        load_block(relation(INT, TEXT), "text", CopyBlock(b"1\t\xff\n", 1), transforms)
    assert raised.value.column == "c1"
