"""Blocks of a copy with NULL in the place of values that the target cannot hold."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from subscriber.apply.relations.local_relations import LocalRelation
from subscriber.apply.writing.replaced_blocks import BlockReplacement
from subscriber.apply.writing.unrepresentable import ReplacedTally, replaced_columns
from subscriber.lsn import LSN
from subscriber.schema.value_rules import parse_value_rules
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.loader import read_block, write_block
from subscriber.targets.mariadb.column_values import MariaDBValues
from tests.frames import relation

KEY = TargetColumn("k", "varchar(9)", "varchar", nullable=False)
X = TargetColumn("x", "double", "double")
V = TargetColumn("v", "varchar(3)", "varchar")
REMOTE = relation("public.t", {"k": "text", "x": "float8", "v": "text"}, ["k"])
LOCAL = LocalRelation(REMOTE, TargetTable(None, "t", (KEY, X, V), ("k",)), (KEY, X, V), "public.t")


class Target:
    """A target with MariaDB's rules, and without a server."""

    capabilities = SimpleNamespace(postgresql_text=False)
    values = MariaDBValues()


@pytest.fixture
def tally() -> ReplacedTally:
    return ReplacedTally(show_values=True)


@pytest.fixture
def blocks(tally) -> BlockReplacement:
    columns = replaced_columns(parse_value_rules("null"), LOCAL)
    assert list(columns) == ["x", "v"]
    return BlockReplacement(Target(), LOCAL, columns, tally, LSN(0x77))  # type: ignore[arg-type]


def found(tally: ReplacedTally) -> dict[str, tuple[int, list[tuple[object, object]]]]:
    return {
        column.column: (values.count, [(row.key_values, row.value) for row in values.rows])
        for column, values in tally.columns.items()
    }


def test_fields_of_copys_text_are_replaced_in_their_lines(blocks, tally):
    block = b"a\t1.5\tabc\nb\tNaN\tabcd\nc\\td\t\\N\t\\N\ne\t-Infinity\ta\\\\b\n"
    assert blocks.replace(block, "text") == b"a\t1.5\tabc\nb\t\\N\t\\N\nc\\td\t\\N\t\\N\ne\t\\N\ta\\\\b\n"
    assert found(tally) == {
        "x": (2, [(("b",), "NaN"), (("e",), "-Infinity")]),
        "v": (1, [(("b",), "abcd")]),
    }
    assert {values.last for values in tally.columns.values()} == {LSN(0x77)}


def test_a_block_without_such_a_value_stays_as_it_is(blocks, tally):
    block = b"a\t1.5\tabc\n\xef\xbb\xbf\t\\N\t\n"
    assert blocks.replace(block, "text") is block
    arrow = write_block(pa.record_batch([["a"], [1.5], [None]], names=["0", "1", "2"]))
    assert blocks.replace(arrow, "arrow") is arrow
    assert found(tally) == {}


@pytest.mark.parametrize("block", [b"\xef\xbb\xbf\tNaN\ta\n", b"\tNaN\t\n", b"a\\nb\tNaN\ta\\rb\n"])
def test_the_lines_are_those_that_copy_has_written(blocks, tally, block):
    """A byte order mark and an empty text are values; line feeds are escaped"""
    assert blocks.replace(block, "text") == block.replace(b"NaN", rb"\N")
    assert found(tally)["x"][0] == 1
    key = block.partition(b"\t")[0].decode().replace("\\n", "\n")
    assert found(tally)["x"][1][0][0] == (key,)


def test_a_value_is_measured_without_its_escapes(blocks, tally):
    block = b"a\t1\t\\\\\\\\\\\\\nb\t1\t\\\\\\\\\\\\\\\\\n"
    assert blocks.replace(block, "text") == b"a\t1\t\\\\\\\\\\\\\nb\t1\t\\N\n"


def test_arrow_blocks_are_replaced_column_by_column(blocks, tally):
    names = ["0", "1", "2"]
    block = write_block(pa.record_batch([["a", "b"], [float("nan"), 2.0], ["x", "long"]], names=names))
    assert read_block(blocks.replace(block, "arrow")).to_pydict() == {
        "k": ["a", "b"], "x": [None, 2.0], "v": ["x", None],
    }  # fmt: skip
    assert found(tally) == {"x": (1, [(("a",), "NaN")]), "v": (1, [(("b",), "long")])}


def test_the_values_of_all_blocks_are_counted_and_the_first_ones_kept(blocks, tally):
    """bounded_memory"""
    for _ in range(3):
        blocks.replace(b"a\tNaN\ta\n" * 600, "text")
    ((count, rows),) = found(tally).values()
    assert (count, len(rows)) == (1800, 1000)


def test_a_table_with_another_replica_identity_has_its_columns_left_alone():
    shape = relation("public.t", {"k": "text", "x": "float8", "v": "text"}, ["x"])
    assert list(replaced_columns(parse_value_rules("null"), replace(LOCAL, remote=shape))) == ["v"]
